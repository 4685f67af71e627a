/**
 * Decides what concerns the log as a whole: new epochs, checkpoints of the rows, and how long records are kept.
 *
 * Invariants:
 *   - a checkpoint is due when the newest is as old as records are kept, so that every time of those days can be
 *     replayed from the one before;
 *   - the newest checkpoint of that age stays, and everything after it: two, as a rule;
 *   - no record goes that is younger than the days that are kept, nor any that stands after such a one.
 */
import type { ReportLostItem, RotateEpoch, TakeCheckpoint } from './command.ts';
import { type Decided, type Done, type EpochOutcome, accountOf, decisionOf, relayRow, waitingRow } from './decision.ts';
import type { ItemLost } from './event.ts';
import type { QueueRow, RowReader } from './rows.ts';

export function decideRotateEpoch(command: RotateEpoch, rows: RowReader): Decided<EpochOutcome> {
  const { epoch, reason, ending, nowMs: atMs } = command;
  const { epoch: current } = relayRow(rows);
  if (ending !== undefined && ending !== current) return decisionOf({ type: 'EpochBegun', epoch: current });
  return decisionOf({ type: 'EpochBegun', epoch }, { type: 'EpochRotated', epoch, reason, atMs });
}

/**
 * Its sender pushes again in the new epoch; an item that is gone by now was not lost. No sender can push a lost notice
 * again, so it is dropped and the epoch goes on.
 */
export function decideLostItem(command: ReportLostItem, rows: RowReader): Decided<Done> {
  const done: Done = { type: 'Done' };
  const { targetPubkey, seq, freshEpoch, nowMs: atMs } = command;
  const queued = waitingRow(rows, targetPubkey, seq);
  if (!queued) return decisionOf(done);
  const lost = itemLost(queued, accountOf(rows, targetPubkey), 'corrupt', atMs);
  if (queued.kind === 'expired') return decisionOf(done, lost);
  return decisionOf(done, lost, { type: 'EpochRotated', epoch: freshEpoch, reason: 'item-lost', atMs });
}

export function itemLost(queued: QueueRow, account: string | null, reason: ItemLost['reason'], atMs: number): ItemLost {
  const { targetPubkey, seq, kind, senderPubkey, itemId, payloadTarget: pushedTo, bytes } = queued;
  return { type: 'ItemLost', targetPubkey, seq, kind, senderPubkey, itemId, pushedTo, bytes, account, reason, atMs };
}

interface CheckpointTime {
  throughLsn: number;
  atMs: number;
}

export interface KeepingTime {
  keepMs: number;
  nowMs: number;
}

export function decideCheckpoint({ type: _type, nowMs: atMs, ...taken }: TakeCheckpoint): Decided<Done> {
  return decisionOf({ type: 'Done' }, { type: 'CheckpointTaken', ...taken, atMs });
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
type Age = 'old' | 'young' | 'unknown';

export function ageOf(atMs: number, { keepMs, nowMs }: KeepingTime): Age {
  if (atMs > nowMs) return 'unknown';
  return nowMs - atMs >= keepMs ? 'old' : 'young';
}
