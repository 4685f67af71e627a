/**
 * Fills a new view from the snapshot of a shared log: what the snapshot holds, the records that the log still has of
 * the time before, and the wire bytes of what waits. The batches after the snapshot are then followed as ever.
 *
 * Invariants:
 *   - every write is synced, and the mark of the view comes last: without it the view counts as cut short, and the next
 *     start begins anew;
 *   - the rows are those that a record of the log vouches for, and so are the checkpoint that a replay of the view
 *     begins with: it is made of them here.
 */
import { caught, nothing } from '../../lib/caught.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { type CheckpointTaken, eventTimeMs } from '../core/event.ts';
import { PREFIX, logKey, payloadKey, prefixRange } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { BulkDatabase } from '../store/bulk-database.ts';
import { checkSchema } from '../store/open.ts';
import { SCHEMA_VERSION, prunedMark, schemaMark, type ViewMark } from '../store/marks.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';
import {
  CanonicalPairs,
  RowsDigest,
  checkpointMark,
  checkpointPart,
  checkpointParts,
  isSameDigest,
} from '../store/row-checkpoints.ts';
import { decodeRow } from '../store/row-codec.ts';
import { firstStoredLsn, recordAt, recordPairs, recordRuns } from '../store/record-run.ts';
import { runsOf } from '../store/scan.ts';
import type { NodeOptions } from './node-options.ts';
import type { FollowedBatch, LogState } from './shared-log.ts';
import { type ReadSnapshot, SnapshotDamaged, type SnapshotManifest, readSnapshot } from './snapshot.ts';

const PROGRESS_STEPS = 10;
/** The step of a stage that nobody has counted. */
const UNCOUNTED_STEP = 10_000;
/** Wire bytes that are asked for at once: each may be half a MiB. */
const PAYLOADS_AT_ONCE = 32;

export interface FillOptions extends Pick<NodeOptions, 'log' | 'logger'> {
  /** Returns the result of `work` once the log can be reached. Throws when the node is to stop. */
  asked: <T>(work: () => Promise<T>) => Promise<T>;
}

export type FilledTo = Pick<ViewMark, 'no' | 'lastLsn' | 'effects'>;

/**
 * Fills `level`, which holds nothing but the mark of a new view; that mark is to be replaced by what this returns.
 * Throws `SnapshotDamaged` (also when another snapshot took the place of this one), `LogRefused` for one of a newer
 * software, and `StoreRefused` for a newer schema.
 */
export async function fillView(level: Level, state: LogState, folder: string, options: FillOptions): Promise<FilledTo> {
  return new Filling(level, state, options).fill(folder);
}

class Filling {
  readonly #level: Level;
  readonly #state: LogState;
  readonly #options: FillOptions;
  readonly #writes: BulkDatabase;
  #loggedStep = '';

  constructor(level: Level, state: LogState, options: FillOptions) {
    this.#level = level;
    this.#state = state;
    this.#options = options;
    this.#writes = new BulkDatabase(level, { isSynced: true });
  }

  async fill(folder: string): Promise<FilledTo> {
    const { log, asked } = this.#options;
    const { logId, snapshotNo } = this.#state;
    const read = await readSnapshot({ get: (part) => asked(() => log.part(logId, snapshotNo, part)) });
    const { manifest } = read;
    const { throughNo, lastLsn, effects, schema } = manifest;
    if (throughNo !== snapshotNo) throw new SnapshotDamaged('it is of another batch');
    checkSchema(schema, folder, SCHEMA_VERSION);
    const keptFromLsn = await this.#takeParts(read);
    const event = await this.#voucher(manifest);
    await this.#writes.take([checkpointMark(event.event, event.lsn)]);
    await this.#takeRecords(manifest, keptFromLsn);
    await this.#takePayloads();
    await this.#writes.flush();
    return { no: throughNo, lastLsn, effects };
  }

  /** Takes what the snapshot holds, and its rows once more as a checkpoint. Returns the first record that it holds. */
  async #takeParts(read: ReadSnapshot): Promise<number> {
    const { manifest } = read;
    const digest = new RowsDigest();
    for await (const part of checkpointParts(manifest.checkpointLsn, this.#canonicalRuns(read), digest))
      await this.#writes.take([checkpointPart(part)]);
    await this.#writes.flush();
    if (!isSameDigest(digest.taken(), manifest)) throw new SnapshotDamaged('it does not hold what was written');
    const first = await firstStoredLsn(this.#level);
    if (first === 0) throw new SnapshotDamaged(`it lacks log record ${manifest.lastLsn}`);
    return first;
  }

  /** Writes each part, and gives those of its rows that a replay gives too. */
  async *#canonicalRuns({ manifest, pairs }: ReadSnapshot): AsyncGenerator<Pair[]> {
    const canonical = new CanonicalPairs();
    let part = 0;
    for await (const run of pairs) {
      await this.#writes.take(run);
      yield canonical.of(run);
      this.#logProgress('snapshot', ++part, manifest.parts);
    }
  }

  /** The record that says what the rows are: the last one of the snapshot, or one of the batches after it. */
  async #voucher(manifest: SnapshotManifest): Promise<{ lsn: number; event: CheckpointTaken }> {
    for await (const [lsn, record] of this.#recordsAfter(manifest)) {
      const event = checkpointIn(lsn, record);
      if (event?.throughLsn !== manifest.checkpointLsn) continue;
      if (!isSameDigest(event, manifest))
        throw new SnapshotDamaged(`log record ${lsn} says that it held something else`);
      return { lsn, event };
    }
    throw new SnapshotDamaged('no record of the log vouches for it');
  }

  async *#recordsAfter({ throughNo, lastLsn, checkpointLsn }: SnapshotManifest): AsyncGenerator<[number, Buffer]> {
    if (checkpointLsn < lastLsn)
      for await (const run of recordRuns(this.#level, checkpointLsn + 1, lastLsn)) yield* run;
    for await (const { firstLsn, records } of this.#batchesAfter(throughNo))
      for (const [at, record] of records.entries()) yield [firstLsn + at, record];
  }

  /** The records of the batches that the log still has from before, and the mark that those before them are pruned. */
  async #takeRecords({ throughNo, lastLsn }: SnapshotManifest, keptFromLsn: number): Promise<void> {
    let fromLsn = keptFromLsn;
    let expected = 0;
    // Before the first run that is written: older software refuses the view.
    await this.#writes.take([schemaMark(SCHEMA_VERSION)]);
    for await (const batch of this.#batchesAfter(this.#state.prunedNo)) {
      if (batch.no > throughNo) break;
      // The log was pruned meanwhile: what was written before leaves a gap.
      if (batch.no !== expected) {
        fromLsn = Math.min(batch.firstLsn, keptFromLsn);
        await this.#clearBefore(fromLsn);
      }
      expected = batch.no + 1;
      // The snapshot holds those behind, each alone.
      const before = batch.records.slice(0, Math.max(0, keptFromLsn - batch.firstLsn));
      await this.#writes.take(recordPairs(batch.firstLsn, before));
      this.#logProgress('records', batch.lastLsn, lastLsn);
      if (batch.no === throughNo) break;
    }
    if (expected !== throughNo + 1) {
      fromLsn = keptFromLsn;
      await this.#clearBefore(fromLsn);
    }
    await this.#writes.flush();
    if (fromLsn === 1) return;
    const first = await recordAt(this.#level, fromLsn);
    if (!first) throw new SnapshotDamaged(`log record ${fromLsn} is missing`);
    // When the record before was written nobody knows any more: not after this one.
    const atMs = eventTimeMs(decodeRecord(fromLsn, first).event);
    await this.#writes.take([prunedMark({ throughLsn: fromLsn - 1, atMs })]);
  }

  async #clearBefore(lsn: number): Promise<void> {
    await this.#writes.flush();
    await this.#level.clear({ gte: logKey(1), lt: logKey(lsn) });
  }

  async *#batchesAfter(afterNo: number): AsyncGenerator<FollowedBatch> {
    const { log, asked } = this.#options;
    for (let no = afterNo; ; ) {
      const run = await asked(() => log.batches(this.#state.logId, no));
      yield* run;
      const last = run.at(-1);
      if (!last) return;
      no = last.no;
    }
  }

  /** The wire bytes of every queue row, without what a later batch dropped: that batch needs none. */
  async #takePayloads(): Promise<void> {
    const { log, asked } = this.#options;
    let done = 0;
    for await (const run of runsOf(this.#level, prefixRange(PREFIX.queue), { pairs: PAYLOADS_AT_ONCE })) {
      const rows = run.map(([key, value]) => decodeRow('queue', key, value));
      const keys = rows.map(({ payloadTarget, payloadSeq }) => payloadKey(payloadTarget, payloadSeq));
      const places = keys.map((key) => key.subarray(1));
      const wires = await asked(() => log.payloads(this.#state.logId, places));
      await this.#writes.take(keys.flatMap((key, at): Pair[] => (wires[at] ? [[key, wires[at]]] : [])));
      done += run.length;
      this.#logProgress('items', done, undefined);
    }
  }

  /** Logs each tenth of a stage, so that an operator sees that it goes on. */
  #logProgress(stage: string, done: number, of: number | undefined): void {
    const step = `${stage} ${Math.floor(of === undefined ? done / UNCOUNTED_STEP : (done * PROGRESS_STEPS) / of)}`;
    if (step === this.#loggedStep) return;
    this.#loggedStep = step;
    this.#options.logger.info({ stage, done, of }, 'the view is filled from the snapshot of the log');
  }
}

/** A record that this software cannot read is refused where it is followed. */
function checkpointIn(lsn: number, record: Buffer): CheckpointTaken | undefined {
  const event = caught(() => decodeRecord(lsn, record).event, DamagedRecord, nothing);
  return event?.type === 'CheckpointTaken' ? event : undefined;
}
