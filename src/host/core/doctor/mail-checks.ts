/** What waits to go out, what was not let in, and whether agents can be told. Pure. */
import { shellWord } from '../../../protocol/shell-word.ts';
import { BACKOFF_MAX_MS, UNDELIVERED_ALERT_MS } from '../outbox.ts';
import type { WakeMethodName } from '../rows.ts';
import { type Check, broken, note, ok } from './check.ts';
import { agoText, countText, spanText } from './words.ts';

/** What another host or the relay took, and no receipt came for so long. */
export const UNCONFIRMED_NOTE_MS = 86_400_000;

export interface MailFacts {
  /** Envelopes of the outbox that something is still to be done about. */
  outbox: {
    pending: { count: number; oldestAtMs: number | null; lastError: string | null };
    /** Taken by the other host or the relay, without a receipt yet. */
    unconfirmed: { count: number; oldestAtMs: number | null };
  };
  quarantine: { items: number; bytes: number; itemsMax: number; bytesMax: number };
}

export function mailChecks({ outbox, quarantine }: MailFacts, nowMs: number): Check[] {
  return [pendingCheck(outbox.pending, nowMs), ...unconfirmedCheck(outbox.unconfirmed, nowMs), kept(quarantine)];
}

const OUTBOX = { area: 'mail', id: 'outbox' } as const;

function pendingCheck({ count, oldestAtMs, lastError }: MailFacts['outbox']['pending'], nowMs: number): Check {
  if (count === 0 || oldestAtMs === null) return ok(OUTBOX, 'nothing waits to be sent');
  const ageMs = nowMs - oldestAtMs;
  const why = lastError === null ? '' : `; the last attempt for it: ${lastError}`;
  const verb = count === 1 ? 'waits' : 'wait';
  const sentence = `${countText(count, 'message')} ${verb} to be sent, the oldest for ${spanText(ageMs)}${why}`;
  if (ageMs >= UNDELIVERED_ALERT_MS) return broken(OUTBOX, sentence, 'poste outbox');
  return ageMs >= BACKOFF_MAX_MS ? note(OUTBOX, sentence, 'poste outbox') : ok(OUTBOX, sentence);
}

function unconfirmedCheck({ count, oldestAtMs }: MailFacts['outbox']['unconfirmed'], nowMs: number): Check[] {
  if (count === 0 || oldestAtMs === null) return [];
  const ageMs = nowMs - oldestAtMs;
  const verb = count === 1 ? 'was' : 'were';
  const sentence = `${countText(count, 'message')} ${verb} taken and not confirmed yet, the oldest ${agoText(ageMs)}`;
  return [ageMs < UNCONFIRMED_NOTE_MS ? ok(OUTBOX, sentence) : note(OUTBOX, sentence, 'poste outbox')];
}

function kept({ items, bytes, itemsMax, bytesMax }: MailFacts['quarantine']): Check {
  const subject = { area: 'mail', id: 'quarantine' } as const;
  if (items === 0) return ok(subject, 'nothing is in quarantine');
  const sentence = `${countText(items, 'item')} came and ${items === 1 ? 'was' : 'were'} not let in`;
  if (items < itemsMax && bytes < bytesMax) return note(subject, sentence, 'poste quarantine');
  const full = `${sentence}: it is full, and what else should go there is refused`;
  return broken(subject, full, 'poste quarantine discard <number>');
}

export interface WakeFacts {
  agent: string;
  /** Unread messages that wake. */
  unreadWaking: number;
  liveSessions: number;
  /** Of live sessions. */
  methods: readonly WakeMethodName[];
  /** Ways of live sessions that cannot work now, as clauses. */
  faults: readonly string[];
}

export function wakeCheck({ agent, unreadWaking, liveSessions, methods, faults }: WakeFacts): Check {
  const subject = { area: 'wake', id: 'wake', about: agent } as const;
  const waiting = unreadWaking === 0 ? '' : `; ${countText(unreadWaking, 'message')} that should wake it unread`;
  if (faults.length > 0) {
    return broken(subject, `${faults.join('; ')}${waiting}`, `poste session list --as ${shellWord(agent)}`);
  }
  if (methods.length > 0) return ok(subject, `can be woken by ${[...new Set(methods)].join(', ')}${waiting}`);
  const sentence =
    liveSessions === 0
      ? `has no session now: mail waits for its next one${waiting}`
      : `cannot be woken: its ${countText(liveSessions, 'session')} named no way${waiting}`;
  if (unreadWaking === 0) return ok(subject, sentence);
  return note(subject, sentence, `poste hooks install claude-code --agent ${shellWord(agent)}`);
}
