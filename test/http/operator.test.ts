/** The operator's listener: health, on a port of its own. */
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER, FIRST_ADAPTER } from '../support/adapters.ts';
import { framingsAt } from '../support/framings.ts';
import { type HttpRelay, enrolledRelay, relayForSuite, relayForTest } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob } from '../support/hosts.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse, rawExchange, rawRequest, requestBytes } from '../support/raw-http.ts';

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> =>
    enrolledRelay(adapter, [alice, bob], { adminListen: { host: '127.0.0.1', port: 0 } });

  test('/livez, /readyz and /healthz say that the relay is well', async () => {
    const relay = await started();
    expect(await answerOf(relay, 'GET', '/livez')).toEqual([200, { status: 'live' }]);
    expect(await answerOf(relay, 'GET', '/readyz')).toEqual([200, { status: 'ready' }]);
    expect(await answerOf(relay, 'GET', '/healthz')).toEqual([
      200,
      {
        status: 'ready',
        version: '0.0.0-test',
        epoch: relay.epoch,
        hosts: 2,
        uptime_ms: expect.any(Number) as unknown,
      },
    ]);
  });

  test('anything else is 404, the routes of the relay too; other methods are 405', async () => {
    const relay = await started();
    for (const path of [
      '/',
      '/livez/',
      '/livez?x',
      '/metrics/',
      '/consoles',
      '/v2/relay/info',
      '/v2/relay/items',
      '/x',
    ]) {
      expect(await answerOf(relay, 'GET', path)).toMatchObject([404, { code: 'NOT_FOUND' }]);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const response = await ask(relay, method, '/livez');
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET']);
    }
  });

  test('a page of another site whose name points here gets nothing; addresses and localhost work', async () => {
    const relay = await started();
    const asked = async (host: string, path = '/metrics'): Promise<RawResponse> =>
      rawRequest(relay.relay.adminPort ?? 0, requestBytes('GET', path, { host }));
    for (const path of ['/livez', '/readyz', '/healthz', '/openapi.json', '/metrics']) {
      const response = await asked('evil.example:8788', path);
      expect([response.status, jsonOf(response)]).toMatchObject([403, { code: 'FOREIGN_HOST' }]);
    }
    for (const host of ['127.0.0.1', 'localhost:1', '10.0.0.7:8788', '[::1]:8788', 'LOCALHOST'])
      expect((await asked(host)).status).toBe(200);
    for (const host of ['localhost.evil.example', '127.0.0.1.evil.example', 'a', ''])
      expect((await asked(host)).status).toBe(403);
  });

  test('the public port knows nothing of it', async () => {
    const relay = await started();
    for (const path of ['/livez', '/readyz', '/healthz']) {
      expect(await rawRequest(relay.port, requestBytes('GET', path))).toBeProblem('NOT_FOUND');
    }
  });

  test('while the relay drains it is alive and not ready', async () => {
    const relay = await started();
    const upload = await RawConnection.open(relay.port);
    upload.send(hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', '{"items":[]}')).subarray(0, -5));
    await expect.poll(() => relay.timers.underWay(60_000), { interval: 2 }).toBe(1);
    const stopped = relay.stop();
    expect(await answerOf(relay, 'GET', '/livez')).toEqual([200, { status: 'live' }]);
    expect(await answerOf(relay, 'GET', '/readyz')).toMatchObject([503, { code: 'UNAVAILABLE' }]);
    expect(await answerOf(relay, 'GET', '/healthz')).toMatchObject([503, { code: 'UNAVAILABLE' }]);
    upload.close();
    await stopped;
    await expect(ask(relay, 'GET', '/livez')).rejects.toThrow('ECONNREFUSED');
  });

  test('without an address there is none', async () => {
    const relay = await relayForTest(adapter);
    expect(relay.relay.adminPort).toBeUndefined();
  });
});

function ask(relay: HttpRelay, method: string, path: string): Promise<RawResponse> {
  return rawRequest(relay.relay.adminPort ?? 0, requestBytes(method, path, { host: 'localhost' }));
}

async function answerOf(relay: HttpRelay, method: string, path: string): Promise<[number, Record<string, unknown>]> {
  const response = await ask(relay, method, path);
  return [response.status, jsonOf(response)];
}

describe('framing', () => {
  const suite = relayForSuite(FIRST_ADAPTER, { adminListen: { host: '127.0.0.1', port: 0 } });

  test.each([
    ['of health and metrics', '/livez'],
    ['of the console', '/console/session'],
  ])('that is wrong is refused and closes the connection: %s', async (_what, getTarget) => {
    const port = suite.current.relay.adminPort ?? 0;
    const second = requestBytes('GET', '/livez', { host: '127.0.0.1' });
    for (const [what, bytes] of framingsAt({ postTarget: '/console/session', getTarget, headBytesMax: 4096 })) {
      const answers = await rawExchange(port, Buffer.concat([Buffer.from(bytes, 'latin1'), second]));
      const isHostless = ['no host', 'HTTP/0.9'].includes(what) && getTarget === '/livez';
      const statuses = answers.map(({ status, headers }) => (headers.get('connection') === 'close' ? status : 'open'));
      const isRefused = statuses.length <= 1 && statuses.every((status) => Number(status) >= 400);
      // Probes without a Host get their answer, and then the connection ends.
      expect([what, statuses, isHostless || isRefused]).toEqual([what, statuses, true]);
    }
  });

  test('health asks for no Host, and takes no body in chunks', async () => {
    const port = suite.current.relay.adminPort ?? 0;
    expect((await rawRequest(port, 'GET /readyz HTTP/1.0\r\n\r\n')).status).toBe(200);
    const chunked = 'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n';
    expect((await rawRequest(port, chunked)).status).toBe(411);
    const twoHosts = 'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: localhost\r\n\r\n';
    expect((await rawRequest(port, twoHosts)).status).toBe(400);
  });
});
