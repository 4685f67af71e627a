/**
 * Verifies an accept receipt that was signed with others, by the words of docs/protocol.md and RFC 9162, section
 * 2.1.3.2, and with the cryptography of @noble: what is checked against has none of the code under test.
 */
import { createHash } from 'node:crypto';
import { verifyAsync } from '@noble/ed25519';
import { jcs, utf8 } from './vectors/oracle.ts';

/** What a sender keeps of a result. */
export interface ReceiptAlone {
  accept: object;
  proof: { index: number; path: string };
  tree: { v: number; type: string; relay_pubkey: string; size: number; root_hash: string };
  tree_sig: string;
}

function sha256(prefix: number, ...parts: Uint8Array[]): Buffer {
  const hash = createHash('sha256').update(Buffer.of(prefix));
  for (const part of parts) hash.update(part);
  return hash.digest();
}

export function leafOf(accept: object): Buffer {
  return sha256(0, utf8(jcs(accept)));
}

/** Returns the root to which the path leads; `undefined` where the path has not the length that the place demands. */
function rootOf(leaf: Buffer, index: number, size: number, path: readonly Uint8Array[]): Buffer | undefined {
  if (index >= size) return undefined;
  let [fn, sn, r] = [index, size - 1, leaf];
  for (const p of path) {
    if (sn === 0) return undefined;
    if (fn % 2 === 1 || fn === sn) {
      r = sha256(1, p, r);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn / 2, Math.floor(sn / 2)];
    } else {
      r = sha256(1, r, p);
    }
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  return sn === 0 ? r : undefined;
}

/** Says whether the relay of this key signed the receipt together with others. */
export async function isSignedInTree({ accept, proof, tree, tree_sig }: ReceiptAlone, key: string): Promise<boolean> {
  if (tree.v !== 1 || tree.type !== 'relay-accept-tree' || tree.relay_pubkey !== key || tree.size > 65_536)
    return false;
  const bytes = Buffer.from(proof.path, 'base64');
  const path = Array.from({ length: Math.ceil(bytes.length / 32) }, (_none, at) =>
    bytes.subarray(32 * at, 32 * at + 32),
  );
  if (bytes.length % 32 !== 0 || bytes.toString('base64') !== proof.path) return false;
  if (rootOf(leafOf(accept), proof.index, tree.size, path)?.toString('hex') !== tree.root_hash) return false;
  return isStatementSigned(tree, tree_sig, key);
}

/** What was found of a statement: many receipts share one, and a signature takes this library milliseconds. */
const verified = new Map<string, Promise<boolean>>();

function isStatementSigned(tree: object, signature: string, key: string): Promise<boolean> {
  const name = `${jcs(tree)} ${signature} ${key}`;
  const message = utf8(jcs(tree));
  const [sig, publicKey] = [Buffer.from(signature, 'base64'), Buffer.from(key, 'base64')];
  const found = verified.get(name) ?? verifyAsync(sig, message, publicKey, { zip215: false });
  verified.set(name, found);
  return found;
}
