/**
 * Keeps the log of a running relay as long as the operator wants, and no longer: checkpoints of the rows, archives of
 * what goes, pruning.
 *
 * Invariants:
 *   - one run at a time; a run that fails is told, and the next one tries again: mail goes on;
 *   - nothing goes while the clock is in doubt, for a clock that jumped ahead would make everything old;
 *   - with a folder for archives, no record goes before an archive of it is on disk there.
 */
import type { KeepingTime } from './core/decide-log-keeping.ts';
import { isCheckpointDue } from './core/decide-log-keeping.ts';
import type { Cancel, Clock, Timers } from './engine/ambient.ts';
import { StoreFailed } from './engine/committer.ts';
import type { LogKeeping, TakenCheckpoint } from './engine/log-keeping.ts';
import type { LogArchives } from './log-archives.ts';
import type { RelayStore } from './store/relay-store.ts';

/** What the operator set. */
export interface LogKeepingSettings {
  /** How long records are kept. */
  keepMs: number;
  /** Where what goes is archived before; absent: it is not. */
  archiveFolder: string | undefined;
}

export interface LogPlanOptions {
  keepMs: number;
  archives: LogArchives | undefined;
  keeping: LogKeeping;
  store: RelayStore;
  clock: Clock;
  timers: Timers;
  isClockTrusted: () => boolean;
  /** Told of bytes that are about to be written; false when there is no room. */
  hasRoom: (bytes: number) => boolean;
  told: LogPlanTold;
}

/** For the operator's log. */
export interface LogPlanTold {
  checkpoint(taken: Exclude<TakenCheckpoint, { type: 'stopped' }>): void;
  pruned(records: number, throughLsn: number, archive: string | undefined): void;
  failed(error: unknown): void;
}

/** A start is not to be slowed by it. */
const FIRST_AFTER_MS = 10_000;
/** Little is read when nothing is due. */
const ASK_EVERY_MS = 3_600_000;
/** Records that one archive holds, and that are pruned before the next is written. */
const RECORDS_AT_ONCE = 1_000_000;

export class LogPlan {
  readonly #options: LogPlanOptions;
  readonly #cancels: Cancel[];
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: LogPlanOptions) {
    const { timers } = options;
    this.#options = options;
    const ask = (): void => void this.run();
    this.#cancels = [timers.after(FIRST_AFTER_MS, ask), timers.every(ASK_EVERY_MS, ask)];
  }

  /** Does what is due. Never throws, and joins a run that is under way. */
  run(): Promise<void> {
    this.#running ??= this.#attempt().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when no run is under way; one that is ends after its slice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    await this.#running;
  }

  async #attempt(): Promise<void> {
    try {
      await this.#run();
    } catch (error) {
      // A failed batch ends the process by itself.
      if (!this.#isStopped && !(error instanceof StoreFailed)) this.#options.told.failed(error);
    }
  }

  async #run(): Promise<void> {
    const { keepMs, keeping, clock, hasRoom, told } = this.#options;
    const nowMs = (): number => clock.nowMs();
    const goesOn = (): boolean => !this.#isStopped && this.#options.isClockTrusted();
    if (!goesOn()) return;
    const time: KeepingTime = { keepMs, nowMs: nowMs() };
    const { whole, damaged } = await keeping.checkpoints();
    // Those that are whole stand in for them.
    for (const error of damaged) told.failed(error);
    if (isCheckpointDue(whole, time)) {
      const taken = await keeping.takeCheckpoint(nowMs, goesOn, hasRoom);
      if (taken.type !== 'stopped') told.checkpoint(taken);
    }
    if (goesOn()) await keeping.dropNeedless(time, goesOn);
    await this.#prune(time, goesOn);
  }

  async #prune(time: KeepingTime, goesOn: () => boolean): Promise<void> {
    const { keeping, store, archives, told } = this.#options;
    const beganAt = store.firstLsn;
    while (goesOn()) {
      const fromLsn = store.firstLsn;
      const throughLsn = await keeping.prunable(time, RECORDS_AT_ONCE, goesOn);
      if (throughLsn === undefined || !goesOn()) break;
      const archive = await archives?.archive(fromLsn, throughLsn, goesOn);
      if (archives && !archive) break;
      await keeping.prune(throughLsn, goesOn);
      told.pruned(store.firstLsn - fromLsn, store.firstLsn - 1, archive);
    }
    await keeping.compact(beganAt, goesOn);
  }
}
