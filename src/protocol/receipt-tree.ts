/**
 * Accept receipts that are signed together: the relay signs one statement over the tree of all receipts of an answer,
 * and each receipt has the path from its hash to the root of that tree, so that it can be verified alone.
 *
 * Pure. The leaves are the canonical bytes of the receipts in the order of their results; the tree is that of RFC 9162
 * (merkle.ts). Index and size give the length of a path, and prefixes separate leaves from nodes, so to show a receipt
 * that the relay did not sign takes a second preimage of SHA-256.
 */
import Type from 'typebox';
import { isObject } from './json.ts';
import { canonicalBytesIfAny, type AcceptTree, isDocumentSigned } from './documents.ts';
import { verifySignature } from './ed25519.ts';
import { decodeBase64 } from './encodings.ts';
import { HASH_BYTES, leafHash, verifyInclusion } from './merkle.ts';
import type { PublicKey } from './public-key.ts';
import { AcceptTreeShape, ReceiptPath } from './responses.ts';
import { parserOf } from './schemas.ts';
import { Signature } from './shapes.ts';

export interface ReceiptPlace {
  index: number;
  /** Base64 of the hashes of the inclusion proof one behind another, the leaf's sibling first. */
  path: string;
}

/** The place of a receipt in a tree that the relay signed. */
export interface ReceiptInTree {
  proof: ReceiptPlace;
  tree: AcceptTree;
  tree_sig: string;
}

/** The proof that a relay signed a receipt. */
export type ReceiptSignature = { sig: string } | ReceiptInTree;

// A statement may have members that are not known here: the signature covers them.
const parseTogether = parserOf(
  Type.Object({
    proof: Type.Object(ReceiptPath.properties),
    tree: Type.Object(AcceptTreeShape.properties),
    tree_sig: Signature,
  }),
);

/** Finds the proof of a receipt in a result of a push, or in what was kept of one; `undefined` without one. */
export function receiptSignatureOf(result: unknown): ReceiptSignature | undefined {
  const sig = isObject(result) ? result['sig'] : undefined;
  if (typeof sig === 'string') return { sig };
  const together = parseTogether(result);
  if (!together) return undefined;
  const { proof, tree, tree_sig } = together;
  return { proof: { index: proof.index, path: proof.path }, tree: tree as AcceptTree, tree_sig };
}

/** Says whether a relay signed a receipt, given its canonical bytes. */
export type ReceiptCheck = (receipt: Uint8Array, signature: ReceiptSignature) => boolean;

/** Returns the check of receipts of one relay. It verifies a statement once for all receipts of one answer in turn. */
export function receiptCheck(relayPubkey: PublicKey): ReceiptCheck {
  let last: { tree: AcceptTree; signature: string; isSigned: boolean } | undefined;
  return (receipt, signature) => {
    if ('sig' in signature) return verifySignature(relayPubkey, receipt, signature.sig);
    const { proof, tree, tree_sig } = signature;
    if (!isInTree(receipt, proof, tree)) return false;
    if (last?.tree !== tree || last.signature !== tree_sig) {
      const isSigned = tree.relay_pubkey === relayPubkey && isDocumentSigned(relayPubkey, tree, tree_sig);
      last = { tree, signature: tree_sig, isSigned };
    }
    return last.isSigned;
  };
}

function isInTree(receipt: Uint8Array, { index, path }: ReceiptPlace, { size, root_hash }: AcceptTree): boolean {
  const bytes = decodeBase64(path);
  if (!bytes || bytes.length % HASH_BYTES !== 0) return false;
  const proof: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += HASH_BYTES) proof.push(bytes.subarray(at, at + HASH_BYTES));
  return verifyInclusion({ leafHash: leafHash(receipt), index, size, proof, rootHash: Buffer.from(root_hash, 'hex') });
}

/**
 * Says whether a push's result has an accept receipt of the relay of this key, which it signed, alone or together with
 * others. The caller compares what the receipt says: the epoch, the sender, the item, its targets and hashes.
 */
export function isReceiptSigned(relayPubkey: PublicKey, result: unknown): boolean {
  const signature = receiptSignatureOf(result);
  const accept = isObject(result) ? result['accept'] : undefined;
  if (!signature || !isObject(accept)) return false;
  // The relay signs documents of other types too.
  if (accept['type'] !== 'relay-accept' || accept['relay_pubkey'] !== relayPubkey) return false;
  const bytes = canonicalBytesIfAny(accept);
  return bytes !== undefined && receiptCheck(relayPubkey)(bytes, signature);
}
