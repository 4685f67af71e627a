/** RFC 6962, section 2.1, word for word and by recursion: what is checked against has none of the code under test. */
import { createHash } from 'node:crypto';

function sha256(...parts: Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** MTH(D[n]). */
export function naiveRoot(leaves: readonly Uint8Array[]): Buffer {
  const [leaf] = leaves;
  if (!leaf) return sha256();
  if (leaves.length === 1) return sha256(Buffer.of(0), leaf);
  const k = split(leaves.length);
  return sha256(Buffer.of(1), naiveRoot(leaves.slice(0, k)), naiveRoot(leaves.slice(k)));
}

/** PATH(m, D[n]). */
export function naivePath(m: number, leaves: readonly Uint8Array[]): Buffer[] {
  if (leaves.length === 1) return [];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return m < k ? [...naivePath(m, left), naiveRoot(right)] : [...naivePath(m - k, right), naiveRoot(left)];
}

/** PROOF(m, D[n]). */
export function naiveConsistency(m: number, leaves: readonly Uint8Array[]): Buffer[] {
  return subproof(m, leaves, true);
}

function subproof(m: number, leaves: readonly Uint8Array[], isWhole: boolean): Buffer[] {
  if (m === leaves.length) return isWhole ? [] : [naiveRoot(leaves)];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  if (m <= k) return [...subproof(m, left, isWhole), naiveRoot(right)];
  return [...subproof(m - k, right, false), naiveRoot(left)];
}

function split(count: number): number {
  return 2 ** Math.floor(Math.log2(count - 1));
}
