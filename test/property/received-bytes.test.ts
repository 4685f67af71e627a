import { expect, test } from 'vitest';
import type { IncomingItem } from '../../src/host/inbound/verify.ts';
import { quarantineUsage } from '../../src/host/inbound/quarantine-rows.ts';
import { receiveItems } from '../../src/host/inbound/receive.ts';
import { ITEM_KINDS } from '../../src/protocol/items.ts';
import {
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  pairedContexts,
  peerIdOf,
  pin,
  sendTo,
} from '../support/paired-contexts.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { rowsOf } from '../support/stored-rows.ts';

/** Texts that parsers, keys of a store and prototypes have stumbled over. */
const hostileTexts: readonly string[] = [
  '',
  '\0',
  'a\0b',
  '\ud800',
  '__proto__',
  'constructor',
  '{"__proto__":{"v":1}}',
  '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[',
  '1e400',
  '-0',
  '"\\ud800"',
  '"id":"other",',
  'receipt:::',
  'expired:m:k',
  '../../etc/passwd',
  'x'.repeat(10_000),
];

const SEED = 20_260_101;
const ITEMS = 600;

/** The bytes with a few of them changed, doubled, cut out or cut off. */
function damaged(random: SeededRandom, bytes: Buffer): Buffer {
  const at = random.below(bytes.length);
  switch (random.below(5)) {
    case 0:
      return Buffer.from(bytes.map((byte, place) => (place === at ? random.below(256) : byte)));
    case 1:
      return bytes.subarray(0, at);
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(20))]);
    case 3:
      return Buffer.concat([bytes.subarray(0, at), random.bytes(1 + random.below(8)), bytes.subarray(at)]);
    default:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(random.pick(hostileTexts)), bytes.subarray(at)]);
  }
}

test(`whatever bytes come, nothing throws, nothing is delivered, and all is kept (seed ${SEED})`, async () => {
  const random = new SeededRandom(SEED);
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  const envelope = await itemFor(alice, bob, message.id);
  // bob hears of his own receipt, too: signed well, and for nothing that he sent.
  await pin(bob, bob);
  await receiveItems(bob.context, [envelope]);
  const [receiptRow] = await rowsOf(bob.store(), 'outbox', []);
  expect(receiptRow?.peerId).toBe(peerIdOf(alice.host));
  const receipt = await itemFor(bob, alice, receiptRow!.itemId);
  const items: IncomingItem[] = Array.from({ length: ITEMS }, () => {
    const good = random.pick([envelope, receipt]);
    const wire = random.chance(0.1) ? random.bytes(random.below(300)) : damaged(random, good.wire);
    const itemId = random.chance(0.2) ? random.pick(hostileTexts) : good.itemId;
    const kind = random.chance(0.2) ? random.pick(ITEM_KINDS) : good.kind;
    return { ...lanItem(alice, kind, itemId, wire), senderPubkey: random.pick([alice, bob]).host.key };
  });
  const received = await receiveItems(bob.context, items);
  // A damaged hop count is another hop count, and a cut of nothing is the item itself.
  const taken = received.filter(({ status }) => status === 'accepted' || status === 'duplicate');
  expect(taken.length).toBeLessThan(10);
  expect(received.some(({ status }) => status === 'accepted')).toBe(false);
  expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
  const kept = await rowsOf(bob.store(), 'quarantine', []);
  expect(kept.length).toBeGreaterThan(ITEMS / 2);
  expect(await bob.store().read((reader) => quarantineUsage(reader))).toEqual({
    items: kept.length,
    bytes: kept.reduce((sum, { wireBytes, isBare }) => sum + (isBare ? 0 : wireBytes), 0),
    bare: kept.filter(({ isBare }) => isBare).length,
  });
});
