/** The vectors of receipts that are signed together, checked without the code that made them, and with it. */
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { isReceiptSigned } from '../../../src/protocol/receipt-tree.ts';
import { type ReceiptAlone, isSignedInTree, leafOf } from '../receipt-oracle.ts';
import { type Keys, type VectorChecks, bytes, each, expectSigned, jcs, readVectors, utf8 } from './oracle.ts';

interface TreeCase {
  name: string;
  size: number;
  canonical: string;
  signature: string;
  leaf_hashes: string[];
  receipts: (ReceiptAlone & { item_id: string })[];
  response?: { results: Partial<ReceiptAlone & { status: string }>[]; tree: object; tree_sig: string };
}

interface RefusedCase {
  name: string;
  refused: ReceiptAlone;
}

const { relay, cases } = readVectors('receipt-tree.json') as { relay: Keys; cases: (TreeCase | RefusedCase)[] };
const trees = cases.filter((one) => 'receipts' in one);
const refused = cases.filter((one) => 'refused' in one);
const relayKey = relay.pubkey as PublicKey;

/** MTH of RFC 9162, section 2.1.1, over the hashes of leaves. */
function rootOf(leafHashes: readonly Buffer[]): Buffer {
  const [one] = leafHashes;
  if (leafHashes.length === 1 && one) return one;
  const k = 2 ** Math.floor(Math.log2(leafHashes.length - 1));
  const [left, right] = [rootOf(leafHashes.slice(0, k)), rootOf(leafHashes.slice(k))];
  return createHash('sha256').update(Buffer.of(1)).update(left).update(right).digest();
}

export const RECEIPT_TREE: VectorChecks = {
  file: 'receipt-tree.json',
  checks: [
    ...each(trees, 'the statement', async ({ size, canonical, signature, leaf_hashes }) => {
      const root_hash = rootOf(leaf_hashes.map(bytes)).toString('hex');
      expect(leaf_hashes).toHaveLength(size);
      expect(canonical).toBe(jcs({ v: 1, type: 'relay-accept-tree', relay_pubkey: relay.pubkey, size, root_hash }));
      await expectSigned(utf8(canonical), signature, relay);
    }),

    ...each(trees, 'every receipt verifies alone', async ({ canonical, signature, leaf_hashes, receipts }) => {
      expect(receipts.length).toBeGreaterThan(1);
      for (const receipt of receipts) {
        expect([jcs(receipt.tree), receipt.tree_sig]).toEqual([canonical, signature]);
        expect(leafOf(receipt.accept).toString('base64')).toBe(leaf_hashes[receipt.proof.index]);
        expect(await isSignedInTree(receipt, relay.pubkey)).toBe(true);
        expect(isReceiptSigned(relayKey, receipt)).toBe(true);
      }
    }),

    ...each(refused, 'is no receipt', async ({ refused: document }) => {
      expect(await isSignedInTree(document, relay.pubkey)).toBe(false);
      expect(isReceiptSigned(relayKey, document)).toBe(false);
    }),

    {
      name: 'the sizes 2, 3, 7, 8 and 200 are there, and an answer whose results are the receipts',
      run: () => {
        expect(trees.map(({ size }) => size)).toEqual([2, 2, 3, 7, 8, 200]);
        const [{ response, receipts }] = trees as [TreeCase];
        const { results = [], tree, tree_sig } = response ?? {};
        const stored = results.filter((result) => result.accept);
        expect(results.map(({ status }) => status)).toEqual(['accepted', 'rejected:unknown target', 'duplicate']);
        expect(stored.map(({ accept, proof }) => ({ accept, proof, tree, tree_sig }))).toEqual(
          receipts.map(({ item_id: _id, ...receipt }) => receipt),
        );
      },
    },
  ],
};
