import { describe, expect, test } from 'vitest';
import { checkAcceptReceipt, outboxEventOfResult, type PushedRow } from '../../../../src/host/core/receipts.ts';
import type { OutboxEvent } from '../../../../src/host/core/outbox-event.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import {
  canonicalBytes,
  type AcceptReceipt,
  acceptReceipt,
  receiptTree,
  signDocument,
} from '../../../../src/protocol/documents.ts';
import { leafHash } from '../../../../src/protocol/merkle.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { type ReceiptInTree, isReceiptSigned, receiptCheck } from '../../../../src/protocol/receipt-tree.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, carol, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const PUSHED: PushedRow = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  senderPubkey: alice.key,
  itemId: 'm1',
  targetPubkey: bob.key,
  wireHash: sha256Hex('wire'),
};
const GOOD = acceptReceipt({
  relay_pubkey: relay.key,
  epoch: epochNumbered(1),
  sender_pubkey: alice.key,
  item_id: 'm1' as ItemId,
  targets: [{ host_pubkey: bob.key, seq: 7, wire_hash: sha256Hex('wire') }],
  at: NOON_MS,
});
const target = GOOD.targets[0]!;

function signed(changes: Partial<AcceptReceipt> = {}, signer = relay.signer): [AcceptReceipt, { sig: string }] {
  const accept = { ...GOOD, ...changes };
  return [accept, { sig: signer.sign(canonicalBytes(accept)) }];
}

test('a receipt of the pinned relay for exactly this row gives its seq', () => {
  expect(checkAcceptReceipt(...signed(), PUSHED)).toEqual({ seq: 7 });
  const [accept, sig] = signed({ targets: [{ ...target, host_pubkey: carol.key, seq: 8 }, target] });
  expect(checkAcceptReceipt(accept, sig, PUSHED)).toEqual({ seq: 7 });
});

test.each<[string, Partial<AcceptReceipt>]>([
  ['relay key', { relay_pubkey: carol.key }],
  ['epoch', { epoch: epochNumbered(2) }],
  ['sender', { sender_pubkey: carol.key }],
  ['item', { item_id: 'm2' as ItemId }],
  ['target', { targets: [{ ...target, host_pubkey: carol.key }] }],
  ['target', { targets: [target, { ...target, seq: 9 }] }],
  ['target', { targets: [] }],
  ['hash', { targets: [{ ...target, wire_hash: sha256Hex('other') }] }],
])('a receipt with another %s is none, however well it is signed', (fault, changes) => {
  expect(checkAcceptReceipt(...signed(changes), PUSHED)).toEqual({ fault });
});

test('a receipt that is too long to be kept is none, however well it is signed', () => {
  const more = { more: 'x'.repeat(20_000) } as Partial<AcceptReceipt>;
  expect(checkAcceptReceipt(...signed(more), PUSHED)).toEqual({ fault: 'size' });
  const bare = canonicalBytes({ ...GOOD, more: '' }).length;
  const padded = (bytes: number): Partial<AcceptReceipt> =>
    ({ more: 'x'.repeat(bytes - bare) }) as Partial<AcceptReceipt>;
  expect(checkAcceptReceipt(...signed(padded(16_384)), PUSHED)).toEqual({ seq: 7 });
  expect(checkAcceptReceipt(...signed(padded(16_385)), PUSHED)).toEqual({ fault: 'size' });
});

test('a receipt that another key signed, or whose bytes changed, is none', () => {
  const fault = { fault: 'signature' };
  expect(checkAcceptReceipt(...signed({}, carol.signer), PUSHED)).toEqual(fault);
  const [accept, sig] = signed();
  expect(checkAcceptReceipt({ ...accept, at: NOON_MS + 1 }, sig, PUSHED)).toEqual(fault);
  expect(checkAcceptReceipt({ ...accept, more: 1 } as AcceptReceipt, sig, PUSHED)).toEqual(fault);
  expect(checkAcceptReceipt({ ...accept, more: '\ud800' } as AcceptReceipt, sig, PUSHED)).toEqual(fault);
  for (const bad of ['', sig.sig.slice(0, -4), `${sig.sig.slice(4)}AAAA`]) {
    expect(checkAcceptReceipt(accept, { sig: bad }, PUSHED)).toEqual(fault);
  }
});

test('a result makes a row accepted only with a receipt that verifies', () => {
  const promise = { retentionMs: 1000, nowMs: NOON_MS };
  const [accept, sig] = signed();
  expect(outboxEventOfResult({ status: 'accepted', accept, ...sig }, PUSHED, promise)).toMatchObject({
    type: 'relay-accepted',
    isVerified: true,
    acceptance: { relayPubkey: relay.key, epoch: epochNumbered(1), seq: 7, acceptedAtMs: NOON_MS, retentionMs: 1000 },
  });
  expect(outboxEventOfResult({ status: 'accepted' }, PUSHED, promise)).toMatchObject({ type: 'relay-failed' });
  expect(outboxEventOfResult({ status: '' }, PUSHED, promise)).toMatchObject({ type: 'relay-failed' });
  expect(outboxEventOfResult({ status: 'duplicate', accept, sig: '' }, PUSHED, promise)).toEqual({
    type: 'relay-failed',
    relayPubkey: relay.key,
    reason: 'the accept receipt does not verify (signature)',
  });
  expect(outboxEventOfResult({ status: 'rejected:quota:queue_items' }, PUSHED, promise)).toEqual({
    type: 'relay-refused',
    relayPubkey: relay.key,
    code: 'quota:queue_items',
  });
});

test('a result without a receipt or without its signature is none, and a refusal is kept at its length', () => {
  const promise = { retentionMs: 1000, nowMs: NOON_MS };
  const [accept, sig] = signed();
  const none = { type: 'relay-failed', relayPubkey: relay.key, reason: 'the relay gave no result for it' };
  expect(outboxEventOfResult({ status: 'accepted', accept }, PUSHED, promise)).toEqual(none);
  expect(outboxEventOfResult({ status: 'accepted', ...sig }, PUSHED, promise)).toEqual(none);
  expect(outboxEventOfResult({ status: 'not rejected:quota' }, PUSHED, promise)).toEqual(none);
  expect(outboxEventOfResult({ status: `rejected:a\n${'x'.repeat(200)}` }, PUSHED, promise)).toEqual({
    type: 'relay-refused',
    relayPubkey: relay.key,
    code: `a\n${'x'.repeat(98)}`,
  });
});

test('an acceptance in the future runs out all the same', () => {
  const [accept, sig] = signed({ at: NOON_MS + 1e12 });
  const event = outboxEventOfResult({ status: 'accepted', accept, ...sig }, PUSHED, {
    retentionMs: 1,
    nowMs: NOON_MS,
  });
  expect(event).toMatchObject({ acceptance: { acceptedAtMs: NOON_MS } });
});

interface ResultInTree extends ReceiptInTree {
  accept: AcceptReceipt;
}

/** The second of three receipts in a tree, by default that of the row. */
function together(changes: Partial<AcceptReceipt> = {}, signer = relay.signer): ResultInTree {
  const accept = { ...GOOD, ...changes };
  const leaves = [{ ...GOOD, item_id: 'm0' as ItemId }, accept, { ...GOOD, item_id: 'm2' as ItemId }];
  const { tree, pathOf } = receiptTree(
    relay.key,
    leaves.map((leaf) => leafHash(canonicalBytes(leaf))),
  );
  const proof = { index: 1, path: pathOf(1).toString('base64') };
  return { accept, proof, tree, tree_sig: signDocument(signer, tree) };
}

function checked({ accept, ...signature }: ResultInTree): ReturnType<typeof checkAcceptReceipt> {
  return checkAcceptReceipt(accept, signature, PUSHED);
}

describe('a receipt that was signed together with others', () => {
  const promise = { retentionMs: 1000, nowMs: NOON_MS };

  test('gives the seq of its row, and is compared as one that was signed alone', () => {
    expect(checked(together())).toEqual({ seq: 7 });
    expect(checked(together({ epoch: epochNumbered(2) }))).toEqual({ fault: 'epoch' });
    expect(checked(together({ sender_pubkey: carol.key }))).toEqual({ fault: 'sender' });
    expect(checked(together({ item_id: 'm3' as ItemId }))).toEqual({ fault: 'item' });
    const wire_hash = sha256Hex('other');
    expect(checked(together({ targets: [{ ...target, wire_hash }] }))).toEqual({ fault: 'hash' });
  });

  test('is none when its place, the statement or its signature is wrong', () => {
    const good = together();
    const fault = { fault: 'signature' };
    expect(checked({ ...good, accept: { ...good.accept, at: NOON_MS + 1 } })).toEqual(fault);
    expect(checked({ ...good, proof: { ...good.proof, index: 0 } })).toEqual(fault);
    expect(checked({ ...good, tree: { ...good.tree, size: 4 } })).toEqual(fault);
    expect(checked(together({}, carol.signer))).toEqual(fault);
  });

  test('is none with a statement that is too long to be kept in every row', () => {
    const { tree, ...good } = together();
    const long = { ...tree, more: 'x'.repeat(20_000) };
    const tree_sig = signDocument(relay.signer, long);
    expect(checked({ ...good, tree: long, tree_sig })).toEqual({ fault: 'size' });
    const short = { ...tree, more: 'x' };
    expect(checked({ ...good, tree: short, tree_sig: signDocument(relay.signer, short) })).toEqual({ seq: 7 });
  });

  test('is kept with its place, the statement and its signature, and nothing else proves it', () => {
    const { accept, ...signature } = together();
    const result = { status: 'accepted', accept, ...signature };
    const event = outboxEventOfResult(result, PUSHED, promise);
    expect(event).toMatchObject({ type: 'relay-accepted', isVerified: true });
    const { acceptance } = event as Extract<OutboxEvent, { type: 'relay-accepted' }>;
    const kept = { accept, relayPubkey: relay.key, epoch: accept.epoch, seq: 7, acceptedAtMs: NOON_MS };
    expect(acceptance).toEqual({ ...kept, retentionMs: 1000, ...signature });
    expect(isReceiptSigned(relay.key, acceptance)).toBe(true);
  });

  test('is no result without the statement, which stands beside the results', () => {
    const { accept, proof } = together();
    const none = { type: 'relay-failed', relayPubkey: relay.key, reason: 'the relay gave no result for it' };
    expect(outboxEventOfResult({ status: 'accepted', accept, proof }, PUSHED, promise)).toEqual(none);
  });

  test('shares one verification with the others of its answer, and no more than that', () => {
    const { accept, ...signature } = together();
    const isSigned = receiptCheck(relay.key);
    for (let time = 0; time < 2; time++) {
      expect(checkAcceptReceipt(accept, signature, PUSHED, isSigned)).toEqual({ seq: 7 });
      expect(checkAcceptReceipt({ ...accept, at: 1 }, signature, PUSHED, isSigned)).toEqual({ fault: 'signature' });
    }
  });
});
