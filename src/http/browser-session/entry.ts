/** How a browser gets in and out of a page: a link with a token that is good once becomes a session with a cookie. */
import type { Reply } from '../exchange.ts';
import { jsonReply, problemReply } from '../replies.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { type PageSession, PageTokenRequest } from '../../protocol/page-documents.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Access } from './access.ts';
import { pageProblem } from './problems.ts';
import { SESSION_IDLE_MS, type Session, type Sessions } from './sessions.ts';

const parseToken = parserOf(PageTokenRequest);

export interface SessionDoors {
  access: Access;
  sessions: Sessions;
}

/** `address` is where the page's listener is, `host` as it was told to listen. The token stays out of every log. */
export function pageLink(address: { host: string; port: number }, path: string, token: string): string {
  const { host, port } = address;
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const shown = name.includes(':') ? `[${name}]` : name;
  return `http://${shown}:${port}${path}/#token=${token}`;
}

/** `POST <page>/session` */
export function enter(body: Buffer, { access, sessions }: SessionDoors): Reply {
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
export function sessionReply({ csrf }: Session): Reply {
  const document: PageSession = { csrf };
  return jsonReply(200, document);
}

/** `POST <page>/leave` */
export function leave(session: Session, { access, sessions }: SessionDoors): Reply {
  sessions.end(session);
  return withCookie(jsonReply(200, {}), access.setCookie('', 0));
}

function withCookie(reply: Reply, cookie: string): Reply {
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } };
}
