/**
 * The checks that each request to a page must pass (Host, Origin, both secrets of a session), and the headers of its
 * answers.
 *
 * Any web page in any browser of this machine can reach a loopback port. So each check works without the others.
 */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { PAGE_PROBLEMS, type PageProblemCode } from '../../protocol/page-documents.ts';
import type { Exchange, Reply } from '../exchange.ts';
import { isReply } from '../framing.ts';
import type { RouteResult } from '../pipeline.ts';
import { otherProblemReply } from '../replies.ts';
import type { Session, Sessions } from './sessions.ts';
import { isLoopback } from '../../lib/listen-address.ts';

const CSRF_HEADER = 'x-poste-csrf';

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

export const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

/** The names say where a page is, and how a user gets a link to it. */
export interface PageNames {
  /** Its path without the last slash: `/console`. */
  path: string;
  /** The first part of its cookie's name. */
  cookie: string;
  /** The command that prints a link. */
  command: string;
}

/** The part of a request that is checked. */
export interface PageRequest {
  exchange: Pick<Exchange, 'head'>;
}

interface AccessControlOptions {
  page: PageNames;
  sessions: Sessions;
  /** Answers for each request: the port is known only when the listener runs. */
  ownHosts: () => ReadonlySet<string>;
}

/** `page`: for anyone on this machine. `entry`: signs in with a token. `read` and `action` need a session. */
type AccessLevel = 'page' | 'entry' | 'read' | 'action';

/** The session of a request whose level needs none. */
const NO_SESSION: Session = { csrf: '', lastUsedMs: 0 };

export class AccessControl {
  readonly #options: AccessControlOptions;

  constructor(options: AccessControlOptions) {
    this.#options = options;
  }

  /** Wraps `handle`: only requests that pass the checks of `level` reach it, and its answers get the headers. */
  guard<Request extends PageRequest>(
    level: AccessLevel,
    handle: (request: Request, session: Session) => RouteResult | Promise<RouteResult>,
  ): (request: Request) => Promise<RouteResult> {
    return async (request) => {
      const checked = this.#check(level, request);
      const result = isReply(checked) ? checked : await handle(request, checked);
      if (result === 'streamed') return result;
      return { ...result, headers: { ...SECURITY_HEADERS, ...result.headers } };
    };
  }

  get page(): PageNames {
    return this.#options.page;
  }

  /** The header that sets the cookie; with an age of 0 it deletes the cookie. */
  setCookie(value: string, maxAgeS: number): string {
    const { path } = this.#options.page;
    return `${this.#cookieName()}=${value}; Path=${path}; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}`;
  }

  /** Browsers send a cookie to every port of a host, so the name contains the port. */
  #cookieName(): string {
    const [host = ''] = this.#options.ownHosts();
    return `${this.#options.page.cookie}_${host.slice(host.lastIndexOf(':') + 1)}`;
  }

  #check(level: AccessLevel, request: PageRequest): Session | Reply {
    const host = headersOf(request, 'host')[0]?.toLowerCase() ?? '';
    if (!this.#options.ownHosts().has(host)) {
      return pageProblem('FOREIGN_HOST', `open this page by the link that ${this.#options.page.command} prints`);
    }
    if (level === 'page') return NO_SESSION;
    const isChange = level === 'entry' || level === 'action';
    if (!isOwnOrigin(request, host, isChange)) {
      return pageProblem('FOREIGN_ORIGIN', 'only the page itself may send this request');
    }
    if (level === 'entry') return NO_SESSION;
    const session = this.#session(request);
    if (!session) {
      return pageProblem(
        'NO_SESSION',
        `this window has no session: ${this.#options.page.command} prints a link that opens one`,
      );
    }
    return session;
  }

  #session(request: PageRequest): Session | undefined {
    const start = `${this.#cookieName()}=`;
    const pairs = headersOf(request, 'cookie').flatMap((line) => line.split(';'));
    const values = pairs.map((pair) => pair.trim()).filter((pair) => pair.startsWith(start));
    const tokens = headersOf(request, CSRF_HEADER);
    // With two cookies of one name, another program set one of them.
    if (values.length !== 1 || tokens.length !== 1) return undefined;
    return this.#options.sessions.use(values[0]?.slice(start.length) ?? '', tokens[0] ?? '');
  }
}

/** Browsers send Origin with every change, and Sec-Fetch-Site with every request. */
function isOwnOrigin(request: PageRequest, host: string, isChange: boolean): boolean {
  const origins = headersOf(request, 'origin');
  const isOwn = origins.every((origin) => origin.toLowerCase() === `http://${host}`);
  const sites = headersOf(request, 'sec-fetch-site');
  return isOwn && (origins.length === 1 || !isChange) && sites.every((site) => site === 'same-origin');
}

function headersOf({ exchange }: PageRequest, name: string): string[] {
  return exchange.head.headers.flatMap(([one, value]) => (one === name ? [value] : []));
}

/** A problem of pages, in the form of every other problem. */
export function pageProblem(code: PageProblemCode, detail: string): Reply {
  return otherProblemReply(PAGE_PROBLEMS[code], code, detail);
}

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** Browsers leave this port out of addresses and origins. */
const HTTP_PORT = 80;

/**
 * The Host headers by which a listener on `host` is addressed, in lower case. With DNS rebinding a foreign web page
 * reaches the listener too, but under a name of its own.
 */
export function ownHosts(host: string, port: number): ReadonlySet<string> {
  const names = namesOf(host).map((name) => name.toLowerCase());
  return new Set([...names.map((name) => `${name}:${port}`), ...(port === HTTP_PORT ? names : [])]);
}

/**
 * Says whether a Host header may come from a foreign web page; for requests that need no session. Probes address a
 * loopback listener by IP address or as localhost. A listener on another address may have names that it does not know.
 */
export function isForeignName(header: string, host: string): boolean {
  if (!isLoopback(host)) return false;
  const name = header.toLowerCase().replace(/:\d*$/, '');
  return name !== 'localhost' && isIP(name.replace(/^\[(.*)\]$/, '$1')) === 0;
}

function namesOf(host: string): string[] {
  if (isLoopback(host)) return [...LOOPBACK, inUrl(host)];
  if (host === '0.0.0.0' || host === '::') {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    return [...LOOPBACK, ...addresses.map(({ address }) => inUrl(address))];
  }
  return [inUrl(host)];
}

function inUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
