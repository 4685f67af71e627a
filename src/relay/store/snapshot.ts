/**
 * A store at one moment, to be read while it goes on.
 *
 * It keeps what was stored at that moment readable, however much is deleted meanwhile: close it, whatever becomes of
 * the reading.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { RelayRow } from '../core/rows.ts';
import { REPLAYED_TABLES } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { canonicalRows } from './row-checkpoints.ts';

/** Above every key. */
const LAST_KEY = Buffer.of(0xff);

/** One turn of the event loop: judging these rows takes about 2 ms. */
const TURN = { pairs: 250, bytes: 256 << 10 };

export class StoreSnapshot {
  readonly level: Level;
  readonly handle: LevelSnapshot;
  /** The relay row of that moment. */
  readonly relay: RelayRow;
  /** The last record of that moment. */
  readonly lsn: number;

  /** `relay` and `lsn` are of the moment at which this is called. */
  constructor(level: Level, relay: RelayRow, lsn: number) {
    this.level = level;
    this.handle = level.snapshot();
    this.relay = relay;
    this.lsn = lsn;
  }

  /** Bytes on disk, about: the last writes are not counted. */
  bytesAbout(): Promise<number> {
    return this.level.approximateSize(Buffer.alloc(0), LAST_KEY);
  }

  /** The rows, and the entries that name the senders of dedup rows, in runs of one turn of the event loop. */
  rows(): AsyncGenerator<Pair[]> {
    return canonicalRows(this.level, [...REPLAYED_TABLES, 'dedupUntil'], { snapshot: this.handle, ...TURN });
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}
