/** The traces of one item at the relays that its bytes left for, as an outbox row keeps them (rows.ts). Times in ms. */
import type { AcceptReceipt } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ReceiptSignature } from '../../protocol/receipt-tree.ts';

/**
 * The relay's signed receipt for a row's item. Either signature proves it alone: what was signed together with others
 * has its place in their tree.
 */
export type RelayAcceptance = ReceiptSignature & {
  relayPubkey: PublicKey;
  epoch: Epoch;
  seq: number;
  accept: AcceptReceipt;
  /** By the relay's word: no deadline depends on it. */
  acceptedAtMs: number;
  /** The relay's retention when it accepted the item. */
  retentionMs: number;
  /** Since then the relay's store went back in time without a new epoch. */
  mayBeLost?: true;
};

/** The log of a relay that was proven to hold what it accepted. */
export interface ProvenAt {
  epoch: Epoch;
  size: number;
}

/** The relay did not show it in its log so often in a row, and last then: it is pushed again each time. */
export interface DeniedAt {
  times: number;
  atMs: number;
}

/** Why a row goes to a relay (relay-lanes.ts decides). DO NOT CHANGE a word: persisted. */
export const COPY_REASONS = [
  'first', // no relay has it, and this one is the lane; or its time was up or it is too large there, and this is next
  'again', // this relay may have lost it
  'unheard', // no relay that has it was heard for long, and this one, the lane, was
  'second', // one relay has it for long, or though the peer is evidently there: this is the first candidate without it
  'ahead', // a later message goes there
] as const;
export type CopyReason = (typeof COPY_REASONS)[number];

/**
 * One relay's copy of the item, where there are several relays.
 *   - `live`: the relay has it, as far as is known, until the peer takes it;
 *   - `again`: its store began anew or went back: it may be lost, and is pushed there again;
 *   - `expired`: the relay says that its time was up: it is not pushed there again;
 *   - `gone`: the owner removed the relay, so that no notice of it comes any more.
 */
export interface RelayCopy {
  acceptance: RelayAcceptance;
  state: 'live' | 'again' | 'expired' | 'gone';
  /** When this host last learned that the relay took it, by this host's clock. */
  atMs: number;
  /** Absent in a copy of before there were several. */
  why?: CopyReason;
  /** When it said that the time was up. */
  expiredAtMs?: number;
  /** When it said so though that cannot have been. */
  wrongAtMs?: number;
  proven?: ProvenAt;
  denied?: DeniedAt;
}

/** A relay that the bytes left for, or were to leave for, while there were several. */
export interface TriedRelay {
  relayPubkey: PublicKey;
  /** The first time at which they may have reached it. */
  firstAtMs: number;
  /** A push there had no answer: a refusal of a later one does not show that the relay lacks it. */
  isUnanswered?: true;
  /** It refused it, and answered every push: it does not have it. */
  isRefused?: true;
  /** Attempts there that failed since the last success, when the next may be made, and how the last one failed. */
  failures?: { count: number; nextAtMs: number; error: string };
}
