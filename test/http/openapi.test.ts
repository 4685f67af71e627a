/** The OpenAPI document as a relay serves it, and that it tells of exactly the routes that there are. */
import { describe, expect, test } from 'vitest';
import { OPERATIONS } from '../../src/relay/serve/host-api.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { enterConsole } from '../support/console-session.ts';
import { alice } from '../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';

const PATH = '/openapi.json';
/** Takes `after` without the others. */
const CHECKPOINT = '/v2/relay/log/checkpoint';

describe.each(ANY_ADAPTER)('%s', (adapter) => {
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

  test('every query parameter that it names is refused when garbage, repeated, broken or missing', async () => {
    const relay = await started();
    await relay.enrol(alice);
    const session = await enterConsole(relay);
    const { paths } = jsonOf(await ask(relay, 'GET')) as { paths: Record<string, { get?: Described }> };
    const send = (path: string, query: string): Promise<RawResponse> =>
      path.startsWith('/console/')
        ? session.get(`${path.slice('/console'.length)}?${query}`)
        : relay.send(relay.hop(alice, 'GET', `${path}?${query}`));
    const refused = async (path: string, query: string): Promise<unknown> => {
      const response = await send(path, query);
      expect({ path, query, status: response.status }).toEqual({ path, query, status: 400 });
      return jsonOf(response)['detail'];
    };
    let tried = 0;
    for (const [path, { get }] of Object.entries(paths)) {
      const parameters = (get?.parameters ?? []).filter((parameter) => parameter.in === 'query');
      for (const { name } of parameters) {
        expect(await refused(path, `${name}=${'!'.repeat(400)}`)).toMatch(new RegExp(`^${name} is malformed`));
        expect(await refused(path, `${name}=%ff`)).toBe('the query is not percent-encoded UTF-8');
        const twice = `${goodFor(path, name)}&%${name.charCodeAt(0).toString(16)}${name.slice(1)}=x`;
        expect(await refused(path, `${name}=${twice}`)).toBe(`${name} is repeated`);
        tried += 1;
      }
      if (parameters.length === 0) continue;
      const given = parameters.map(({ name }) => `${name}=${goodFor(path, name)}`);
      for (const [at, { name }] of [...parameters.entries()].filter(([, { required }]) => required)) {
        expect(await refused(path, given.toSpliced(at, 1).join('&'))).toMatch(new RegExp(`^${name} is missing`));
      }
      const together = given.filter((one) => path !== CHECKPOINT || !/^(?:after|cosigned)=/.test(one));
      expect((await send(path, together.join('&'))).status).not.toBe(400);
    }
    expect(tried).toBe(OPERATIONS.flatMap(({ query }) => Object.keys(query?.properties ?? {})).length);
  });
});

interface Described {
  parameters?: readonly { name: string; in: string; required: boolean }[];
}

/** A value that the parameter takes, percent-encoded. */
function goodFor(path: string, name: string): string {
  if (path === '/v1/relay/messages') return 'E.0';
  if (path === CHECKPOINT && name === 'after') return 'A'.repeat(43);
  return encodeURIComponent((path === '/console/log' && name === 'host' ? alice.key : GOOD[name]) ?? '');
}

const GOOD: Readonly<Record<string, string>> = {
  after: '0',
  before: '1',
  cosigned: '1',
  epoch: 'E',
  from: '1',
  host: 'alice',
  item: 'm1',
  item_id: 'm1',
  key: alice.key,
  limit: '1',
  lsn: '1',
  offset: '0',
  reverse: 'no',
  search: 'a',
  since: '0',
  size: '1',
  sort: 'name',
  state: 'live',
  target: alice.key,
  to: '1',
  type: 'ItemAccepted',
  until: '1',
  wait: '0',
};

function ask(relay: HttpRelay, method: string): Promise<RawResponse> {
  return rawRequest(relay.relay.adminPort ?? 0, requestBytes(method, PATH, { host: 'localhost' }), method);
}
