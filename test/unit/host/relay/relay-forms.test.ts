/** The client in the two forms of the protocol: when it speaks which, and what it reads of a page. */
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { expect, test } from 'vitest';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { type ItemToPush, pageOf } from '../../../../src/host/relay/relay-forms.ts';
import { RelayCallFailed } from '../../../../src/host/relay/relay-request.ts';
import { BINARY_TYPE, framesIn, packedBytes } from '../../../../src/protocol/message-pack.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';
import { problemDocument } from '../../../../src/protocol/problem.ts';
import { documentOf, framesOf } from '../../../support/binary-form.ts';
import { NO_RELAY_HEADER } from '../../../support/flaky-proxy.ts';
import { alice, bob, relay } from '../../../support/hosts.ts';
import { listeningPort } from '../../../support/listening-port.ts';

interface Asked {
  method: string;
  type: string | undefined;
  accept: string | undefined;
  body: Buffer;
}

type Answer = (asked: Asked, response: ServerResponse) => void;

const INFO = { v: 2, relay_pubkey: relay.key, epoch: 'E'.repeat(26), limits: DEFAULT_LIMITS, version: '9', now: 1 };
const ITEM: ItemToPush = {
  kind: 'envelope',
  item_id: 'm1',
  targets: [{ host_pubkey: bob.key, wire: Buffer.from('{"a":1}') }],
};
const IN_JSON = { items: [{ ...ITEM, targets: [{ host_pubkey: bob.key, wire_b64: 'eyJhIjoxfQ==' }] }] };
const REJECTED = { epoch: INFO.epoch, results: [{ item_id: 'm1', status: 'rejected:conflict' }] };

/** A client of a relay that answers `info` with these members more, and everything else by `answer`. */
async function clientOf(info: object, answer: Answer): Promise<{ client: RelayClient; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => void respond(request, response));
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    response.setHeader(NO_RELAY_HEADER, 'yes');
    if (request.url === '/v2/relay/info') return void response.end(JSON.stringify({ ...INFO, ...info }));
    const { 'content-type': type, accept } = request.headers;
    const one = { method: request.method ?? '', type, accept, body };
    asked.push(one);
    answer(one, response);
  };
  const url = `http://127.0.0.1:${await listeningPort(server)}`;
  const { signer, name: hostName } = alice;
  return { client: new RelayClient({ url, signer, hostName, nowMs: () => 1 }, relay.key), asked };
}

const inJson: Answer = (_asked, response) => void response.end(JSON.stringify(REJECTED));
const badRequest: Answer = (_asked, response) => {
  response.writeHead(400, { 'content-type': 'application/problem+json' });
  response.end(JSON.stringify(problemDocument('BAD_REQUEST', 'send {items: [...]}')));
};
const FORMS = { forms: ['application/other', BINARY_TYPE] };

test.each([
  ['does not list the form', {}],
  ['lists another', { forms: ['application/other'] }],
])('a relay whose info %s is spoken to in JSON', async (_what, info) => {
  const { client, asked } = await clientOf(info, inJson);
  await client.info();
  expect((await client.push([ITEM])).results).toEqual(REJECTED.results);
  expect(asked).toMatchObject([{ type: 'application/json', accept: undefined }]);
  expect(JSON.parse(asked[0]?.body.toString() ?? '')).toEqual(IN_JSON);
});

test('before info was read a relay is spoken to in JSON', async () => {
  const { client, asked } = await clientOf(FORMS, inJson);
  await client.push([ITEM]);
  expect(asked[0]?.type).toBe('application/json');
});

test('a relay whose info lists the form gets it, and its answer is read in the form that it has', async () => {
  const { client, asked } = await clientOf(FORMS, inJson);
  await client.info();
  expect((await client.push([ITEM])).results).toEqual(REJECTED.results);
  expect(asked).toMatchObject([{ type: BINARY_TYPE, accept: BINARY_TYPE }]);
  expect(documentOf(BINARY_TYPE, asked[0]?.body ?? Buffer.alloc(0))).toEqual(IN_JSON);
});

test('after one BAD_REQUEST to a binary body the same push goes in JSON, and all that follows', async () => {
  const { client, asked } = await clientOf(FORMS, (one, response) =>
    (one.type === BINARY_TYPE ? badRequest : inJson)(one, response),
  );
  await client.info();
  expect((await client.push([ITEM])).results).toEqual(REJECTED.results);
  await client.info();
  await client.push([ITEM]);
  expect(asked.map(({ type, accept }) => [type, accept])).toEqual([
    [BINARY_TYPE, BINARY_TYPE],
    ['application/json', undefined],
    ['application/json', undefined],
  ]);
  expect(asked.slice(1).map(({ body }) => JSON.parse(body.toString()) as unknown)).toEqual([IN_JSON, IN_JSON]);
});

test('a BAD_REQUEST that is not about the form comes out after the second', async () => {
  const { client, asked } = await clientOf(FORMS, badRequest);
  await client.info();
  await expect(client.push([ITEM])).rejects.toMatchObject({ status: 400, code: 'BAD_REQUEST' });
  expect(asked).toHaveLength(2);
});

test('after a request without an answer the relay is asked anew which forms it takes', async () => {
  const info: { forms?: string[] } = {};
  const answers: Answer[] = [(_asked, response) => void response.destroy()];
  const { client, asked } = await clientOf(info, (one, response) => (answers.shift() ?? inJson)(one, response));
  await client.info();
  Object.assign(info, FORMS);
  await expect(client.push([ITEM])).rejects.toThrow(RelayCallFailed);
  await client.push([ITEM]);
  delete info.forms;
  answers.push((_asked, response) => void response.destroy());
  await expect(client.push([ITEM])).rejects.toThrow(RelayCallFailed);
  await client.push([ITEM]);
  const json = 'application/json';
  expect(asked.map(({ type }) => type)).toEqual([json, BINARY_TYPE, BINARY_TYPE, json]);
});

test('a relay that refused the form gets it again after a request without an answer', async () => {
  const answers: Answer[] = [badRequest, inJson, (_asked, response) => void response.destroy()];
  const { client, asked } = await clientOf(FORMS, (one, response) => (answers.shift() ?? inJson)(one, response));
  await client.info();
  await client.push([ITEM]);
  await expect(client.push([ITEM])).rejects.toThrow(RelayCallFailed);
  await client.push([ITEM]);
  const json = 'application/json';
  expect(asked.map(({ type }) => type)).toEqual([BINARY_TYPE, json, json, BINARY_TYPE]);
});

test('another refusal changes nothing of the form', async () => {
  const { client, asked } = await clientOf(FORMS, (_one, response) => {
    response.writeHead(400, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify(problemDocument('BAD_ACK', 'beyond', { head_seq: 1 })));
  });
  await client.info();
  for (let turn = 0; turn < 2; turn++) {
    await expect(client.ack('E', 5)).rejects.toMatchObject({ code: 'BAD_ACK' });
  }
  expect(asked.map(({ type }) => type)).toEqual([BINARY_TYPE, BINARY_TYPE]);
});

const pulled = (seq: number): object => ({
  seq,
  kind: 'envelope',
  item_id: `m${seq}`,
  sender_pubkey: alice.key,
  wire_b64: Buffer.from(`wire ${seq}`).toString('base64'),
});
const PAGE = { epoch: 'E', head_seq: 9, items: [1, 2, 3].map(pulled), last_seq: 3, more: false };
const FRAMES = framesOf(PAGE);

/** A page with the seqs of its items; `undefined` when it is none. */
function seqsIn(body: Buffer): object | undefined {
  try {
    const { items, ...page } = pageOf({ body, isBinary: true });
    return { ...page, items: items.map(({ seq }) => seq) };
  } catch (error) {
    if (error instanceof RelayCallFailed) return undefined;
    throw error;
  }
}

test('pages: of one that is cut anywhere, the items that came whole stand, and there is more', () => {
  const maps = framesIn(FRAMES, 10);
  const ends = maps.map((_map, at) => maps.slice(0, at + 1).reduce((sum, { length }) => sum + 4 + length, 0));
  for (let length = 0; length < FRAMES.length; length++) {
    const came = ends.filter((end) => end <= length).length - 1;
    const items = [1, 2, 3].slice(0, Math.max(0, came));
    const page = { epoch: 'E', head_seq: 9, unreadable: [], last_seq: came, more: true, items };
    expect(seqsIn(FRAMES.subarray(0, length))).toEqual(came < 1 ? undefined : page);
  }
  expect(pageOf({ body: FRAMES, isBinary: true })).toMatchObject({ last_seq: 3, more: false, items: { length: 3 } });
});

test('pages: both forms are read to the same', () => {
  const body = Buffer.from(JSON.stringify(PAGE));
  expect(pageOf({ body: FRAMES, isBinary: true })).toEqual(pageOf({ body, isBinary: false }));
});

test.each([
  ['no map', packedBytes([1]), null],
  ['no MessagePack', Buffer.from('c1', 'hex'), null],
  ['no bytes', Buffer.alloc(0), null],
  ['a map without wire bytes', packedBytes({ seq: 2 }), 2],
  ['a text for wire bytes', packedBytes({ ...pulled(2), sender_pubkey: Buffer.alloc(32), wire: 'e30=' }), 2],
  ['a text for a key', packedBytes({ ...pulled(2), wire: Buffer.alloc(1) }), 2],
  ['a key of 30 bytes', packedBytes({ ...pulled(2), sender_pubkey: Buffer.alloc(30), wire: Buffer.alloc(1) }), 2],
])('pages: a frame that is %s is put aside by its length', (_what, map, seq) => {
  const [head = map, first = map, , third = map, end = map] = framesIn(FRAMES, 10);
  const frames = [head, first, map, third, end].flatMap((one) => [Buffer.from([0, 0, 0, one.length]), one]);
  const page = pageOf({ body: Buffer.concat(frames), isBinary: true });
  expect(page.items.map((item) => item.seq)).toEqual([1, 3]);
  expect(page.unreadable).toEqual([{ seq, bytes: map }]);
  expect(page).toMatchObject({ last_seq: 3, more: false });
});

test.each([
  ['nothing', Buffer.alloc(0)],
  ['JSON', Buffer.from(JSON.stringify(PAGE))],
  ['a page without its first frame', FRAMES.subarray(4 + framesIn(FRAMES, 1)[0]!.length)],
])('pages: %s is no page in the binary form', (_what, body) => {
  expect(seqsIn(body)).toBeUndefined();
});

test('pages: where the connection ends in the middle of a page, a part of one in the binary form is one', async () => {
  let [type, body] = [BINARY_TYPE, FRAMES];
  const { client } = await clientOf(FORMS, (_asked, response) => {
    response.writeHead(200, { 'content-type': type, 'content-length': body.length });
    response.write(body.subarray(0, body.length - 60), () => void response.destroy());
  });
  await client.info();
  expect(await client.pull()).toMatchObject({ last_seq: 2, more: true, items: { length: 2 } });
  [type, body] = ['application/json', Buffer.from(JSON.stringify(PAGE))];
  await expect(client.pull()).rejects.toBeInstanceOf(RelayCallFailed);
});
