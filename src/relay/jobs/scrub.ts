/**
 * The daily scrub: compares the stored bytes of everything that waits with the hashes that were accepted, and every row
 * with its checksum.
 *
 * LevelDB checks nothing when it reads, so damage on the disk would be found only when the data is needed, perhaps
 * weeks later. Lost wire bytes are handled as at a pull (engine/lost-items.ts); a damaged row is recorded by the store
 * (store/scan.ts).
 *
 * Invariants:
 *   - small slices, each followed by a pause at least nine times as long: a pass takes a tenth of the event loop and of
 *     the disk, about 10 MB/s, and never holds more than one slice in memory;
 *   - a pass begins at a random queue and goes round, so that a relay that is always restarted before a pass ends still
 *     checks everything in time. Therefore nothing of a pass is stored.
 */
import { hasHash } from '../../protocol/encodings.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { QueueRow } from '../core/rows.ts';
import { type Clock, type RandomBytes, type Timers, pause } from '../../lib/clock.ts';
import { paceWork } from '../../lib/pace.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { Engine } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import { FIRST_PLACE, LAST_PLACE, placeOf, FIRST_ROW } from '../store/scan.ts';

/** A start has enough to do. */
const FIRST_AFTER_MS = 10 * 60_000;
const SCRUB_EVERY_MS = DAY_MS;
/** Wire bytes of one slice, about: read and hashed in a few milliseconds. */
const SLICE_BYTES = 512 << 10;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 10_000;
/** The part of the time that a pass takes. */
const SHARE = 0.1;
const KEY_BYTES = 32;

export interface ScrubPass {
  atMs: number;
  /** Items whose bytes were compared. */
  items: number;
  bytes: number;
  /** Items whose bytes were missing or altered, and that still waited. */
  lost: number;
  /** Rows of items that cannot be read: a scrub can do nothing about those. */
  unreadable: number;
  durationMs: number;
}

interface ScrubOptions {
  engine: Pick<Engine, 'waitingSlice' | 'checkRows' | 'payloads'>;
  lostItems: Pick<LostItems, 'report' | 'reportUnreadable'>;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  /** Gets the number of items that were compared, after each slice. */
  onScrubbed: (items: number) => void;
  /** Gets every complete pass. */
  onPassEnded: (pass: ScrubPass) => void;
  onError: (error: unknown) => void;
}

/** A run makes one pass over everything that waits. */
export class Scrub extends PeriodicTask {
  readonly #options: ScrubOptions;
  #last: ScrubPass | undefined;

  /** Starts the timers: a pass soon, and one each day. */
  constructor(options: ScrubOptions) {
    const { timers, onError } = options;
    super({ timers, firstAfterMs: FIRST_AFTER_MS, everyMs: SCRUB_EVERY_MS, work: () => this.#pass(), onError });
    this.#options = options;
  }

  /** The last complete pass of this process. */
  get last(): ScrubPass | undefined {
    return this.#last;
  }

  get #isStopped(): boolean {
    return this.signal.aborted;
  }

  async #pass(): Promise<void> {
    const { lostItems, clock, randomBytes, onPassEnded } = this.#options;
    const startedMs = clock.monotonicMs();
    const pass: ScrubPass = { atMs: 0, items: 0, bytes: 0, lost: 0, unreadable: 0, durationMs: 0 };
    const begin = placeOf(randomBytes(KEY_BYTES));
    try {
      const { monotonicMs } = clock;
      await paceWork(this.#slices(begin, pass), { share: SHARE, monotonicMs, rest: (ms) => this.#rest(ms) });
    } catch (error) {
      // A store that failed ends the process by itself.
      if (error instanceof StoreFailed) return;
      throw error;
    }
    if (this.#isStopped) return;
    lostItems.reportUnreadable(pass.unreadable, 'scrub');
    this.#last = { ...pass, atMs: clock.nowMs(), durationMs: clock.monotonicMs() - startedMs };
    onPassEnded(this.#last);
  }

  async *#slices(begin: Buffer, pass: ScrubPass): AsyncGenerator<void, void, void> {
    const { engine } = this.#options;
    yield* this.#compareItems(begin, LAST_PLACE, pass);
    yield* this.#compareItems(FIRST_PLACE, begin, pass);
    for (let place = await engine.checkRows(FIRST_ROW); place; place = await engine.checkRows(place)) yield;
  }

  async *#compareItems(after: Buffer, through: Buffer, pass: ScrubPass): AsyncGenerator<void, void, void> {
    const { engine } = this.#options;
    for (let place = after; ; ) {
      const slice = await engine.waitingSlice(place, through, SLICE_BYTES);
      if (!slice) return;
      pass.unreadable += slice.unreadable;
      for (const rows of byTarget(slice.rows)) await this.#compare(rows, pass);
      place = slice.place;
      yield;
    }
  }

  async #compare(rows: readonly QueueRow[], pass: ScrubPass): Promise<void> {
    const { engine, lostItems, onScrubbed } = this.#options;
    // A readable row may still name a position that cannot exist; it must not hide the others.
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
    onScrubbed(rows.length);
  }

  async #rest(ms: number): Promise<boolean> {
    await pause(this.#options.timers, Math.min(Math.max(PAUSE_MIN_MS, ms), PAUSE_MAX_MS), this.signal);
    return !this.#isStopped;
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
