/**
 * What a mailbox may let go, and when.
 *
 * Unread mail is never dropped. What was read or acked is kept for a time after that; what was sent is kept for the same
 * time, and longer as long as the outbox has anything to do about it. What came from peers is remembered for ever, so
 * that nothing that comes again is new.
 */
import type { EntryRow, OutboxRow, SentRow } from './rows.ts';

export function isEntryDue({ state, readAtMs, ackedAtMs }: EntryRow, nowMs: number, retentionMs: number): boolean {
  if (state === 'unread') return false;
  return Math.max(readAtMs ?? 0, ackedAtMs ?? 0) + retentionMs <= nowMs;
}

/** `outbox` are the rows that carry the message; one that is done with has no next time. */
export function isSentDue(
  { createdAtMs }: SentRow,
  outbox: readonly OutboxRow[],
  nowMs: number,
  retentionMs: number,
): boolean {
  return createdAtMs + retentionMs <= nowMs && outbox.every(({ nextAtMs }) => nextAtMs === null);
}
