/**
 * The events: what happened, in the past tense, with every result that was decided.
 *
 * A replay never decides again and never reads a clock or a limit, so keys, deadlines, sequence numbers and quota
 * effects are all in here. Persisted: DO NOT CHANGE the meaning of a field; add a version instead.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch, ItemId } from '../../protocol/names.ts';
import type { ItemKind, PushedKind } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { DenySelectors, EnrolmentRecord, LineageMember, RestoreRow, RotationRow } from './rows.ts';

/** The first event of every store. */
export interface RelayInitialised {
  type: 'RelayInitialised';
  relayPubkey: PublicKey;
  epoch: Epoch;
  schemaVersion: number;
  atMs: number;
}

/** The reason for which a store generation ended. DO NOT CHANGE: stored. */
export type EpochReason =
  | 'reset'
  | 'restore'
  | 'stale-heartbeat'
  | 'future-heartbeat'
  | 'position-missing'
  | 'position-ahead'
  | 'position-differs'
  | 'item-lost'
  | 'log-in-doubt'
  | 'log-contradicted'
  | 'log-server-changed';

export interface EpochRotated {
  type: 'EpochRotated';
  epoch: Epoch;
  reason: EpochReason;
  atMs: number;
}

/**
 * The store was restored from a backup. What a rewind must not undo follows in events of its own, in the epoch that the
 * restore began.
 */
export interface RelayRestored {
  type: 'RelayRestored';
  /** The epoch that the restore began. */
  epoch: Epoch;
  backupEpoch: Epoch;
  /** The last record of the backup. */
  backupLsn: number;
  backupCreatedAtMs: number;
  /** The store that was replaced; `null` where there was none, or none that could be read. */
  replacedEpoch: Epoch | null;
  replacedLsn: number | null;
  /** Restores that the replaced store knew of and the backup does not, the newest last. */
  earlier: RestoreRow[];
  atMs: number;
}

/** Sequence numbers that another history of this store gave are not given again. */
export interface SeqFloorsRaised {
  type: 'SeqFloorsRaised';
  floors: SeqFloor[];
  atMs: number;
}

export interface SeqFloor {
  targetPubkey: PublicKey;
  /** The last sequence number that the target was given. */
  headSeq: number;
}

/** The rows were brought to a newer schema, in the batch that holds this event. The epoch goes on. */
export interface SchemaMigrated {
  type: 'SchemaMigrated';
  schemaVersion: number;
  atMs: number;
}

/**
 * The rows, as they stood after record `throughLsn`, are kept beside the log (store/row-checkpoints.ts): what came
 * before can be replayed from there, so those records may go. Changes no row.
 */
export interface CheckpointTaken {
  type: 'CheckpointTaken';
  throughLsn: number;
  rows: number;
  /** The hash of the rows in the order of their keys. A replay up to `throughLsn` gives the same. */
  rowsHash: Sha256Hex;
  /** The hash of the entries that say until when dedup rows are known, and whose they are, which no row names. */
  dueHash: Sha256Hex;
  atMs: number;
}

export interface HostEnrolled extends EnrolmentRecord {
  type: 'HostEnrolled';
  hostPubkey: PublicKey;
  /** The account that was charged for its queue until now, when another is from now on. */
  formerAccount: string | null;
  /** The queue of the host, for which its account is charged from now on: zero unless the account changed. */
  chargedItems: number;
  chargedBytes: number;
  atMs: number;
}

export interface HostSeen extends Omit<HostRevoked, 'type' | 'cause'> {
  type: 'HostSeen';
}

/** The first v2 hop of a key, which may be its first hop at all: its v1 hops are refused from here on. */
export interface V2HopMade extends Omit<HostSeen, 'type'> {
  type: 'V2HopMade';
}

/** An enrolment that was never used lapsed to make room for a new one. */
export interface EnrolmentLapsed {
  type: 'EnrolmentLapsed';
  hostPubkey: PublicKey;
  /** The account that is charged no longer for what follows. */
  account: string | null;
  releasedItems: number;
  releasedBytes: number;
  atMs: number;
}

/** A live key is revoked, for good. */
export interface HostRevoked {
  type: 'HostRevoked';
  hostPubkey: PublicKey;
  /** `carried`: preserved by a restore from the store that the backup replaced. */
  cause: 'operator' | 'denied' | 'carried';
  atMs: number;
}

export interface AccountCharge {
  account: string;
  /** Positive when it is charged from now on, negative when it is charged no longer. */
  items: number;
  bytes: number;
}

/**
 * A host changed its key; the record is of the new key. The old key's queue is the new one's from here on, at
 * `firstSeq` and after it, in its order; `ItemsMoved` brings the items over.
 */
export interface KeyRotated extends EnrolmentRecord {
  type: 'KeyRotated';
  oldPubkey: PublicKey;
  newPubkey: PublicKey;
  /** When the host issued the rotation. */
  iatMs: number;
  seen: boolean;
  /** All keys of the host, the new one last. */
  lineage: LineageMember[];
  /** True when the old key's sender list is the newer one and takes the place of the new key's. */
  movesSenders: boolean;
  firstSeq: number;
  /** Items that are to be moved, notices included. */
  moved: number;
  /** Those of them for which quotas are charged, with their bytes. */
  items: number;
  bytes: number;
  charges: AccountCharge[];
  /** The record as both keys signed it. Null in logs from before it was kept. */
  signed: RotationRow | null;
  atMs: number;
}

/** The next items of a rotated key's queue are under the new key, at `firstSeq`, `firstSeq + 1` and so on. */
export interface ItemsMoved {
  type: 'ItemsMoved';
  oldPubkey: PublicKey;
  newPubkey: PublicKey;
  /** Their places until now, ascending. */
  fromSeqs: number[];
  firstSeq: number;
  /** The number of items still to be moved. */
  left: number;
  atMs: number;
}

/** An authority denies some hosts; those that are enrolled are revoked by events of their own. */
export interface DenyEntryAdded extends DenySelectors {
  type: 'DenyEntryAdded';
  reason: string;
  untilMs: number;
  atMs: number;
}

/** The operator admits one more host: the one that shows the token with this hash. */
export interface InviteIssued {
  type: 'InviteIssued';
  inviteHash: Sha256Hex;
  label: string;
  expiresAtMs: number;
  atMs: number;
}

/** Vouches for its host where it stands behind the enrolment of that. In format 1 it stands in front. */
export interface InviteSpent extends Omit<HostSeen, 'type'> {
  type: 'InviteSpent';
  inviteHash: Sha256Hex;
}

export interface AdmissionsLapsed {
  type: 'AdmissionsLapsed';
  denied: DenySelectors[];
  invites: Sha256Hex[];
  atMs: number;
}

export interface SendersPublished {
  type: 'SendersPublished';
  hostPubkey: PublicKey;
  /** Ascending, without repetition. */
  senders: PublicKey[];
  iatMs: number;
  atMs: number;
}

/**
 * A host published the senders again that it takes mail of, at a later time: a list of before is refused from here on.
 * Without them, so that hosts cannot fill the log with lists that change nothing. Their row is written anew.
 */
export interface SendersRenewed extends Omit<SendersPublished, 'type' | 'senders'> {
  type: 'SendersRenewed';
}

/** The same, noted in the enrolment row alone: a list may have 8 KiB. */
export interface SendersDated extends Omit<SendersRenewed, 'type'> {
  type: 'SendersDated';
}

export interface EncKeyPublished {
  type: 'EncKeyPublished';
  hostPubkey: PublicKey;
  encPub: string;
  advertisedAtMs: number;
  sig: string;
  atMs: number;
}

export interface AcceptedTarget {
  hostPubkey: PublicKey;
  seq: number;
  wireHash: Sha256Hex;
  bytes: number;
}

/**
 * The proven accounts of the targets are charged. They are not named: the record is shown to the sender as proof, and
 * whose account a target belongs to is none of the sender's business.
 */
export interface ItemAccepted {
  type: 'ItemAccepted';
  senderPubkey: PublicKey;
  itemId: ItemId;
  kind: PushedKind;
  /** The targets that were new; at least one. */
  targets: AcceptedTarget[];
  acceptedAtMs: number;
  expiresAtMs: number;
  dedupUntilMs: number;
}

export interface ReleasedShare {
  senderPubkey: PublicKey;
  items: number;
  bytes: number;
}

/** Every item of one target up to `through` was handed over. Its size grows with the senders, not with the items. */
export interface ItemsAcked {
  type: 'ItemsAcked';
  targetPubkey: PublicKey;
  through: number;
  /** Items and wire bytes that quotas were charged for; by sender in `shares`. */
  items: number;
  bytes: number;
  /** Expiry notices, which no quota is charged for. */
  notices: number;
  account: string | null;
  shares: ReleasedShare[];
  atMs: number;
}

export interface ExpiredItem {
  seq: number;
  kind: ItemKind;
  itemId: ItemId;
  senderPubkey: PublicKey;
  /** The key the item was pushed to, under which dedup knows it. */
  pushedTo: PublicKey;
  bytes: number;
}

/** A notice queued for the sender of an expired envelope, with the bytes that the relay signed. */
export interface QueuedNotice {
  targetPubkey: PublicKey;
  seq: number;
  itemId: ItemId;
  /** RFC 8785 JSON of `{rec, sig}`. */
  wire: string;
  wireHash: Sha256Hex;
  expiresAtMs: number;
}

/** Some of one target's items were not acked in time. */
export interface ItemsExpired {
  type: 'ItemsExpired';
  targetPubkey: PublicKey;
  relayPubkey: PublicKey;
  items: ExpiredItem[];
  account: string | null;
  /** Until then their tombstones are kept: the horizon counts from the expiry, however late it came. */
  dedupUntilMs: number;
  notices: QueuedNotice[];
  atMs: number;
}

/**
 * Items are acked after their time, because no sweep came by: what is known of them is kept for the horizon from here
 * on, and not only from their deadline. The ack itself follows.
 */
export interface DedupExtended {
  type: 'DedupExtended';
  targetPubkey: PublicKey;
  /** The names under which dedup knows them. */
  items: Pick<ExpiredItem, 'itemId' | 'senderPubkey' | 'pushedTo'>[];
  dedupUntilMs: number;
  atMs: number;
}

/** The dedup horizon passed: everything that was to be known until `beforeMs` is forgotten. */
export interface DedupPurged {
  type: 'DedupPurged';
  beforeMs: number;
  /** The number of rows that each sender key keeps no longer. */
  senders: { senderPubkey: PublicKey; rows: number }[];
  atMs: number;
}

/** A known item whose queue row or payload is gone: it is forgotten, so that a push can repair it. */
export interface ItemLost {
  type: 'ItemLost';
  targetPubkey: PublicKey;
  seq: number;
  kind: ItemKind;
  senderPubkey: PublicKey;
  itemId: ItemId;
  /** The key the item was pushed to, under which dedup knows it. */
  pushedTo: PublicKey;
  bytes: number;
  account: string | null;
  reason: 'missing' | 'corrupt';
  atMs: number;
}

export type RelayEvent =
  | RelayInitialised
  | EpochRotated
  | RelayRestored
  | SchemaMigrated
  | CheckpointTaken
  | HostEnrolled
  | HostSeen
  | V2HopMade
  | EnrolmentLapsed
  | HostRevoked
  | KeyRotated
  | ItemsMoved
  | DenyEntryAdded
  | InviteIssued
  | InviteSpent
  | AdmissionsLapsed
  | SendersPublished
  | SendersRenewed
  | SendersDated
  | EncKeyPublished
  | ItemAccepted
  | ItemsAcked
  | ItemsExpired
  | DedupExtended
  | DedupPurged
  | ItemLost
  | SeqFloorsRaised;

/** An event at its place in the log. Log sequence numbers start at 1 and have no gap. */
export interface LogEntry {
  lsn: number;
  event: RelayEvent;
}

export function eventTimeMs(event: RelayEvent): number {
  return 'acceptedAtMs' in event ? event.acceptedAtMs : event.atMs;
}
