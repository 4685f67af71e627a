/**
 * The rows as a replay gives them, whatever the collector has done so far: queue rows that were acked and dedup rows
 * whose time was purged are left out, because nobody knows them any more.
 */
import { createHash } from 'node:crypto';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { KEY_BYTES, PREFIX, type REPLAYED_TABLES, firstKeyOf, prefixRange, seqOf } from './keys.ts';
import type { Level } from './level.ts';
import { type Pair, pairLengths } from '../../system/pair-block.ts';
import { type RunsOptions, runsOf } from './pairs.ts';
import { decodeRow } from './row-codec.ts';

/** A table, or the index that says of whom dedup rows are. */
export type KeptTable = (typeof REPLAYED_TABLES)[number] | 'dedupUntil';

/** The pairs of these tables, which ascend; runs may be empty. */
export async function* canonicalRows(
  level: Level,
  tables: readonly KeptTable[],
  options?: RunsOptions,
): AsyncGenerator<Pair[]> {
  const known = new KnownRows();
  for (const table of tables) {
    for await (const run of runsOf(level, prefixRange(PREFIX[table]), options)) {
      yield run.filter(([key, value]) => key.length === KEY_BYTES[PREFIX[table]] && known.has(table, key, value));
    }
  }
}

/** Which rows are known; asked in the order of the tables, of which the first ones decide. */
class KnownRows {
  readonly #ackedThrough = new Map<PublicKey, number>();
  #purgedMs = 0;

  has(table: KeptTable, key: Buffer, value: Buffer): boolean {
    switch (table) {
      case 'relay':
        this.#purgedMs = decodeRow('relay', '', value).dedupPurgedMs;
        return true;
      case 'target': {
        const { ackedThrough } = decodeRow('target', '', value);
        if (ackedThrough > 0) this.#ackedThrough.set(firstKeyOf(key), ackedThrough);
        return true;
      }
      case 'queue':
        return seqOf(key) > (this.#ackedThrough.get(firstKeyOf(key)) ?? 0);
      case 'dedup':
        return decodeRow('dedup', '', value).dedupUntilMs > this.#purgedMs;
      default:
        return true;
    }
  }
}

/** Counts and hashes what `canonicalRows` gives. */
export class RowsDigest {
  rows = 0;
  readonly #rows = createHash('sha256');
  readonly #due = createHash('sha256');

  add(pair: Pair): void {
    const isRow = pair[0][0] !== PREFIX.dedupUntil;
    if (isRow) this.rows++;
    const hash = isRow ? this.#rows : this.#due;
    hash.update(pairLengths(pair)).update(pair[0]).update(pair[1]);
  }

  /** Of everything that was added; nothing can be added afterwards. */
  taken(): { rows: number; rowsHash: Sha256Hex; dueHash: Sha256Hex } {
    const { rows } = this;
    return { rows, rowsHash: this.#rows.digest('hex') as Sha256Hex, dueHash: this.#due.digest('hex') as Sha256Hex };
  }
}
