/** GET /v2/relay/items and POST /v2/relay/ack. */
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { FORMS } from '../support/binary-form.ts';
import { type HttpRelay, type HttpRelayChanges, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const ITEMS = '/v2/relay/items';
const ACK = '/v2/relay/ack';

const EACH = ANY_ADAPTER.flatMap((adapter) => FORMS.map((form) => [adapter, form] as const));

describe.each(EACH)('%s, %s', (adapter, form) => {
  /** Alice has pushed `count` items of `bytes` bytes each to bob, m1 first. Answers their seqs. */
  const queued = async (
    count: number,
    bytes: number,
    changes: HttpRelayChanges = {},
  ): Promise<{ relay: HttpRelay; seqs: number[] }> => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol], { form, ...changes });
    const seqs: number[] = [];
    for (let from = 1; from <= count; from += 200) {
      const ids = Array.from({ length: Math.min(200, count - from + 1) }, (_, at) => `m${from + at}`);
      const { results } = await relay.client(alice).push(ids.map((id) => itemTo([bob], id, envelopeWire(id, bytes))));
      seqs.push(...results.map(({ targets }) => targets?.[0]?.seq ?? 0));
    }
    return { relay, seqs };
  };

  test('pull rule 1: last_seq is the last returned, head_seq the last allocated for the caller', async () => {
    const { relay, seqs } = await queued(3, 100);
    const [first = 0, second = 0, third = 0] = seqs;
    await relay.client(alice).push([itemTo([carol], 'other')]);
    const page = await relay.client(bob).pull({ limit: 2 });
    expect(page).toMatchObject({ epoch: relay.epoch, head_seq: third, last_seq: second, more: true });
    expect(page.items.map(({ seq }) => seq)).toEqual([first, second]);
    const rest = await relay.client(bob).pull({ after: second });
    expect(rest).toMatchObject({ head_seq: third, last_seq: third, more: false });
    expect(rest.items.map(({ item_id }) => item_id)).toEqual(['m3']);
    const none = await relay.client(bob).pull({ after: third });
    const nothing = { epoch: relay.epoch, head_seq: third, items: [], unreadable: [], more: false };
    expect(none).toEqual({ ...nothing, last_seq: third });
    const beyond = await relay.client(bob).pull({ after: third + 5 });
    expect(beyond).toEqual({ ...nothing, last_seq: third + 5 });
    expect(await relay.client(alice).pull()).toMatchObject({ head_seq: 0, items: [], last_seq: 0, more: false });
  });

  test('pull rule 3: a request whose epoch is not current answers 409 with the current epoch', async () => {
    const { relay } = await queued(1, 100);
    for (const epoch of ['x', relay.epoch.toLowerCase(), `${relay.epoch}x`, '']) {
      const target = `${ITEMS}?epoch=${epoch}`;
      expect(await relay.ask(bob, 'GET', target)).toBeProblem('EPOCH_CHANGED', { epoch: relay.epoch });
    }
    expect((await relay.client(bob).pull({ epoch: relay.epoch })).items).toHaveLength(1);
    expect((await relay.client(bob).pull()).items).toHaveLength(1);
  });

  test('a page holds only the items of its caller, in ascending order, with the sender that pushed', async () => {
    const { relay } = await queued(0, 0);
    await relay.client(alice).push([itemTo([bob, carol], 'a1')]);
    await relay.client(carol).push([itemTo([bob], 'c1')]);
    await relay.client(alice).push([itemTo([bob], 'a2')]);
    const ofBob = await relay.client(bob).pull();
    expect(ofBob.items.map(({ item_id, sender_pubkey }) => [item_id, sender_pubkey])).toEqual([
      ['a1', alice.key],
      ['c1', carol.key],
      ['a2', alice.key],
    ]);
    const seqs = ofBob.items.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
    expect((await relay.client(carol).pull()).items.map(({ item_id }) => item_id)).toEqual(['a1']);
  });

  describe('the query of a pull', () => {
    const suite = relayForSuite(adapter, { form });
    const pull = async (query: string): Promise<{ status: number; items: unknown[] }> => {
      const relay = suite.current;
      if (!relay.relay.engine.directory.get(bob.key)) {
        await relay.enrol(alice, bob);
        await relay.client(alice).push(['q1', 'q2', 'q3'].map((id) => itemTo([bob], id)));
      }
      const response = await relay.ask(bob, 'GET', `${ITEMS}${query}`);
      if (response.status !== 200) expect(response).toBeProblem('BAD_REQUEST');
      return { status: response.status, items: (jsonOf(response)['items'] ?? []) as unknown[] };
    };

    test.each([
      ['', 3],
      ['?', 3],
      ['?after=0', 3],
      ['?after=9007199254740991', 0],
      ['?limit=1', 1],
      ['?limit=500', 3],
      ['?limit=501', 3],
      ['?limit=9007199254740991', 3],
      ['?wait=0', 3],
      ['?wait=30', 3],
      ['?unknown=1&unknown=2', 3],
      ['?%61fter=9007199254740991', 0],
      ['?after=%30', 3],
    ])('%j is understood', async (query, items) => {
      expect(await pull(query)).toMatchObject({ status: 200, items: { length: items } });
    });

    test.each([
      '?after=',
      '?after=-1',
      '?after=1.5',
      '?after=1e3',
      '?after=0x10',
      '?after=%201',
      '?after=abc',
      '?after=9007199254740992',
      '?after=99999999999999999999',
      '?after=1&after=1',
      '?limit=',
      '?limit=0',
      '?limit=-1',
      '?limit=1.5',
      '?limit=x',
      '?limit=1&limit=2',
      '?wait=31',
      '?wait=-1',
      '?wait=1.5',
      '?wait=x',
      '?wait=1&wait=1',
      '?epoch=a&epoch=a',
    ])('%j is BAD_REQUEST', async (query) => {
      expect((await pull(query)).status).toBe(400);
    });
  });

  describe('ack', () => {
    const suite = relayForSuite(adapter, { form });

    test('ack: deletes what lies at or below through, and records it', async () => {
      const { relay, seqs } = await queued(4, 100);
      const [, second = 0, , head = 0] = seqs;
      const { epoch } = relay;
      expect(jsonOf(await ack(relay, { epoch, through: second }))).toEqual({
        acked_through: second,
        deleted: 2,
        head_seq: head,
      });
      expect((await relay.client(bob).pull()).items.map(({ item_id }) => item_id)).toEqual(['m3', 'm4']);
      expect((await relay.client(bob).ownInfo()).you).toMatchObject({ acked_through: second, head_seq: head });
    });

    test('ack: through beyond the head is BAD_ACK with the head, and deletes nothing', async () => {
      const { relay, seqs } = await queued(2, 100);
      const head = seqs.at(-1) ?? 0;
      const lsn = await relay.lastLsn();
      for (const through of [head + 1, Number.MAX_SAFE_INTEGER]) {
        const response = await ack(relay, { epoch: relay.epoch, through });
        expect(response).toBeProblem('BAD_ACK', { head_seq: head });
      }
      const empty = await ack(relay, { epoch: relay.epoch, through: 1 }, carol);
      expect(empty).toBeProblem('BAD_ACK', { head_seq: 0 });
      expect(await relay.lastLsn()).toBe(lsn);
      expect(await relay.queue(bob)).toHaveLength(2);
    });

    test.each([
      {},
      { through: 0 },
      { epoch: 'E' },
      { epoch: 'E', through: '0' },
      { epoch: 'E', through: -1 },
      { epoch: 'E', through: 1.5 },
      { epoch: 'E', through: 9_007_199_254_740_992 },
      { epoch: 'E', through: null },
      { epoch: 'E', through: [1] },
      { epoch: '', through: 0 },
      { epoch: 5, through: 0 },
      { epoch: 'x'.repeat(65), through: 0 },
      [],
      'x',
      null,
    ])('ack: %j is BAD_REQUEST', async (body) => {
      const relay = suite.current;
      if (!relay.relay.engine.directory.get(bob.key)) await relay.enrol(bob);
      expect(await ack(relay, body)).toBeProblem('BAD_REQUEST');
    });
  });
});

function ack(relay: HttpRelay, body: unknown, host: TestHost = bob): Promise<RawResponse> {
  return relay.ask(host, 'POST', ACK, body);
}
