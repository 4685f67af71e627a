/**
 * The two forms of push, pull and ack: which one a body is in and an answer comes in, and what is the same in both. The
 * rules of the routes are tested in both forms where they stand (items, pull, pages).
 */
import { describe, expect, test } from 'vitest';
import { BINARY_TYPE, packedBytes } from '../../src/protocol/message-pack.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { inBinary } from '../support/binary-form.ts';
import { type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { alice, bob, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { hopBytes, hopHeaders } from '../support/hops.ts';

const ITEMS = '/v2/relay/items';
const ACK = '/v2/relay/ack';
const JSON_TYPE = 'application/json';

const binary = (document: unknown): Buffer => packedBytes(inBinary(document));

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);
  let ids = 0;
  const newItem = (): object => itemTo([bob], `forms-${++ids}`);

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(alice.key)) await relay.enrol(alice, bob);
    return relay;
  };

  const push = async (body: Buffer | string, headers: Record<string, string> = {}): Promise<RawResponse> => {
    const relay = await enrolled();
    return relay.send(relay.hop(alice, 'POST', ITEMS, body), {}, headers);
  };

  test('info lists the form', async () => {
    expect((await suite.current.client(alice).info()).forms).toEqual([BINARY_TYPE]);
  });

  test.each([
    BINARY_TYPE,
    'Application/vnd.Poste+MsgPack',
    `text/html, ${BINARY_TYPE}`,
    `application/json;q=1, ${BINARY_TYPE};q=0.001`,
    `${BINARY_TYPE} ; q=0.5`,
  ])('accept: %s brings a binary answer', async (accept) => {
    const answer = await push(JSON.stringify({ items: [newItem()] }), { accept });
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.headers.get('content-type')).toBe(BINARY_TYPE);
    expect(answer.headers.get('vary')).toBe('accept');
    expect(jsonOf(answer)).toMatchObject({ results: [{ status: 'accepted' }] });
  });

  test.each([
    undefined,
    '*/*',
    'application/*',
    `${BINARY_TYPE};q=0`,
    `${BINARY_TYPE};q=0.000`,
    `${BINARY_TYPE};q=x`,
    `${BINARY_TYPE};v=2`,
    `${BINARY_TYPE}x`,
    'application/msgpack',
  ])('accept: %s brings JSON', async (accept) => {
    const answer = await push(JSON.stringify({ items: [newItem()] }), accept === undefined ? {} : { accept });
    expect(answer.headers.get('content-type')).toBe(JSON_TYPE);
    expect(answer.headers.get('vary')).toBe('accept');
    expect(jsonOf(answer)).toMatchObject({ results: [{ status: 'accepted' }] });
  });

  test('a header accept in two lines counts as one', async () => {
    const relay = await enrolled();
    const hop = relay.hop(bob, 'GET', ITEMS);
    const text = hopBytes(hop).toString('latin1').replace('\r\n\r\n', '');
    const lines = ['text/html', BINARY_TYPE, 'text/plain'].map((type) => `\r\naccept: ${type}`);
    const answer = await rawRequest(relay.port, Buffer.from(`${text}${lines.join('')}\r\n\r\n`, 'latin1'));
    expect(answer.headers.get('content-type')).toBe(BINARY_TYPE);
  });

  test('body and answer have each its own form', async () => {
    const document = { items: [newItem()] };
    const inJson = await push(binary(document), { 'content-type': BINARY_TYPE });
    expect(inJson.headers.get('content-type')).toBe(JSON_TYPE);
    const [first] = jsonOf(inJson)['results'] as object[];
    const again = await push(JSON.stringify(document), { accept: BINARY_TYPE });
    expect(jsonOf(again)['results']).toEqual([{ ...first, status: 'duplicate' }]);
    expect(isReceiptSigned(relayHost.key, first)).toBe(true);
  });

  test.each([
    ['a signature each', {}],
    ['one signature', { 'x-mail-receipts': 'tree' }],
  ])('an answer has the shortest forms in the order of its members: %s', async (_how, headers) => {
    const items = Array.from({ length: 20 }, (_none, at) => (at === 3 ? null : newItem()));
    const answer = await push(JSON.stringify({ items }), { accept: BINARY_TYPE, ...headers });
    expect(answer.body.equals(binary(jsonOf(answer)))).toBe(true);
    const { results } = jsonOf(answer) as { results: { status: string }[] };
    expect(results.filter(({ status }) => status === 'accepted')).toHaveLength(19);
  });

  test('receipts that are signed together verify, each with its path', async () => {
    const items = [newItem(), newItem(), { ...newItem(), kind: 'none' }, newItem()];
    const headers = { accept: BINARY_TYPE, 'content-type': BINARY_TYPE, 'x-mail-receipts': 'tree' };
    const { results, tree, tree_sig } = jsonOf(await push(binary({ items }), headers)) as {
      results: Record<string, unknown>[];
      tree: object;
      tree_sig: string;
    };
    const stored = results.filter(({ status }) => status === 'accepted');
    expect(stored).toHaveLength(3);
    for (const result of stored) {
      expect(result).not.toHaveProperty('sig');
      expect(isReceiptSigned(relayHost.key, { ...result, tree, tree_sig })).toBe(true);
    }
    expect(results[2]).toEqual({ item_id: (items[2] as { item_id: string }).item_id, status: 'rejected:malformed' });
  });

  describe('the body is what content-type says', () => {
    test.each([BINARY_TYPE, BINARY_TYPE.toUpperCase()])('%s', async (type) => {
      expect((await push(binary({ items: [newItem()] }), { 'content-type': type })).status).toBe(200);
      expect(await push(JSON.stringify({ items: [newItem()] }), { 'content-type': type })).toBeProblem('BAD_REQUEST');
    });

    test.each([undefined, JSON_TYPE, 'application/msgpack', `${BINARY_TYPE};v=1`])('%s is JSON', async (type) => {
      const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
      expect(await push(binary({ items: [newItem()] }), headers)).toBeProblem('BAD_REQUEST');
      expect((await push(JSON.stringify({ items: [newItem()] }), headers)).status).toBe(200);
    });

    test.each([
      ['POST', '/v1/relay/messages', { envelopes: [] }],
      ['POST', '/v1/relay/ack', { cursor: 'x.1' }],
      ['POST', '/v2/relay/senders', { list: {}, sig: '' }],
    ])('%s %s has one form', async (method, target, document) => {
      const relay = await enrolled();
      const hop = relay.hop(bob, method, target, binary(document));
      const answer = await relay.send(hop, {}, { 'content-type': BINARY_TYPE, accept: BINARY_TYPE });
      expect(answer).toBeProblem('BAD_REQUEST');
    });
  });

  test('what is malformed in the binary form is BAD_REQUEST, in JSON, and stores nothing', async () => {
    const relay = await enrolled();
    const lsn = await relay.lastLsn();
    const good = binary({ items: [newItem()] });
    const bombs = ['ddffffffff', `${'91'.repeat(1000)}00`, 'dbffffffff', '81a56974656d73dfffffffff'];
    const bodies = [
      good.subarray(0, good.length - 1),
      Buffer.concat([good, Buffer.from([0])]),
      binary({ items: {} }),
      binary([]),
      ...bombs.map((hex) => Buffer.from(hex, 'hex')),
    ];
    for (const body of bodies) {
      const answer = await push(body, { 'content-type': BINARY_TYPE, accept: BINARY_TYPE });
      expect(answer).toBeProblem('BAD_REQUEST');
    }
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('every refusal is a problem document in JSON', async () => {
    const relay = await enrolled();
    const headers = { 'content-type': BINARY_TYPE, accept: BINARY_TYPE };
    const old = relay.hop(bob, 'GET', `${ITEMS}?epoch=OLD`);
    expect(await relay.send(old, {}, headers)).toBeProblem('EPOCH_CHANGED', { epoch: relay.epoch });
    const beyond = relay.hop(bob, 'POST', ACK, binary({ epoch: relay.epoch, through: Number.MAX_SAFE_INTEGER }));
    expect(await relay.send(beyond, {}, headers)).toBeProblem('BAD_ACK');
    const unknown = requestBytes('GET', ITEMS, { accept: BINARY_TYPE });
    expect(await rawRequest(relay.port, unknown)).toBeProblem('NOT_ENROLLED');
  });

  test('the hop covers the bytes of the body, and neither header', async () => {
    const relay = await enrolled();
    const body = binary({ items: [newItem()] });
    const hop = relay.hop(alice, 'POST', ITEMS, body);
    const altered = Buffer.from(body);
    altered[altered.length - 1]! ^= 1;
    const sent = requestBytes('POST', ITEMS, { ...hopHeaders(hop), 'content-type': BINARY_TYPE }, altered);
    expect(await rawRequest(relay.port, sent)).toBeProblem('BAD_SIGNATURE');
    expect(await relay.send(hop, {}, { 'content-type': JSON_TYPE })).toBeProblem('BAD_REQUEST');
    expect((await relay.send(hop, {}, { 'content-type': BINARY_TYPE })).status).toBe(200);
  });

  test('an empty page is two frames', async () => {
    const relay = await enrolled();
    const target = `${ITEMS}?after=${Number.MAX_SAFE_INTEGER}`;
    const answer = await relay.send(relay.hop(bob, 'GET', target), {}, { accept: BINARY_TYPE });
    const head = packedBytes({ epoch: relay.epoch, head_seq: relay.relay.engine.head(bob.key).headSeq });
    const end = packedBytes({ last_seq: Number.MAX_SAFE_INTEGER, more: false });
    const frames = [head, end].flatMap((map) => [Buffer.from([0, 0, 0, map.length]), map]);
    expect(answer.body).toEqual(Buffer.concat(frames));
  });
});
