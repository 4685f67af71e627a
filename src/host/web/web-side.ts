/**
 * The owner's page, put together: a listener of this machine alone that is up from the first link on until the daemon
 * stops.
 */
import { type HttpServer, ListenFailed } from '../../http/exchange.ts';
import { listenNode } from '../../http/server-node.ts';
import { Access, type PageNames } from '../../page-access/access.ts';
import { builtPage, readAssets } from '../../page-access/assets.ts';
import { pageLink } from '../../page-access/entry.ts';
import { LiveStreams } from '../../page-access/live-streams.ts';
import { ownHosts } from '../../page-access/own-hosts.ts';
import { pageRoutes } from '../../page-access/page-routes.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../page-access/sessions.ts';
import type { ListenAddress } from '../../system/listen-address.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { WebLinkResult } from '../documents/web.ts';
import type { Handlers, WebDoor } from '../local/handlers.ts';
import type { Office } from '../office/office.ts';
import { listenForMail } from './mail-events.ts';
import { mailRoutes } from './mail-routes.ts';
import { PageHandler } from './page-handler.ts';

const PAGE: PageNames = { path: '/mail', cookie: 'poste_mail', command: 'poste inbox --web' };

export interface WebSideOptions {
  office: Office;
  /** Asked for when the first link is: they know of this. */
  handlers: () => Handlers;
  listen: ListenAddress;
  /** Where the built page is; absent: in `dist`. */
  pageFolder?: string | undefined;
}

interface Serving {
  server: HttpServer;
  handler: PageHandler;
  streams: LiveStreams;
}

export class WebSide implements WebDoor {
  readonly #options: WebSideOptions;
  readonly #sessions: Sessions;
  readonly #stopping = new AbortController();
  #serving: Promise<Serving | Refusal> | undefined;

  constructor(options: WebSideOptions) {
    const { office } = options;
    this.#options = options;
    this.#sessions = new Sessions(
      () => office.monotonicMs(),
      (count) => office.randomBytes(count),
    );
  }

  /** A link that opens the page once, within a minute. Refuses `UNAVAILABLE` when the page cannot be served. */
  async link(): Promise<WebLinkResult | Refusal> {
    if (this.#stopping.signal.aborted) return refusal('UNAVAILABLE', 'the daemon is stopping: start it again');
    const { office, listen } = this.#options;
    this.#serving ??= this.#started();
    const serving = await this.#serving;
    if (isRefusal(serving)) return serving;
    const address = { host: listen.host, port: serving.server.port };
    const url = pageLink(address, PAGE.path, this.#sessions.issueToken());
    return { url, expires_at: office.nowMs() + TOKEN_LIFETIME_MS };
  }

  /** Takes no new request, ends every stream, and resolves when every request that came is answered. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const serving = await this.#serving?.catch(() => undefined);
    if (!serving || isRefusal(serving)) return;
    serving.server.stopAccepting();
    serving.streams.close();
    await serving.handler.drain();
    serving.server.close();
  }

  /** What was in the way may be gone the next time. */
  async #started(): Promise<Serving | Refusal> {
    let serving: Serving | Refusal | undefined;
    try {
      serving = await this.#start();
      return serving;
    } finally {
      if (!serving || isRefusal(serving)) this.#serving = undefined;
    }
  }

  async #start(): Promise<Serving | Refusal> {
    const { office, handlers, listen, pageFolder = builtPage('mailpage') } = this.#options;
    const assets = await readAssets(pageFolder, PAGE.path);
    if (!assets) return refusal('UNAVAILABLE', 'the page was not built with this program: npm run build makes it');
    let port = listen.port;
    const sessions = this.#sessions;
    const access = new Access({ page: PAGE, sessions, ownHosts: () => ownHosts(listen.host, port) });
    const streams = new LiveStreams({ sessions, listen: (send) => listenForMail(office, send) });
    const routes = [
      ...pageRoutes({ access, sessions, assets, streams }),
      ...mailRoutes({ access, handlers: handlers(), stopping: this.#stopping.signal }),
    ];
    const unexpected = (error: unknown): void => office.log('error', 'a request of the page failed', { err: error });
    const handler = new PageHandler({ routes, unexpected });
    try {
      const server = await listenNode({ ...listen, handler: (exchange) => handler.handle(exchange) });
      ({ port } = server);
      return { server, handler, streams };
    } catch (error) {
      if (!(error instanceof ListenFailed)) throw error;
      return refusal('UNAVAILABLE', `the page cannot be served: ${error.message} with web.listen in the config`);
    }
  }
}
