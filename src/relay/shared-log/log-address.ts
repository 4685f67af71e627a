/** `postgres://user@one:5432,two:5432/database?sslmode=…`: where a log in PostgreSQL is. */
import { isIPv4 } from 'node:net';
import { LogRefused } from './shared-log.ts';

/** One server of an address that may name several. */
export interface LogEndpoint {
  /** For `pg`, with user, password and parameters. Never to be shown. */
  url: string;
  host: string;
  port: number;
  /** The name that may be shown. */
  name: string;
}

const DEFAULT_PORT = 5432;
/** Parameters that `pg` takes instead of what stands before the question mark, or instead of sslmode. */
const ELSEWHERE: ReadonlySet<string> = new Set(['host', 'port', 'user', 'password', 'database', 'ssl']);

const ADDRESS = /^(postgres(?:ql)?:\/\/)(?:([^@/?]*)@)?([^@/?]+)(\/[^?]*)?(\?.*)?$/;

/**
 * The address as it may be shown: without a password, and whether that is all of it. `undefined` for a text that is no
 * address, of which nobody knows where its password stands.
 */
export function shownAddress(text: string): { address: string; isWhole: boolean } | undefined {
  const parts = ADDRESS.exec(text);
  if (!parts) return undefined;
  const [, scheme = '', user, hosts = '', database = '', parameters = ''] = parts;
  const [name = ''] = (user ?? '').split(':', 1);
  const shown = parameters
    .slice(1)
    .split('&')
    .filter((one) => one !== '' && !/^[^=]*pass/i.test(one));
  const after = shown.length === 0 ? '' : `?${shown.join('&')}`;
  const address = `${scheme}${name === '' ? '' : `${name}@`}${hosts}${database}${after}`;
  return { address, isWhole: name === (user ?? '') && after === parameters };
}

/** Each server of the address, in its order. Throws `LogRefused`, without the address in the message. */
export function logEndpoints(address: string, password?: string): LogEndpoint[] {
  const parts = ADDRESS.exec(address);
  if (!parts) throw refused('it is not of the form postgres://user@host:port/database');
  const [, scheme = '', user = '', hosts = '', database = '', parameters = ''] = parts;
  if (user.includes(':') && password !== undefined)
    throw refused('it holds a password, and there is a password file: take one of them away');
  if (database.length < 2) throw refused('it names no database');
  return hosts.split(',').map((host) => endpoint(scheme, withPassword(user, password), host, database + parameters));
}

function endpoint(scheme: string, user: string, host: string, rest: string): LogEndpoint {
  const url = `${scheme}${user === '' ? '' : `${user}@`}${host}${rest}`;
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw refused('one of its servers is no host and port');
  }
  const names = [...parsed.searchParams.keys()];
  for (const [at, name] of names.entries()) {
    if (ELSEWHERE.has(name)) throw refused(`its parameters hold ${name}, which has its place before them`);
    if (names.indexOf(name) < at) throw refused(`its parameters hold ${name} twice`);
  }
  const hostname = parsed.hostname.replace(/^\[|\]$/g, '');
  const mode = parsed.searchParams.get('sslmode');
  const isLocal = hostname === 'localhost' || hostname === '::1' || (isIPv4(hostname) && hostname.startsWith('127.'));
  if (!isLocal && mode !== null && mode !== 'verify-full' && mode !== 'verify-ca')
    throw refused(
      'beyond this machine the certificate of the server is checked: leave sslmode out, or say sslmode=verify-full',
    );
  if (!isLocal && mode === null) parsed.searchParams.set('sslmode', 'verify-full');
  const port = parsed.port === '' ? DEFAULT_PORT : Number(parsed.port);
  return { url: parsed.href, host: hostname, port, name: `${parsed.hostname}:${port}${parsed.pathname}` };
}

function withPassword(user: string, password: string | undefined): string {
  if (password === undefined) return user;
  return `${user}:${encodeURIComponent(password)}`;
}

function refused(why: string): LogRefused {
  return new LogRefused(`the address of the log cannot be used: ${why}`);
}
