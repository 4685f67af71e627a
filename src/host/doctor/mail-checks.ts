/** Checks of mail, from the store: what waits to be sent, what is in quarantine, and whether agents can be woken. */
import { shellWord } from '../../lib/shell-word.ts';
import { broken, note, ok } from '../../lib/check.ts';
import type { Check } from '../contract/daemon.ts';
import { RETRY_TIMING } from '../core/outbox-event.ts';
import { UNDELIVERED_ALERT_MS } from '../core/outbox.ts';
import type { WakeMethodName } from '../core/session-rows.ts';
import { agoText, countText, spanText } from '../core/spans.ts';

/** Accepted by another host or the relay, but without a receipt for this long. */
const UNCONFIRMED_NOTE_MS = 86_400_000;

export interface MailFacts {
  /** Envelopes in open outbox rows. */
  outbox: {
    /** `oldestAtMs` is null exactly when there are none, also below. */
    pending: { count: number; oldestAtMs: number | null; lastError: string | null };
    /** Accepted by the other host or the relay, without a receipt yet. */
    unconfirmed: { count: number; oldestAtMs: number | null };
    /** Delivery receipts whose last attempt was refused; `lastError` is one of their errors. */
    refusedReceipts: { count: number; lastError: string | null };
  };
  quarantine: {
    items: number;
    /** Those of them that are without their bytes. */
    bare: number;
    /** Items of strangers ever deleted to make room for newer ones. */
    dropped: number;
  };
}

export function mailChecks({ outbox, quarantine }: MailFacts, nowMs: number): Check[] {
  return [
    pendingCheck(outbox.pending, nowMs),
    ...unconfirmedCheck(outbox.unconfirmed, nowMs),
    ...receiptsCheck(outbox.refusedReceipts),
    quarantineCheck(quarantine),
  ];
}

const OUTBOX = { area: 'mail', id: 'outbox' } as const;

function pendingCheck({ count, oldestAtMs, lastError }: MailFacts['outbox']['pending'], nowMs: number): Check {
  if (oldestAtMs === null) return ok(OUTBOX, 'nothing waits to be sent');
  const ageMs = nowMs - oldestAtMs;
  const why = lastError === null ? '' : `; the last attempt for it: ${lastError}`;
  const verb = count === 1 ? 'waits' : 'wait';
  const sentence = `${countText(count, 'message')} ${verb} to be sent, the oldest for ${spanText(ageMs)}${why}`;
  if (ageMs >= UNDELIVERED_ALERT_MS) return broken(OUTBOX, sentence, 'poste outbox');
  return ageMs >= RETRY_TIMING.longestMs ? note(OUTBOX, sentence, 'poste outbox') : ok(OUTBOX, sentence);
}

function receiptsCheck({ count, lastError }: MailFacts['outbox']['refusedReceipts']): Check[] {
  if (count === 0) return [];
  const verb = count === 1 ? 'is' : 'are';
  const refused = `${countText(count, 'delivery receipt')} ${verb} refused (${lastError})`;
  const sentence = `${refused}: senders do not learn what arrived`;
  return [note(OUTBOX, sentence, 'poste outbox list --receipts')];
}

function unconfirmedCheck({ count, oldestAtMs }: MailFacts['outbox']['unconfirmed'], nowMs: number): Check[] {
  if (oldestAtMs === null) return [];
  const ageMs = nowMs - oldestAtMs;
  const verb = count === 1 ? 'was' : 'were';
  const sentence = `${countText(count, 'message')} ${verb} taken and not confirmed yet, the oldest ${agoText(ageMs)}`;
  return [ageMs < UNCONFIRMED_NOTE_MS ? ok(OUTBOX, sentence) : note(OUTBOX, sentence, 'poste outbox')];
}

function quarantineCheck({ items, bare, dropped }: MailFacts['quarantine']): Check {
  const subject = { area: 'mail', id: 'quarantine' } as const;
  if (items === 0) return ok(subject, 'nothing is in quarantine');
  const gone = dropped === 0 ? '' : `; ${dropped} of hosts that are not paired cannot be shown any more`;
  const sentence = `${countText(items, 'item')} came and ${items === 1 ? 'was' : 'were'} not let in${gone}`;
  if (bare === 0) return note(subject, sentence, 'poste quarantine');
  const full = `${sentence}; it is full: ${bare} of them came without room for the bytes and must come again`;
  return broken(subject, full, 'poste quarantine discard <number>');
}

export interface WakeFacts {
  agent: string;
  /** Unread messages that wake. */
  unreadWaking: number;
  liveSessions: number;
  /** The wake methods of its live sessions. */
  methods: readonly WakeMethodName[];
  /** Wake methods of live sessions that cannot work now, as clauses. */
  faults: readonly string[];
}

export function wakeCheck({ agent, unreadWaking, liveSessions, methods, faults }: WakeFacts): Check {
  const subject = { area: 'wake', id: 'wake', about: agent } as const;
  const waiting = unreadWaking === 0 ? '' : `; unread: ${countText(unreadWaking, 'message')} that should wake it`;
  if (faults.length > 0) {
    return broken(subject, `${faults.join('; ')}${waiting}`, `poste session list --as ${shellWord(agent)}`);
  }
  if (methods.length > 0) return ok(subject, `can be woken by ${[...new Set(methods)].join(', ')}${waiting}`);
  const sentence =
    liveSessions === 0
      ? `has no session now: mail waits for its next one${waiting}`
      : `cannot be woken: its ${countText(liveSessions, 'session')} named no way${waiting}`;
  if (unreadWaking === 0) return ok(subject, sentence);
  return note(subject, sentence, 'poste setup');
}
