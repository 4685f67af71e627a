/**
 * Gives the disk space of collected items back while the relay has nothing else to do.
 *
 * LevelDB drops what was deleted when it compacts the table in which it lies, and it compacts when enough is written.
 * So the newest of what was acked stays on the disk until there is more mail, up to a write buffer of it twice over.
 *
 * Invariants:
 *   - nothing is compacted while anything is committed, and what comes meanwhile waits for no more than one piece;
 *   - nothing is compacted while the store is read as it was, since LevelDB then keeps what was deleted;
 *   - no more is rewritten than four times what was collected: a relay that keeps much and deletes little leaves it
 *     alone;
 *   - a compaction is told of after a write that followed it: LevelDB says of no error that a compaction met, and
 *     refuses the next write, which ends the relay;
 *   - `stop` waits for the piece under way, since LevelDB does not close before that.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { PREFIX, prefixRange } from '../store/keys.ts';
import type { RelayStore } from '../store/relay-store.ts';

/** A relay is idle when nothing was committed from one look to the next. */
const LOOK_EVERY_MS = 10_000;
/**
 * Less is not worth a compaction. At a start as much is presumed: the state that the process before left is not known.
 */
const WORTH_BYTES = 16 << 20;
const REWRITTEN_FACTOR = 4;
/** A range of more is compacted in pieces. A mailbox that holds more is one piece. */
const AT_ONCE_BYTES = 64 << 20;
/** Pieces are cut at the first two bytes of the target's key. */
const EDGES = 1 << 16;
/** The prefixes under which collected items lie. */
const PREFIXES = [PREFIX.payload, PREFIX.queue, PREFIX.expiry];

interface Range {
  gte: Buffer;
  lt: Buffer;
}

interface Piece extends Range {
  /** The size as LevelDB reckons it. */
  bytes: number;
}

/** The change that a compaction made, as LevelDB reckons. */
export interface Compaction {
  bytesBefore: number;
  bytesAfter: number;
  durationMs: number;
}

interface IdleCompactionOptions {
  store: Pick<RelayStore, 'lastLsn' | 'storedBytes' | 'compact'> & {
    collector: Pick<RelayStore['collector'], 'isPending' | 'collectedBytes'>;
  };
  /** Resolves to true when the disk has room for so many bytes more, while a piece is written. */
  hasRoomFor: (bytes: number) => Promise<boolean>;
  /** Returns true when anything reads the store as it was. */
  isRead: () => boolean;
  /** Writes to the store. Rejects when it takes no write. */
  write: () => Promise<void>;
  clock: Pick<Clock, 'monotonicMs'>;
  timers: Timers;
  onCompacted: (compacted: Compaction) => void;
  onError: (error: unknown) => void;
}

/** A run looks once; the look may become a compaction. */
export class IdleCompaction extends PeriodicTask {
  readonly #options: IdleCompactionOptions;
  #seenLsn: number | undefined;
  /** Bytes given back, of those that the collector counts. */
  #givenBack = -WORTH_BYTES;

  constructor(options: IdleCompactionOptions) {
    const { timers, onError } = options;
    super({ timers, everyMs: LOOK_EVERY_MS, work: (signal) => this.#look(signal), onError });
    this.#options = options;
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { lastLsn, collector } = this.#options.store;
    const isIdle = lastLsn === this.#seenLsn && !collector.isPending && !this.#options.isRead();
    this.#seenLsn = lastLsn;
    const collectedBytes = collector.collectedBytes - this.#givenBack;
    if (isIdle && collectedBytes >= WORTH_BYTES) await this.#compact(collectedBytes, signal);
  }

  async #compact(collectedBytes: number, signal: AbortSignal): Promise<void> {
    const { store, hasRoomFor, isRead, write, clock, onCompacted } = this.#options;
    const startedMs = clock.monotonicMs();
    const { lastLsn } = store;
    const bytesBefore = await this.#bytes();
    if (bytesBefore > REWRITTEN_FACTOR * collectedBytes) return;
    for (const prefix of PREFIXES) {
      for (const piece of await this.#pieces(prefix)) {
        const isToEnd = !(await hasRoomFor(piece.bytes)) || signal.aborted || store.lastLsn !== lastLsn || isRead();
        if (isToEnd) return;
        await store.compact(piece);
      }
    }
    await write();
    // A reader that began meanwhile may have kept something: then all is done again.
    if (isRead()) return;
    this.#givenBack += collectedBytes;
    const bytesAfter = await this.#bytes();
    onCompacted({ bytesBefore, bytesAfter, durationMs: clock.monotonicMs() - startedMs });
  }

  async #pieces(prefix: number, from = 0, to = EDGES): Promise<Piece[]> {
    const { lt } = prefixRange(prefix);
    const range = {
      gte: from === 0 ? Buffer.of(prefix) : edge(prefix, from),
      lt: to === EDGES ? lt : edge(prefix, to),
    };
    const bytes = await this.#options.store.storedBytes(range);
    if (bytes <= AT_ONCE_BYTES || to - from === 1) return [{ ...range, bytes }];
    const middle = (from + to) / 2;
    return [...(await this.#pieces(prefix, from, middle)), ...(await this.#pieces(prefix, middle, to))];
  }

  async #bytes(): Promise<number> {
    let bytes = 0;
    for (const prefix of PREFIXES) bytes += await this.#options.store.storedBytes(prefixRange(prefix));
    return bytes;
  }
}

function edge(prefix: number, at: number): Buffer {
  return Buffer.of(prefix, at >> 8, at & 0xff);
}
