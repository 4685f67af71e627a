/**
 * When an agent's doorbell rings: one coalesced doorbell for what is unread, not two within the cooldown, none for a
 * mailbox that was drained. Pure.
 *
 * Which mail wakes is decided when it is stored (waking.ts); here only the mailbox as it is counts. Invariants:
 *   - no doorbell rings while another one does, nor while nothing that wakes is unread;
 *   - two doorbells for what was unread without a break are a cooldown apart;
 *   - whatever wakes and was not told rings as soon as somebody can hear it, after the cooldown.
 */

/** Between the end of a doorbell and the next one for the same unread mail. */
export const DOORBELL_COOLDOWN_MS = 15_000;
/** The longest pause between doorbells that nothing proves to have been heard. */
export const DOORBELL_RETRY_MAX_MS = 600_000;

export interface Doorbell {
  /** When the last doorbell for what is unread now was over; null before the first. */
  lastAtMs: number | null;
  /** How many in a row were not proven to have been heard. */
  unheard: number;
  /** The doorbell that rings now. */
  ringing: {
    /** The mailbox was drained since it began. */
    isOutdated: boolean;
    /** Somebody came who could hear a doorbell since it began. */
    hasNewListener: boolean;
  } | null;
  /** Nobody was there who could hear the last one: it waits for somebody who can. */
  isStranded: boolean;
  /** A session came that was not told of what is unread. */
  hasNewSession: boolean;
}

export const QUIET_DOORBELL: Doorbell = {
  lastAtMs: null,
  unheard: 0,
  ringing: null,
  isStranded: false,
  hasNewSession: false,
};

/** What is unread and wakes, as it is when something happens. */
export interface WakingMail {
  isUnread: boolean;
  /** The agent was told of the newest such message. */
  isTold: boolean;
}

export type DoorbellHappening =
  /** Mail came or was handled, or time has passed. */
  | { type: 'look' }
  /** A session came that knows nothing of what is unread. */
  | { type: 'session-came' }
  /** A session can be woken now that could not be before. */
  | { type: 'listener-came' }
  /** The agent was shown what is unread in another way. */
  | { type: 'told' }
  /** The doorbell is over: `nobody` was there to try it on, or it was tried with proof (`heard`) or without. */
  | { type: 'rung'; outcome: RingOutcome };

export type RingOutcome = 'heard' | 'unheard' | 'nobody';

export interface DoorbellStep {
  doorbell: Doorbell;
  /** Rings from now on, until `rung`. */
  rings: boolean;
  /** When to look again, if nothing happens before; null for not at all. */
  nextAtMs: number | null;
}

/** `nowMs` of a clock that never goes back. */
export function stepDoorbell(
  before: Doorbell,
  mail: WakingMail,
  happening: DoorbellHappening,
  nowMs: number,
): DoorbellStep {
  const doorbell = mail.isUnread ? happened(before, happening, nowMs) : drained(happened(before, happening, nowMs));
  const isDue = mail.isUnread && (!mail.isTold || doorbell.hasNewSession);
  if (!isDue || doorbell.ringing || doorbell.isStranded) return { doorbell, rings: false, nextAtMs: null };
  const dueAtMs = doorbell.lastAtMs === null ? nowMs : doorbell.lastAtMs + pauseMs(doorbell.unheard);
  if (nowMs < dueAtMs) return { doorbell, rings: false, nextAtMs: dueAtMs };
  const ringing = { isOutdated: false, hasNewListener: false };
  return { doorbell: { ...doorbell, ringing }, rings: true, nextAtMs: null };
}

function happened(doorbell: Doorbell, happening: DoorbellHappening, nowMs: number): Doorbell {
  switch (happening.type) {
    case 'look':
      return doorbell;
    case 'told':
      return { ...doorbell, hasNewSession: false };
    case 'session-came':
      return withListener({ ...doorbell, hasNewSession: true });
    case 'listener-came':
      return withListener(doorbell);
    case 'rung':
      return rung(doorbell, happening.outcome, nowMs);
  }
}

function withListener(doorbell: Doorbell): Doorbell {
  const ringing = doorbell.ringing && { ...doorbell.ringing, hasNewListener: true };
  return { ...doorbell, ringing, isStranded: false, unheard: 0 };
}

function rung(doorbell: Doorbell, outcome: RingOutcome, nowMs: number): Doorbell {
  const { ringing } = doorbell;
  if (!ringing) throw new Error('invariant: only a doorbell that rings can be over');
  const over = { ...doorbell, ringing: null };
  if (outcome === 'nobody') return { ...over, isStranded: !ringing.hasNewListener };
  if (ringing.isOutdated) return over;
  if (outcome === 'heard') return { ...over, lastAtMs: nowMs, unheard: 0, hasNewSession: false };
  return { ...over, lastAtMs: nowMs, unheard: ringing.hasNewListener ? 0 : doorbell.unheard + 1 };
}

/** What comes next is another unread set. */
function drained(doorbell: Doorbell): Doorbell {
  const ringing = doorbell.ringing && { ...doorbell.ringing, isOutdated: true };
  return { ...QUIET_DOORBELL, isStranded: doorbell.isStranded, ringing };
}

function pauseMs(unheard: number): number {
  return Math.min(DOORBELL_COOLDOWN_MS * 2 ** unheard, DOORBELL_RETRY_MAX_MS);
}
