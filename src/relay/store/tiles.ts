/**
 * What the store keeps of the trees over its log, to the byte. DO NOT CHANGE: add a prefix (keys.ts).
 *
 *   0..3   CRC-32 (ISO-HDLC) of the key followed by what comes next, u32, big-endian
 *   4..    of a tile, hashes of 32 bytes: the nth is that of the subtree of 256^level leaves from leaf
 *          (index × 256 + n) × 256^level on. 256 of them, and fewer in the last tile of a level of an epoch that ended
 *          of a first leaf, its bytes (log-link.ts)
 *
 * Tiles are those of c2sp.org/tlog-tiles. The checksum is our own for the reason that records have one: a flipped bit
 * in a hash would make the relay sign a tree that is not the one it signed before.
 */
import { HASH_BYTES, perfectHash, rootHash } from '../../protocol/merkle.ts';
import { decodeChecked } from './checksum.ts';
import { DamagedRecord } from './record.ts';

/** Hashes in a full tile. */
export const TILE_HASHES = 256;
/** Levels of the tree from the hashes of one tile to those of the next. */
const TILE_LEVELS = 8;

export interface Tile {
  level: number;
  index: number;
  hashes: Buffer;
}

/** Throws `DamagedRecord` for bytes that were not written under this key. */
export function decodeTreePart(key: Buffer, value: Buffer | undefined): Buffer {
  return decodeChecked(key, value, 'a part of the hash tree');
}

/** The hash of a perfect subtree (`HashReader`), out of the tile that it lies in. */
export function hashInTiles(
  level: number,
  index: number,
  hashesOf: (tileLevel: number, tileIndex: number) => Buffer,
): Buffer {
  const width = 2 ** (level % TILE_LEVELS);
  const first = index * width;
  const hashes = hashesOf(Math.floor(level / TILE_LEVELS), Math.floor(first / TILE_HASHES));
  const at = (first % TILE_HASHES) * HASH_BYTES;
  const end = at + width * HASH_BYTES;
  if (end > hashes.length) throw new DamagedRecord('a part of the hash tree is missing');
  return perfectHash(hashes.subarray(at, end));
}

/**
 * The right edge of a growing tree: at each level of tiles, the hashes of the tile that is not full yet.
 *
 * A tree needs no more to grow and to compute its root: at most 255 hashes a level, whatever its size. Pure.
 */
export class TreeEdge {
  /** By level. */
  readonly #hashes: Buffer[][];
  #size: number;

  /** Of stored tiles: for each level the hashes that no full tile of that level holds. */
  constructor(hashes: readonly (readonly Buffer[])[] = []) {
    this.#hashes = hashes.map((level) => [...level]);
    this.#size = hashes.reduce((size, level, at) => size + level.length * TILE_HASHES ** at, 0);
  }

  /** Leaves of the whole tree. */
  get size(): number {
    return this.#size;
  }

  copy(): TreeEdge {
    return new TreeEdge(this.#hashes);
  }

  /** Adds a leaf by its hash. Answers the tiles that it fills. */
  add(leaf: Buffer): Tile[] {
    const filled: Tile[] = [];
    let hash = leaf;
    this.#size++;
    for (let level = 0; ; level++) {
      const hashes = (this.#hashes[level] ??= []);
      hashes.push(hash);
      if (hashes.length < TILE_HASHES) return filled;
      const tile = { level, index: this.#fullTiles(level) - 1, hashes: Buffer.concat(hashes) };
      filled.push(tile);
      this.#hashes[level] = [];
      hash = perfectHash(tile.hashes);
    }
  }

  /** The tiles that are begun and not full. */
  begun(): Tile[] {
    return this.#hashes.flatMap((hashes, level) =>
      hashes.length === 0 ? [] : [{ level, index: this.#fullTiles(level), hashes: Buffer.concat(hashes) }],
    );
  }

  /** The hashes of a tile that is begun and not full; `undefined` of any other. */
  hashesOf(level: number, index: number): Buffer | undefined {
    return index === this.#fullTiles(level) ? Buffer.concat(this.#hashes[level] ?? []) : undefined;
  }

  root(): Buffer {
    return rootHash(this.#size, (level, index) =>
      hashInTiles(level, index, (tileLevel, tileIndex) => {
        const hashes = this.hashesOf(tileLevel, tileIndex);
        if (!hashes) throw new Error('invariant: the root is made of the edge alone');
        return hashes;
      }),
    );
  }

  #fullTiles(level: number): number {
    return Math.floor(this.#size / TILE_HASHES ** (level + 1));
  }
}
