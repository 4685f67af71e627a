/** Whether a session is still there: it did not end, and was heard of lately. */
import type { SessionRow } from './rows.ts';

/** A session that was not heard of for so long counts as gone. */
export const SESSION_LIVE_MS = 180_000;

/** How long an ended session is still shown. */
export const ENDED_KEPT_MS = 86_400_000;
/** How long one is kept that fell silent without an end. */
export const SILENT_KEPT_MS = 7 * 86_400_000;

export type Presence = 'live' | 'silent' | 'ended';

export function presenceOf(session: SessionRow, nowMs: number): Presence {
  if (session.endedAtMs !== null) return 'ended';
  return isLive(session, nowMs) ? 'live' : 'silent';
}

/** Whether nobody wants to know of it any more. */
export function isForgotten({ seenAtMs, endedAtMs }: SessionRow, nowMs: number): boolean {
  return endedAtMs === null ? nowMs - seenAtMs >= SILENT_KEPT_MS : nowMs - endedAtMs >= ENDED_KEPT_MS;
}

export function isLive({ seenAtMs, endedAtMs }: SessionRow, nowMs: number): boolean {
  // Heard of in the future: the clock was set back, and whoever is there says so again soon.
  return endedAtMs === null && Math.abs(nowMs - seenAtMs) < SESSION_LIVE_MS;
}
