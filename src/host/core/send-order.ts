/**
 * The order in which messages leave for one host: that in which they were sent. Pure.
 *
 * Each row waits out its own failures, so a later one may be due first. An earlier row that had no answer then goes
 * with it. Behind one that was refused for want of room or of a target, later ones wait until it is tried again: they
 * would be refused too, or overtake it. A row that was refused for what it is holds up no other, and neither does one
 * that a relay of v1 has.
 */
import type { OutboxRow } from './rows.ts';

const REFUSED = 'rejected:';

/** What a relay or a host says of an item itself, and not of its sender, its target or their room. */
const REFUSED_FOR_ITSELF: ReadonlySet<string> = new Set(
  [
    'malformed',
    'too many targets',
    'duplicate target',
    'too large',
    'not sealed',
    'id mismatch',
    'conflict',
    // A host that cannot let it in, and has no room to keep it: what it can let in needs none.
    'quarantine full',
  ].map((code) => REFUSED + code),
);

interface SendOrder {
  /** Waiting rows that go with the due ones. */
  sooner: OutboxRow[];
  /** Due rows that wait until then. */
  later: { row: OutboxRow; untilMs: number }[];
}

/** All rows are of one host; those of `waiting` are due at a time to come. */
export function sendOrder(due: readonly OutboxRow[], waiting: readonly OutboxRow[]): SendOrder {
  const refused = waiting.filter((row) => failureOf(row) === 'refused').toSorted(bySending);
  const later: SendOrder['later'] = [];
  let last = 0;
  let passed = 0;
  let untilMs = 0;
  for (const row of due.filter(isToSend).toSorted(bySending)) {
    for (let before = refused[passed]; before && before.rowId < row.rowId; before = refused[++passed]) {
      untilMs = Math.max(untilMs, before.nextAtMs ?? 0);
    }
    if (passed === 0) last = row.rowId;
    else later.push({ row, untilMs });
  }
  return { sooner: waiting.filter((row) => row.rowId < last && failureOf(row) === 'unanswered'), later };
}

/** In the order in which they were sent. */
export function bySending(a: OutboxRow, b: OutboxRow): number {
  return a.rowId - b.rowId;
}

/** Whether the row is a message that nobody has taken yet: only those have an order. */
export function isToSend({ kind, state }: OutboxRow): boolean {
  return kind === 'envelope' && state === 'pending';
}

/** Why a row waits, as far as other rows are concerned. */
function failureOf(row: OutboxRow): 'unanswered' | 'refused' | 'of its own' {
  const { lastError, firstPushAtMs } = row;
  if (!isToSend(row)) return 'of its own';
  // Without an error and pushed: a relay of v1 has it.
  if (lastError === null) return firstPushAtMs === null ? 'unanswered' : 'of its own';
  if (!lastError.startsWith(REFUSED)) return 'unanswered';
  return REFUSED_FOR_ITSELF.has(lastError) ? 'of its own' : 'refused';
}
