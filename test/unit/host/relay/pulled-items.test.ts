/** Pages as a relay may show them, good and bad items in any mixture. */
import { expect, test } from 'vitest';
import type { PulledItem, PulledPage } from '../../../../src/host/relay/relay-forms.ts';
import { itemOfV1, placedItems } from '../../../../src/host/relay/pull-loop.ts';
import type { Epoch } from '../../../../src/protocol/names.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';

const alice = hostNamed('alice');
const scope = { relayPubkey: relay.key, epoch: 'E' as Epoch, hostPubkey: alice.key };

function good(seq: number): PulledItem {
  return { seq, kind: 'envelope', item_id: `m${seq}`, sender_pubkey: alice.key, wire: Buffer.from('wire') };
}

function bad(seq: number | null, value: unknown): PulledPage['unreadable'][number] {
  return { seq, bytes: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)) };
}

function placed(page: Partial<PulledPage>, after = 0): { id: string; kind: string; seq: unknown; through: number }[] {
  const whole = { epoch: 'E', head_seq: 100, items: [], unreadable: [], last_seq: 9, more: false, ...page };
  return placedItems(whole, after, scope).map(({ item, through }) => ({
    id: item.itemId,
    kind: item.kind,
    seq: item.relay?.seq,
    through,
  }));
}

test('what cannot be read stands at its seq among the others, with what can be read of it', () => {
  const wire = Buffer.from('wire');
  const strange = {
    seq: 5,
    kind: 'hologram',
    item_id: 'strange',
    sender_pubkey: 'x',
    wire_b64: wire.toString('base64'),
  };
  const page = { items: [good(4), good(6)], unreadable: [bad(5, strange)] };
  expect(placed(page)).toEqual([
    { id: 'm4', kind: 'envelope', seq: 4, through: 4 },
    { id: 'strange', kind: 'hologram', seq: 5, through: 5 },
    { id: 'm6', kind: 'envelope', seq: 6, through: 6 },
  ]);
  const whole = { epoch: 'E', head_seq: 100, last_seq: 6, more: false, ...page };
  expect(placedItems(whole, 0, scope)[1]?.item).toMatchObject({ wire, senderPubkey: '' });
});

test('without wire bytes that can be read, all of the item is kept as them', () => {
  const page = { epoch: 'E', head_seq: 9, items: [], last_seq: 9, more: false };
  const text = '{"seq":3,"kind":"envelope","item_id":7}';
  const [first] = placedItems({ ...page, unreadable: [bad(3, text)] }, 0, scope);
  expect(first).toMatchObject({ through: 3, item: { kind: 'envelope', itemId: '', senderPubkey: '' } });
  expect(first?.item.wire.toString()).toBe(text);
});

test('an item without a place comes first and moves nothing; the page itself leads behind it', () => {
  const page = { items: [good(4)], unreadable: [bad(null, '[[[')], last_seq: 8 };
  expect(placed(page, 2)).toEqual([
    { id: '', kind: '', seq: null, through: 2 },
    { id: 'm4', kind: 'envelope', seq: 4, through: 8 },
  ]);
  // Where every item has a place, it is theirs that counts.
  expect(placed({ items: [good(4)], last_seq: 8 }, 2)).toMatchObject([{ through: 4 }]);
  // Nothing leads beyond the head: the store would seem to have gone back in time.
  expect(placed({ items: [good(200)], last_seq: 200 }, 2)).toMatchObject([{ id: 'm200', seq: null, through: 2 }]);
});

test('a page that is out of order is put in order, and received-through never goes back', () => {
  const through = placed({ items: [good(7), good(3), good(5)] }, 4).map(({ id, through: at }) => [id, at]);
  expect(through).toEqual([
    ['m3', 4],
    ['m5', 5],
    ['m7', 7],
  ]);
});

test.each([
  ['nests deeply', `{"id":"m","a":${'['.repeat(80)}${']'.repeat(80)}}`],
  ['holds 60,000 values', `{"id":"m","a":[${'1,'.repeat(60_000)}1]}`],
  ['is no JSON', '{"id":"m",'],
])('v1: an envelope that %s is kept as it came', (_what, text) => {
  const item = itemOfV1(Buffer.from(text), scope);
  expect(item).toMatchObject({ kind: 'envelope', itemId: '', senderPubkey: '' });
  expect(item.wire.toString()).toBe(text);
});
