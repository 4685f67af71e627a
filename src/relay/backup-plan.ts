/**
 * The regular backups of a running relay, into a folder of the operator's.
 *
 * Invariants:
 *   - one at a time, and none before the newest is older than the interval, by the names of the files or, when the wall
 *     clock was set back, by the time that this process has run;
 *   - only files that a plan of this relay named are ever removed, and never the newest;
 *   - a backup that fails is told and tried again later: mail goes on.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type PublicKey, hostFingerprint } from '../protocol/public-key.ts';
import type { Cancel, Clock, Timers } from './engine/ambient.ts';
import type { Engine } from './engine/engine.ts';
import type { LostItems } from './engine/lost-items.ts';
import { type WrittenBackup, writeBackupFile } from './store/backup-file.ts';

/** What the operator set. */
export interface BackupSettings {
  folder: string;
  /** How many are kept. */
  keep: number;
  everyMs: number;
}

/** How the last attempt went. */
export interface LastBackup {
  isGood: boolean;
  atMs: number;
}

export interface BackupPlanOptions extends BackupSettings {
  engine: Engine;
  /** Told of what waits and is damaged. */
  lostItems: LostItems;
  relayPubkey: PublicKey;
  clock: Clock;
  timers: Timers;
  version: string;
  written: (backup: WrittenBackup) => void;
  failed: (error: unknown) => void;
}

/** How often it is asked whether one is due. */
const ASK_EVERY_MS = 45_000;
/** After a failure, unless the interval is shorter. */
const RETRY_MS = 600_000;
/** Of the fingerprint of the relay's key: relays may share a folder. */
const MARK_CHARACTERS = 12;

export class BackupPlan {
  readonly #options: BackupPlanOptions;
  readonly #name: RegExp;
  readonly #mark: string;
  readonly #cancel: Cancel;
  /** Of the last attempt, or of the start. */
  #triedMs: number;
  #hasFailed = false;
  #running: Promise<void> | undefined;
  #isStopped = false;
  #last: LastBackup | undefined;
  #lastGoodMs = 0;

  private constructor(options: BackupPlanOptions) {
    const { relayPubkey, clock, timers } = options;
    this.#options = options;
    this.#mark = hostFingerprint(relayPubkey).slice(0, MARK_CHARACTERS);
    this.#name = new RegExp(`^poste-${this.#mark}-(?<time>[0-9]{8}T[0-9]{9}Z)\\.backup(?<part>\\.part-[0-9a-f]{8})?$`);
    this.#triedMs = clock.monotonicMs();
    this.#cancel = timers.every(ASK_EVERY_MS, () => void this.backUpIfDue());
  }

  /** A plan under way; a first backup begins at once when one is due. */
  static start(options: BackupPlanOptions): BackupPlan {
    const plan = new BackupPlan(options);
    void plan.backUpIfDue();
    return plan;
  }

  /** How the last attempt of this process went, or when the newest file of an earlier one was made. */
  get last(): LastBackup | undefined {
    return this.#last;
  }

  /** When the newest good one was made, by this process or an earlier one; 0 while there is none. */
  get lastGoodMs(): number {
    return this.#lastGoodMs;
  }

  /** Resolves when no backup is under way; one that is, is given up. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#running;
  }

  /** Takes one now, whether one is due or not; when one is under way, after that. Throws when it fails. */
  async takeNow(): Promise<{ name: string; bytes: number }> {
    while (this.#running) await this.#running;
    let taken: { name: string; bytes: number } | undefined;
    let failure: unknown;
    this.#running = this.#take(this.#options.clock.nowMs())
      .then(
        (backup) => void (taken = backup),
        (error: unknown) => void (failure = error),
      )
      .finally(() => {
        this.#running = undefined;
      });
    await this.#running;
    if (!taken) throw failure;
    return taken;
  }

  /** Takes a backup if one is due. Never throws, and joins one that is under way. */
  backUpIfDue(): Promise<void> {
    this.#running ??= this.#attempt().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #attempt(): Promise<void> {
    const { clock, failed } = this.#options;
    try {
      if (!(await this.#isDue())) return;
      this.#triedMs = clock.monotonicMs();
      await this.#take(clock.nowMs());
    } catch (error) {
      if (this.#isStopped) return;
      this.#hasFailed = true;
      this.#triedMs = clock.monotonicMs();
      this.#last = { isGood: false, atMs: clock.nowMs() };
      failed(error);
    }
  }

  async #take(atMs: number): Promise<{ name: string; bytes: number }> {
    const backup = await this.#backUp(atMs);
    this.#hasFailed = false;
    this.#last = { isGood: true, atMs };
    this.#lastGoodMs = atMs;
    this.#options.written(backup);
    await this.#removeOld(atMs);
    return { name: this.#nameAt(atMs), bytes: backup.bytes };
  }

  #nameAt(atMs: number): string {
    return `poste-${this.#mark}-${timeName(atMs)}.backup`;
  }

  async #isDue(): Promise<boolean> {
    const { clock, everyMs } = this.#options;
    const sinceTriedMs = clock.monotonicMs() - this.#triedMs;
    if (this.#hasFailed) return sinceTriedMs >= Math.min(RETRY_MS, everyMs);
    const nowMs = clock.nowMs();
    const newestMs = (await this.#files(nowMs)).at(-1)?.timeMs;
    if (newestMs === undefined) return true;
    this.#last ??= { isGood: true, atMs: newestMs };
    this.#lastGoodMs ||= newestMs;
    return nowMs - newestMs >= everyMs || sinceTriedMs >= everyMs;
  }

  async #backUp(atMs: number): Promise<WrittenBackup> {
    const { engine, lostItems, folder, version } = this.#options;
    await this.#removeParts();
    const path = join(folder, this.#nameAt(atMs));
    const snapshot = await engine.snapshot();
    try {
      const chunks = snapshot.chunks({ created_at: atMs, version }, (damage) => lostItems.foundByBackup(damage));
      return await writeBackupFile(this.#untilStopped(chunks), { path, replaces: false });
    } finally {
      await snapshot.close();
    }
  }

  async *#untilStopped(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      if (this.#isStopped) throw new Error('the relay is stopping');
      yield chunk;
    }
  }

  async #removeOld(nowMs: number): Promise<void> {
    const { folder, keep } = this.#options;
    for (const { name } of (await this.#files(nowMs)).slice(0, -keep)) await rm(join(folder, name), { force: true });
  }

  /** What a process that ended in the middle of one left behind. */
  async #removeParts(): Promise<void> {
    const { folder } = this.#options;
    for (const name of await readdir(folder)) {
      if (this.#name.exec(name)?.groups?.['part'] !== undefined) await rm(join(folder, name), { force: true });
    }
  }

  /** The plan's own files, in the order they were made. */
  async #files(nowMs: number): Promise<{ name: string; timeMs: number }[]> {
    const files: { name: string; timeMs: number }[] = [];
    for (const name of await readdir(this.#options.folder)) {
      const { time, part } = this.#name.exec(name)?.groups ?? {};
      if (time === undefined || part !== undefined || !(await this.#isFile(name))) continue;
      const timeMs = timeOf(time);
      if (!Number.isNaN(timeMs)) files.push({ name, timeMs });
    }
    // One that lies ahead is of a clock that was set back since: all others are newer.
    const ordered = (timeMs: number): number => (timeMs > nowMs ? timeMs - Number.MAX_SAFE_INTEGER : timeMs);
    return files.toSorted((a, b) => ordered(a.timeMs) - ordered(b.timeMs));
  }

  async #isFile(name: string): Promise<boolean> {
    return (await stat(join(this.#options.folder, name))).isFile();
  }
}

/** `20251120T214823000Z`: to the millisecond, in UTC, sorted as text as by time. */
function timeName(timeMs: number): string {
  return new Date(timeMs).toISOString().replaceAll(/[-:.]/g, '');
}

function timeOf(name: string): number {
  const [year, month, day] = [name.slice(0, 4), name.slice(4, 6), name.slice(6, 8)];
  const [hour, minute, second, ms] = [name.slice(9, 11), name.slice(11, 13), name.slice(13, 15), name.slice(15, 18)];
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
}
