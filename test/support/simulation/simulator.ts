/**
 * One queue of events and one clock for everything that happens in a simulation: no timer of the system, no file, no
 * socket and no thread takes part, so a run follows from its seed to the last byte of its history.
 *
 * The next event runs when every promise that the one before has settled was followed to its end. So a process can be
 * ended between any two awaits of it that wait for anything: events of a process that has ended do not run any more,
 * and what it waited for never comes.
 */
import { type Hash, createHash } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { Transform } from 'node:stream';
import zlib from 'node:zlib';
import type { Cancel, Timers } from '../../../src/lib/clock.ts';

/** A program that can be killed; what was begun in its name happens as long as it lives. */
export interface SimulatedProcess {
  isAlive: boolean;
}

interface SimulatedEvent {
  atMs: number;
  /** Events of one moment run in the order in which they were begun. */
  no: number;
  run: () => void;
  owner: SimulatedProcess | undefined;
}

const real = { setImmediate: globalThis.setImmediate, clearImmediate: globalThis.clearImmediate };
const realPackers = { createGzip: zlib.createGzip, gunzip: zlib.gunzip };

/** Lines of the history that are kept to be shown. */
const SHOWN_LINES = 400;

export class Simulator {
  /** Milliseconds since the run began, and parts of them. */
  nowMs = 0;
  /** Events that ran. */
  ran = 0;
  /** The end of the history. */
  readonly lines: string[] = [];
  readonly #queue: SimulatedEvent[] = [];
  #counted: { at: number; run: () => void }[] = [];
  readonly #hash: Hash = createHash('sha256');
  #no = 0;

  /** Calls `run` in `delayMs`, if its process lives then. */
  after(delayMs: number, run: () => void, owner?: SimulatedProcess): SimulatedEvent {
    const event = { atMs: this.nowMs + Math.max(0, delayMs), no: this.#no++, run, owner };
    this.#push(event);
    return event;
  }

  /** Calls `run` when so many more events have run, whatever they are. */
  afterEvents(count: number, run: () => void): void {
    this.#counted.push({ at: this.ran + count, run });
  }

  /** Resolves in `delayMs`; never, if the process has ended by then. */
  elapsed(delayMs: number, owner?: SimulatedProcess): Promise<void> {
    return new Promise((resolve) => this.after(delayMs, resolve, owner));
  }

  /** Timers of one process. */
  timersOf(owner: SimulatedProcess): Timers {
    const start = (ms: number, run: () => void, repeats: boolean): Cancel => {
      let isOver = false;
      const fire = (): void => {
        if (isOver) return;
        if (repeats) this.after(ms, fire, owner);
        run();
      };
      this.after(ms, fire, owner);
      return () => {
        isOver = true;
      };
    };
    return { after: (ms, run) => start(ms, run, false), every: (ms, run) => start(ms, run, true) };
  }

  /** Adds a line to the history. */
  note(line: string): void {
    const stamped = `${this.nowMs.toFixed(3)} ${line}`;
    this.#hash.update(`${stamped}\n`);
    this.lines.push(stamped);
    if (this.lines.length > 2 * SHOWN_LINES) this.lines.splice(0, SHOWN_LINES);
  }

  /** Returns the digest of all lines of the history; to be asked for once, at its end. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  /** Time passes in which nobody got to do anything: what was due in it is late. */
  skip(ms: number): void {
    this.nowMs += ms;
  }

  /** Runs one event after another until `isOver`, or until there is none. */
  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const event = this.#pop();
      if (!event) return;
      this.nowMs = Math.max(this.nowMs, event.atMs);
      if (event.owner && !event.owner.isAlive) continue;
      this.ran++;
      event.run();
      await settled();
      if (this.#counted.length > 0) this.#runCounted();
    }
  }

  /**
   * While `work` runs, what is put off to the next turn of the event loop comes in its turn of this queue, and so does
   * what a thread would have packed. It comes for a process that has ended as well: the time slices of all engines wait
   * in one list, and the disk of that process neither takes nor answers anything.
   */
  async inCharge(work: () => Promise<void>): Promise<void> {
    const immediates = new Set<SimulatedEvent>();
    const setSimulated = (run: (...given: unknown[]) => void, ...given: unknown[]): SimulatedEvent => {
      const event = this.after(0, () => {
        if (immediates.delete(event)) run(...given);
      });
      immediates.add(event);
      return event;
    };
    const clearSimulated = (event: unknown): void => {
      if (!immediates.delete(event as SimulatedEvent)) real.clearImmediate(event as NodeJS.Immediate);
    };
    const gunzip = (bytes: Buffer, options: zlib.ZlibOptions, done: (error: null, unpacked: Buffer) => void): void => {
      const unpacked = zlib.gunzipSync(bytes, options);
      this.after(0, () => done(null, unpacked));
    };
    const createGzip = (options: zlib.ZlibOptions): Transform =>
      new Transform({
        transform: (bytes: Buffer, _encoding, done) => {
          const packed = zlib.gzipSync(bytes, options);
          this.after(0, () => done(null, packed));
        },
      });
    Object.assign(globalThis, { setImmediate: setSimulated, clearImmediate: clearSimulated });
    replacePackers({ createGzip, gunzip });
    try {
      await work();
    } finally {
      Object.assign(globalThis, real);
      replacePackers(realPackers);
      // Whatever waits in a list that outlives the run goes on there.
      for (const { run } of immediates) real.setImmediate(run);
    }
  }

  #runCounted(): void {
    const due = this.#counted.filter(({ at }) => at <= this.ran);
    this.#counted = this.#counted.filter(({ at }) => at > this.ran);
    for (const { run } of due) run();
  }

  // A binary heap: thousands of events wait at a time.

  #push(event: SimulatedEvent): void {
    const queue = this.#queue;
    let at = queue.push(event) - 1;
    for (let above = (at - 1) >> 1; at > 0 && isBefore(event, queue[above]!); above = (at - 1) >> 1) {
      queue[at] = queue[above]!;
      at = above;
    }
    queue[at] = event;
  }

  #pop(): SimulatedEvent | undefined {
    const queue = this.#queue;
    const first = queue[0];
    const last = queue.pop();
    if (!first || !last || queue.length === 0) return first;
    let at = 0;
    for (let below = 1; below < queue.length; below = 2 * at + 1) {
      if (below + 1 < queue.length && isBefore(queue[below + 1]!, queue[below]!)) below++;
      if (!isBefore(queue[below]!, last)) break;
      queue[at] = queue[below]!;
      at = below;
    }
    queue[at] = last;
    return first;
  }
}

/** For whoever imported them too. */
function replacePackers(packers: object): void {
  for (const [name, value] of Object.entries(packers)) Object.defineProperty(zlib, name, { value });
  syncBuiltinESMExports();
}

function isBefore(one: SimulatedEvent, other: SimulatedEvent): boolean {
  return one.atMs === other.atMs ? one.no < other.no : one.atMs < other.atMs;
}

/** Every promise that could go on has gone on: a turn of the real event loop comes after all of them. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    real.setImmediate(resolve);
  });
}
