/** The routes that every page has: itself with its files, the session, and the stream of what happens. */
import type { Exchange, Reply } from '../exchange.ts';
import { problemReply } from '../replies.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { PageResult } from './access.ts';
import { ASSET_FILES, type Assets, assetReply, movedTo, pageReply } from './assets.ts';
import { type SessionDoors, enter, leave, sessionReply } from './entry.ts';
import type { LiveStreams } from './live-streams.ts';

/** A request as a page's routes see it. */
export interface RoutedRequest {
  exchange: Exchange;
  id: string;
  /** What follows `?`; `undefined` without one. */
  query: string | undefined;
  body: { bytes: Buffer };
}

export interface PageRoute {
  method: 'GET' | 'POST';
  path: string;
  bodyBytesMax: number;
  handle: (request: RoutedRequest) => Promise<PageResult>;
}

export interface PageParts extends SessionDoors {
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
      access.behind('page', () => movedTo(`${path}/`)),
    ),
    get(
      '/',
      access.behind('page', () => shown(pageReply)),
    ),
    ...ASSET_FILES.map((file) =>
      get(
        `/${file}`,
        access.behind('page', ({ query }) => shown(({ files }) => assetReply(files[file], query))),
      ),
    ),
    get(
      '/session',
      access.behind('read', (_, session) => sessionReply(session)),
    ),
    get(
      '/live',
      access.behind('read', ({ exchange, id }, session) => streams.serve(exchange, id, session)),
    ),
    post(
      '/session',
      access.behind('entry', ({ body }) => enter(body.bytes, parts)),
    ),
    post(
      '/leave',
      access.behind('action', (_, session) => leave(session, parts)),
    ),
  ];
}

function notBuilt(): Reply {
  return problemReply('UNAVAILABLE', 'this page was not built: npm run build makes it');
}
