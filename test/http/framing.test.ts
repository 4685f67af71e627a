/**
 * Framing: what of a request is refused before it is looked at, so that no second request is smuggled behind a first.
 *
 * uWebSockets.js and node:http answer some of it themselves, each in its own words. Either way the answer is 4xx (or
 * the 505 of uWebSockets.js for what it takes for an old version of HTTP), the connection ends, and nothing that came
 * behind is answered.
 */
import { describe, expect, test } from 'vitest';
import { BODY_DEADLINE_MS } from '../../src/http/framing.ts';
import { framingsAt } from '../support/framings.ts';
import { ADAPTERS, type Adapter, type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection, rawExchange, rawRequest, requestBytes } from '../support/raw-http.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const CHALLENGE = 'POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\n';
const INFO = 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\n';
/** A request whose answer would give a smuggling away. */
const SECOND = requestBytes('GET', '/v2/relay/info');

const framings = framingsAt({
  postTarget: '/v1/relay/challenge',
  getTarget: '/v2/relay/info',
  headBytesMax: 4096,
});

/**
 * The two servers read these differently, and neither as two requests: the answers to them and to a good request that
 * is sent when they are answered. Without an answer the server waits for the rest of it until the connection ends, and
 * with one answer the connection ends behind that.
 */
const DIFFERENT: [what: string, bytes: string, answers: Record<Adapter, number[]>][] = [
  ['a bare CR in a header', `${INFO}a: b\rc: d\r\n\r\n`, { uws: [], node: [400] }],
  ['a header behind a bare CR', `${INFO}a: b\rcontent-length: 44\r\n\r\n`, { uws: [], node: [400] }],
  ['CR CR LF', 'GET /v2/relay/info HTTP/1.1\r\nhost: x\r\r\n\r\n', { uws: [], node: [400] }],
  ['a bare CR behind the target', 'GET /v2/relay/info\r HTTP/1.1\r\nhost: x\r\n\r\n', { uws: [], node: [400] }],
  ['an empty line before the request', `\r\n${INFO}\r\n`, { uws: [], node: [200, 200] }],
  ['two spaces before the target', 'GET  /v2/relay/info HTTP/1.1\r\nhost: x\r\n\r\n', { uws: [505], node: [200, 200] }],
  ['hundreds of headers', `${INFO}${'a:\r\n'.repeat(900)}\r\n`, { uws: [431], node: [200, 200] }],
  ['HTTP/1.0', 'GET /v2/relay/info HTTP/1.0\r\nhost: x\r\n\r\n', { uws: [505], node: [200] }],
  [
    'a wish for another protocol',
    `${INFO}connection: upgrade\r\nupgrade: h2c\r\n\r\n`,
    { uws: [200, 200], node: [200] },
  ],
  ['an expectation of nobody', `${INFO}expect: something\r\n\r\n`, { uws: [200, 200], node: [200, 200] }],
];

describe.each(ADAPTERS)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  test.each(framings)('%s is refused and closes the connection', async (_what, bytes) => {
    // node:http knows nobody who would answer CONNECT, and closes.
    const isUnanswered = adapter === 'node' && bytes.startsWith('CONNECT');
    expect(await answersTo(suite.current, bytes)).toEqual(isUnanswered ? [] : ['refused']);
  });

  // uWebSockets.js waits ten seconds for the rest of what it takes for half a request.
  const quick = framings.filter(([what]) => IS_THOROUGH || adapter !== 'uws' || what !== 'HTTP/0.9');

  test.each(quick)('%s lets no second request through behind it', async (_what, bytes) => {
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
    for (const [what, bytes] of quick) {
      await answersTo(relay, Buffer.concat([Buffer.from(bytes, 'latin1'), push]));
      // Answered when everything that was admitted before is durable.
      await relay.client(bob).ownInfo();
      expect([what, await relay.queue(bob)]).toEqual([what, []]);
    }
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test.each(DIFFERENT)('%s is at most one request', async (_what, bytes, expected) => {
    const relay = suite.current;
    const connection = await RawConnection.open(relay.port);
    connection.send(bytes);
    const [firstStatus] = expected[adapter];
    const first = firstStatus === undefined ? undefined : await connection.response();
    const more = await connection.send(SECOND).sendEnd().untilClosed();
    connection.close();
    const statuses = [...(first ? [first] : []), ...more].map(({ status }) => status);
    expect(statuses).toEqual(expected[adapter]);
  });

  test('behind a wish for another protocol no part of a later request is taken for one', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const push = hopBytes(
      relay.hop(alice, 'POST', '/v2/relay/items', JSON.stringify({ items: [itemTo([bob], 'hidden')] })),
    );
    const outer = requestBytes('POST', '/v1/relay/challenge', { 'content-length': String(push.length) });
    const connection = await RawConnection.open(relay.port);
    connection.send(Buffer.concat([Buffer.from(`${INFO}connection: upgrade\r\nupgrade: h2c\r\n\r\n`), outer]));
    await connection.response();
    // The body of the second request, which is a request itself.
    connection.send(push).sendEnd();
    await connection.untilClosed();
    await relay.client(bob).ownInfo();
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).not.toContain('hidden');
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('of requests that come at once, the one behind one that waits for the disk is not served', async () => {
    const relay = suite.current;
    await relay.enrol(alice, carol);
    const push = (id: string): Buffer =>
      hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', JSON.stringify({ items: [itemTo([carol], id)] })));
    const answers = await rawExchange(relay.port, Buffer.concat([push('first'), push('second'), push('third')]));
    // uWebSockets.js ends the connection when a request comes while another is not answered; node:http answers that
    // one.
    expect(answers.map(({ status }) => status)).toEqual(adapter === 'uws' ? [] : [200]);
    await relay.client(carol).ownInfo();
    const stored = (await relay.queue(carol)).map(({ itemId }) => itemId as string);
    expect(adapter === 'uws' ? [[], ['first']] : [['first']]).toContainEqual(stored);
    // Sent again one by one, everything is stored, and once.
    for (const id of ['first', 'second', 'third']) {
      expect((await relay.client(alice).push([itemTo([carol], id)])).results[0]?.status).toMatch(/accepted|duplicate/);
    }
    const ids = (await relay.queue(carol)).map(({ itemId }) => itemId as string);
    expect(ids.filter((id) => ['first', 'second', 'third'].includes(id))).toEqual(['first', 'second', 'third']);
  });

  test('of requests that come at once and are answered at once, each has its own answer, or the first', async () => {
    const relay = suite.current;
    const connection = await RawConnection.open(relay.port);
    const none = requestBytes('GET', '/none');
    const answers = await connection
      .send(Buffer.concat([SECOND, none, SECOND]))
      .sendEnd()
      .untilClosed();
    const statuses = answers.map(({ status }) => status);
    expect(statuses).toEqual(adapter === 'uws' ? [200, 404, 200] : [200]);
  });

  test('a request of a sender that ends its side is taken; its answer may be lost with the connection', async () => {
    const relay = suite.current;
    await relay.enrol(alice, carol);
    const body = JSON.stringify({ items: [itemTo([carol], 'half-closed')] });
    const connection = await RawConnection.open(relay.port);
    connection.send(hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body))).sendEnd();
    const statuses = (await connection.untilClosed()).map(({ status }) => status);
    expect([[], [200]]).toContainEqual(statuses);
    await expect.poll(async () => (await relay.queue(carol)).map(({ itemId }) => itemId)).toContain('half-closed');
    // What is answered at once is answered before the end is seen.
    const info = await RawConnection.open(relay.port);
    expect((await info.send(SECOND).sendEnd().untilClosed()).map(({ status }) => status)).toEqual([200]);
  });

  test.each([
    ['head', -1],
    ['body', -5],
  ])('an end in the middle of a %s ends the connection, and the request is none', async (part, upTo) => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const lsn = await relay.lastLsn();
    const body = JSON.stringify({ items: [itemTo([bob], `ended-in-${part}`)] });
    const whole = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body));
    const headEnd = whole.indexOf('\r\n\r\n') + 4;
    const connection = await RawConnection.open(relay.port);
    connection.send(whole.subarray(0, part === 'head' ? headEnd + upTo : whole.length + upTo)).sendEnd();
    const statuses = (await connection.untilClosed()).map(({ status }) => status);
    expect(statuses).toEqual(adapter === 'uws' ? [] : [400]);
    await relay.client(bob).ownInfo();
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('a body that comes byte by byte has its time like every other', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const body = JSON.stringify({ items: [itemTo([bob], 'too-slow')] });
    const bytes = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', body));
    const connection = await RawConnection.open(relay.port);
    for (const byte of bytes.subarray(0, -1)) connection.send(Uint8Array.of(byte));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    relay.timers.pass(BODY_DEADLINE_MS);
    const [late] = await connection.untilClosed();
    expect(late).toBeProblem('BAD_REQUEST');
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).not.toContain('too-slow');
  });

  // Ten seconds of real time: nobody can set the clock of uWebSockets.js.
  test.runIf(IS_THOROUGH)('a head that comes byte by byte has ten seconds, not ten for each byte', async () => {
    const connection = await RawConnection.open(suite.current.port);
    connection.send('GET /v2/relay/info HTTP/1.1\r\nhost: x\r\na: ');
    const dripping = setInterval(() => connection.send('b'), 500);
    const answers = await connection.untilClosed();
    clearInterval(dripping);
    expect(answers.map(({ status }) => status)).toEqual(adapter === 'uws' ? [] : [408]);
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
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    connection.close();
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(0);
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

/**
 * Returns what the bytes are answered with until the relay closes, which it must: `refused` for a refusal that closes.
 */
async function answersTo(relay: HttpRelay, bytes: string | Uint8Array): Promise<string[]> {
  const responses = await rawExchange(relay.port, bytes);
  return responses.map(({ status, headers, body }) => {
    const isOldHttp = status === 505 && body.includes('uWebSockets');
    const isRefusal = (Math.floor(status / 100) === 4 || isOldHttp) && headers.get('connection') === 'close';
    return isRefusal ? 'refused' : `${status} ${body.toString('utf8', 0, 200)}`;
  });
}
