/**
 * The damaged rows of an open store: those that a read came across, and those that the daily walk over all rows finds.
 *
 * Every request that needs a damaged row is refused until a rebuild, so the operator is told of each row once, at the
 * first read that fails.
 */
import { DamagedRow, ROW_PREFIXES, wholeBytes } from './checksum.ts';
import { KEY_BYTES, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { rowKind, rowName } from './row-name.ts';

/** A disk that loses its bits may damage thousands: these are kept, and the others are as good as these. */
const KEPT_MAX = 1000;

export interface FoundRow {
  /** The table, or what else it is. */
  kind: string;
  /** As `rowName` has it. */
  name: string;
}

export class DamagedRows {
  readonly #found = new Map<string, FoundRow>();
  #told: (row: FoundRow) => void = () => undefined;

  /** Those that were found, the first thousand of them, in the order in which they were. */
  get all(): FoundRow[] {
    return [...this.#found.values()];
  }

  get count(): number {
    return this.#found.size;
  }

  note({ key }: DamagedRow): void {
    const mark = key.toString('latin1');
    if (this.#found.has(mark) || this.#found.size >= KEPT_MAX) return;
    const row = { kind: rowKind(key), name: rowName(key) };
    this.#found.set(mark, row);
    this.#told(row);
  }

  /** `told` hears of every row once, of those that were found before as well. */
  tell(told: (row: FoundRow) => void): void {
    this.#told = told;
    for (const row of this.#found.values()) told(row);
  }
}

/** Checking these rows takes about a millisecond. */
const ROWS_AT_ONCE = 500;
const READ_BYTES = 128 << 10;

/** Before every row. */
export const FIRST_ROW: Buffer = Buffer.alloc(0);

interface WalkedRows {
  damaged: DamagedRow[];
  /** Where the next slice begins. */
  place: Buffer;
}

/**
 * Compares the next rows behind `after` with their checksums; `undefined` when there are none. This also finds a row that
 * lies under the key of another. No iterator stays open between two slices.
 */
export async function damagedBehind(level: Level, after: Buffer): Promise<WalkedRows | undefined> {
  for (const prefix of ROW_PREFIXES) {
    const { gte, lt } = prefixRange(prefix);
    if (Buffer.compare(after, lt) >= 0) continue;
    const from = Buffer.compare(after, gte) >= 0 ? { gt: after } : { gte };
    const reading = { limit: ROWS_AT_ONCE, fillCache: false, highWaterMarkBytes: READ_BYTES };
    const rows = await level.iterator({ ...from, lt, ...reading }).all();
    const last = rows.at(-1);
    if (!last) continue;
    const damaged = rows.filter(([key, value]) => key.length !== KEY_BYTES[prefix] || !wholeBytes(key, value));
    const place = last[0];
    return { damaged: damaged.map(([key]) => new DamagedRow(key, 'does not match its checksum')), place };
  }
  return undefined;
}
