/**
 * The state as it was at one place of the log: what a replay up to there gives.
 *
 * What was acked by then is gone. Wire bytes are of no replay: an item that waited then is shown by what the log says
 * of it.
 */
import { type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { eventTimeMs } from '../core/event.ts';
import type { EnrolmentRow, QueueRow, UsageRow } from '../core/rows.ts';
import type { Scratch } from '../store/scratch.ts';
import { PREFIX, SHARE_SENDER_AT, prefixRange, queueBehind, sharesOf } from '../store/keys.ts';
import type { OfflineStore } from './offline.ts';
import { ReplayedRows } from './replay.ts';
import { baseOf, beginReplay, findCheckpoints } from './replay-start.ts';
import { rowOf } from '../store/row-codec.ts';
import type { Progress } from './finding.ts';
import { readEntries } from './records.ts';

/** The last record that was written by `timeMs`, by the relay's clock; 0 when none was. Throws `DamagedRecord`. */
export async function* lsnAt(offline: OfflineStore, timeMs: number): AsyncGenerator<Progress, number> {
  const { pruned } = offline.store;
  let found = pruned.throughLsn > 0 && pruned.atMs <= timeMs ? pruned.throughLsn : 0;
  for await (const run of readEntries(offline)) {
    // The clock may have been set back, so a later record can be an earlier one.
    for (const { lsn, event } of run) if (eventTimeMs(event) <= timeMs) found = lsn;
    yield { stage: 'looking', done: run.at(-1)?.lsn ?? 0, of: offline.store.lastLsn };
  }
  return found;
}

/** The log was pruned too far for this place. */
export class PrunedAway extends Error {}

export interface StateThen {
  /** The rows after a record. */
  rows: ReplayedRows;
  lsn: number;
  timeMs: number;
}

/** Replays the records up to `lsn` into the scratch. Throws `DamagedRecord`, and `PrunedAway`. */
export async function* stateAt(
  offline: OfflineStore,
  lsn: number,
  { pairs }: Scratch,
): AsyncGenerator<Progress, StateThen> {
  const rows = new ReplayedRows(pairs);
  const { pruned } = offline.store;
  let timeMs = pruned.atMs;
  let startLsn = 0;
  if (pruned.throughLsn > 0) {
    const base = baseOf(yield* findCheckpoints(offline), offline, 'newest', lsn);
    const start = yield* beginReplay(offline, base, rows);
    if (!start) throw new PrunedAway(`nothing that was kept leads to log record ${lsn}`);
    startLsn = start.throughLsn;
  }
  for await (const run of readEntries(offline, { throughLsn: lsn })) {
    for (const entry of run) {
      timeMs = eventTimeMs(entry.event);
      if (entry.lsn <= startLsn) continue;
      rows.apply(entry);
      if (rows.isFull) await rows.flush();
    }
    yield { stage: 'replay', done: run.at(-1)?.lsn ?? 0, of: lsn };
  }
  await rows.flush();
  return { rows, lsn, timeMs };
}

/** Returns every enrolment, in order. */
export async function enrolmentsThen({ rows: replayed }: StateThen): Promise<EnrolmentRow[]> {
  const rows: EnrolmentRow[] = [];
  for await (const run of replayed.runs(prefixRange(PREFIX.enrolment)))
    for (const [key, value] of run) rows.push(rowOf('enrolment', key, value));
  return rows.toSorted((a, b) => a.enrolledAtMs - b.enrolledAtMs);
}

/** Returns what waited for a host. */
export async function queueThen({ rows }: StateThen, target: PublicKey): Promise<QueueRow[]> {
  const items: QueueRow[] = [];
  for await (const run of rows.runs(queueBehind(target, 0)))
    for (const [key, value] of run) items.push(rowOf('queue', key, value));
  return items;
}

/** Returns what each sender had waiting there. */
export async function sharesThen(
  { rows }: StateThen,
  target: PublicKey,
): Promise<{ senderPubkey: PublicKey; usage: UsageRow }[]> {
  const shares: { senderPubkey: PublicKey; usage: UsageRow }[] = [];
  for await (const run of rows.runs(sharesOf(target)))
    for (const [key, value] of run)
      shares.push({
        senderPubkey: publicKeyFromBytes(key.subarray(SHARE_SENDER_AT)),
        usage: rowOf('share', key, value),
      });
  return shares;
}
