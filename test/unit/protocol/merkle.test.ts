import { hash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Consistency,
  type HashReader,
  type Inclusion,
  consistencyProof,
  inclusionProof,
  leafHash,
  nodeHash,
  pathIn,
  pathLength,
  perfectHash,
  rootHash,
  treeLevels,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/protocol/merkle.ts';
import { naiveConsistency, naivePath, naiveRoot } from '../../support/merkle-oracle.ts';
import { found } from '../../support/found.ts';

/** The leaves and hashes that the implementations of certificate transparency share. */
const CT_LEAVES = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
const CT_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const [LEAF_0, LEAF_1, PAIR_2_3, LEAF_4, PAIR_4_5, PAIR_6_7, HALF_4_7] = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
  '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
  'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
  '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
  'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
  '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
];
const HALF_0_3 = CT_ROOTS[4]!;

const hex = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString('hex'));
const ctLeaves = CT_LEAVES.map((leaf) => Buffer.from(leaf, 'hex'));

/** Reads perfect subtrees of these leaves, and of no leaf beyond them. */
function readerOf(leaves: readonly Uint8Array[]): HashReader {
  const levels = [leaves.map(leafHash)];
  return (level, index) => {
    while (levels.length <= level) {
      const below = levels.at(-1) ?? [];
      const pairs = Array.from({ length: Math.floor(below.length / 2) }, (_none, at) =>
        below.slice(2 * at, 2 * at + 2),
      );
      levels.push(pairs.map(([left, right]) => nodeHash(left!, right!)));
    }
    return found(levels[level]?.[index], `there is no subtree ${index} of level ${level}`);
  };
}

/** Leaves that differ from each other. */
const leavesOf = (size: number): Buffer[] => Array.from({ length: size }, (_none, at) => Buffer.from(`leaf ${at}`));

describe('the vectors of certificate transparency', () => {
  const read = readerOf(ctLeaves);

  test.each(CT_ROOTS.map((root, size) => ({ size, root })))('the root of $size leaves', ({ size, root }) => {
    expect(rootHash(size, read).toString('hex')).toBe(root);
    expect(naiveRoot(ctLeaves.slice(0, size)).toString('hex')).toBe(root);
  });

  test.each([
    { index: 0, size: 1, path: [] },
    { index: 0, size: 8, path: [LEAF_1, PAIR_2_3, HALF_4_7] },
    { index: 5, size: 8, path: [LEAF_4, PAIR_6_7, HALF_0_3] },
    { index: 2, size: 3, path: [CT_ROOTS[2]] },
    { index: 1, size: 5, path: [LEAF_0, PAIR_2_3, LEAF_4] },
  ])('the path of leaf $index in a tree of $size', ({ index, size, path }) => {
    expect(hex(inclusionProof(index, size, read))).toEqual(path);
  });

  test.each([
    { from: 1, to: 1, proof: [] },
    { from: 1, to: 8, proof: [LEAF_1, PAIR_2_3, HALF_4_7] },
    { from: 6, to: 8, proof: [PAIR_4_5, PAIR_6_7, HALF_0_3] },
    { from: 2, to: 5, proof: [PAIR_2_3, LEAF_4] },
  ])('the proof that $to leaves continue $from', ({ from, to, proof }) => {
    expect(hex(consistencyProof(from, to, read))).toEqual(proof);
  });
});

describe('every proof is that of the RFC and verifies', () => {
  const SIZES = 130;
  const leaves = leavesOf(SIZES);
  const read = readerOf(leaves);
  const roots = Array.from({ length: SIZES + 1 }, (_none, size) => naiveRoot(leaves.slice(0, size)));

  test(`of trees of up to ${SIZES} leaves: roots`, () => {
    for (let size = 0; size <= SIZES; size++) expect(rootHash(size, read)).toEqual(roots[size]);
  });

  test(`of trees of up to ${SIZES} leaves: inclusion of every leaf`, () => {
    const wrong: string[] = [];
    for (let size = 1; size <= SIZES; size++) {
      for (let index = 0; index < size; index++) {
        const proof = inclusionProof(index, size, read);
        const leaf = leafHash(leaves[index]!);
        if (!verifyInclusion({ leafHash: leaf, index, size, proof, rootHash: roots[size]! }))
          wrong.push(`${index} of ${size}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test(`of trees of up to ${SIZES} leaves: consistency of every two sizes`, () => {
    const wrong: string[] = [];
    for (let to = 1; to <= SIZES; to++) {
      for (let from = 1; from <= to; from++) {
        const proof = consistencyProof(from, to, read);
        if (!verifyConsistency({ from, to, proof, fromRoot: roots[from]!, toRoot: roots[to]! }))
          wrong.push(`${from} to ${to}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test('of some sizes beyond: the same hashes as the RFC by recursion', () => {
    const many = leavesOf(1500);
    const readMany = readerOf(many);
    const sizes = fc.integer({ min: 1, max: many.length });
    fc.assert(
      fc.property(sizes, sizes, fc.nat(), (one, other, place) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)];
        const some = many.slice(0, to);
        const index = place % to;
        expect(hex([rootHash(to, readMany)])).toEqual(hex([naiveRoot(some)]));
        expect(hex(inclusionProof(index, to, readMany))).toEqual(hex(naivePath(index, some)));
        expect(hex(consistencyProof(from, to, readMany))).toEqual(hex(naiveConsistency(from, some)));
      }),
      { numRuns: 25 },
    );
  });
});

/** A subtree of equal leaves, as large as a number can say. */
const equalLeaves: HashReader = (level) => {
  let hash = leafHash(Buffer.from('x'));
  for (let at = 0; at < level; at++) hash = nodeHash(hash, hash);
  return hash;
};

test.each([2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 40 + 12_345, Number.MAX_SAFE_INTEGER])(
  'a tree of %i leaves has proofs, too',
  (size) => {
    const root = rootHash(size, equalLeaves);
    for (const index of [0, 2 ** 31, size - 2, size - 1]) {
      const proof = inclusionProof(index, size, equalLeaves);
      expect(proof.length).toBeLessThanOrEqual(53);
      expect(verifyInclusion({ leafHash: equalLeaves(0, 0), index, size, proof, rootHash: root })).toBe(true);
    }
    for (const from of [1, 2 ** 31 + 1, size - 1]) {
      const proof = consistencyProof(from, size, equalLeaves);
      const fromRoot = rootHash(from, equalLeaves);
      expect(proof.length).toBeLessThanOrEqual(54);
      expect(verifyConsistency({ from, to: size, proof, fromRoot, toRoot: root })).toBe(true);
    }
  },
);

test.each([
  [-1, 3],
  [3, 3],
  [0, 0],
  [Number.NaN, 3],
])('there is no proof of leaf %i in a tree of %i', (index, size) => {
  expect(() => inclusionProof(index, size, equalLeaves)).toThrow(RangeError);
});

test.each([
  [0, 3],
  [4, 3],
  [Number.NaN, 3],
])('there is no proof that %i leaves grew to %i', (from, to) => {
  expect(() => consistencyProof(from, to, equalLeaves)).toThrow(RangeError);
});

test('the hash of a leaf is that of a zero and its bytes, however long it is and whatever was hashed before', () => {
  for (const length of [0, 4096, 4097, 1, 70_000, 5]) {
    const leaf = Buffer.alloc(length, length);
    expect(leafHash(leaf)).toEqual(hash('sha256', Buffer.concat([Buffer.of(0), leaf]), 'buffer'));
  }
});

test('hashes of a perfect subtree are folded, and what was given stays as it was', () => {
  const hashes = leavesOf(8).map(leafHash);
  const joined = Buffer.concat(hashes);
  expect(perfectHash(joined)).toEqual(naiveRoot(leavesOf(8)));
  expect(joined).toEqual(Buffer.concat(hashes));
  expect(perfectHash(hashes[0]!)).toEqual(hashes[0]);
});

/** One bit of one of the hashes is another. */
function flipped(hashes: readonly Buffer[], at: number): Buffer[] {
  const copies = hashes.map((hash) => Buffer.from(hash));
  const bit = at % (copies.length * 256);
  const hash = copies[Math.floor(bit / 256)]!;
  const byte = Math.floor((bit % 256) / 8);
  hash[byte]! ^= 1 << (bit % 8);
  return copies;
}

describe('what was tampered with does not verify', () => {
  const leaves = leavesOf(70);
  const read = readerOf(leaves);
  const size = fc.integer({ min: 1, max: leaves.length });

  function inclusionOf(index: number, count: number): Inclusion {
    const proof = inclusionProof(index, count, read);
    return { leafHash: leafHash(leaves[index]!), index, size: count, proof, rootHash: rootHash(count, read) };
  }

  function consistencyOf(from: number, to: number): Consistency {
    const proof = consistencyProof(from, to, read);
    return { from, to, proof, fromRoot: rootHash(from, read), toRoot: rootHash(to, read) };
  }

  test('inclusion: a bit of the leaf, the root or the proof; another place; a hash more or less', () => {
    fc.assert(
      fc.property(size, fc.nat(), fc.nat(), (count, place, bit) => {
        const good = inclusionOf(place % count, count);
        expect(verifyInclusion(good)).toBe(true);
        const [leaf, root, ...proof] = flipped([good.leafHash, good.rootHash, ...good.proof], bit);
        expect(verifyInclusion({ ...good, leafHash: leaf!, rootHash: root!, proof })).toBe(false);
        for (const index of [-1, 0.5, count, good.index + 1, good.index - 1]) {
          expect(verifyInclusion({ ...good, index })).toBe(false);
        }
        expect(verifyInclusion({ ...good, proof: [...good.proof, good.leafHash] })).toBe(false);
        // A tree of one leaf has an empty proof, which cannot be shorter.
        const shorter = verifyInclusion({ ...good, proof: good.proof.slice(1) });
        expect(shorter).toBe(count === 1);
        expect(verifyInclusion({ ...good, size: 2 * count + 1 })).toBe(false);
      }),
    );
  });

  test('consistency: a bit of either root or the proof; another size; a hash more or less', () => {
    fc.assert(
      fc.property(size, size, fc.nat(), (one, other, bit) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)];
        const good = consistencyOf(from, to);
        expect(verifyConsistency(good)).toBe(true);
        const [fromRoot, toRoot, ...proof] = flipped([good.fromRoot, good.toRoot, ...good.proof], bit);
        expect(verifyConsistency({ ...good, fromRoot: fromRoot!, toRoot: toRoot!, proof })).toBe(false);
        for (const wrong of [0, -1, 0.5, to + 1]) expect(verifyConsistency({ ...good, from: wrong })).toBe(false);
        expect(verifyConsistency({ ...good, proof: [...good.proof, good.toRoot] })).toBe(false);
        // That of a tree with itself is empty.
        for (const proof of [good.proof.slice(0, -1), []]) {
          expect(verifyConsistency({ ...good, proof })).toBe(from === to);
        }
      }),
    );
  });
});

test('the levels of a whole tree give its root and every path of it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300 }), (size) => {
      const leaves = leavesOf(size);
      const levels = treeLevels(leaves.map(leafHash));
      expect(hex(levels.at(-1) ?? [])).toEqual([naiveRoot(leaves).toString('hex')]);
      for (let index = 0; index < size; index += 1 + Math.floor(size / 20)) {
        expect(pathIn(levels, index).toString('hex')).toBe(hex(naivePath(index, leaves)).join(''));
        expect(pathLength(index, size)).toBe(naivePath(index, leaves).length);
      }
    }),
    { numRuns: 30, examples: [[1], [2], [3], [7], [8], [200]] },
  );
});
