/**
 * Gives the disk space of collected items back while the relay has nothing else to do.
 *
 * LevelDB drops what was deleted when it compacts the table in which it lies, and it compacts when enough is written. So
 * the newest of what was acked stays on the disk until there is more mail, up to a write buffer of it twice over.
 *
 * Invariants:
 *   - nothing is compacted while anything is committed, and what comes meanwhile waits for no more than one piece;
 *   - no more is rewritten than four times what was collected: a relay that keeps much and deletes little leaves it alone;
 *   - `stop` waits for the piece under way, since LevelDB does not close before that.
 *
 * LevelDB tells of no error of a compaction. It refuses the next write after one, which ends the relay.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { PREFIX, prefixRange } from '../store/keys.ts';
import type { RelayStore } from '../store/relay-store.ts';

/** A relay is idle when nothing was committed from one look to the next. */
const LOOK_EVERY_MS = 10_000;
/** Less is not worth a compaction. At a start as much is presumed: what the process before left is not known. */
const WORTH_BYTES = 16 << 20;
const REWRITTEN_FACTOR = 4;
/** A range of more is compacted in pieces. */
const AT_ONCE_BYTES = 64 << 20;
const PIECES = 16;
/** Where what is collected lies. */
const PREFIXES = [PREFIX.payload, PREFIX.queue, PREFIX.expiry];

interface Piece {
  gte: Buffer;
  lt: Buffer;
}

/** What a compaction changed, as LevelDB reckons. */
export interface Compacted {
  bytesBefore: number;
  bytesAfter: number;
  durationMs: number;
}

interface IdleCompactionOptions {
  store: Pick<RelayStore, 'lastLsn' | 'storedBytes' | 'compact'> & {
    collector: Pick<RelayStore['collector'], 'isPending' | 'collectedBytes'>;
  };
  /** Whether the disk has room for so many bytes more. */
  hasRoom: (bytes: number) => boolean;
  clock: Pick<Clock, 'monotonicMs'>;
  timers: Timers;
  onCompacted: (compacted: Compacted) => void;
  onError: (error: unknown) => void;
}

export class IdleCompaction {
  readonly #options: IdleCompactionOptions;
  readonly #task: PeriodicTask;
  #seenLsn: number | undefined;
  /** Of what the collector counts: so much was given back. */
  #givenBack = -WORTH_BYTES;

  constructor(options: IdleCompactionOptions) {
    const { timers, onError } = options;
    this.#options = options;
    this.#task = new PeriodicTask({
      timers,
      everyMs: LOOK_EVERY_MS,
      work: (signal) => this.#look(signal),
      onError,
    });
  }

  /** Looks now, or joins the look under way, which may be a compaction. Never rejects. */
  look(): Promise<void> {
    return this.#task.run();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { lastLsn, collector } = this.#options.store;
    const isIdle = lastLsn === this.#seenLsn && !collector.isPending;
    this.#seenLsn = lastLsn;
    const collectedBytes = collector.collectedBytes - this.#givenBack;
    if (isIdle && collectedBytes >= WORTH_BYTES) await this.#compact(collectedBytes, signal);
  }

  async #compact(collectedBytes: number, signal: AbortSignal): Promise<void> {
    const { store, hasRoom, clock, onCompacted } = this.#options;
    const startedMs = clock.monotonicMs();
    const { lastLsn } = store;
    const bytesBefore = await this.#bytesOf(PREFIXES.map(prefixRange));
    if (bytesBefore > REWRITTEN_FACTOR * collectedBytes || !hasRoom(bytesBefore)) return;
    for (const prefix of PREFIXES) {
      for (const piece of await this.#piecesOf(prefix)) {
        if (signal.aborted || store.lastLsn !== lastLsn) return;
        await store.compact(piece);
      }
    }
    this.#givenBack += collectedBytes;
    const bytesAfter = await this.#bytesOf(PREFIXES.map(prefixRange));
    onCompacted({ bytesBefore, bytesAfter, durationMs: clock.monotonicMs() - startedMs });
  }

  /** The whole range, or parts of it by the first byte of the target's key. */
  async #piecesOf(prefix: number): Promise<Piece[]> {
    const whole = prefixRange(prefix);
    if ((await this.#bytesOf([whole])) <= AT_ONCE_BYTES) return [whole];
    const edges = Array.from({ length: PIECES }, (_none, at) => Buffer.of(prefix, (256 / PIECES) * at));
    return edges.map((gte, at) => ({ gte, lt: edges[at + 1] ?? whole.lt }));
  }

  async #bytesOf(ranges: readonly Piece[]): Promise<number> {
    let bytes = 0;
    for (const range of ranges) bytes += await this.#options.store.storedBytes(range);
    return bytes;
  }
}
