/**
 * The rows: every view that the relay keeps of its log, as plain values, and the textual key of each.
 *
 * A row is derived from events by the reducers and from nothing else, so any row can be dropped and rebuilt.
 * The exceptions carry no mail: `heartbeat` and `collected` are written without an event and left out of comparisons.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch, HostName, ItemId } from '../../protocol/names.ts';
import type { ItemKind } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

/** The store generation and its identity. One row. */
export interface RelayRow {
  relayPubkey: PublicKey;
  epoch: Epoch;
  schemaVersion: number;
  initialisedAtMs: number;
  /** Dedup rows whose `dedupUntilMs` is at or below this are gone, collected or not. */
  dedupPurgedMs: number;
}

/** The last heartbeat of the relay. One row, written without an event. */
export interface HeartbeatRow {
  atMs: number;
}

/** One restore of this store, of the log of them. */
export interface RestoreRow {
  atMs: number;
  /** The epoch that it began. */
  epoch: Epoch;
  backupEpoch: Epoch;
  backupLsn: number;
  backupCreatedAtMs: number;
  replacedEpoch: Epoch | null;
  replacedLsn: number | null;
}

export type AuthorityName = 'host-key' | 'account-token';

/** The record of an admitted key: in the events that admit one, and in its row. */
export interface EnrolmentRecord {
  hostName: HostName;
  /** The host's own unproven claim; decides nothing. */
  ownerFp: string;
  account: string | null;
  org: string | null;
  clientId: string | null;
  authorizedBy: AuthorityName;
  enrolledAtMs: number;
  /** The hop is refused afterwards; the host stays a target. */
  validUntilMs: number | null;
}

/** The record alone, of an event or a row that holds it. */
export function enrolmentRecord(holder: EnrolmentRecord): EnrolmentRecord {
  const { hostName, ownerFp, account, org, clientId, authorizedBy, enrolledAtMs, validUntilMs } = holder;
  return { hostName, ownerFp, account, org, clientId, authorizedBy, enrolledAtMs, validUntilMs };
}

export interface EnrolmentRow extends EnrolmentRecord {
  hostPubkey: PublicKey;
  revokedAtMs: number | null;
  /** The key that took this one's place, when a rotation revoked it. */
  rotatedTo: PublicKey | null;
  /** True when a signed hop of this key was ever accepted: an enrolment that was never used may lapse. */
  seen: boolean;
  /** True when a v2 hop of this key was ever accepted: a v1 hop names no relay, and may be one for another. */
  madeV2Hop: boolean;
  /** True when an invite of the operator vouched for the host. */
  invited: boolean;
  /** When its list of senders was last published again with the same senders: that list is not written anew. */
  sendersDatedMs: number | null;
}

/** The members of an enrolment that begins: nothing of this has happened yet. */
export const NEW_ENROLMENT = {
  revokedAtMs: null,
  rotatedTo: null,
  seen: false,
  madeV2Hop: false,
  invited: false,
  sendersDatedMs: null,
} as const satisfies Partial<EnrolmentRow>;

export interface LineageMember {
  hostPubkey: PublicKey;
  /** When a rotation put another key in its place; `null` for the one that the host has now. */
  retiredAtMs: number | null;
}

/** The keys that rotations joined into one host, the present one last. Kept under the present key alone. */
export interface LineageRow {
  members: LineageMember[];
}

/** The hosts that an authority denies: every selector that is set must match. At least one is set. */
export interface DenySelectors {
  /** Fingerprint of any key of the host's lineage. */
  hostFp: Sha256Hex | null;
  clientId: string | null;
  account: string | null;
  org: string | null;
}

/** A deny entry: it stops enrolments and rotations until it expires. */
export interface DenyRow extends DenySelectors {
  /** A text for people. */
  reason: string;
  untilMs: number;
}

/** An unused invite. Only the hash of its token is stored. */
export interface InviteRow {
  /** A text for people. */
  label: string;
  issuedAtMs: number;
  expiresAtMs: number;
}

/** A rotated key's queue on its way to the key that took its place. Absent when nothing is left to move. */
export interface MoveRow {
  newPubkey: PublicKey;
  /** The sequence number that the next item gets. */
  nextSeq: number;
  /** Items that are still under the old key. */
  left: number;
}

/** The senders whose mail a target accepts. Absent: all. */
export interface SendersRow {
  /** Ascending, so that a push finds its sender in a few steps. */
  senders: PublicKey[];
  /** When the target issued the list. */
  iatMs: number;
}

/** The advertised encryption key of a host, with the host's own signature over it. */
export interface EncKeyRow {
  /** Base64 of the 32-byte X25519 key. */
  encPub: string;
  atMs: number;
  /** Base64, over the advertisement. */
  sig: string;
}

/** The record by which a key was replaced, as both keys signed it. Kept under the old key, and shown to other hosts. */
export interface RotationRow {
  /** The canonical form of the record, with members that this version does not know. */
  record: string;
  /** Base64, over the record. */
  oldSig: string;
  newSig: string;
}

/** One target's queue as a whole. Absent means all zero. */
export interface TargetRow {
  /** The last sequence number allocated for this target; 0 when none was. */
  headSeq: number;
  ackedThrough: number;
  /** Waiting items and their wire bytes, expiry notices left out: no quota is charged for those. */
  queueItems: number;
  queueBytes: number;
}

/** The queued items of one sender at one target, or for one account. Absent means zero. */
export interface UsageRow {
  items: number;
  bytes: number;
}

/** The share of one sender key in the dedup table. Absent means zero. */
export interface SenderRow {
  dedupRows: number;
}

/** One item waiting for one target. Rows at or below `ackedThrough` are gone, collected or not. */
export interface QueueRow {
  targetPubkey: PublicKey;
  seq: number;
  kind: ItemKind;
  itemId: ItemId;
  senderPubkey: PublicKey;
  wireHash: Sha256Hex;
  bytes: number;
  acceptedAtMs: number;
  expiresAtMs: number;
  /** The place at which the wire bytes were stored: a rotation moves the row and leaves the bytes. */
  payloadTarget: PublicKey;
  payloadSeq: number;
  /**
   * The last seq of the run in which the wire bytes lie (store/item-run.ts); absent where they lie alone, and where
   * that is not known: of no row that was read. No part of what the row says.
   */
  payloadBound?: number | undefined;
}

/** Says whether a rotation moved the row: its wire bytes lie at another place. */
export function isMoved({ targetPubkey, seq, payloadTarget, payloadSeq }: QueueRow): boolean {
  return payloadTarget !== targetPubkey || payloadSeq !== seq;
}

/** That (sender, item, target) is known. */
export interface DedupRow {
  senderPubkey: PublicKey;
  itemId: ItemId;
  targetPubkey: PublicKey;
  wireHash: Sha256Hex;
  seq: number;
  bytes: number;
  acceptedAtMs: number;
  dedupUntilMs: number;
  /** The place of its queue row, until it was acked: a rotation moves it; `seq` stays as in the accept receipt. */
  queuedTarget: PublicKey;
  queuedSeq: number;
  /** The place in the log where it was accepted. */
  lsn: number;
  /** The item expired: the row is a tombstone, and nothing need be queued for it. */
  expired: boolean;
}

/** Every table and its row. The expiry and purge indexes are the store's: they follow from queue and dedup rows. */
export interface Tables {
  relay: RelayRow;
  heartbeat: HeartbeatRow;
  restore: RestoreRow;
  enrolment: EnrolmentRow;
  lineage: LineageRow;
  senders: SendersRow;
  encKey: EncKeyRow;
  rotation: RotationRow;
  deny: DenyRow;
  invite: InviteRow;
  target: TargetRow;
  share: UsageRow;
  account: UsageRow;
  sender: SenderRow;
  move: MoveRow;
  queue: QueueRow;
  dedup: DedupRow;
}

export type TableName = keyof Tables;

/** A row to write, or with `row: null` one to delete. `key` is the textual key made below. */
export type RowChange = { [T in TableName]: TableChange<T> }[TableName];

interface TableChange<T extends TableName> {
  table: T;
  key: string;
  row: Tables[T] | null;
  /** Set for a queue row that goes while another row names its wire bytes from now on, so that they stay. */
  leavesPayload?: true;
}

/**
 * Thrown by a synchronous read of a row that must be looked for on the disk first. Nothing of the decision that met it
 * is kept: it is made again after the look (`afterLooks`).
 */
export class LookFirst extends Error {
  /** Resolves when the same read has an answer. */
  readonly look: () => Promise<unknown>;

  constructor(what: string, look: () => Promise<unknown>) {
    super(`${what} must be looked for first`);
    this.look = look;
  }
}

/** Makes a decision, and makes it again after each look that it needs: what it waits for is to be asked anew too. */
export async function afterLooks<T>(decide: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await decide();
    } catch (error) {
      if (!(error instanceof LookFirst)) throw error;
      await error.look();
    }
  }
}

/** The rows as they stand before an event. */
export interface RowReader {
  /** Throws `LookFirst` where a store has to look for the row. */
  get<T extends TableName>(table: T, key: string): Tables[T] | undefined;
}

/** Texts one behind another. The last is kept: the same row is asked for and then changed, and its key hashed once. */
class LastJoined {
  #parts: readonly [string, string, string] = ['', '', ''];
  #text = '';

  of(one: string, two: string, three = ''): string {
    const parts = this.#parts;
    if (parts[0] === one && parts[1] === two && parts[2] === three) return this.#text;
    this.#parts = [one, two, three];
    return (this.#text = one + two + three);
  }
}

const lastShare = new LastJoined();
const lastDedup = new LastJoined();

/** Public keys have 44 characters and item ids no bound below 320, so plain concatenation is unambiguous. */
export const rowKey = {
  relay: '',
  heartbeat: '',
  restore: ({ atMs, epoch }: Pick<RestoreRow, 'atMs' | 'epoch'>): string => `${atMs} ${epoch}`,
  share: (target: PublicKey, sender: PublicKey): string => lastShare.of(target, sender),
  queue: (target: PublicKey, seq: number): string => target + String(seq),
  dedup: (sender: PublicKey, target: PublicKey, itemId: ItemId): string => lastDedup.of(sender, target, itemId),
  deny: ({ hostFp, clientId, account, org }: DenySelectors): string => JSON.stringify([hostFp, clientId, account, org]),
} as const;

export const EMPTY_TARGET: TargetRow = { headSeq: 0, ackedThrough: 0, queueItems: 0, queueBytes: 0 };
export const NO_USAGE: UsageRow = { items: 0, bytes: 0 };
