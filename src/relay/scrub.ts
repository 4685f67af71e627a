/**
 * The daily scrub: the stored bytes of everything that waits against the hashes that were accepted.
 *
 * LevelDB checks nothing when it reads, so what the disk altered would be found when its target pulls it, and perhaps
 * weeks later. What is found here is dealt with as a pull does it: see engine/lost-items.ts.
 *
 * Invariants:
 *   - small slices, each followed by a pause at least nine times as long: a pass takes a tenth of a loop and of a disk,
 *     and about 10 MB/s, and never more than one slice is in memory;
 *   - a pass begins at a queue of chance and goes round, so that a relay that is restarted before a pass ends still
 *     comes by everything in time. So nothing of a pass is stored.
 */
import { hasHash } from '../protocol/digest.ts';
import { DAY_MS } from '../protocol/limits.ts';
import type { QueueRow } from './core/rows.ts';
import type { Cancel, Clock, RandomBytes, Timers } from './engine/ambient.ts';
import { StoreFailed } from './engine/committer.ts';
import type { Engine } from './engine/engine.ts';
import type { LostItems } from './engine/lost-items.ts';
import { FIRST_PLACE, LAST_PLACE, placeOf } from './store/queue-walk.ts';

/** Starts have enough to do. */
const FIRST_AFTER_MS = 10 * 60_000;
const SCRUB_EVERY_MS = DAY_MS;
/** Wire bytes of one slice, about: read and hashed in a few milliseconds. */
const SLICE_BYTES = 512 << 10;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 10_000;
/** How many times as long as its slice a pause is. */
const PAUSE_FACTOR = 9;
const KEY_BYTES = 32;

/** What a pass came to. */
export interface ScrubPass {
  /** When it ended. */
  atMs: number;
  /** Items whose bytes were compared. */
  items: number;
  /** Their wire bytes. */
  bytes: number;
  /** Items whose bytes were missing or altered, and that still waited. */
  lost: number;
  /** Rows of items that cannot be read: nothing can be said or done about those here. */
  unreadable: number;
  durationMs: number;
}

export interface ScrubOptions {
  engine: Engine;
  lostItems: LostItems;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  /** Told after each slice how many items were compared. */
  scrubbed: (items: number) => void;
  /** Told of every pass that came to its end. */
  ended: (pass: ScrubPass) => void;
  /** Told of what should not happen. */
  unexpected: (error: unknown) => void;
}

export class Scrub {
  readonly #options: ScrubOptions;
  readonly #cancels: Cancel[];
  #running: Promise<void> | undefined;
  #endPause: () => void = () => undefined;
  #isStopped = false;
  #last: ScrubPass | undefined;

  /** Starts the timers: a pass soon, and one each day. */
  constructor(options: ScrubOptions) {
    const { timers } = options;
    this.#options = options;
    this.#cancels = [
      timers.after(FIRST_AFTER_MS, () => void this.pass()),
      timers.every(SCRUB_EVERY_MS, () => void this.pass()),
    ];
  }

  /** The last pass of this process that came to its end. */
  get last(): ScrubPass | undefined {
    return this.#last;
  }

  /** One pass over everything that waits, or the one that is under way. Never rejects. */
  pass(): Promise<void> {
    this.#running ??= this.#pass().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when no pass is under way; one that is, is given up. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#endPause();
    await this.#running;
  }

  async #pass(): Promise<void> {
    const { lostItems, clock, randomBytes, ended, unexpected } = this.#options;
    const startedMs = clock.monotonicMs();
    const pass: ScrubPass = { atMs: 0, items: 0, bytes: 0, lost: 0, unreadable: 0, durationMs: 0 };
    const begin = placeOf(randomBytes(KEY_BYTES));
    try {
      await this.#walk(begin, LAST_PLACE, pass);
      await this.#walk(FIRST_PLACE, begin, pass);
    } catch (error) {
      // A store that failed says so by itself.
      if (!(error instanceof StoreFailed) && !this.#isStopped) unexpected(error);
      return;
    }
    if (this.#isStopped) return;
    lostItems.tellUnreadable(pass.unreadable, 'scrub');
    this.#last = { ...pass, atMs: clock.nowMs(), durationMs: clock.monotonicMs() - startedMs };
    ended(this.#last);
  }

  async #walk(after: Buffer, through: Buffer, pass: ScrubPass): Promise<void> {
    const { engine, clock } = this.#options;
    for (let place = after; !this.#isStopped; ) {
      const startedMs = clock.monotonicMs();
      const slice = await engine.waitingSlice(place, through, SLICE_BYTES);
      if (!slice) return;
      pass.unreadable += slice.unreadable;
      for (const rows of byTarget(slice.rows)) await this.#compare(rows, pass);
      place = slice.place;
      const tookMs = clock.monotonicMs() - startedMs;
      await this.#pause(Math.min(Math.max(PAUSE_MIN_MS, PAUSE_FACTOR * tookMs), PAUSE_MAX_MS));
    }
  }

  async #compare(rows: readonly QueueRow[], pass: ScrubPass): Promise<void> {
    const { engine, lostItems, scrubbed } = this.#options;
    // A row may be readable and still name a place that there cannot be: it is to hide none of the others.
    const wires = await engine.payloads(rows).catch(() => undefined);
    if (!wires) {
      if (rows.length === 1) pass.unreadable++;
      else for (const row of rows) await this.#compare([row], pass);
      return;
    }
    const lost = rows.filter((row, at) => !hasHash(wires[at], row.wireHash));
    if (lost.length > 0) pass.lost += await lostItems.report(lost, 'scrub');
    pass.items += rows.length;
    for (const wire of wires) pass.bytes += wire?.length ?? 0;
    scrubbed(rows.length);
  }

  async #pause(ms: number): Promise<void> {
    if (this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#options.timers.after(ms, resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }
}

/** Runs of rows of one target: their wire bytes lie together. */
function* byTarget(rows: readonly QueueRow[]): Generator<QueueRow[]> {
  let run: QueueRow[] = [];
  for (const row of rows) {
    if (run[0] && run[0].targetPubkey !== row.targetPubkey) {
      yield run;
      run = [];
    }
    run.push(row);
  }
  if (run.length > 0) yield run;
}
