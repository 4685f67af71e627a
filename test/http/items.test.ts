/** POST /v2/relay/items: its numbered rules, and how docs/protocol.md answers each item. */
import { describe, expect, test } from 'vitest';
import type { PushResult } from '../../src/host/relay/relay-client.ts';
import type { ItemToPush } from '../../src/host/relay/relay-forms.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { FORMS } from '../support/binary-form.ts';
import { type HttpRelay, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const ITEMS = '/v2/relay/items';

const BAD_RECEIPT = 'rejected:bad receipt';

const EACH = ANY_ADAPTER.flatMap((adapter) => FORMS.map((form) => [adapter, form] as const));

describe.each(EACH)('%s, %s', (adapter, form) => {
  const suite = relayForSuite(adapter, { form });
  let ids = 0;
  const newId = (): string => `items-${++ids}`;

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(alice.key)) await relay.enrol(alice, bob, carol);
    return relay;
  };

  const pushOne = async (item: unknown, from: TestHost = alice): Promise<PushResult> => {
    const relay = await enrolled();
    const [result, ...more] = resultsOf(await relay.ask(from, 'POST', ITEMS, { items: [item] }));
    if (!result || more.length > 0) throw new Error('one item is answered once');
    return result;
  };

  /** The status of an item that is rejected: the answer says nothing else of it, and nothing is stored. */
  const rejected = async (item: unknown, from?: TestHost): Promise<string> => {
    const relay = await enrolled();
    const lsn = await relay.lastLsn();
    const waiting = (await relay.queue(bob)).length + (await relay.queue(carol)).length;
    const { item_id, status, ...more } = await pushOne(item, from);
    expect(item_id === null || typeof item_id === 'string').toBe(true);
    expect(more).toEqual({});
    expect(await relay.lastLsn()).toBe(lsn);
    expect((await relay.queue(bob)).length + (await relay.queue(carol)).length).toBe(waiting);
    return status;
  };

  test('the answer names the epoch, and results answer items in their order', async () => {
    const relay = await enrolled();
    const items = [itemTo([bob], newId()), itemTo([dave], newId()), itemTo([carol], newId())];
    const { epoch, results } = await relay.client(alice).push(items);
    expect(epoch).toBe(relay.epoch);
    expect(results.map(({ item_id }) => item_id)).toEqual(items.map(({ item_id }) => item_id));
    expect(results.map(({ status }) => status)).toEqual(['accepted', 'rejected:unknown target', 'accepted']);
    const members = ['accept', 'item_id', 'proof', 'status', 'targets', 'tree', 'tree_sig'];
    expect(Object.keys(results[0] ?? {}).toSorted()).toEqual(members);
  });

  describe('an answer that is longer than most is whole', () => {
    test('with receipts signed together, of items for several hosts', async () => {
      const relay = await enrolled();
      const items = Array.from({ length: 100 }, () => itemTo([bob, carol], newId()));
      const { epoch, results } = await relay.client(alice).push(items);
      expect(epoch).toBe(relay.epoch);
      expect(results.map(({ item_id }) => item_id)).toEqual(items.map(({ item_id }) => item_id));
      expect(results.every((result) => isReceiptSigned(relayHost.key, result))).toBe(true);
    });

    test('with a receipt of its own, of an item for 16 hosts', async () => {
      const relay = await enrolled();
      const many = Array.from({ length: 16 }, (_none, at) => hostNamed(`many-${at}`));
      await relay.enrol(...many);
      const result = await pushOne(itemTo(many, newId()));
      expect(result).toMatchObject({ status: 'accepted', targets: many.map(({ key }) => ({ host_pubkey: key })) });
      expect(isReceiptSigned(relayHost.key, result)).toBe(true);
    });

    test('of items that are malformed, whose ids are all that is known of them', async () => {
      const relay = await enrolled();
      const items = Array.from({ length: 100 }, (_none, at) => ({ item_id: String(at).padEnd(320, '\u0001') }));
      const results = resultsOf(await relay.ask(alice, 'POST', ITEMS, { items }));
      expect(results).toEqual(items.map(({ item_id }) => ({ item_id, status: 'rejected:malformed' })));
    });
  });

  describe('items rule 1: a target is addressed by its host key', () => {
    test.each(['bob', 'coder@bob', 'role:reviewer', '*', 'owner', '', 5, null, ['x'], { key: 1 }])(
      'items rule 1: %j is no target',
      async (host_pubkey) => {
        const item = itemTo([bob], newId());
        expect(await rejected({ ...item, targets: [{ ...item.targets[0], host_pubkey }] })).toBe('rejected:malformed');
      },
    );

    test('items rule 1: a key that is not enrolled is an unknown target', async () => {
      expect(await rejected(itemTo([dave], newId()))).toBe('rejected:unknown target');
    });

    test('items rule 1: the wire bytes of each target are its own', async () => {
      const relay = await enrolled();
      const id = newId();
      const wires = [envelopeWire(id, 200), envelopeWire(id, 300)];
      const targets = [bob, carol].map(({ key }, at) => ({ host_pubkey: key, wire_b64: base64(wires[at]) }));
      const result = await pushOne({ kind: 'envelope', item_id: id, targets });
      expect(result.status).toBe('accepted');
      for (const [at, host] of [bob, carol].entries()) {
        const { items } = await relay.client(host).pull();
        expect(items.find(({ item_id }) => item_id === id)?.wire).toEqual(wires[at]);
      }
    });
  });

  test('items rule 3: 512 KiB are not too large', async () => {
    const id = newId();
    expect((await pushOne(itemTo([bob], id, envelopeWire(id, 524_288)))).status).toBe('accepted');
    expect(await rejected(itemTo([bob], newId(), envelopeWire(`items-${ids}`, 524_289)))).toBe('rejected:too large');
  });

  describe('items rule 4: envelopes are sealed and carry their id', () => {
    const sealed = { alg: 'a', enc: 'e', ct: 'c' };
    test.each<[string, (id: string) => unknown]>([
      ['no JSON', () => 'plain text'],
      ['a body beside it', (id) => ({ id, sealed, body: 'plain' })],
      ['nested too deeply', (id) => `{"id":"${id}","sealed":${'['.repeat(100)}${']'.repeat(100)}}`],
    ])('items rule 4: an envelope with %s is not sealed', async (_what, wireOf) => {
      const id = newId();
      const wire = wireOf(id);
      const bytes = Buffer.from(typeof wire === 'string' ? wire : JSON.stringify(wire));
      expect(await rejected(itemTo([bob], id, bytes))).toBe('rejected:not sealed');
    });

    test.each<[string, (id: string) => unknown]>([
      ['another id', () => ({ id: 'another', sealed })],
      ['no id', () => ({ sealed })],
    ])('items rule 4: an envelope with %s is an id mismatch', async (_what, wireOf) => {
      const id = newId();
      expect(await rejected(itemTo([bob], id, Buffer.from(JSON.stringify(wireOf(id)))))).toBe('rejected:id mismatch');
    });
  });

  describe('items rule 4: receipts are signed by the pushing host', () => {
    test('items rule 4: a good receipt is accepted', async () => {
      const id = receiptId('m1', 'coder@bob', 7);
      const result = await pushOne(itemTo([alice], id, receiptWire(bob, 'm1', 'coder@bob', 7)), bob);
      expect(result.status).toBe('accepted');
    });

    test('items rule 4: a receipt of another host, though rightly signed by it', async () => {
      const wire = receiptWire(carol, 'm2', 'coder@carol', 1);
      expect(await rejected(itemTo([carol], receiptId('m2', 'coder@carol', 1), wire), bob)).toBe(BAD_RECEIPT);
    });

    test('items rule 4: a receipt goes to one target', async () => {
      const id = receiptId('m9', 'coder@alice', 1);
      const wire = receiptWire(alice, 'm9', 'coder@alice', 1);
      expect(await rejected(itemTo([bob, carol], id, wire))).toBe('rejected:bad receipt');
      expect(await rejected(itemTo([bob], receiptId('m10', 'coder@alice', 1), envelopeWire('m10')), alice)).toBe(
        BAD_RECEIPT,
      );
    });
  });

  describe('items rule 5', () => {
    test('items rule 5: within one request too, item by item', async () => {
      const relay = await enrolled();
      const id = newId();
      const items = [itemTo([bob], id), itemTo([bob], id), itemTo([bob], id, envelopeWire(id, 500))];
      const { results } = await relay.client(alice).push(items);
      expect(results.map(({ status }) => status)).toEqual(['accepted', 'duplicate', 'rejected:conflict']);
      expect(results[1]?.targets).toEqual(results[0]?.targets);
    });

    test('items rule 5: of the same push over many connections at once, one is accepted', async () => {
      const relay = await enrolled();
      const item = itemTo([bob], newId());
      const answers = await Promise.all(Array.from({ length: 8 }, () => relay.client(alice).push([item])));
      const statuses = answers.map(({ results }) => results[0]?.status);
      expect(statuses.filter((status) => status === 'accepted')).toHaveLength(1);
      expect(statuses.filter((status) => status === 'duplicate')).toHaveLength(7);
      expect(new Set(answers.map(({ results }) => results[0]?.targets?.[0]?.seq)).size).toBe(1);
    });
  });

  describe('one malformed item is rejected alone', () => {
    const good = itemTo([bob], 'x');
    const target = good.targets[0];
    const ofWire = (wire_b64: unknown): unknown => ({ ...good, targets: [{ ...target, wire_b64 }] });
    test.each<[string, unknown]>([
      ['null', null],
      ['no id', { kind: 'envelope', targets: good.targets }],
      ['a second target that is malformed', { ...good, targets: [target, {}] }],
      ['bytes with bits behind the end', ofWire('QR==')],
    ])('with %s', async (_what, item) => {
      const relay = await enrolled();
      const before = newId();
      const after = newId();
      const items = [itemTo([bob], before), item, itemTo([bob], after)];
      const results = resultsOf(await relay.ask(alice, 'POST', ITEMS, { items }));
      expect(results.map(({ status }) => status)).toEqual(['accepted', 'rejected:malformed', 'accepted']);
      const id = (item as { item_id?: unknown } | null)?.item_id;
      expect(results[1]).toEqual({ item_id: typeof id === 'string' ? id : null, status: 'rejected:malformed' });
      const waiting = (await relay.queue(bob)).map(({ itemId }) => itemId as string);
      expect(waiting).toContain(before);
      expect(waiting).toContain(after);
    });
  });

  test('members that nobody knows are ignored, of the request, of an item and of a target', async () => {
    const relay = await enrolled();
    const item = itemTo([bob], newId());
    const targets = item.targets.map((target) => ({ ...target, more: [1] }));
    const document = { items: [{ ...item, targets, more: {} }], more: null };
    expect(resultsOf(await relay.ask(alice, 'POST', ITEMS, document))).toMatchObject([{ status: 'accepted' }]);
  });

  test('max_batch items are taken, one more is BAD_REQUEST and stores nothing', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { form, limits: { max_batch: 3 } });
    const items = ['m1', 'm2', 'm3', 'm4'].map((id) => itemTo([bob], id));
    const lsn = await relay.lastLsn();
    expect(await relay.ask(alice, 'POST', ITEMS, { items })).toBeProblem('BAD_REQUEST');
    const nulls = { items: [null, null, null, null] };
    expect(await relay.ask(alice, 'POST', ITEMS, nulls)).toBeProblem('BAD_REQUEST');
    expect(await relay.lastLsn()).toBe(lsn);
    const { results } = await relay.client(alice).push(items.slice(1));
    expect(results.map(({ status }) => status)).toEqual(['accepted', 'accepted', 'accepted']);
    expect((await relay.client(alice).push([])).results).toEqual([]);
  });

  test('max_targets targets are taken, one more is too many', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol], { form, limits: { max_targets: 2 } });
    const { results } = await relay.client(alice).push([itemTo([bob, carol], 'm1'), itemTo([bob, carol, alice], 'm2')]);
    expect(results.map(({ status }) => status)).toEqual(['accepted', 'rejected:too many targets']);
  });

  describe('the first check that fails decides', () => {
    const plain = Buffer.from('plain');
    test.each<[string, string, (id: string) => ItemToPush]>([
      ['malformed', 'too many targets', (id) => ({ ...itemTo(many(65), id), item_id: 'a b' })],
      ['not sealed', 'id mismatch', (id) => withWires(id, [envelopeWire('other'), plain])],
    ])('%s before %s', async (first, _second, itemOf) => {
      const id = newId();
      await pushOne(itemTo([bob], id));
      expect(await rejected(itemOf(id))).toBe(`rejected:${first}`);
    });
  });
});

function resultsOf(response: RawResponse): PushResult[] {
  return jsonOf(response)['results'] as PushResult[];
}

function base64(bytes: Buffer | undefined): string {
  return bytes?.toString('base64') ?? '';
}

/** Keys that nobody has enrolled. */
function many(count: number): TestHost[] {
  return Array.from({ length: count }, (_, at) => ({
    ...dave,
    key: Buffer.alloc(32, at + 1).toString('base64') as PublicKey,
  }));
}

function withWires(id: string, wires: readonly Buffer[]): ItemToPush {
  const hosts = [bob, carol];
  const targets = wires.map((wire, at) => ({ host_pubkey: (hosts[at] ?? bob).key, wire_b64: base64(wire) }));
  return { kind: 'envelope', item_id: id, targets };
}
