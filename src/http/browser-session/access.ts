/**
 * What every request of a page passes: Host → Origin → session → CSRF token. And the headers that every answer has.
 *
 * Any page in any browser of this machine can reach a loopback port; none of these checks leans on another.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Exchange, Reply } from '../exchange.ts';
import { isReply } from '../framing.ts';
import { pageProblem } from './problems.ts';
import type { Session, Sessions } from './sessions.ts';

export const CSRF_HEADER = 'x-poste-csrf';

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

/** What one page of this machine is called, and how one gets in. */
export interface PageNames {
  /** Where it lies, without the last slash: `/console`. */
  path: string;
  /** Begins the name of its cookie. */
  cookie: string;
  /** Prints a link that opens it. */
  command: string;
}

/** What the doors look at. */
export interface PageRequest {
  exchange: Pick<Exchange, 'head'>;
}

/** A reply, or `streamed` when the route writes it piece by piece itself. */
export type PageResult = Reply | 'streamed';

export interface AccessOptions {
  page: PageNames;
  sessions: Sessions;
  /** Asked for each request: the port is known when the listener is up. */
  ownHosts: () => ReadonlySet<string>;
}

/** `page`: anybody on this machine. `entry`: brings a token. `read` and `action` need a session. */
export type Door = 'page' | 'entry' | 'read' | 'action';

/** What a request without a session is given in the place of one, behind doors that ask for none. */
const NOBODY: Session = { csrf: '', lastUsedMs: 0 };

export class Access {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /** A handler that is called behind `door` alone, and whose answers have the headers. */
  behind<Request extends PageRequest>(
    door: Door,
    handle: (request: Request, session: Session) => PageResult | Promise<PageResult>,
  ): (request: Request) => Promise<PageResult> {
    return async (request) => {
      const passed = this.#pass(door, request);
      const result = isReply(passed) ? passed : await handle(request, passed);
      if (result === 'streamed') return result;
      return { ...result, headers: { ...SECURITY_HEADERS, ...result.headers } };
    };
  }

  get page(): PageNames {
    return this.#options.page;
  }

  /** The header that gives a browser its cookie, or takes it away with an age of 0. */
  setCookie(value: string, maxAgeS: number): string {
    const { path } = this.#options.page;
    return `${this.#cookieName()}=${value}; Path=${path}; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}`;
  }

  /** Ports share their cookies, so each process of this machine has its own. */
  #cookieName(): string {
    const [host = ''] = this.#options.ownHosts();
    return `${this.#options.page.cookie}_${host.slice(host.lastIndexOf(':') + 1)}`;
  }

  #pass(door: Door, request: PageRequest): Session | Reply {
    const host = headersOf(request, 'host')[0]?.toLowerCase() ?? '';
    if (!this.#options.ownHosts().has(host)) {
      return pageProblem('FOREIGN_HOST', `open this page by the link that ${this.#options.page.command} prints`);
    }
    if (door === 'page') return NOBODY;
    const isChange = door === 'entry' || door === 'action';
    if (!isOwnOrigin(request, host, isChange)) {
      return pageProblem('FOREIGN_ORIGIN', 'only the page itself may ask that');
    }
    if (door === 'entry') return NOBODY;
    const session = this.#session(request);
    if (!session) {
      return pageProblem(
        'NO_SESSION',
        `there is no session: ${this.#options.page.command} prints a link that opens one`,
      );
    }
    if (door === 'action' && !isSame(headersOf(request, CSRF_HEADER), session.csrf)) {
      return pageProblem('BAD_CSRF_TOKEN', 'the token of the session is missing or another one: load the page again');
    }
    return session;
  }

  #session(request: PageRequest): Session | undefined {
    const start = `${this.#cookieName()}=`;
    const pairs = headersOf(request, 'cookie').flatMap((line) => line.split(';'));
    const values = pairs.map((pair) => pair.trim()).filter((pair) => pair.startsWith(start));
    // Two of one name: somebody else set one.
    return values.length === 1 ? this.#options.sessions.use(values[0]?.slice(start.length) ?? '') : undefined;
  }
}

/** Browsers say Origin with every change, and Sec-Fetch-Site with everything. */
function isOwnOrigin(request: PageRequest, host: string, isChange: boolean): boolean {
  const origins = headersOf(request, 'origin');
  const isOwn = origins.every((origin) => origin.toLowerCase() === `http://${host}`);
  const sites = headersOf(request, 'sec-fetch-site');
  return isOwn && (origins.length === 1 || !isChange) && sites.every((site) => site === 'same-origin');
}

function isSame(values: readonly string[], expected: string): boolean {
  const [value = ''] = values;
  const [given, wanted] = [Buffer.from(value), Buffer.from(expected)];
  return values.length === 1 && given.length === wanted.length && timingSafeEqual(given, wanted);
}

function headersOf({ exchange }: PageRequest, name: string): string[] {
  return exchange.head.headers.flatMap(([one, value]) => (one === name ? [value] : []));
}
