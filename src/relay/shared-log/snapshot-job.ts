/**
 * Does what a leader does with snapshots of the shared log: takes one when the log has grown enough since the last, and
 * prunes the log as far as its own view was pruned.
 *
 * Invariants:
 *   - one run at a time; a run that fails is logged, and the next one tries again: mail goes on;
 *   - the valid snapshot was read to its end by this process before anything is pruned because of it;
 *   - the view is pruned by what the operator wants to keep, after archives (jobs/retention-job.ts), so the log keeps
 *     all that is younger; a relay that was away for less than that follows from where it had come.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask, type StopSignal } from '../../lib/periodic-task.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { LogRetention } from '../engine/log-retention.ts';
import { Fenced, type LogState } from './shared-log.ts';
import { SnapshotDamaged, type SnapshotManifest, imageNow, readWhole, writeSnapshot } from './snapshot.ts';
import type { SnapshotDue } from './node-options.ts';
import type { LeadingNode } from './take-lead.ts';

/** A start has enough to do. */
const FIRST_AFTER_MS = 10_000;
/** A run that finds nothing due asks the log once. */
const RUN_EVERY_MS = 60_000;

/** Many batches take long to follow; a few are worth a snapshot once a day, because the log is pruned through it. */
const DUE: readonly SnapshotDue[] = [
  { batches: 50_000, ageMs: DAY_MS / 24 },
  { batches: 1_000, ageMs: DAY_MS },
];

interface SnapshotJobOptions extends Pick<LeadingNode, 'log' | 'tenure' | 'view' | 'store'> {
  retention: LogRetention;
  /** Any of these; absent: `DUE`. */
  due?: readonly SnapshotDue[] | undefined;
  clock: Clock;
  timers: Timers;
  onTaken: (taken: { batch: number; lsn: number; rows: number; bytes: number; durationMs: number }) => void;
  onPruned: (throughNo: number) => void;
  onFailed: (error: unknown) => void;
}

/** A run does what is due, and ends after its slice when the job stops. */
export class SnapshotJob extends PeriodicTask {
  readonly #options: SnapshotJobOptions;
  /** The valid snapshot, when this process has read it to its end. */
  #read: SnapshotManifest | undefined;
  /** The batch of the valid snapshot, when it could not be read; else 0. */
  #damagedNo = 0;
  #prunedNo = 0;
  /** Batches may be left that count as pruned: a run ended before its time, of this process or of one before. */
  #isRestDue = true;

  constructor(options: SnapshotJobOptions) {
    super({
      timers: options.timers,
      firstAfterMs: FIRST_AFTER_MS,
      everyMs: RUN_EVERY_MS,
      work: (signal) => this.#run(signal),
      onError: (error) => {
        // A relay that lost the lead learns that by itself, and so does one whose batch failed.
        if (!(error instanceof StoreFailed || error instanceof Fenced)) options.onFailed(error);
      },
    });
    this.#options = options;
  }

  /** The valid snapshot and how far the log is pruned, as far as this process knows. */
  get gauges(): { snapshotAtMs: number | undefined; snapshotNo: number; prunedNo: number } {
    return { snapshotAtMs: this.#read?.atMs, snapshotNo: this.#read?.throughNo ?? 0, prunedNo: this.#prunedNo };
  }

  async #run(signal: StopSignal): Promise<void> {
    const state = await this.#state();
    this.#prunedNo = state.prunedNo;
    await this.#readValid(state, signal);
    if (signal.aborted) return;
    if (this.#isDue()) await this.#take(signal);
    if (!signal.aborted) await this.#prune(signal);
  }

  async #state(): Promise<LogState> {
    const { log, tenure } = this.#options;
    const { state } = await log.open();
    if (state?.logId !== tenure.logId) throw new Fenced();
    return state;
  }

  /** One that does not read back is replaced as soon as the log has grown: no new node can begin with it. */
  async #readValid({ logId, snapshotNo }: LogState, signal: StopSignal): Promise<void> {
    const { log, onFailed } = this.#options;
    if (snapshotNo === 0 || this.#read?.throughNo === snapshotNo) return;
    try {
      this.#read = await readWhole({ get: (part) => log.part(logId, snapshotNo, part) }, signal);
      this.#damagedNo = 0;
    } catch (error) {
      if (!(error instanceof SnapshotDamaged)) throw error;
      this.#read = undefined;
      this.#damagedNo = snapshotNo;
      onFailed(error);
    }
  }

  #isDue(): boolean {
    const { view, clock, due = DUE } = this.#options;
    if (this.#damagedNo > 0) return view.no > this.#damagedNo;
    const { throughNo = 0, atMs = 0 } = this.#read ?? {};
    const [grown, age] = [view.no - throughNo, clock.nowMs() - atMs];
    return due.some(({ batches, ageMs }) => grown >= batches && age >= ageMs);
  }

  async #take(signal: StopSignal): Promise<void> {
    const { log, tenure, view, store, retention, clock, onTaken } = this.#options;
    const startedMs = clock.monotonicMs();
    await this.#dropOthers(signal);
    if (signal.aborted) return;
    const { image, mark } = await retention.betweenBatches(() => ({ image: imageNow(store), mark: view.mark }));
    let manifest: SnapshotManifest | undefined;
    try {
      const { no } = mark;
      const parts = {
        put: (part: number, body: Buffer) => log.putPart(tenure, no, part, body),
        get: (part: number) => log.part(tenure.logId, no, part),
      };
      const { monotonicMs } = clock;
      manifest = await writeSnapshot({ parts, image, mark, atMs: clock.nowMs(), monotonicMs, signal });
    } finally {
      await image.snapshot.close();
    }
    if (!manifest) return;
    const { throughNo: batch, lastLsn: lsn, rows, rowsHash, dueHash, bytes } = manifest;
    await retention.vouch({ throughLsn: lsn, rows, rowsHash, dueHash }, clock.nowMs());
    await log.makeValid(tenure, batch, view.no);
    this.#read = manifest;
    this.#damagedNo = 0;
    onTaken({ batch, lsn, rows, bytes, durationMs: Math.round(clock.monotonicMs() - startedMs) });
    await this.#dropOthers(signal);
  }

  async #dropOthers(signal: StopSignal): Promise<void> {
    const { log, tenure } = this.#options;
    while (!signal.aborted && (await log.dropOtherParts(tenure)));
  }

  async #prune(signal: StopSignal): Promise<void> {
    const { log, tenure, store, onPruned } = this.#options;
    const throughNo = await this.#lastWithin(store.firstLsn - 1);
    const isFurther = throughNo > this.#prunedNo;
    if (throughNo === 0 || (!isFurther && !this.#isRestDue)) return;
    this.#isRestDue = true;
    for (let isMore = true; isMore; isMore = await log.prune(tenure, throughNo)) if (signal.aborted) return;
    this.#isRestDue = false;
    this.#prunedNo = throughNo;
    if (isFurther) onPruned(throughNo);
  }

  /** The last batch of those that the snapshot stands for whose records are all up to `lsn`. */
  async #lastWithin(lsn: number): Promise<number> {
    const { log, tenure } = this.#options;
    let [within, beyond] = [this.#prunedNo, (this.#read?.throughNo ?? 0) + 1];
    while (beyond - within > 1) {
      const middle = Math.floor((within + beyond) / 2);
      const found = await log.batch(tenure.logId, middle);
      if (found === 'pruned' || (found && found.lastLsn <= lsn)) within = middle;
      else beyond = middle;
    }
    return within;
  }
}
