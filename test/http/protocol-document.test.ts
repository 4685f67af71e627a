/** The routes of the protocol document are those of a relay, with exactly their methods and their access. */
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { relayForSuite } from '../support/http-relay.ts';
import { PROTOCOL_DOCUMENT, tableRows } from '../support/protocol-document.ts';
import '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';

const routes = tableRows(PROTOCOL_DOCUMENT, 'method', 'path', 'access', 'largest body').map(
  ([method = '', path = '', access = '', body = '']) => ({ method, path, access, body }),
);
/** Not every relay has these. */
const OPTIONAL = new Set(['/v2/relay/deny']);
/** Open routes that answer a request without a body. */
const ANSWERS_ANYBODY = new Set(['/v2/relay/info', '/v2/relay/log/checkpoint', '/v2/relay/log/link']);
const BODY_BYTES: Record<string, number> = { '8 KiB': 8192, '8 MiB': 8_388_608 };

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);
  const ask = (method: string, path: string, headers: Record<string, string> = {}) =>
    rawRequest(suite.current.port, requestBytes(method, path, headers), method);

  test.each([...new Set(routes.map(({ path }) => path))])('%s takes the methods that are listed', async (path) => {
    const response = await ask('PUT', path);
    const methods = routes.filter((route) => route.path === path).map(({ method }) => method);
    const isAbsent = response.status === 404 && OPTIONAL.has(path);
    expect(response.headers.get('allow')?.split(', ').toSorted()).toEqual(isAbsent ? undefined : methods.toSorted());
  });

  const always = routes.filter(({ path }) => !OPTIONAL.has(path));

  test.each(always)('$method $path: access $access', async ({ method, path, access }) => {
    const { status } = await ask(method, path);
    // Without a hop: an open route judges what it was sent, and the others know nobody.
    expect(status).toBe(ANSWERS_ANYBODY.has(path) && method === 'GET' ? 200 : access === 'open' ? 400 : 401);
  });

  test.each(always)('$method $path: a body of more than $body is too large', async ({ method, path, body }) => {
    const refused = await ask(method, path, { 'content-length': String((BODY_BYTES[body] ?? 0) + 1) });
    expect(refused).toBeProblem('BODY_TOO_LARGE');
  });
});
