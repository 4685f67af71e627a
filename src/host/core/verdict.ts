/** What is made of an item that a peer or a relay brought. */
import type { QuarantineReason } from './quarantine-reasons.ts';
import type { Address } from './rows.ts';

/** Why an item, or what is left of it, is kept in quarantine. */
export interface Kept {
  reason: QuarantineReason;
  /** For people: one clause, never a word of the body. */
  detail: string;
  /** Whom it still waits for, when others got it. */
  recipients: Address[] | null;
}

/** What was judged, and what is to be written when it holds. An item may be delivered to some and kept for others. */
export interface Judgement {
  status: 'accepted' | 'duplicate' | 'quarantined';
  kept: Kept | null;
  apply: () => void;
}

const NOTHING = (): void => {};

export function accept(apply: () => void): Judgement {
  return { status: 'accepted', kept: null, apply };
}

export function duplicate(apply: () => void = NOTHING): Judgement {
  return { status: 'duplicate', kept: null, apply };
}

/** Nothing of it is delivered or applied. */
export function keep(reason: QuarantineReason, detail: string): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients: null }, apply: NOTHING };
}

/** It is delivered, and kept for `recipients`. */
export function keepFor(recipients: Address[], reason: QuarantineReason, detail: string, apply: () => void): Judgement {
  return { status: 'quarantined', kept: { reason, detail, recipients }, apply };
}
