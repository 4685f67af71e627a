/**
 * Decides when the rows are kept as a checkpoint, which of them stay, and which records are old enough to go.
 *
 * Invariants:
 *   - a checkpoint is due when the newest is as old as records are kept, so that every time of those days can be
 *     replayed from the one before;
 *   - the newest one of that age stays, and everything after it: two, as a rule;
 *   - no record goes that is younger than the days that are kept, nor any that stands after such a one.
 */
import type { TakeCheckpoint } from './command.ts';
import { type Decided, type Done, decided } from './decision.ts';

/** A checkpoint that is whole. */
export interface CheckpointTime {
  throughLsn: number;
  atMs: number;
}

/** How long records are kept, and the time that it is. */
export interface KeepingTime {
  keepMs: number;
  nowMs: number;
}

export function decideCheckpoint({ type: _type, nowMs: atMs, ...taken }: TakeCheckpoint): Decided<Done> {
  return decided({ type: 'Done' }, { type: 'CheckpointTaken', ...taken, atMs });
}

/** `checkpoints` ascend. One of a clock that was set back since says nothing of its age. */
export function isCheckpointDue(checkpoints: readonly CheckpointTime[], time: KeepingTime): boolean {
  const newest = checkpoints.at(-1);
  return !newest || ageOf(newest.atMs, time) !== 'young';
}

/** The newest of sufficient age, which makes those before it needless; `checkpoints` ascend. */
export function baseCheckpoint<C extends CheckpointTime>(checkpoints: readonly C[], time: KeepingTime): C | undefined {
  return checkpoints.findLast(({ atMs }) => ageOf(atMs, time) === 'old');
}

/** `unknown` is ahead of the clock: of one that was set back since. What stands around it says how old it is. */
export type Age = 'old' | 'young' | 'unknown';

export function ageOf(atMs: number, { keepMs, nowMs }: KeepingTime): Age {
  if (atMs > nowMs) return 'unknown';
  return nowMs - atMs >= keepMs ? 'old' : 'young';
}
