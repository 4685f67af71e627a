/** The OpenAPI document as a relay serves it, and that it tells of exactly the routes that there are. */
import { describe, expect, test } from 'vitest';
import { OPERATIONS } from '../../src/relay/serve/host-api.ts';
import { ADAPTERS, type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';

const PATH = '/openapi.json';

describe.each(ADAPTERS)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => relayForTest(adapter, { adminListen: { host: '127.0.0.1', port: 0 } });

  test('the listener of the operator serves it as JSON, with the version of the relay', async () => {
    const response = await ask(await started(), 'GET');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(jsonOf(response)).toMatchObject({ openapi: '3.1.0', info: { version: '0.0.0-test' } });
  });

  test('it takes GET alone, and the public port knows nothing of it', async () => {
    const relay = await started();
    for (const method of ['HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const response = await ask(relay, method);
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET']);
    }
    expect(await rawRequest(relay.port, requestBytes('GET', PATH))).toBeProblem('NOT_FOUND');
  });

  test('it tells of every route that the relay has, and of no other', async () => {
    const relay = await started();
    const { paths } = jsonOf(await ask(relay, 'GET')) as { paths: Record<string, Record<string, unknown>> };
    const told = Object.entries(paths).flatMap(([path, members]) =>
      Object.keys(members).flatMap((name) => (name === 'servers' ? [] : [`${name.toUpperCase()} ${path}`])),
    );
    const ofThisRelay = OPERATIONS.filter(({ isHostedOnly }) => isHostedOnly !== true);
    const described = ofThisRelay.map(({ method, path }) => `${method} ${path}`);
    expect(told.toSorted()).toEqual(described.toSorted());
  });

  test('every route that it tells of is there, and takes no other method', async () => {
    const relay = await started();
    const { paths } = jsonOf(await ask(relay, 'GET')) as { paths: Record<string, Record<string, unknown>> };
    for (const [path, { servers, ...methods }] of Object.entries(paths)) {
      const port = servers ? (relay.relay.adminPort ?? 0) : relay.port;
      const response = await rawRequest(port, requestBytes('OPTIONS', path));
      const allowed = response.headers.get('allow')?.toLowerCase().split(', ');
      expect([path, allowed?.toSorted()]).toEqual([path, Object.keys(methods).toSorted()]);
    }
  });
});

function ask(relay: HttpRelay, method: string): Promise<RawResponse> {
  return rawRequest(relay.relay.adminPort ?? 0, requestBytes(method, PATH, { host: 'localhost' }), method);
}
