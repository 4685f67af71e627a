/** docs/protocol.md, "Errors", row by row, and the order in which they are looked for. */
import { describe, expect, test } from 'vitest';
import { enrolBody, openChallenge, postJson, sendEnrol } from '../support/enrolments.ts';
import { type HttpRelay, ADAPTERS, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { alice, bob, carol, dave } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection, rawExchange, rawRequest, requestBytes } from '../support/raw-http.ts';

const ITEMS = '/v2/relay/items';
const ACK = '/v2/relay/ack';

/** A mark in a request body, which has no place in an answer. */
const MARK = 'c0nfidential';

describe.each(ADAPTERS)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(bob.key)) await relay.enrol(alice, bob);
    return relay;
  };

  test.each([
    '/',
    '/v2',
    '/v2/relay',
    '/v2/relay/',
    '/v2/relay/nothing',
    '/v2/relay/items/1',
    '/v3/relay/items',
    '/v2/relay/info/',
    '/v2/relay/INFO',
    '/v1/relay/items',
    '/livez',
    '/readyz',
    '/healthz',
    '/metrics',
    '/v2/relay/rotations',
    '/v2/relay/deny',
  ])('404 NOT_FOUND: %s is no route, for any method', async (path) => {
    const relay = await enrolled();
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      expect(await relay.send(relay.hop(bob, method, path))).toBeProblem('NOT_FOUND');
    }
  });

  test.each([
    ['/v1/relay/challenge', 'POST'],
    ['/v1/relay/enrol', 'POST'],
    ['/v2/relay/info', 'GET'],
    ['/v2/relay/items', 'POST, GET'],
    ['/v2/relay/ack', 'POST'],
    ['/v2/relay/senders', 'POST'],
    ['/v1/relay/enc-key', 'POST, GET'],
    ['/v2/relay/enc-key', 'GET'],
    ['/v2/relay/rotation', 'GET'],
    ['/v1/relay/messages', 'POST, GET'],
    ['/v1/relay/ack', 'POST'],
  ])('405 METHOD_NOT_ALLOWED: %s takes %s, and says so', async (path, allow) => {
    const relay = await enrolled();
    const allowed = allow.split(', ');
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      if (allowed.includes(method)) continue;
      const response = await relay.send(relay.hop(bob, method, path, 'a body'));
      expect(response).toBeProblem('METHOD_NOT_ALLOWED');
      expect(response.headers.get('allow')).toBe(allow);
    }
  });

  test('405 METHOD_NOT_ALLOWED: an answer to HEAD has no body, and the connection goes on', async () => {
    const relay = suite.current;
    const connection = await RawConnection.open(relay.port);
    const response = await connection.send(requestBytes('HEAD', '/v2/relay/info')).response('HEAD');
    expect(response?.status).toBe(405);
    const next = await connection.send(requestBytes('GET', '/v2/relay/info')).response();
    expect(next?.status).toBe(200);
    connection.close();
  });

  test('411 LENGTH_REQUIRED: a body without content-length, and a chunked one', async () => {
    const relay = suite.current;
    const head = 'POST /v1/relay/challenge HTTP/1.1\r\nhost: x\r\n';
    const [none] = await rawExchange(relay.port, `${head}\r\n`);
    expect(none).toBeProblem('LENGTH_REQUIRED');
    const [chunked, second] = await rawExchange(
      relay.port,
      `${head}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    );
    expect(chunked).toBeProblem('LENGTH_REQUIRED');
    expect(second).toBeUndefined();
  });

  test('413 BODY_TOO_LARGE: decided from content-length, and the connection is closed', async () => {
    const relay = await enrolled();
    for (const [path, bytes] of [
      ['/v1/relay/challenge', 8193],
      ['/v1/relay/enrol', 8193],
      [ITEMS, 8_388_609],
      [ACK, 8_388_609],
    ] as const) {
      // Nothing of the body is ever sent.
      const head = requestBytes('POST', path, { 'content-length': String(bytes) });
      const [response, ...more] = await rawExchange(relay.port, head);
      expect(response).toBeProblem('BODY_TOO_LARGE');
      expect(response?.headers.get('connection')).toBe('close');
      expect(more).toEqual([]);
    }
  });

  describe('order of checks', () => {
    test('route comes before method, framing and hop', async () => {
      const relay = suite.current;
      const chunked = { 'transfer-encoding': 'chunked' };
      const [response] = await rawExchange(relay.port, requestBytes('POST', '/v2/relay/nothing', chunked, '0\r\n\r\n'));
      expect(response).toBeProblem('NOT_FOUND');
      const huge = { 'content-length': '99999999' };
      const [tooLarge] = await rawExchange(relay.port, requestBytes('POST', '/v2/relay/nothing', huge));
      expect(tooLarge).toBeProblem('NOT_FOUND');
      const [unsized] = await rawExchange(relay.port, 'POST /v2/relay/nothing HTTP/1.1\r\nhost: x\r\n\r\n');
      expect(unsized).toBeProblem('NOT_FOUND');
    });

    test('method comes before framing and size', async () => {
      const relay = suite.current;
      const chunked = { 'transfer-encoding': 'chunked' };
      const [response] = await rawExchange(relay.port, requestBytes('PUT', ITEMS, chunked, '0\r\n\r\n'));
      expect(response).toBeProblem('METHOD_NOT_ALLOWED');
      const huge = { 'content-length': '99999999' };
      const [tooLarge] = await rawExchange(relay.port, requestBytes('PUT', ITEMS, huge));
      expect(tooLarge).toBeProblem('METHOD_NOT_ALLOWED');
    });

    test('framing and size come before the hop', async () => {
      const relay = suite.current;
      const [unsized] = await rawExchange(relay.port, `POST ${ITEMS} HTTP/1.1\r\nhost: x\r\n\r\n`);
      expect(unsized).toBeProblem('LENGTH_REQUIRED');
      const [large] = await rawExchange(relay.port, requestBytes('POST', ITEMS, { 'content-length': '8388609' }));
      expect(large).toBeProblem('BODY_TOO_LARGE');
    });

    test('enrolled comes before skew', async () => {
      const relay = await enrolled();
      expect(await relay.send({ ...relay.hop(dave, 'GET', ITEMS), timestamp: 1 })).toBeProblem('NOT_ENROLLED');
    });

    test('skew comes before the signature', async () => {
      const relay = await enrolled();
      const hop = { ...relay.hop(bob, 'GET', ITEMS), timestamp: 1 };
      expect(await relay.send(hop, { target: ACK })).toBeProblem('CLOCK_SKEW');
      expect(await relay.send(hop, {}, { 'x-mail-sig': undefined })).toBeProblem('CLOCK_SKEW');
    });

    test('the signature comes before the rate, and a forged hop uses nothing of it up', async () => {
      const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 1 });
      const push = relay.hop(alice, 'POST', ITEMS, JSON.stringify({ items: [itemTo([bob], 'm1')] }));
      for (let count = 0; count < 3; count++)
        expect(await relay.send(push, { target: ACK })).toBeProblem('BAD_SIGNATURE');
      expect((await relay.send(push)).status).toBe(200);
      expect(await relay.send(push)).toBeProblem('RATE_LIMITED');
      expect(await relay.send(push, { target: ACK })).toBeProblem('BAD_SIGNATURE');
    });

    test('the rate comes before the content', async () => {
      const relay = await enrolledRelay(adapter, [alice], { pushesPerMinute: 1, enrolRate: 1 });
      const nonsense = relay.hop(alice, 'POST', ITEMS, '{');
      expect(await relay.send(nonsense)).toBeProblem('BAD_REQUEST');
      expect(await relay.send(nonsense)).toBeProblem('RATE_LIMITED');
      expect(await postJson(relay, '/v1/relay/enrol', {})).toBeProblem('RATE_LIMITED');
    });
  });

  test('no answer repeats what was sent: neither keys, nor signatures, nor bytes of the body', async () => {
    const relay = await enrolled();
    const challenge = await openChallenge(relay, carol);
    const bodies = [`{"${MARK}`, `{"items":"${MARK}"}`, `{"epoch":"${MARK}","through":0}`, `{"through":"${MARK}"}`];
    const responses = [
      await sendEnrol(relay, enrolBody(carol, challenge, { signed: { host: 'x' }, sent: { owner_fp: MARK } })),
      await sendEnrol(relay, enrolBody(dave, challenge, { sent: { owner_fp: MARK } })),
      await relay.send({ ...relay.hop(bob, 'GET', ITEMS), timestamp: MARK }),
      await relay.send(relay.hop(bob, 'GET', ITEMS), {}, { 'x-mail-sig': MARK }),
      await relay.send(relay.hop(bob, 'GET', ITEMS), {}, { 'x-mail-key': MARK }),
      await relay.send(relay.hop(bob, 'GET', `${ITEMS}?after=${MARK}`)),
      await relay.send(relay.hop(bob, 'GET', `${ITEMS}?epoch=${MARK}`)),
      await relay.send(relay.hop(bob, 'GET', `/${MARK}`)),
      await rawRequest(relay.port, requestBytes('GET', `/#${MARK}`)),
      await rawRequest(relay.port, requestBytes('POST', ITEMS, { 'content-length': `0${MARK}` })),
    ];
    for (const body of bodies) {
      for (const path of [ITEMS, ACK]) responses.push(await relay.send(relay.hop(bob, 'POST', path, body)));
      for (const path of ['/v1/relay/challenge', '/v1/relay/enrol']) {
        responses.push(await rawRequest(relay.port, requestBytes('POST', path, {}, body)));
      }
    }
    for (const response of responses) {
      const text = response.body.toString('latin1');
      expect(Math.floor(response.status / 100)).toBe(4);
      for (const secret of [MARK, challenge, bob.key, carol.key, dave.key]) expect(text).not.toContain(secret);
      for (const value of response.headers.values()) expect(value).not.toContain(MARK);
    }
  });
});
