import { expect, test } from 'vitest';
import { keptAcceptanceFault, mustKnowItem } from '../../../src/host/core/kept-acceptance.ts';
import type { RelayAcceptance } from '../../../src/host/core/rows.ts';
import { canonicalBytes } from '../../../src/protocol/canonical-json.ts';
import { sha256Hex } from '../../../src/protocol/digest.ts';
import { acceptReceipt } from '../../../src/protocol/documents.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { alice, bob, carol, relay } from '../../support/hosts.ts';
import { NOON_MS } from '../../support/test-clock.ts';

const DAY_MS = 86_400_000;
const ROW = { itemId: 'm1' as ItemId, wireHash: sha256Hex('wire') };
const accept = acceptReceipt({
  relay_pubkey: relay.key,
  epoch: epochNumbered(1),
  sender_pubkey: alice.key,
  item_id: ROW.itemId,
  targets: [{ host_pubkey: bob.key, seq: 7, wire_hash: ROW.wireHash }],
  at: NOON_MS,
});
const KEPT: RelayAcceptance = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  seq: 7,
  accept,
  sig: relay.signer.sign(canonicalBytes(accept)),
  acceptedAtMs: NOON_MS,
  retentionMs: 14 * DAY_MS,
};
const KEYS = { own: [carol.key, alice.key], peer: [bob.key] };

test('a kept receipt is good under whatever key either host had', () => {
  expect(keptAcceptanceFault(ROW, KEPT, KEYS)).toBeNull();
});

test.each([
  ['sender', ROW, KEPT, { ...KEYS, own: [carol.key] }],
  ['target', ROW, KEPT, { ...KEYS, peer: [carol.key] }],
  ['hash', { ...ROW, wireHash: sha256Hex('other') }, KEPT, KEYS],
  ['item', { ...ROW, itemId: 'm2' as ItemId }, KEPT, KEYS],
  ['signature', ROW, { ...KEPT, sig: alice.signer.sign(canonicalBytes(accept)) }, KEYS],
] as const)('of a kept receipt the %s may be wrong', (fault, row, kept, keys) => {
  expect(keptAcceptanceFault(row, kept, keys)).toBe(fault);
});

test('a relay has to know what it took for the retention twice and 7 days, in its epoch', () => {
  const last = NOON_MS + 35 * DAY_MS;
  expect(mustKnowItem(KEPT, epochNumbered(1), last - 1)).toBe(true);
  expect(mustKnowItem(KEPT, epochNumbered(1), last)).toBe(false);
  expect(mustKnowItem(KEPT, epochNumbered(2), NOON_MS)).toBe(false);
  expect(mustKnowItem(KEPT, null, NOON_MS)).toBe(false);
  expect(mustKnowItem({ ...KEPT, mayBeLost: true }, epochNumbered(1), NOON_MS)).toBe(false);
});
