/**
 * The hashes of perfect subtrees, made of those in tiles (log-tree.ts).
 *
 * A proof asks a tile for up to eight of them, and they stand on all of its hashes but one. So all that lie in a tile
 * are made when one is asked for, which is as much work, and the tiles that were asked last keep theirs.
 *
 * Nothing kept here ever changes: a tile only grows, by hashes that are durable, and a perfect subtree has all of its
 * leaves. A tile that has grown since gets what is missing when that is asked for.
 */
import { keepRecent } from '../../lib/recent.ts';
import { HASH_BYTES, writeNodeHash } from '../../protocol/merkle.ts';
import { DamagedRecord } from './record.ts';

/** Hashes in a full tile. */
export const TILE_HASHES = 256;
/** Levels of the tree from the hashes of one tile to those of the next. */
const TILE_LEVELS = 8;
/** Tiles that stay: 4 MiB with what lies in them. */
const TILES_MAX = 256;

/** The hashes of a tile, one behind another. Throws `DamagedRecord` where they are not what was stored. */
export type TileReader = (tileLevel: number, tileIndex: number) => Buffer;

/** For the trees of one log. */
export class TileNodes {
  /** By tree and place; the one that was asked last is the last. */
  readonly #tiles = new Map<string, NodesOfTile>();

  /** The hash of a perfect subtree of the tree from `firstLsn` on (`HashReader`). Throws `DamagedRecord`. */
  hash(firstLsn: number, level: number, index: number, hashesOf: TileReader): Buffer {
    const levelInTile = level % TILE_LEVELS;
    const first = index * 2 ** levelInTile;
    const [tileLevel, tileIndex] = [Math.floor(level / TILE_LEVELS), Math.floor(first / TILE_HASHES)];
    const place = `${firstLsn} ${tileLevel} ${tileIndex}`;
    const tile = this.#tiles.get(place) ?? new NodesOfTile();
    const indexInTile = (first % TILE_HASHES) >>> levelInTile;
    if (!tile.has(levelInTile, indexInTile)) tile.grow(hashesOf(tileLevel, tileIndex));
    keepRecent(this.#tiles, place, tile, TILES_MAX);
    return tile.hash(levelInTile, indexInTile);
  }
}

class NodesOfTile {
  /** The hashes of the tile, then those of each level above them, but for the last: it is a hash of another tile. */
  readonly #nodes = Buffer.allocUnsafeSlow((2 * TILE_HASHES - 2) * HASH_BYTES);
  /** So many hashes of the tile are here. */
  #count = 0;

  has(level: number, index: number): boolean {
    return (index + 1) * 2 ** level <= this.#count;
  }

  /** `hashes` are all that the tile has. */
  grow(hashes: Buffer): void {
    const [from, through] = [this.#count, hashes.length / HASH_BYTES];
    if (through <= from) return;
    hashes.copy(this.#nodes, from * HASH_BYTES, from * HASH_BYTES);
    for (let level = 1; level < TILE_LEVELS; level++)
      for (let index = from >>> level; index < through >>> level; index++)
        writeNodeHash(this.#nodes, placeOf(level - 1, 2 * index), placeOf(level, index));
    this.#count = through;
  }

  hash(level: number, index: number): Buffer {
    if (!this.has(level, index)) throw new DamagedRecord('a part of the hash tree is missing');
    const at = placeOf(level, index);
    return this.#nodes.subarray(at, at + HASH_BYTES);
  }
}

/** The place of the nth hash of a level among all of a tile, in bytes. */
function placeOf(level: number, index: number): number {
  return (2 * TILE_HASHES - (2 * TILE_HASHES) / 2 ** level + index) * HASH_BYTES;
}
