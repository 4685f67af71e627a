/** What is made of an item that a peer or a relay brought. */
import type { QuarantineReason } from '../core/quarantine-reasons.ts';
import type { Address } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';

/** Why an item, or what is left of it, is kept in quarantine. */
export interface Kept {
  reason: QuarantineReason;
  /** For people: one clause, never a word of the body. */
  detail: string;
  /** Whom it still waits for, when others got it. */
  recipients: Address[] | null;
}

type Apply = (tx: Transaction) => void;

/**
 * What was judged, and what is to be written when it holds: in the transaction that it was judged in. An item may be
 * delivered to some and kept for others.
 */
export interface Judgement {
  status: 'accepted' | 'duplicate' | 'quarantined';
  kept: Kept | null;
  apply: Apply;
}

const NOTHING: Apply = () => {};

export function accept(apply: Apply): Judgement {
  return { status: 'accepted', kept: null, apply };
}

export function duplicate(apply: Apply = NOTHING): Judgement {
  return { status: 'duplicate', kept: null, apply };
}

/** Nothing of it is delivered or applied. */
export function keep(reason: QuarantineReason, detail: string): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients: null }, apply: NOTHING };
}

/** It is delivered, and kept for `recipients`. */
export function keepFor(recipients: Address[], reason: QuarantineReason, detail: string, apply: Apply): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients }, apply };
}
