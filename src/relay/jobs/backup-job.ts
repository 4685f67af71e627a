/**
 * The regular backups of a running relay, written into a folder that the operator names.
 *
 * Invariants:
 *   - one at a time, and none before the newest is older than the interval, by the names of the files or, when the wall
 *     clock was set back, by the time that this process has run;
 *   - only files that a backup job of this relay named are ever removed, and never the newest;
 *   - a failed backup is logged and tried again later: mail goes on.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import type { Clock, Timers } from '../../lib/clock.ts';
import { writeImageFile } from '../../lib/image-file.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import type { Engine } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import { BACKUP_KIND, type WrittenBackup, backupOf } from '../image/backup.ts';

export interface BackupSettings {
  folder: string;
  keep: number;
  everyMs: number;
}

interface LastBackup {
  isGood: boolean;
  atMs: number;
}

interface NewestBackup {
  name: string;
  atMs: number;
  bytes: number;
}

/** The plan and how it goes, for the operator. */
export interface BackupState extends BackupSettings {
  last: LastBackup | undefined;
  /** The newest good one, of this process or an earlier one. */
  newest: NewestBackup | undefined;
  /** The time at which the next one is due, as far as the clocks tell now. */
  nextMs: number;
}

interface BackupJobOptions extends BackupSettings {
  engine: Pick<Engine, 'snapshot'>;
  /** Gets the damage that a backup finds. */
  lostItems: Pick<LostItems, 'foundByBackup'>;
  relayPubkey: PublicKey;
  clock: Clock;
  timers: Timers;
  version: string;
  onWritten: (backup: WrittenBackup) => void;
  onFailed: (error: unknown) => void;
}

/** The interval at which the job checks whether a backup is due. */
const ASK_EVERY_MS = 45_000;
/** The pause after a failure, unless the interval is shorter. */
const RETRY_MS = 600_000;
/** Characters of the fingerprint of the relay's key in a name: relays may share a folder. */
const MARK_CHARACTERS = 12;

/** A run takes a backup if one is due; `stop` gives up one that is under way. */
export class BackupJob extends PeriodicTask {
  readonly #options: BackupJobOptions;
  readonly #name: RegExp;
  readonly #mark: string;
  /** The time of the last attempt, or of the start. */
  #triedMs: number;
  #hasFailed = false;
  #last: LastBackup | undefined;
  #newest: NewestBackup | undefined;

  private constructor(options: BackupJobOptions) {
    const { relayPubkey, clock, timers, onFailed } = options;
    super({ timers, everyMs: ASK_EVERY_MS, work: () => this.#attempt(), onError: onFailed });
    this.#options = options;
    this.#mark = hostFingerprint(relayPubkey).slice(0, MARK_CHARACTERS);
    this.#name = new RegExp(`^poste-${this.#mark}-(?<time>[0-9]{8}T[0-9]{9}Z)\\.backup$`);
    this.#triedMs = clock.monotonicMs();
  }

  /** Starts the job; a first backup begins at once when one is due. */
  static start(options: BackupJobOptions): BackupJob {
    const job = new BackupJob(options);
    void job.run();
    return job;
  }

  /** The outcome of the last attempt of this process, or the time of the newest file of an earlier one. */
  get last(): LastBackup | undefined {
    return this.#last;
  }

  /** The time at which the newest good one was made, by this process or an earlier one; 0 while there is none. */
  get lastGoodMs(): number {
    return this.#newest?.atMs ?? 0;
  }

  get state(): BackupState {
    const { folder, keep, everyMs } = this.#options;
    return { folder, keep, everyMs, last: this.#last, newest: this.#newest, nextMs: this.#nextMs() };
  }

  /** Takes one now, due or not; when one is under way, after that. Rejects when it fails. */
  async takeNow(): Promise<{ name: string; bytes: number }> {
    let taken: Promise<{ name: string; bytes: number }> | undefined;
    await this.runOther(async () => {
      taken = this.#take(this.#options.clock.nowMs());
      await taken.catch(() => undefined);
    });
    if (!taken) throw new Error('the relay is stopping');
    return taken;
  }

  #nextMs(): number {
    const { clock, everyMs } = this.#options;
    const nowMs = clock.nowMs();
    const sinceTriedMs = clock.monotonicMs() - this.#triedMs;
    if (this.#hasFailed) return nowMs + Math.max(0, Math.min(RETRY_MS, everyMs) - sinceTriedMs);
    if (!this.#newest) return nowMs;
    return nowMs + Math.max(0, Math.min(this.#newest.atMs + everyMs - nowMs, everyMs - sinceTriedMs));
  }

  async #attempt(): Promise<void> {
    const { clock, onFailed } = this.#options;
    try {
      if (!(await this.#isDue())) return;
      this.#triedMs = clock.monotonicMs();
      await this.#take(clock.nowMs());
    } catch (error) {
      if (this.signal.aborted) return;
      this.#hasFailed = true;
      this.#triedMs = clock.monotonicMs();
      this.#last = { isGood: false, atMs: clock.nowMs() };
      onFailed(error);
    }
  }

  async #take(atMs: number): Promise<{ name: string; bytes: number }> {
    const backup = await this.#backUp(atMs);
    this.#hasFailed = false;
    this.#last = { isGood: true, atMs };
    const { bytes } = backup;
    const name = this.#nameAt(atMs);
    this.#newest = { name, atMs, bytes };
    this.#options.onWritten(backup);
    await this.#removeOld(atMs);
    return { name, bytes };
  }

  #nameAt(atMs: number): string {
    return `poste-${this.#mark}-${timeName(atMs)}.backup`;
  }

  async #isDue(): Promise<boolean> {
    const { clock, everyMs } = this.#options;
    const sinceTriedMs = clock.monotonicMs() - this.#triedMs;
    if (this.#hasFailed) return sinceTriedMs >= Math.min(RETRY_MS, everyMs);
    const nowMs = clock.nowMs();
    const newest = (await this.#files(nowMs)).at(-1);
    if (!newest) return true;
    const { name, timeMs: newestMs, bytes } = newest;
    this.#last ??= { isGood: true, atMs: newestMs };
    this.#newest ??= { name, atMs: newestMs, bytes };
    return nowMs - newestMs >= everyMs || sinceTriedMs >= everyMs;
  }

  async #backUp(atMs: number): Promise<WrittenBackup> {
    const { engine, lostItems, folder, version } = this.#options;
    const path = join(folder, this.#nameAt(atMs));
    const snapshot = await engine.snapshot();
    try {
      const chunks = backupOf(snapshot, { created_at: atMs, version }, (damage) => lostItems.foundByBackup(damage));
      const { signal } = this;
      const options = { path, replaces: false, ownNames: this.#name, signal };
      return await writeImageFile(chunks, options, BACKUP_KIND);
    } finally {
      await snapshot.close();
    }
  }

  async #removeOld(nowMs: number): Promise<void> {
    const { folder, keep } = this.#options;
    for (const { name } of (await this.#files(nowMs)).slice(0, -keep)) await rm(join(folder, name), { force: true });
  }

  /** The job's own files, in the order they were made. */
  async #files(nowMs: number): Promise<{ name: string; timeMs: number; bytes: number }[]> {
    const files: { name: string; timeMs: number; bytes: number }[] = [];
    for (const name of await readdir(this.#options.folder)) {
      const time = this.#name.exec(name)?.groups?.['time'];
      if (time === undefined) continue;
      const found = await stat(join(this.#options.folder, name));
      const timeMs = timeOf(time);
      if (found.isFile() && !Number.isNaN(timeMs)) files.push({ name, timeMs, bytes: found.size });
    }
    // One that lies ahead is of a clock that was set back since: all others are newer.
    const ordered = (timeMs: number): number => (timeMs > nowMs ? timeMs - Number.MAX_SAFE_INTEGER : timeMs);
    return files.toSorted((a, b) => ordered(a.timeMs) - ordered(b.timeMs));
  }
}

/** `20251120T214823000Z`: to the millisecond, in UTC, sorted as text as by time. */
function timeName(timeMs: number): string {
  return new Date(timeMs).toISOString().replaceAll(/[-:.]/g, '');
}

/** Reads the time of a regular backup in the name of its file; `undefined` for a file of another name. */
export function backupTimeOf(file: string): number | undefined {
  const time = /^poste-[0-9a-f]+-(?<time>[0-9]{8}T[0-9]{9}Z)\.backup$/.exec(file)?.groups?.['time'];
  const timeMs = time === undefined ? Number.NaN : timeOf(time);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

function timeOf(name: string): number {
  const [year, month, day] = [name.slice(0, 4), name.slice(4, 6), name.slice(6, 8)];
  const [hour, minute, second, ms] = [name.slice(9, 11), name.slice(11, 13), name.slice(13, 15), name.slice(15, 18)];
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
}
