/** Moments at which something is to be done: times in milliseconds of one clock, null for never. Pure. */
import type { OutboxClock } from './outbox-event.ts';

/** The first of them; null when there is none. */
export function earliest(moments: readonly (number | null)[]): number | null {
  const known = moments.filter((moment) => moment !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** The clocks of a host as they stand now. */
export function clockNow(host: { nowMs: () => number; momentMs: (datedMs: number) => number }): OutboxClock {
  return { nowMs: host.nowMs(), momentMs: (datedMs) => host.momentMs(datedMs) };
}
