/** Receipts that are signed together; test/vectors/receipt-tree.json has what is one and what is none. */
import { expect, test } from 'vitest';
import { canonicalBytes, receiptTree, signDocument } from '../../../src/protocol/documents.ts';
import { leafHash } from '../../../src/protocol/merkle.ts';
import { isReceiptSigned, receiptCheck, receiptSignatureOf } from '../../../src/protocol/receipt-tree.ts';
import { carol, relay } from '../../support/hosts.ts';

/** The members by which a document says that it is an accept receipt of the relay. */
const ITS_RECEIPT = { type: 'relay-accept', relay_pubkey: relay.key };

/** Two receipts in one tree, with `changes`; a leaf may be any document. */
function twoReceipts(changes: object = {}) {
  const common = { ...ITS_RECEIPT, ...changes };
  const accepts = [
    { ...common, item_id: 'm1' },
    { ...common, item_id: 'm2' },
  ];
  const { tree, pathOf } = receiptTree(
    relay.key,
    accepts.map((accept) => leafHash(canonicalBytes(accept))),
  );
  const tree_sig = signDocument(relay.signer, tree);
  const [one, two] = accepts.map((accept, index) => {
    return { accept, proof: { index, path: pathOf(index).toString('base64') }, tree, tree_sig };
  });
  return { one: one!, two: two! };
}

test('a check verifies each signature of a statement that it is given', () => {
  const { one, two } = twoReceipts();
  const check = receiptCheck(relay.key);
  expect(check(canonicalBytes(one.accept), one)).toBe(true);
  expect(check(canonicalBytes(two.accept), { ...two, tree_sig: signDocument(carol.signer, two.tree) })).toBe(false);
  expect(check(canonicalBytes(two.accept), two)).toBe(true);
  const altered = { ...two.tree, more: 1 };
  expect(check(canonicalBytes(two.accept), { ...two, tree: altered })).toBe(false);
  expect(
    check(canonicalBytes(two.accept), { ...two, tree: altered, tree_sig: signDocument(relay.signer, altered) }),
  ).toBe(true);
});

test('a path that is cut in a hash is none, also right after the whole one', () => {
  const { one } = twoReceipts();
  const cut = Buffer.from(one.proof.path, 'base64').subarray(0, 31).toString('base64');
  expect(isReceiptSigned(relay.key, one)).toBe(true);
  expect(isReceiptSigned(relay.key, { ...one, proof: { index: 0, path: cut } })).toBe(false);
  const check = receiptCheck(relay.key);
  expect(check(canonicalBytes(one.accept), one)).toBe(true);
  expect(check(canonicalBytes(one.accept), { ...one, proof: { index: 0, path: cut } })).toBe(false);
});

test('a result with a signature of its own is judged by that, whatever stands beside it', () => {
  const { one, two } = twoReceipts();
  const sig = signDocument(relay.signer, one.accept);
  expect(receiptSignatureOf({ ...one, sig })).toEqual({ sig });
  expect(isReceiptSigned(relay.key, { accept: one.accept, sig })).toBe(true);
  expect(isReceiptSigned(relay.key, { ...two, sig })).toBe(false);
});

test.each<[string, object]>([
  ['of another type', { type: 'relay-expired' }],
  ['that names another relay', { relay_pubkey: carol.key }],
])('a document %s is no receipt of the relay, though it signed it', (_what, changes) => {
  const { one } = twoReceipts(changes);
  expect(receiptCheck(relay.key)(canonicalBytes(one.accept), one)).toBe(true);
  expect(isReceiptSigned(relay.key, one)).toBe(false);
  const alone = { accept: one.accept, sig: signDocument(relay.signer, one.accept) };
  expect(isReceiptSigned(relay.key, alone)).toBe(false);
});

test.each<[string, object]>([
  ['no proof', { proof: undefined }],
  ['no statement', { tree: undefined }],
  ['no signature of the statement', { tree_sig: undefined }],
  ['an index that is no number', { proof: { index: '0', path: 'A'.repeat(44) } }],
  ['an empty path', { proof: { index: 0, path: '' } }],
  ['a receipt that has no canonical form', { accept: { ...ITS_RECEIPT, item_id: '\ud800' } }],
  ['no receipt', { accept: undefined }],
])('a result with %s is not signed', (_what, changes) => {
  const { one } = twoReceipts();
  expect(isReceiptSigned(relay.key, { ...one, ...changes })).toBe(false);
});

test('only the members that prove a receipt are kept of a result, and all of the statement', () => {
  const { one } = twoReceipts();
  const { proof, tree_sig } = one;
  const tree = { ...one.tree, more: 1 };
  const result = { ...one, tree, proof: { ...proof, more: 1 }, status: 'accepted' };
  expect(receiptSignatureOf(result)).toEqual({ proof, tree, tree_sig });
  expect(receiptSignatureOf({ accept: one.accept })).toBeUndefined();
  expect(receiptSignatureOf(null)).toBeUndefined();
});
