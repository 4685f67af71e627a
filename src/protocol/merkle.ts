/**
 * The Merkle tree of RFC 6962, section 2.1 (RFC 9162, section 2.1): hashes, proofs, and their verification.
 *
 * Pure. A prover passes in a reader of perfect subtrees, so this file does not know where hashes are stored. A verifier
 * needs only the proof. Nothing recurses: a proof in a tree of n leaves takes log2(n) steps. Sizes may exceed 32 bits,
 * so they are divided, never shifted.
 */
import { hash } from 'node:crypto';

export const HASH_BYTES = 32;
const LEAF_PREFIX = Buffer.of(0x00);
const NODE_PREFIX = 0x01;

/**
 * Returns the hash of a perfect subtree: the 2^level leaves from leaf `index` × 2^level on. At level 0 it is the hash
 * of the leaf.
 */
export type HashReader = (level: number, index: number) => Buffer;

export function leafHash(leaf: Uint8Array): Buffer {
  if (leaf.length > SHORT_BYTES) return Buffer.from(digest(Buffer.concat([LEAF_PREFIX, leaf])), 'latin1');
  short.set(leaf, 1);
  return Buffer.from(digest(short.subarray(0, 1 + leaf.length)), 'latin1');
}

/** The input of a short leaf's hash, as most are. Each use fills it and hashes it at once. */
const SHORT_BYTES = 4096;
const short = Buffer.alloc(1 + SHORT_BYTES);

export function nodeHash(left: Buffer, right: Buffer): Buffer {
  left.copy(pair, 1);
  right.copy(pair, 1 + HASH_BYTES);
  return Buffer.from(digest(pair), 'latin1');
}

/** The input of a node's hash. Each use fills it and hashes it at once. */
const pair = Buffer.alloc(1 + 2 * HASH_BYTES, NODE_PREFIX);

/**
 * A string with one character for each byte. A buffer would cost four times as much, and every record is hashed twice.
 */
function digest(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'binary');
}

/** The root over consecutive hashes of perfect subtrees; their number is a power of two. */
export function perfectHash(hashes: Buffer): Buffer {
  const level = Buffer.from(hashes);
  for (let { length } = level; length > HASH_BYTES; length /= 2)
    for (let at = 0; at < length; at += 2 * HASH_BYTES) writeNodeHash(level, at, at / 2);
  return Buffer.from(level.subarray(0, HASH_BYTES));
}

/** Writes the hash of the node above the two hashes at `below`, one behind the other, to `above`. */
export function writeNodeHash(hashes: Buffer, below: number, above: number): void {
  hashes.copy(pair, 1, below, below + 2 * HASH_BYTES);
  hashes.write(digest(pair), above, 'latin1');
}

/** The root of the tree of the first `size` leaves. */
export function rootHash(size: number, read: HashReader): Buffer {
  return size === 0 ? Buffer.from(digest(Buffer.alloc(0)), 'latin1') : rangeHash(0, size, read);
}

/** The proof from the leaf's sibling up to a child of the root (RFC 9162, section 2.1.3.1). Throws `RangeError`. */
export function inclusionProof(index: number, size: number, read: HashReader): Buffer[] {
  if (!(index >= 0 && index < size)) throw new RangeError('the leaf is not in the tree');
  const proof: Buffer[] = [];
  let [start, end] = [0, size];
  while (end - start > 1) {
    const split = start + powerBelow(end - start);
    if (index < split) {
      proof.push(rangeHash(split, end, read));
      end = split;
    } else {
      proof.push(rangeHash(start, split, read));
      start = split;
    }
  }
  return proof.toReversed();
}

/**
 * The proof that the tree of `to` leaves extends the tree of `from` leaves (RFC 9162, section 2.1.4.1). Throws
 * `RangeError`.
 */
export function consistencyProof(from: number, to: number, read: HashReader): Buffer[] {
  if (!(from >= 1 && from <= to)) throw new RangeError('the smaller tree is empty or larger than the other');
  const proof: Buffer[] = [];
  let [start, end] = [0, to];
  while (from < end) {
    const split = start + powerBelow(end - start);
    if (from <= split) {
      proof.push(rangeHash(split, end, read));
      end = split;
    } else {
      proof.push(rangeHash(start, split, read));
      start = split;
    }
  }
  // If the smaller tree is one perfect subtree, the verifier already has its root.
  if (start > 0) proof.push(rangeHash(start, end, read));
  return proof.toReversed();
}

/**
 * Every level of the tree over these hashes of leaves, from the leaves to the root: for a small tree of which all paths
 * are wanted. The last hash of an odd level has no sibling and goes up as it is, which gives the tree of RFC 9162.
 */
export function treeLevels(leafHashes: readonly Buffer[]): (readonly Buffer[])[] {
  const levels = [leafHashes];
  for (let below = leafHashes; below.length > 1; ) {
    const above: Buffer[] = [];
    for (let at = 0; at < below.length; at += 2) {
      const [left, right] = [below[at], below[at + 1]];
      if (left) above.push(right ? nodeHash(left, right) : left);
    }
    levels.push(above);
    below = above;
  }
  return levels;
}

/** The hashes of `inclusionProof` one behind another, read off the levels of the tree. */
export function pathIn(levels: readonly (readonly Buffer[])[], index: number): Buffer {
  const path = Buffer.allocUnsafe(levels.length * HASH_BYTES);
  let bytes = 0;
  let at = index;
  for (const level of levels) {
    bytes += level[at ^ 1]?.copy(path, bytes) ?? 0;
    at >>>= 1;
  }
  return path.subarray(0, bytes);
}

/** The number of hashes in the path of a leaf. */
export function pathLength(index: number, size: number): number {
  let hashes = 0;
  for (let [at, width] = [index, size]; width > 1; at >>>= 1, width = (width + 1) >>> 1) if ((at ^ 1) < width) hashes++;
  return hashes;
}

export interface Inclusion {
  leafHash: Buffer;
  index: number;
  size: number;
  proof: readonly Buffer[];
  rootHash: Buffer;
}

/** RFC 9162, section 2.1.3.2. */
export function verifyInclusion({ leafHash: leaf, index, size, proof, rootHash: root }: Inclusion): boolean {
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size) || index < 0 || index >= size) return false;
  const position = new PathPosition(index, size - 1);
  let computed = leaf;
  for (const sibling of proof) {
    if (position.isAtRoot) return false;
    computed = position.isRight() ? nodeHash(sibling, computed) : nodeHash(computed, sibling);
    position.rise();
  }
  return position.isAtRoot && computed.equals(root);
}

export interface Consistency {
  from: number;
  to: number;
  proof: readonly Buffer[];
  fromRoot: Buffer;
  toRoot: Buffer;
}

/** RFC 9162, section 2.1.4.2. */
export function verifyConsistency({ from, to, proof, fromRoot, toRoot }: Consistency): boolean {
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to) || from < 1 || from > to) return false;
  if (from === to) return proof.length === 0 && fromRoot.equals(toRoot);
  const [first, ...others] = isPowerOfTwo(from) ? [fromRoot, ...proof] : proof;
  if (!first || proof.length === 0) return false;
  const position = new PathPosition(from - 1, to - 1);
  position.riseWhileRight();
  let [smaller, larger] = [first, first];
  for (const sibling of others) {
    if (position.isAtRoot) return false;
    if (position.isRight()) {
      smaller = nodeHash(sibling, smaller);
      larger = nodeHash(sibling, larger);
    } else {
      larger = nodeHash(larger, sibling);
    }
    position.rise();
  }
  return position.isAtRoot && smaller.equals(fromRoot) && larger.equals(toRoot);
}

/** The index of a node on the path to the root, and the last index of its level: `fn` and `sn` of RFC 9162. */
class PathPosition {
  #index: number;
  #last: number;

  constructor(index: number, last: number) {
    this.#index = index;
    this.#last = last;
  }

  get isAtRoot(): boolean {
    return this.#last === 0;
  }

  /** Says whether its sibling is on its left. A node without a sibling first rises to where it has one. */
  isRight(): boolean {
    if (this.#index % 2 === 1) return true;
    if (this.#index !== this.#last) return false;
    while (this.#index % 2 === 0 && this.#index !== 0) this.rise();
    return true;
  }

  riseWhileRight(): void {
    while (this.#index % 2 === 1) this.rise();
  }

  rise(): void {
    this.#index = Math.floor(this.#index / 2);
    this.#last = Math.floor(this.#last / 2);
  }
}

/** The hash of the subtree of the leaves from `start` to `end`: its perfect subtrees, folded from the right. */
function rangeHash(start: number, end: number, read: HashReader): Buffer {
  const perfect: Buffer[] = [];
  for (let at = start; at < end; ) {
    let [level, width] = [0, 1];
    while (at % (2 * width) === 0 && at + 2 * width <= end) [level, width] = [level + 1, 2 * width];
    perfect.push(read(level, at / width));
    at += width;
  }
  return perfect.reduceRight((right, left) => nodeHash(left, right));
}

/** The largest power of two below `count`, which is at least 2. */
function powerBelow(count: number): number {
  let power = 1;
  while (2 * power < count) power *= 2;
  return power;
}

function isPowerOfTwo(count: number): boolean {
  return powerBelow(count + 1) === count;
}
