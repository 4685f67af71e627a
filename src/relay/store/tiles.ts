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
import { HASH_BYTES, perfectHash } from '../../protocol/merkle.ts';
import { decodeChecked } from './checked-value.ts';
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
