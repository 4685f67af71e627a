/**
 * The commands: what somebody asks for, authenticated, parsed, bounded, and stamped by the shell with the time, with
 * random ids and, where a signature decides, with its verdict. Nothing here reads a clock or draws a number.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PushedItem } from '../../protocol/items.ts';
import type { HostName } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { EpochReason } from './event.ts';
import type { AuthorityName } from './rows.ts';

/** What an authority says of a host key that wants to enrol. */
export interface AuthorityAnswer {
  ok: boolean;
  account?: string;
  org?: string;
  clientId?: string;
  /** Until when the hop is valid; absent means for good. */
  validUntilMs?: number;
  /** For people; shown when `ok` is false. */
  reason?: string;
}

/** Enrol the key whose challenge signature has been verified. */
export interface EnrolHost {
  type: 'EnrolHost';
  hostPubkey: PublicKey;
  hostName: HostName;
  ownerFp: string;
  authorizedBy: AuthorityName;
  answer: AuthorityAnswer;
  nowMs: number;
}

/** Note that a signed hop of this key was accepted. */
export interface NoteHostSeen {
  type: 'NoteHostSeen';
  hostPubkey: PublicKey;
  nowMs: number;
}

/** Take mail of these senders only. The list's signature has been verified, and every key is an acceptable point. */
export interface PublishSenders {
  type: 'PublishSenders';
  /** Whose signed hop brought it. */
  callerPubkey: PublicKey;
  hostPubkey: PublicKey;
  senders: PublicKey[];
  iatMs: number;
  nowMs: number;
}

/** Show this encryption key to whoever asks. The advertisement's signature has been verified. */
export interface PublishEncKey {
  type: 'PublishEncKey';
  hostPubkey: PublicKey;
  encPub: string;
  advertisedAtMs: number;
  sig: string;
  nowMs: number;
}

/** What the relay read of the wire bytes; `ok` when every target's bytes are what they claim to be. */
export type WireVerdict = 'ok' | 'not sealed' | 'id mismatch' | 'bad receipt';

/** Store one item for all of its targets. */
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

/** Give up everything up to `through`: its owner has it. */
export interface AckItems {
  type: 'AckItems';
  targetPubkey: PublicKey;
  epoch: Epoch;
  through: number;
  nowMs: number;
}

/** Give up these items of one target, if they still wait and are past their time. */
export interface ExpireItems {
  type: 'ExpireItems';
  targetPubkey: PublicKey;
  /** Ascending; at most `EXPIRED_AT_ONCE`. */
  seqs: number[];
  nowMs: number;
}

/** Forget the dedup rows that were to be known until `beforeMs`, which lies in the past. */
export interface PurgeDedup {
  type: 'PurgeDedup';
  beforeMs: number;
  /** How many rows of each sender key that are. */
  senders: { senderPubkey: PublicKey; rows: number }[];
  nowMs: number;
}

/** Begin a new store generation. */
export interface RotateEpoch {
  type: 'RotateEpoch';
  epoch: Epoch;
  reason: EpochReason;
  nowMs: number;
}

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
  | PublishSenders
  | PublishEncKey
  | PushItem
  | AckItems
  | ExpireItems
  | PurgeDedup
  | RotateEpoch
  | ReportLostItem;
