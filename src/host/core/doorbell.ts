/**
 * Decides when the daemon tries to wake an agent: one doorbell for all its unread mail, never two within the cooldown,
 * none for a mailbox without unread mail that wakes. Pure.
 *
 * waking.ts decides which mail wakes, when it is stored; this file reads only the present mailbox. Invariants:
 *   - an agent has at most one attempt at a time, and none while no unread message wakes;
 *   - two attempts for the same unread mail are at least a cooldown apart;
 *   - mail that wakes and that the agent was not notified of gets an attempt as soon as a session can take one, after
 *     the cooldown;
 *   - so does mail that its agent was told of in a turn that ended, by a failure or by itself, before it used a mail
 *     tool.
 */

/** Between the end of one attempt and the next one for the same unread mail. */
export const DOORBELL_COOLDOWN_MS = 15_000;
/** The longest pause between attempts for the same unread mail, and that after one taken without proof. */
export const DOORBELL_RETRY_MAX_MS = 600_000;
/** Mail that an agent heard of and let lie is rung for again this often. A failed turn is no choice of its agent. */
export const LET_LIE_MAX = 3;

export interface Doorbell {
  /** When the last attempt for the present unread mail ended; null before the first. */
  lastAtMs: number | null;
  /** The number of attempts in a row that no program took. */
  unheard: number;
  /** The newest waking message of the last attempt that tried a program, if one took it without proof; else null. */
  givenFor: number | null;
  /** The attempt under way. */
  attempt: {
    /** The mailbox had no unread mail that wakes at some moment since it began. */
    isOutdated: boolean;
    /** A session that can be woken came since it began. */
    hasNewListener: boolean;
    /** The newest unread message that wakes when it began. */
    newest: number;
  } | null;
  /** No session could be tried last time: the next attempt waits until one can be. */
  isStranded: boolean;
  /** A session came that was not told of the unread mail. */
  hasNewSession: boolean;
  /** The session that was told of the unread mail last, until that turn ends or the agent uses a mail tool. */
  toldTo: string | null;
  /** It was told by a ring. */
  isRung: boolean;
  /** The turn in which the agent was told ended before it used a mail tool, and it was not told again since. */
  isLost: boolean;
  /** The number of such turns in a row. */
  lost: number;
}

export const QUIET_DOORBELL: Doorbell = {
  lastAtMs: null,
  unheard: 0,
  givenFor: null,
  attempt: null,
  isStranded: false,
  hasNewSession: false,
  toldTo: null,
  isRung: false,
  isLost: false,
  lost: 0,
};

/** The unread mail that wakes, at the moment of an event. */
export interface WakingMail {
  isUnread: boolean;
  /** The agent was notified of the newest such message. */
  isNotified: boolean;
  /** The position of that message; 0 without one. */
  newest: number;
}

export type DoorbellEvent =
  /** Mail came or was handled, or time has passed. */
  | { type: 'check' }
  /** A session came that knows nothing of the unread mail. */
  | { type: 'session-registered' }
  /** A session can be woken now that could not be before. */
  | { type: 'session-wakeable' }
  /** A session got the count of unread mail, by a ring or in another way. */
  | { type: 'notified'; sessionId: string }
  /** The agent used a mail tool, or handled mail. */
  | { type: 'used-tool' }
  /** A turn of the session is over. */
  | { type: 'turn-ended'; sessionId: string; hasFailed: boolean }
  /** The attempt ended. */
  | { type: 'attempted'; outcome: AttemptOutcome };

/**
 * `heard` only on proof; `given`: a program took the line, and nothing proves yet that its agent read it; `unheard`:
 * tried, and no program took it; `nobody`: no session could be tried.
 */
export type AttemptOutcome = 'heard' | 'given' | 'unheard' | 'nobody';

export interface DoorbellStep {
  doorbell: Doorbell;
  /** An attempt begins now; `attempted` ends it. */
  startsAttempt: boolean;
  /** When to send `check`, if no other event comes before; null for never. */
  nextAtMs: number | null;
}

/** The state after one event, and what to do now. `nowMs` is of a clock that never goes back. */
export function stepDoorbell(before: Doorbell, mail: WakingMail, event: DoorbellEvent, nowMs: number): DoorbellStep {
  const doorbell = mail.isUnread ? afterEvent(before, event, nowMs) : drain(afterEvent(before, event, nowMs));
  const isDue = mail.isUnread && (!mail.isNotified || doorbell.hasNewSession || doorbell.isLost);
  if (!isDue || doorbell.attempt || doorbell.isStranded) return { doorbell, startsAttempt: false, nextAtMs: null };
  const dueAtMs = doorbell.lastAtMs === null ? nowMs : doorbell.lastAtMs + pauseMs(doorbell, mail);
  if (nowMs < dueAtMs) return { doorbell, startsAttempt: false, nextAtMs: dueAtMs };
  const attempt = { isOutdated: false, hasNewListener: false, newest: mail.newest };
  return { doorbell: { ...doorbell, attempt }, startsAttempt: true, nextAtMs: null };
}

function afterEvent(doorbell: Doorbell, event: DoorbellEvent, nowMs: number): Doorbell {
  switch (event.type) {
    case 'check':
      return doorbell;
    case 'notified':
      return { ...doorbell, hasNewSession: false, isLost: false, toldTo: event.sessionId };
    case 'used-tool':
      return { ...doorbell, toldTo: null, isRung: false, isLost: false, lost: 0 };
    case 'turn-ended':
      return afterTurn(doorbell, event, nowMs);
    case 'session-registered':
      return withListener({ ...doorbell, hasNewSession: true });
    case 'session-wakeable':
      return withListener(doorbell);
    case 'attempted':
      return afterAttempt(doorbell, event.outcome, nowMs);
  }
}

function withListener(doorbell: Doorbell): Doorbell {
  const attempt = doorbell.attempt && { ...doorbell.attempt, hasNewListener: true };
  return { ...doorbell, attempt, isStranded: false, unheard: 0 };
}

function afterTurn(
  doorbell: Doorbell,
  { sessionId, hasFailed }: Extract<DoorbellEvent, { type: 'turn-ended' }>,
  nowMs: number,
): Doorbell {
  const { toldTo, isRung, lost } = doorbell;
  if (toldTo !== sessionId) return doorbell;
  const over = { ...doorbell, toldTo: null, isRung: false };
  const isLost = hasFailed || (isRung && lost < LET_LIE_MAX);
  return isLost ? { ...over, isLost, lost: lost + 1, lastAtMs: nowMs } : { ...over, lost: 0 };
}

function afterAttempt(doorbell: Doorbell, outcome: AttemptOutcome, nowMs: number): Doorbell {
  const { attempt } = doorbell;
  if (!attempt) throw new Error('invariant: only an attempt under way can end');
  // Nobody was tried: a program that took a line before still holds it.
  if (outcome === 'nobody') return { ...doorbell, attempt: null, isStranded: !attempt.hasNewListener };
  const over = { ...doorbell, attempt: null, givenFor: null };
  if (attempt.isOutdated) return over;
  const rung = { ...over, lastAtMs: nowMs, unheard: 0, hasNewSession: false };
  if (outcome === 'heard') return { ...rung, isRung: doorbell.toldTo !== null };
  if (outcome === 'given') return { ...rung, givenFor: attempt.newest };
  return { ...over, lastAtMs: nowMs, unheard: attempt.hasNewListener ? 0 : doorbell.unheard + 1 };
}

/** Mail that comes from now on begins a new set of unread mail. */
function drain(doorbell: Doorbell): Doorbell {
  const attempt = doorbell.attempt && { ...doorbell.attempt, isOutdated: true };
  return { ...QUIET_DOORBELL, isStranded: doorbell.isStranded, attempt };
}

function pauseMs({ unheard, lost, givenFor, hasNewSession }: Doorbell, { newest }: WakingMail): number {
  // A program keeps the line that it took: the same one again would come on top of it.
  if (givenFor === newest && !hasNewSession) return DOORBELL_RETRY_MAX_MS;
  return Math.min(DOORBELL_COOLDOWN_MS * 2 ** Math.max(unheard, lost), DOORBELL_RETRY_MAX_MS);
}

/**
 * Returns what a doorbell tells an agent: constant text and a count, never a word of a peer. One printable line,
 * because it is typed into terminals and given to programs as one argument.
 */
export function doorbellText(unread: number): string {
  return unread === 1
    ? 'You have 1 unread message in Poste. Read it with mail_inbox.'
    : `You have ${unread} unread messages in Poste. Read them with mail_inbox.`;
}

const LINES = /You have (?:1 unread message|[0-9]{1,9} unread messages) in Poste\. Read (?:it|them) with mail_inbox\./g;
/** A prompt in which more lines wait than this has been without an answer for long. */
export const DOORBELL_LINES_MAX = 8;

/** The lines of doorbells that stand in a prompt, each once. */
export function doorbellLines(prompt: string): string[] {
  return [...new Set(prompt.match(LINES))].slice(-DOORBELL_LINES_MAX);
}
