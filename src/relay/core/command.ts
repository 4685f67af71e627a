/**
 * The commands: requests of hosts, operator and timers, authenticated, parsed, bounded, and stamped by the shell with
 * the time, with random ids and, where a signature decides, with its verdict. Nothing here reads a clock or draws a
 * number.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch, HostName } from '../../protocol/names.ts';
import type { PushedItem } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type {
  AdmissionsLapsed,
  CheckpointTaken,
  DedupPurged,
  DenyEntryAdded,
  EncKeyPublished,
  EpochRotated,
  HostRevoked,
  InviteIssued,
  ItemsMoved,
  KeyRotated,
  RelayEvent,
  SendersPublished,
} from './event.ts';
import type { AuthorityName } from './rows.ts';

/** A command of the members of the event that it becomes; its time is that of the event. */
type Becoming<Type extends string, E extends RelayEvent, Decided extends keyof E = never> = Omit<
  E,
  'type' | 'atMs' | Decided
> & { type: Type; nowMs: number };

/** The answer of an authority about a host key that wants to enrol. */
export interface AuthorityAnswer {
  ok: boolean;
  account?: string;
  org?: string;
  clientId?: string;
  /** Until when the hop is valid; absent means for good. */
  validUntilMs?: number;
  /** A text for people, shown when `ok` is false. */
  reason?: string;
}

export interface EnrolHost {
  type: 'EnrolHost';
  hostPubkey: PublicKey;
  hostName: HostName;
  ownerFp: string;
  authorizedBy: AuthorityName;
  answer: AuthorityAnswer;
  /** Hash of the invite token that came as proof. */
  inviteHash: Sha256Hex | undefined;
  nowMs: number;
}

export interface NoteHostSeen {
  type: 'NoteHostSeen';
  hostPubkey: PublicKey;
  hopVersion: 1 | 2;
  nowMs: number;
}

export type RevokeHost = Becoming<'RevokeHost', HostRevoked>;

/** Go on under another key. Both keys' signatures have been verified, and the new one is an acceptable point. */
export interface RotateKey extends Pick<KeyRotated, 'oldPubkey' | 'newPubkey' | 'iatMs' | 'signed'> {
  type: 'RotateKey';
  nowMs: number;
}

/** `fromSeqs` are at most `MOVED_AT_ONCE`; none when nothing is left. */
export interface MoveItems extends Pick<ItemsMoved, 'oldPubkey' | 'fromSeqs'> {
  type: 'MoveItems';
  nowMs: number;
}

/** Keep these hosts out. The authority's signature has been verified. */
export type DenyHosts = Becoming<'DenyHosts', DenyEntryAdded, 'untilMs'>;

export type IssueInvite = Becoming<'IssueInvite', InviteIssued>;

export type LapseAdmissions = Becoming<'LapseAdmissions', AdmissionsLapsed>;

/** Take mail of these senders only. The list's signature has been verified, and every key is an acceptable point. */
export interface PublishSenders extends Becoming<'PublishSenders', SendersPublished> {
  /** The host whose signed hop brought it. */
  callerPubkey: PublicKey;
}

/** Show this encryption key to enrolled hosts. The advertisement's signature has been verified. */
export type PublishEncKey = Becoming<'PublishEncKey', EncKeyPublished>;

/** The relay's verdict on the wire bytes; `ok` when every target's bytes are what they claim to be. */
export type WireVerdict = 'ok' | 'not sealed' | 'id mismatch' | 'bad receipt';

export interface PushItem {
  type: 'PushItem';
  senderPubkey: PublicKey;
  item: PushedItem;
  /** v1: a known id is a duplicate, whatever its bytes. */
  isKnownById: boolean;
  wireVerdict: WireVerdict;
  /** The epoch to begin if this push finds that a known item was lost. */
  freshEpoch: Epoch;
  nowMs: number;
}

export interface AckItems {
  type: 'AckItems';
  targetPubkey: PublicKey;
  epoch: Epoch;
  through: number;
  nowMs: number;
}

/** Keep what is known of these items of one target, which are acked after their time, for the horizon from now on. */
export interface ExtendDedup {
  type: 'ExtendDedup';
  targetPubkey: PublicKey;
  /** Ascending; at most `EXTENDED_AT_ONCE`. */
  seqs: number[];
  nowMs: number;
}

export interface ExpireItems {
  type: 'ExpireItems';
  targetPubkey: PublicKey;
  /** Ascending; at most `EXPIRED_AT_ONCE`. */
  seqs: number[];
  nowMs: number;
}

/** Forget the dedup rows that were to be known until `beforeMs`, which lies in the past. */
export type PurgeDedup = Becoming<'PurgeDedup', DedupPurged>;

/** Say that the rows after record `throughLsn` are kept beside the log, whole and durable. */
export type TakeCheckpoint = Becoming<'TakeCheckpoint', CheckpointTaken>;

export type RotateEpoch = Becoming<'RotateEpoch', EpochRotated> & {
  /** The epoch that is to end: nothing happens when it has. Absent: whichever is the current one. */
  ending?: Epoch;
};

/** Forget a queued item whose payload cannot be served, and begin a new epoch so that it is pushed again. */
export interface ReportLostItem {
  type: 'ReportLostItem';
  targetPubkey: PublicKey;
  seq: number;
  freshEpoch: Epoch;
  nowMs: number;
}

export type Command =
  | EnrolHost
  | NoteHostSeen
  | RevokeHost
  | RotateKey
  | MoveItems
  | DenyHosts
  | IssueInvite
  | LapseAdmissions
  | PublishSenders
  | PublishEncKey
  | PushItem
  | AckItems
  | ExtendDedup
  | ExpireItems
  | PurgeDedup
  | TakeCheckpoint
  | RotateEpoch
  | ReportLostItem;
