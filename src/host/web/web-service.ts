/**
 * The owner's page: its listener, routes and live events. The listener takes connections from this machine only, and
 * runs from the first link on, later from the start of the daemon: the address of the page stays good, and the port is
 * left to no program of another user.
 */
import { STATUS_CODES } from 'node:http';
import { AccessControl, type PageNames, SECURITY_HEADERS, ownHosts } from '../../http/browser-session/access.ts';
import { builtPage, readAssets } from '../../http/browser-session/assets.ts';
import { KEEP_ALIVE, LiveStreams, formatEvent } from '../../http/browser-session/live-streams.ts';
import { type PageRoute, pageAddress, pageLink, pageRoutes } from '../../http/browser-session/page-routes.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../http/browser-session/sessions.ts';
import { connectionsOfAll } from '../../http/connections.ts';
import type { HttpServer, Reply } from '../../http/exchange.ts';
import { ListenFailed } from '../../http/listen-failed.ts';
import { RequestPipeline } from '../../http/pipeline.ts';
import { jsonReply, otherProblemReply, problemReply } from '../../http/replies.ts';
import { listenNode } from '../../http/server-node.ts';
import type { ListenAddress } from '../../lib/listen-address.ts';
import { type Handlers, parseOperationInput, perform, STATUS_OF } from '../api/handlers.ts';
import type { OperationName } from '../api/operations.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { isoSecond } from '../../protocol/time.ts';
import { REQUEST_BYTES_MAX } from '../contract/socket-protocol.ts';
import type { StatusResult, WebLinkResult } from '../contract/daemon.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import { type AgentId, OWNER_ID } from '../core/rows.ts';
import type { PageRow } from '../store/tables.ts';
import { randomBytes } from 'node:crypto';
import { Budget } from '../../http/budget.ts';
import { systemTimers } from '../../lib/clock.ts';

const PAGE: PageNames = { path: '/mail', cookie: 'poste_mail', command: 'poste inbox --web' };

/**
 * The page takes the first of these that is free, where the config names no address, and any free port where all are
 * taken.
 */
const USUAL_HOST = '127.0.0.1';
const USUAL_PORTS: readonly number[] = [8790, 8791, 8792, 8793, 8794, 8795, 8796, 8797, 8798, 8799];
const DRAFTS_KEY_BYTES = 32;

/** Any user of this machine can connect: idle connections give way. */
const CONNECTIONS_MAX = 64;

interface WebServiceOptions {
  context: HostContext;
  /** Makes them at the first link, as the handlers need this service themselves. */
  handlers: () => Handlers;
  /** The configured address; `undefined`: the port that the page had before, or else a usual one. */
  listen: ListenAddress | undefined;
  usualPorts?: readonly number[];
  /** The folder of the built page; absent: in `dist`. */
  pageFolder?: string | undefined;
}

interface Serving {
  server: HttpServer;
  address: ListenAddress;
  handler: RequestPipeline<PageRoute>;
  streams: LiveStreams;
}

export class WebService {
  readonly #options: WebServiceOptions;
  readonly #sessions: Sessions;
  readonly #stopping = new AbortController();
  #serving: Promise<Serving | Refusal> | undefined;
  #page: StatusResult['page'] = { url: null, problem: null };

  constructor(options: WebServiceOptions) {
    const { context } = options;
    this.#options = options;
    this.#sessions = new Sessions(context.monotonicMs, context.randomBytes);
  }

  get page(): StatusResult['page'] {
    return this.#page;
  }

  /** A link that opens the page once, within a minute. Refuses `UNAVAILABLE` when the page cannot be served. */
  async link(): Promise<WebLinkResult | Refusal> {
    if (this.#stopping.signal.aborted) return refusal('UNAVAILABLE', 'the daemon is stopping: start it again');
    const { context } = this.#options;
    this.#serving ??= this.#startOrForget();
    const serving = await this.#serving;
    if (isRefusal(serving)) return serving;
    const url = pageLink(serving.address, PAGE.path, this.#sessions.issueToken());
    return { url, expires_at: isoSecond(context.nowMs() + TOKEN_LIFETIME_MS) };
  }

  /** Opens the page of a host whose owner opened it before. A failure is logged, and the next link tries again. */
  async reopen(): Promise<void> {
    const { context } = this.#options;
    if (!(await context.store.read((reader) => reader.get('page')))) return;
    this.#serving ??= this.#startOrForget();
    try {
      const serving = await this.#serving;
      if (isRefusal(serving)) context.log('warn', serving.message);
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      context.log('warn', "the owner's page cannot be opened", { err: error });
    }
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

  /** After a failure the next link tries again. */
  async #startOrForget(): Promise<Serving | Refusal> {
    let serving: Serving | Refusal | undefined;
    try {
      serving = await this.#start();
      const problem = isRefusal(serving) ? serving.message : null;
      this.#page = { url: isRefusal(serving) ? null : pageAddress(serving.address, PAGE.path), problem };
      return serving;
    } finally {
      if (!serving || isRefusal(serving)) this.#serving = undefined;
    }
  }

  async #start(): Promise<Serving | Refusal> {
    const { context, handlers, pageFolder = builtPage('mail') } = this.#options;
    const assets = await readAssets(pageFolder, PAGE.path);
    if (!assets) return refusal('UNAVAILABLE', 'the page was not built with this program: npm run build makes it');
    const row = await this.#pageRow();
    const addresses = this.#addresses(row);
    let address = addresses[0] as ListenAddress;
    const sessions = this.#sessions;
    const access = new AccessControl({
      page: PAGE,
      sessions,
      ownHosts: () => ownHosts(address.host, address.port),
    });
    const streams = new LiveStreams({ sessions, subscribe: (send) => listenForMail(context, send) });
    const routes = [
      ...pageRoutes({ access, sessions, assets, streams }),
      ...mailRoutes({ access, handlers: handlers(), stopping: this.#stopping.signal }),
      draftsKeyRoute(access, row),
    ];
    const unexpected = (error: unknown): void => context.log('error', 'a request of the page failed', { err: error });
    const handler = pagePipeline({ routes, unexpected });
    let failure: ListenFailed | undefined;
    for (const tried of addresses) {
      try {
        const server = await listenNode({
          ...tried,
          handler: handler.handle,
          connections: connectionsOfAll(CONNECTIONS_MAX),
        });
        address = { ...tried, port: server.port };
        await this.#keepPort(row, server.port);
        return { server, address, handler, streams };
      } catch (error) {
        if (!(error instanceof ListenFailed)) throw error;
        failure = error;
      }
    }
    return refusal('UNAVAILABLE', `the page cannot be served: ${failure?.message} with web.listen in the config`);
  }

  #addresses({ port }: PageRow): readonly ListenAddress[] {
    const { listen, usualPorts = USUAL_PORTS } = this.#options;
    if (listen) return [listen];
    const ports = new Set([...(port === null ? [] : [port]), ...usualPorts, 0]);
    return [...ports].map((one) => ({ host: USUAL_HOST, port: one }));
  }

  /** The row of the page, made when it is not there yet. */
  async #pageRow(): Promise<PageRow> {
    const { context } = this.#options;
    return context.store.transact((tx) => {
      const known = tx.get('page');
      const row = known ?? { port: null, draftsKey: context.randomBytes(DRAFTS_KEY_BYTES).toString('base64url') };
      if (!known) tx.put('page', [], row);
      return row;
    });
  }

  async #keepPort(row: PageRow, port: number): Promise<void> {
    const { context, listen } = this.#options;
    if (listen || port === row.port) return;
    await context.store.transact((tx) => tx.put('page', [], { ...row, port }));
    context.log('info', "the owner's page is at this port from now on", { port });
  }
}

/** The operations of the page, all as the owner: read and write mail, see who is there and who waits for whom. */
const SHOWN: readonly OperationName[] = [
  'mail-conversations',
  'mail-inbox',
  'mail-read-all',
  'mail-send',
  'mail-reply',
  'mail-sent',
  'waiting',
  'people',
];

interface MailRoutesOptions {
  access: AccessControl;
  handlers: Handlers;
  /** Aborts when the daemon stops. */
  stopping: AbortSignal;
}

/** All by POST: even a list marks mail as notified. */
function mailRoutes({ access, handlers, stopping }: MailRoutesOptions): PageRoute[] {
  return SHOWN.map((name) => ({
    method: 'POST',
    path: `${access.page.path}/${name}`,
    bodyBytesMax: REQUEST_BYTES_MAX,
    handle: access.guard('action', async ({ body }) => {
      const input = parseOperationInput(name, body.bytes);
      if (isRefusal(input)) return refusalReply(input);
      const output = await perform(handlers, name, { agentId: OWNER_ID, signal: stopping }, input);
      return isRefusal(output) ? refusalReply(output) : jsonReply(200, output);
    }),
  }));
}

/** Gives the key to every open session. Without the key nobody can read the drafts that the page keeps. */
function draftsKeyRoute(access: AccessControl, { draftsKey }: PageRow): PageRoute {
  return {
    method: 'POST',
    path: `${access.page.path}/drafts-key`,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: access.guard('action', () => jsonReply(200, { key: draftsKey })),
  };
}

function refusalReply({ code, message, details }: Refusal): Reply {
  const status = STATUS_OF[code];
  return otherProblemReply({ status, title: STATUS_CODES[status] ?? 'Refused' }, code, message, { details });
}

/** The browser takes a stream that is silent for a minute as lost. */
const KEEP_ALIVE_EVERY_MS = 20_000;

/** Calls `send` for each event from now on: that something is new, never what. Returns the function that ends it. */
function listenForMail(context: HostContext, send: (text: string) => void): () => void {
  const tell = (name: 'mail' | 'sent' | 'waiting' | 'people'): void => send(formatEvent(name, {}));
  const mail = ({ agentId }: { agentId: AgentId }): void => {
    if (agentId === OWNER_ID) tell('mail');
    tell('waiting');
  };
  const people = (): void => tell('people');
  const stop = context.subscribe('page', {
    'mail-stored': mail,
    'mail-handled': mail,
    'sent-changed': ({ agentId }) => {
      if (agentId === OWNER_ID) tell('sent');
      tell('waiting');
    },
    'session-registered': people,
    'session-ended': people,
    'agents-changed': people,
    'peers-changed': people,
  });
  const timer = setInterval(() => send(KEEP_ALIVE), KEEP_ALIVE_EVERY_MS);
  return () => {
    stop();
    clearInterval(timer);
  };
}

/** Bytes of bodies held at once: a few of the largest. */
const BODIES_BYTES_MAX = 16 << 20;
const DISCARDED_BYTES_MAX = 1 << 20;

interface PagePipelineOptions {
  routes: readonly PageRoute[];
  /** Gets an error that no handler expects. */
  unexpected: (error: unknown) => void;
}

function pagePipeline({ routes, unexpected }: PagePipelineOptions): RequestPipeline<PageRoute> {
  const bodies = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs: () => performance.now() });
  return new RequestPipeline({
    routes,
    timers: systemTimers,
    randomBytes,
    stopping: 'the daemon is stopping',
    discardBytesMax: DISCARDED_BYTES_MAX,
    accept: ({ route, exchange, id, query, framing }) => ({
      room: { budget: bodies, holders: [], expectedBytes: framing.contentLength },
      handle: (body) => route.handle({ exchange, id, query, body }),
    }),
    failed: (error) => failureReply(error, unexpected),
    complete: (reply, id) => ({ ...reply, headers: { ...SECURITY_HEADERS, ...reply.headers, 'x-request-id': id } }),
    unexpected,
  });
}

function failureReply(error: unknown, unexpected: (error: unknown) => void): Reply {
  if (isStoreFailure(error)) {
    return problemReply('UNAVAILABLE', 'the store failed, and what became of this is unknown: start the daemon again');
  }
  unexpected(error);
  const kind = { status: 500, title: 'Internal Error' };
  return otherProblemReply(kind, 'INTERNAL', 'the daemon could not do this: its log says why');
}
