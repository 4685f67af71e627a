/**
 * The routes of every page: the page and its files, signing in and out, and the stream of live events. A user signs in
 * with a link: its token works once, and the browser gets a session for it: a cookie, and a token that the page keeps.
 */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/json.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { type PageSession, PageTokenRequest } from '../../protocol/page-documents.ts';
import { type ListenAddress, listenAddressText } from '../../lib/listen-address.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Exchange, Reply } from '../exchange.ts';
import type { RouteResult } from '../pipeline.ts';
import { jsonReply, problemReply } from '../replies.ts';
import { type AccessControl, pageProblem } from './access.ts';
import { ASSET_FILES, type Assets, assetReply, pageReply, redirect } from './assets.ts';
import type { LiveStreams } from './live-streams.ts';
import { SESSION_IDLE_MS, type Session, type Sessions } from './sessions.ts';

/** A request as the routes of a page get it. */
interface RoutedRequest {
  exchange: Exchange;
  id: string;
  /** The part after `?`; `undefined` without one. */
  query: string | undefined;
  body: { bytes: Buffer };
}

export interface PageRoute {
  method: 'GET' | 'POST';
  path: string;
  bodyBytesMax: number;
  handle: (request: RoutedRequest) => Promise<RouteResult>;
}

export interface PageParts {
  access: AccessControl;
  sessions: Sessions;
  /** `undefined` when the page was not built. */
  assets: Assets | undefined;
  streams: LiveStreams;
}

export function pageRoutes(parts: PageParts): PageRoute[] {
  const { access, assets, streams } = parts;
  const { path } = access.page;
  const shown = (reply: (built: Assets) => Reply): Reply => (assets ? reply(assets) : notBuilt());
  const get = (name: string, handle: PageRoute['handle']): PageRoute => {
    return { method: 'GET', path: path + name, bodyBytesMax: 0, handle };
  };
  const post = (name: string, handle: PageRoute['handle']): PageRoute => {
    return { method: 'POST', path: path + name, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle };
  };
  return [
    get(
      '',
      access.guard('page', () => redirect(`${path}/`)),
    ),
    get(
      '/',
      access.guard('page', () => shown(pageReply)),
    ),
    ...ASSET_FILES.map((file) =>
      get(
        `/${file}`,
        access.guard('page', ({ query }) => shown(({ files }) => assetReply(files[file], query))),
      ),
    ),
    get(
      '/session',
      access.guard('read', (_, session) => sessionReply(session)),
    ),
    get(
      '/live',
      access.guard('read', ({ exchange, id }, session) => streams.serve(exchange, id, session)),
    ),
    post(
      '/session',
      access.guard('entry', ({ body }) => signIn(body.bytes, parts)),
    ),
    post(
      '/leave',
      access.guard('action', (_, session) => signOut(session, parts)),
    ),
  ];
}

function notBuilt(): Reply {
  return problemReply('UNAVAILABLE', 'this page was not built: npm run build makes it');
}

const parseToken = parserOf(PageTokenRequest);

/** The address of a page whose listener is at `host:port`; it asks for a link where no session is open. */
export function pageAddress({ host, port }: ListenAddress, path: string): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${listenAddressText({ host: name, port })}${path}/`;
}

/** A link that opens the page, with a one-time token. Do not log it. */
export function pageLink(listener: ListenAddress, path: string, token: string): string {
  return `${pageAddress(listener, path)}#token=${token}`;
}

/** `POST <page>/session` */
function signIn(body: Buffer, { access, sessions }: PageParts): Reply {
  const parsed = parseToken(parseJsonBounded(body, REQUEST_JSON_BOUNDS));
  if (!parsed) return problemReply('BAD_REQUEST', 'send {token}');
  const entered = sessions.exchange(parsed.token);
  if (!entered) {
    const detail = `this link was used before or is older than a minute: ${access.page.command} prints another one`;
    return pageProblem('BAD_PAGE_TOKEN', detail);
  }
  return withCookie(sessionReply(entered.session), access.setCookie(entered.cookie, SESSION_IDLE_MS / 1000));
}

/** `GET <page>/session` */
function sessionReply({ csrf }: Session): Reply {
  const document: PageSession = { csrf };
  return jsonReply(200, document);
}

/** `POST <page>/leave` */
function signOut(session: Session, { access, sessions }: PageParts): Reply {
  sessions.end(session);
  return withCookie(jsonReply(200, {}), access.setCookie('', 0));
}

function withCookie(reply: Reply, cookie: string): Reply {
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } };
}
