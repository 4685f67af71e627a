import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { caught } from '../../../../src/lib/caught.ts';
import { HASH_BYTES, leafHash, perfectHash } from '../../../../src/protocol/merkle.ts';
import { DamagedRecord } from '../../../../src/relay/store/record.ts';
import { TILE_HASHES, TileNodes } from '../../../../src/relay/store/tile-nodes.ts';

const hashOf = (...number: number[]): Buffer => leafHash(Buffer.from(number.join(' ')));

/** Hashes of one tile, which it shows the first `count` of; and how often it was read. */
class Tile {
  readonly hashes = Buffer.concat(Array.from({ length: TILE_HASHES }, (_none, at) => hashOf(at)));
  count = TILE_HASHES;
  reads = 0;

  readonly read = (): Buffer => {
    this.reads++;
    return this.hashes.subarray(0, this.count * HASH_BYTES);
  };

  naive(level: number, index: number): Buffer {
    const width = 2 ** level * HASH_BYTES;
    return perfectHash(this.hashes.subarray(index * width, (index + 1) * width));
  }
}

test('a tile that grows gives each hash that its leaves make, and none before', () => {
  const asked = fc.tuple(fc.nat(TILE_HASHES), fc.array(fc.tuple(fc.nat(7), fc.nat(TILE_HASHES - 1)), { maxLength: 9 }));
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 6 }), (growths) => {
      const [tile, nodes] = [new Tile(), new TileNodes()];
      tile.count = 0;
      for (const [count, places] of growths) {
        tile.count = Math.max(tile.count, count);
        for (const [level, at] of places) {
          const index = at >>> level;
          const isThere = (index + 1) * 2 ** level <= tile.count;
          const hash = caught(
            () => nodes.hash(1, level, index, tile.read),
            DamagedRecord,
            () => 'missing',
          );
          expect(hash).toEqual(isThere ? tile.naive(level, index) : 'missing');
        }
      }
    }),
  );
});

test('a tile is read once, and again only for what it had not yet', () => {
  const [tile, nodes] = [new Tile(), new TileNodes()];
  tile.count = 200;
  for (let level = 0; level < 8; level++)
    for (let index = 0; (index + 1) * 2 ** level <= 200; index++)
      expect(nodes.hash(1, level, index, tile.read)).toEqual(tile.naive(level, index));
  expect(tile.reads).toBe(1);
  tile.count = 256;
  expect(nodes.hash(1, 0, 199, tile.read)).toEqual(tile.naive(0, 199));
  expect(tile.reads).toBe(1);
  expect(nodes.hash(1, 7, 1, tile.read)).toEqual(tile.naive(7, 1));
  expect(tile.reads).toBe(2);
});

test('each tree has its own tiles, at each level and place', () => {
  const nodes = new TileNodes();
  const places = [1, 2].flatMap((firstLsn) =>
    [0, 1].flatMap((level) => [0, 1].map((index): [number, number, number] => [firstLsn, level, index])),
  );
  // Twice: what stayed is told apart too.
  for (const [firstLsn, level, index] of [...places, ...places]) {
    const hashesOf = (...place: [number, number]): Buffer => hashOf(firstLsn, ...place);
    expect(nodes.hash(firstLsn, 8 * level, TILE_HASHES * index, hashesOf)).toEqual(hashOf(firstLsn, level, index));
  }
});

test('tiles stay until 256 others were asked', () => {
  const nodes = new TileNodes();
  const read: number[] = [];
  const ask = (index: number): Buffer =>
    nodes.hash(1, 0, TILE_HASHES * index, (_level, at) => {
      read.push(at);
      return hashOf(at);
    });
  for (let index = 0; index < 256; index++) ask(index);
  ask(0);
  ask(256);
  expect(read).toHaveLength(257);
  // The one that was asked longest ago went, and comes back as it was.
  expect([ask(0), ask(1)]).toEqual([hashOf(0), hashOf(1)]);
  expect(read.slice(257)).toEqual([1]);
});
