/** The console over raw HTTP, with a link: what a browser would send, and each part of it wrong. */
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import type { HttpRelay } from './http-relay.ts';
import { jsonOf } from './problems.ts';
import { type RawResponse, rawRequest, requestBytes } from './raw-http.ts';

type Headers = Readonly<Record<string, string>>;

export function adminPort(relay: HttpRelay): number {
  return relay.relay.adminPort ?? 0;
}

export function ownHost(relay: HttpRelay): string {
  return `127.0.0.1:${adminPort(relay)}`;
}

/** The token in the link that `poste relay console` prints. */
export async function consoleToken(relay: HttpRelay): Promise<string> {
  const { url } = await new ControlClient(relay.folder).post('/v1/console', {});
  return url.replace(/^.*#token=/, '');
}

/** A request with `headers` over those of the page; one that is `''` is left out. */
export function ask(
  relay: HttpRelay,
  method: string,
  path: string,
  headers: Headers = {},
  body?: unknown,
): Promise<RawResponse> {
  const own = { host: ownHost(relay), ...(method === 'POST' && { origin: `http://${ownHost(relay)}` }) };
  const all = Object.entries({ ...own, ...headers }).filter(([, value]) => value !== '');
  const text = body === undefined ? '' : JSON.stringify(body);
  return rawRequest(adminPort(relay), requestBytes(method, `/console${path}`, Object.fromEntries(all), text), method);
}

export interface EnteredSession {
  cookie: string;
  csrf: string;
  get: (path: string, headers?: Headers) => Promise<RawResponse>;
  post: (path: string, body: unknown, headers?: Headers) => Promise<RawResponse>;
}

/** A session, as the page has one. */
export async function enterConsole(relay: HttpRelay): Promise<EnteredSession> {
  const response = await ask(relay, 'POST', '/session', {}, { token: await consoleToken(relay) });
  if (response.status !== 200) throw new Error(`no session: ${response.body.toString()}`);
  const [cookie = ''] = (response.headers.get('set-cookie') ?? '').split(';');
  const csrf = String(jsonOf(response)['csrf']);
  return {
    cookie,
    csrf,
    get: (path, headers = {}) => ask(relay, 'GET', path, { cookie, 'x-poste-csrf': csrf, ...headers }),
    post: (path, body, headers = {}) => ask(relay, 'POST', path, { cookie, 'x-poste-csrf': csrf, ...headers }, body),
  };
}
