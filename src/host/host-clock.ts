/**
 * The clock of a host over its restarts. Deadlines count the time that passed: while the daemon runs by the monotonic
 * clock; between two runs by the wall clock, as far as that can be believed. A suspend counts for nothing: nothing
 * could be delivered meanwhile.
 */
import { ClockGuard, type ClockJump } from '../lib/clock-guard.ts';
import { type Clock, systemClock, type Timers } from '../lib/clock.ts';
import { PeriodicTask } from '../lib/periodic-task.ts';
import { DAY_MS } from '../protocol/limits.ts';
import { type HostContext, isStoreFailure } from './base/context.ts';
import type { PeerId } from './core/rows.ts';
import { afterPeerChange } from './outbox/outbox.ts';
import type { HostStore } from './store/host-store.ts';

/**
 * A longer time between two runs counts for nothing: rather than that, the machine started with a wrong date. Longer
 * than a relay keeps items, and shorter than what is kept so that nothing is done twice.
 */
export const AWAY_MAX_MS = 21 * DAY_MS;
const NOTE_EVERY_MS = 600_000;
/** The note of a run that was killed is as old as this: a date before it is no jump then. */
const BACK_MAX_MS = 60_000;

/** The clock of this run, with the jumps of former ones and the one since the last of them. */
export async function openClock(
  store: HostStore,
  onJump: (jump: ClockJump) => void,
  clock: Clock = systemClock,
): Promise<ClockGuard> {
  const row = await store.read((reader) => reader.get('clock'));
  if (!row) return new ClockGuard(clock, { onJump });
  const nowMs = clock.nowMs();
  const awayMs = nowMs - row.seenMs;
  const isJump = awayMs > AWAY_MAX_MS || awayMs < -BACK_MAX_MS;
  const since = { beforeMs: row.seenMs, afterMs: nowMs };
  return new ClockGuard(clock, { jumps: isJump ? [...row.jumps, since] : row.jumps, onJump });
}

/** Notes the clock. After a jump the times at which rows of the outbox are due go with it. */
export async function noteClock(context: HostContext, clock: ClockGuard): Promise<void> {
  await context.store.transact(async (tx) => {
    const known = tx.get('clock')?.jumps.at(-1);
    // Reading the clock may find a jump.
    const seenMs = clock.nowMs();
    const { jumps } = clock;
    tx.put('clock', [], { seenMs, jumps });
    const isKnown = ({ beforeMs, afterMs }: ClockJump): boolean =>
      beforeMs === known?.beforeMs && afterMs === known.afterMs;
    const news = jumps.slice(jumps.findLastIndex(isKnown) + 1);
    if (news.length === 0) return;
    const byMs = news.reduce((sum, { beforeMs, afterMs }) => sum + afterMs - beforeMs, 0);
    const peerIds: PeerId[] = [];
    for await (const { row } of tx.range('peer', [])) peerIds.push(row.peerId);
    for (const peerId of peerIds) await afterPeerChange(tx, context, peerId, { type: 'clock-jumped', byMs });
  });
}

/** Notes it now and then. Run it after a jump too. */
export function clockNotes(context: HostContext, clock: ClockGuard, timers: Timers): PeriodicTask {
  return new PeriodicTask({
    timers,
    everyMs: NOTE_EVERY_MS,
    work: () => noteClock(context, clock),
    onError: (error) => {
      if (!isStoreFailure(error)) context.log('error', 'the clock could not be noted', { err: error });
    },
  });
}
