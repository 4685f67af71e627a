/**
 * Keeps the log of a running relay as long as the operator wants, and no longer: checkpoints of the rows, archives of
 * old records, pruning.
 *
 * Invariants:
 *   - one run at a time; a run that fails is logged, and the next one tries again: mail goes on;
 *   - nothing is pruned while the clock is not trusted, because a clock that jumped ahead would make everything old;
 *   - with a folder for archives, no record is pruned before an archive of it is on disk there.
 */
import { join } from 'node:path';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import type { Clock, Timers } from '../../lib/clock.ts';
import { ImageUnwritten, writeImageFile } from '../../lib/image-file.ts';
import { PeriodicTask, type StopSignal, stopSignal } from '../../lib/periodic-task.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { LogRetention, TakenCheckpoint } from '../engine/log-retention.ts';
import { ARCHIVE_KIND, holdsRange, writeArchive } from '../image/archive.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { eventTimeMs } from '../core/event.ts';
import { isCheckpointDue, type KeepingTime } from '../core/decide-log.ts';

export interface LogRetentionSettings {
  keepMs: number;
  archiveFolder: string | undefined;
}

/** Records that were removed from the log at one time. */
export interface LogRemoval {
  atMs: number;
  records: number;
  /** The times of the first and of the last one. */
  fromMs: number;
  throughMs: number;
  archive: string | undefined;
}

export interface RetentionJobOptions {
  keepMs: number;
  archives: LogArchives | undefined;
  retention: LogRetention;
  store: RelayStore;
  clock: Clock;
  timers: Timers;
  isClockTrusted: () => boolean;
  /** Gets the number of bytes that are about to be written, and returns false when there is no room. */
  hasRoom: (bytes: number) => boolean;
  onCheckpoint: (taken: Exclude<TakenCheckpoint, { type: 'stopped' }>) => void;
  onPruned: (records: number, throughLsn: number, archive: string | undefined) => void;
  onFailed: (error: unknown) => void;
}

/** A start has enough to do. */
const FIRST_AFTER_MS = 10_000;
/** A run that finds nothing due reads little. */
const RUN_EVERY_MS = 3_600_000;
/** Records of one archive, pruned before the next archive is written. */
const RECORDS_AT_ONCE = 1_000_000;

/** A run does what is due, and ends after its slice when the job stops. */
export class RetentionJob extends PeriodicTask {
  readonly #options: RetentionJobOptions;
  #lastRemoval: LogRemoval | undefined;

  constructor(options: RetentionJobOptions) {
    super({
      timers: options.timers,
      firstAfterMs: FIRST_AFTER_MS,
      everyMs: RUN_EVERY_MS,
      work: (signal) => this.#run(signal),
      onError: (error) => {
        // A failed batch ends the process by itself.
        if (!(error instanceof StoreFailed)) options.onFailed(error);
      },
    });
    this.#options = options;
  }

  /** The last one of this process. */
  get lastRemoval(): LogRemoval | undefined {
    return this.#lastRemoval;
  }

  async #run(stopped: AbortSignal): Promise<void> {
    const { keepMs, retention, clock, isClockTrusted, hasRoom, onCheckpoint, onFailed } = this.#options;
    const nowMs = (): number => clock.nowMs();
    const signal = stopSignal(stopped, () => !isClockTrusted());
    if (signal.aborted) return;
    const time: KeepingTime = { keepMs, nowMs: nowMs() };
    const { whole, damaged } = await retention.checkpoints();
    // The whole checkpoints replace them.
    for (const error of damaged) onFailed(error);
    if (isCheckpointDue(whole, time)) {
      const taken = await retention.takeCheckpoint(nowMs, signal, hasRoom);
      if (taken.type !== 'stopped') onCheckpoint(taken);
    }
    if (!signal.aborted) await retention.dropNeedless(time, signal);
    await this.#prune(time, signal);
  }

  async #prune(time: KeepingTime, signal: StopSignal): Promise<void> {
    const { retention, store, archives, clock, onPruned } = this.#options;
    const beganAt = store.firstLsn;
    while (!signal.aborted) {
      const fromLsn = store.firstLsn;
      const throughLsn = await retention.prunable(time, RECORDS_AT_ONCE, signal);
      if (throughLsn === undefined || signal.aborted) break;
      const archive = await archives?.archive(fromLsn, throughLsn, signal);
      if (archives && !archive) break;
      const [fromMs, throughMs] = [await this.#timeOf(fromLsn), await this.#timeOf(throughLsn)];
      await retention.prune(throughLsn, signal);
      const records = store.firstLsn - fromLsn;
      if (records > 0) this.#lastRemoval = { atMs: clock.nowMs(), records, fromMs, throughMs, archive };
      onPruned(records, store.firstLsn - 1, archive);
    }
    await retention.compact(beganAt, signal);
  }

  async #timeOf(lsn: number): Promise<number> {
    const entry = await this.#options.store.entry(lsn);
    if (!entry) throw new Error('invariant: a record that may go is in the log');
    return eventTimeMs(entry.event);
  }
}

interface LogArchivesOptions {
  folder: string;
  relayPubkey: PublicKey;
  store: RelayStore;
  clock: Clock;
  version: string;
}

/** Characters of the fingerprint of the relay's key in a name: relays may share a folder. */
const MARK_CHARACTERS = 12;
/** Names sort like records. */
const LSN_DIGITS = 12;
/** Archives of one name that hold different records. */
const SAME_NAME_MAX = 100;

/**
 * The archives of a running relay's log, in a folder that the operator names.
 *
 * Invariants:
 *   - the name of an archive is returned when it is complete, checked and on disk;
 *   - none is ever replaced or removed: where an archive of the same name holds other records, as after a restore, the
 *     new one gets another name.
 */
export class LogArchives {
  readonly #options: LogArchivesOptions;
  readonly #mark: string;

  constructor(options: LogArchivesOptions) {
    this.#options = options;
    this.#mark = hostFingerprint(options.relayPubkey).slice(0, MARK_CHARACTERS);
  }

  /**
   * Archives these records, unless there is an archive of exactly them. Returns the name of the file, or `undefined`
   * when `signal` aborted before it was complete. Throws `ImageUnwritten`.
   */
  async archive(firstLsn: number, lastLsn: number, signal: StopSignal): Promise<string | undefined> {
    const { folder, store, clock, relayPubkey, version } = this.#options;
    const { level } = store;
    const range = { firstLsn, lastLsn };
    const stamp = { relay_pubkey: relayPubkey, created_at: clock.nowMs(), version };
    const ownNames = new RegExp(`^poste-${this.#mark}-log-[0-9-]+\\.archive$`);
    for (let attempt = 1; attempt <= SAME_NAME_MAX; attempt++) {
      const name = this.#nameOf(firstLsn, lastLsn, attempt);
      const options = { path: join(folder, name), replaces: false, ownNames, signal };
      try {
        await writeImageFile(writeArchive(level, range, stamp), options, ARCHIVE_KIND);
        return name;
      } catch (error) {
        if (signal.aborted) return undefined;
        if (!(error instanceof ImageUnwritten && error.reason === 'exists')) throw error;
        // From a run that ended before it could prune.
        if (await holdsRange(options.path, level, range)) return name;
      }
    }
    throw new Error(`${folder} holds too many archives of the log records ${firstLsn} to ${lastLsn}`);
  }

  #nameOf(firstLsn: number, lastLsn: number, attempt: number): string {
    const [first, last] = [firstLsn, lastLsn].map((lsn) => String(lsn).padStart(LSN_DIGITS, '0'));
    return `poste-${this.#mark}-log-${first}-${last}${attempt === 1 ? '' : `-${attempt}`}.archive`;
  }
}
