/** Whether a session is still there: it did not end, and was heard of lately. */
import type { SessionRow } from './rows.ts';

/** A session that was not heard of for so long counts as gone. */
export const SESSION_LIVE_MS = 180_000;

export function isLive({ seenAtMs, endedAtMs }: SessionRow, nowMs: number): boolean {
  return endedAtMs === null && nowMs - seenAtMs < SESSION_LIVE_MS;
}
