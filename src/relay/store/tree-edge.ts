/**
 * The right edge of a growing tree: at each level of tiles, the hashes of the tile that is not full yet.
 *
 * That is all a tree needs to grow and to tell its root: at most 255 hashes a level, whatever its size. Pure.
 */
import { perfectHash, rootHash } from '../../protocol/merkle.ts';
import { TILE_HASHES, type Tile, hashInTiles } from './tiles.ts';

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
