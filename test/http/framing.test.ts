/**
 * Framing: what of a request is refused before it is looked at, so that no second request is smuggled behind a first.
 *
 * uWebSockets.js and node:http answer some of it themselves, each in its own words. Either way the answer is 4xx (or
 * the 505 of uWebSockets.js for what it takes for an old version of HTTP), the connection ends, and nothing that came
 * behind is answered.
 */
import { describe, expect, test } from 'vitest';
import { ADAPTERS, type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection, rawExchange, rawRequest, requestBytes } from '../support/raw-http.ts';

const CHALLENGE = 'POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\n';
const INFO = 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n';
/** A request whose answer would give a smuggling away. */
const SECOND = requestBytes('GET', '/v2/relay/info');

/** What it is, and the bytes. */
const framings: [string, string][] = [
  ['chunked', `${CHALLENGE}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunked with a chunk', `${CHALLENGE}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`],
  ['chunked, in other letters', `${CHALLENGE}Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n`],
  ['chunked, with a chunk size without digits', `${CHALLENGE}transfer-encoding: chunked\r\n\r\n\r\n\r\n`],
  ['chunked, with an absurd chunk size', `${CHALLENGE}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n`],
  ['chunked and sized', `${CHALLENGE}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n`],
  ['sized and chunked', `${CHALLENGE}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a chunked GET', `${INFO}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['another transfer encoding', `${CHALLENGE}transfer-encoding: gzip\r\n\r\n`],
  ['two transfer encodings', `${CHALLENGE}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['a transfer encoding twice', `${CHALLENGE}transfer-encoding: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['two lengths, the first less', `${CHALLENGE}content-length: 0\r\ncontent-length: 44\r\n\r\n`],
  ['two lengths, the second less', `${CHALLENGE}content-length: 44\r\ncontent-length: 0\r\n\r\n`],
  ['the same length twice', `${CHALLENGE}content-length: 2\r\ncontent-length: 2\r\n\r\n{}`],
  ['the same length twice in one line', `${CHALLENGE}content-length: 2, 2\r\n\r\n{}`],
  ['a length with a sign', `${CHALLENGE}content-length: +2\r\n\r\n{}`],
  ['a length below zero', `${CHALLENGE}content-length: -2\r\n\r\n{}`],
  ['a length in hexadecimal', `${CHALLENGE}content-length: 0x2\r\n\r\n{}`],
  ['a length with a leading zero', `${CHALLENGE}content-length: 02\r\n\r\n{}`],
  ['a length with a letter behind', `${CHALLENGE}content-length: 2a\r\n\r\n{}`],
  ['a length beyond numbers', `${CHALLENGE}content-length: 99999999999999999999999\r\n\r\n{}`],
  ['an empty length', `${CHALLENGE}content-length:\r\n\r\n`],
  ['no length', `${CHALLENGE}\r\n`],
  ['two hosts', `${INFO}host: y\r\n\r\n`],
  ['the same host twice', `${INFO}host: x\r\n\r\n`],
  ['no host', 'GET /v2/relay/info HTTP/1.1\r\n\r\n'],
  ['a key twice', `${INFO}x-mail-key: ${bob.key}\r\nX-Mail-Key: ${bob.key}\r\n\r\n`],
  ['a time twice', `${INFO}x-mail-ts: 1\r\nx-mail-ts: 1\r\n\r\n`],
  ['a signature twice', `${INFO}x-mail-sig: a\r\nx-mail-sig: b\r\n\r\n`],
  ['a host name twice', `${INFO}x-mail-host: a\r\nX-MAIL-HOST: b\r\n\r\n`],
  ['a target with a fragment', 'GET /v2/relay/info#x HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a query with a fragment', 'GET /v2/relay/info?a#b HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a target beyond ASCII', 'GET /v2/relay/info?\xe9 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a target in UTF-8', 'GET /v2/relay/info?\xc3\xa9 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a target with a control character', 'GET /v2/relay/info?\x01 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a target with DEL', 'GET /v2/relay/info?\x7f HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a target with NUL', 'GET /v2/relay/info?\x00 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['an absolute target', 'GET http://x/v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['the target *', 'OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['CONNECT', 'CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a folded header', `${INFO}a: b\r\n c\r\n\r\n`],
  ['a space before a colon', `${INFO}a : b\r\n\r\n`],
  ['a header without a colon', `${INFO}abc\r\n\r\n`],
  ['line ends of one character', 'GET /v2/relay/info HTTP/1.1\nhost: x\n\n'],
  ['headers of more than 4 KiB', `${INFO}a: ${'x'.repeat(5000)}\r\n\r\n`],
  ['a target of more than 4 KiB', `GET /v2/relay/info?${'x'.repeat(5000)} HTTP/1.1\r\nhost: x\r\n\r\n`],
  ['another protocol', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/0.9', 'GET /v2/relay/info\r\n\r\n'],
  ['a NUL within a header', `${INFO}a: b\x00c\r\n\r\n`],
  [
    'chunked, with an extension and a trailer',
    `${CHALLENGE}transfer-encoding: chunked\r\n\r\n2;a="b"\r\n{}\r\n0\r\nx: y\r\n\r\n`,
  ],
  ['another version', 'GET /v2/relay/info HTTP/3.0\r\nhost: x\r\n\r\n'],
];

describe.each(ADAPTERS)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  test.each(framings)('%s is refused and closes the connection', async (_what, bytes) => {
    // node:http knows nobody who would answer CONNECT, and closes.
    const isUnanswered = adapter === 'node' && bytes.startsWith('CONNECT');
    expect(await answersTo(suite.current, bytes)).toEqual(isUnanswered ? [] : ['refused']);
  });

  test.each(framings)('%s lets no second request through behind it', async (_what, bytes) => {
    // The refusal may be lost with the connection.
    const answers = await answersTo(suite.current, Buffer.concat([Buffer.from(bytes, 'latin1'), SECOND]));
    expect([[], ['refused']]).toContainEqual(answers);
  });

  test.each(framings)('%s lets no second request through that comes later', async (_what, bytes) => {
    const relay = suite.current;
    const connection = await RawConnection.open(relay.port);
    await connection.send(bytes).response();
    const more = await connection.send(SECOND).untilClosed();
    expect(more).toEqual([]);
    connection.close();
  });

  test('a smuggled push is not stored', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const body = JSON.stringify({ items: [itemTo([bob], 'smuggled')] });
    const push = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body));
    for (const [what, bytes] of framings) {
      await answersTo(relay, Buffer.concat([Buffer.from(bytes, 'latin1'), push]));
      // Answered when everything that was admitted before is durable.
      await relay.client(bob).ownInfo();
      expect([what, await relay.queue(bob)]).toEqual([what, []]);
    }
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('what the relay itself refuses is a problem document', async () => {
    const relay = suite.current;
    const cases = [
      ['GET /#x HTTP/1.1\r\nhost: x\r\n\r\n', 'BAD_REQUEST'],
      [`${INFO}x-mail-ts: 1\r\nx-mail-ts: 2\r\n\r\n`, 'BAD_REQUEST'],
      [`${CHALLENGE}content-length: 02\r\n\r\n{}`, 'BAD_REQUEST'],
      [`${CHALLENGE}\r\n`, 'LENGTH_REQUIRED'],
      [`${CHALLENGE}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 'LENGTH_REQUIRED'],
    ] as const;
    for (const [bytes, code] of cases) expect(await rawRequest(relay.port, bytes)).toBeProblem(code);
  });

  test('a header without a name hides what follows it from uWebSockets.js, and desynchronises nothing', async () => {
    const relay = suite.current;
    // uWebSockets.js ends its list of headers there, so that no repetition behind it can be seen; it frames the body by
    // what stands before.
    const hidden = ['content-length: 44', 'transfer-encoding: chunked'];
    for (const line of hidden) {
      const bytes = `${CHALLENGE}content-length: 2\r\n: x\r\n${line}\r\n\r\n{}`;
      const connection = await RawConnection.open(relay.port);
      const response = await connection.send(bytes).response();
      expect(response?.status).toBe(400);
      const next = await connection.send(SECOND).response();
      expect(next?.status).toBe(adapter === 'uws' ? 200 : undefined);
      connection.close();
    }
  });

  test('bytes behind the declared length are no part of the body', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const body = JSON.stringify({ items: [itemTo([bob], 'longer')] });
    const push = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body));
    const connection = await RawConnection.open(relay.port);
    // What follows is no request: 9 MiB that begin in the middle of nothing.
    connection.send(push).send(Buffer.alloc(9 << 20, '}'));
    const responses = await connection.untilClosed();
    connection.close();
    await relay.client(bob).ownInfo();
    // The push may be lost with its answer, or be stored as it was declared.
    const stored = (await relay.queue(bob)).map(({ itemId }) => itemId as string);
    expect([[], ['longer']]).toContainEqual(stored);
    expect(await relay.lastLsn()).toBe(lsn + stored.length);
    const statuses = responses.map(({ status }) => status);
    expect([[], [200], [400], [200, 400]]).toContainEqual(statuses.map((status) => (status === 200 ? 200 : 400)));
  });

  test('a body that is declared longer than it is never becomes a request', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const body = JSON.stringify({ items: [itemTo([bob], 'shorter')] });
    const hop = relay.hop(alice, 'POST', '/v2/relay/items', body);
    const connection = await RawConnection.open(relay.port);
    connection.send(hopBytes(hop, {}, { 'content-length': String(body.length + 1) }));
    await expect.poll(() => relay.timers.underWay(60_000), { interval: 2 }).toBe(1);
    connection.close();
    await expect.poll(() => relay.timers.underWay(60_000), { interval: 2 }).toBe(0);
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).not.toContain('shorter');
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('good requests on one connection are answered one after the other', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const connection = await RawConnection.open(relay.port);
    for (let count = 0; count < 20; count++) {
      const info = await connection.send(SECOND).response();
      expect(info?.status).toBe(200);
      const empty = requestBytes('GET', '/v2/relay/info', { 'content-length': '0' });
      expect((await connection.send(empty).response())?.status).toBe(200);
      const refused = await connection.send(requestBytes('POST', '/v2/relay/items', {}, '{}')).response();
      expect(refused).toBeProblem('NOT_ENROLLED');
      const pull = await connection.send(hopBytes(relay.hop(bob, 'GET', '/v2/relay/items'))).response();
      expect(pull?.status).toBe(200);
    }
    connection.close();
  });

  test('a request that comes byte by byte is a request', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const body = JSON.stringify({ items: [itemTo([bob], 'slow')] });
    const bytes = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body));
    const connection = await RawConnection.open(relay.port);
    for (const byte of bytes) {
      connection.send(Uint8Array.of(byte));
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    expect((await connection.response())?.status).toBe(200);
    connection.close();
  });

  test.each(['100-continue', 'anything'])(
    'a request with Expect: %s is answered like every other',
    async (expected) => {
      const relay = suite.current;
      const bytes = requestBytes(
        'POST',
        '/v1/relay/challenge',
        { expect: expected },
        JSON.stringify({ pubkey: bob.key }),
      );
      const connection = await RawConnection.open(relay.port);
      expect((await connection.send(bytes).response())?.status).toBe(200);
      connection.close();
    },
  );
});

/** What the bytes are answered with until the relay closes, which it must: `refused` for a refusal that closes. */
async function answersTo(relay: HttpRelay, bytes: string | Uint8Array): Promise<string[]> {
  const responses = await rawExchange(relay.port, bytes);
  return responses.map(({ status, headers, body }) => {
    const isOldHttp = status === 505 && body.includes('uWebSockets');
    const isRefusal = (Math.floor(status / 100) === 4 || isOldHttp) && headers.get('connection') === 'close';
    return isRefusal ? 'refused' : `${status} ${body.toString('utf8', 0, 200)}`;
  });
}
