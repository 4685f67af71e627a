/**
 * Serves the operator's listener: health, metrics, the OpenAPI document and the console. On the loopback interface by
 * default, never public.
 */
import {
  AccessControl,
  type PageNames,
  isForeignName,
  ownHosts,
  pageProblem,
} from '../../http/browser-session/access.ts';
import { builtPage, readAssets } from '../../http/browser-session/assets.ts';
import { KEEP_ALIVE, LiveStreams, formatEvent } from '../../http/browser-session/live-streams.ts';
import { pageLink } from '../../http/browser-session/page-routes.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../http/browser-session/sessions.ts';
import type { Exchange, Reply, RequestHead } from '../../http/exchange.ts';
import type { RequestPipeline } from '../../http/pipeline.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import type { Watch } from './activity.ts';
import { type ConsoleParts, consoleRoutes } from './console-routes.ts';
import { itemPositions } from './item-trace.ts';
import { EpochHistory } from './log-search.ts';
import type { RelayMetrics } from './metrics.ts';
import { type OperatorRoute, operatorPipeline } from './operator-pipeline.ts';
import type { RelayState, ServingRelay, TakeBackup } from './relay-state.ts';
import { Sampler } from './sampler.ts';
import { isReply, readFraming, readTarget } from '../../http/framing.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';

const CONSOLE_PAGE: PageNames = { path: '/console', cookie: 'poste_console', command: 'poste relay console' };
/** A browser takes a stream as lost that says nothing for a minute. */
const KEEP_ALIVE_EVERY_MS = 20_000;

interface OperatorServerOptions {
  state: RelayState;
  watch: Watch;
  openApi: OpenApiDocument;
  /** The host on which it is to listen. */
  host: string;
}

export class OperatorServer {
  readonly #host: string;
  readonly #sessions: Sessions;
  readonly #streams: LiveStreams;
  /** `undefined`: a standby. */
  readonly #parts: ConsoleParts | undefined;
  readonly #console: RequestPipeline<OperatorRoute>;
  readonly #state: RelayState;
  readonly #metrics: RelayMetrics;
  readonly #openApi: Reply;
  #port = 0;

  static async start(options: OperatorServerOptions): Promise<OperatorServer> {
    const folder = options.state.settings.consoleFolder ?? builtPage('console');
    return new OperatorServer(options, await readAssets(folder, CONSOLE_PAGE.path));
  }

  private constructor(
    { state, watch, openApi, host }: OperatorServerOptions,
    assets: Awaited<ReturnType<typeof readAssets>>,
  ) {
    const { clock, timers, randomBytes } = state.settings;
    this.#host = host;
    this.#state = state;
    this.#metrics = watch.metrics;
    this.#openApi = jsonReply(200, openApi);
    const sessions = new Sessions(clock.monotonicMs, randomBytes);
    this.#sessions = sessions;
    const { serving } = state.subject;
    const parts = serving && consoleParts(serving, state, watch);
    this.#parts = parts;
    this.#streams = new LiveStreams({
      sessions,
      subscribe: (send) =>
        parts
          ? parts.sampler.listen((sample) => send(formatEvent('sample', sample)))
          : timers.every(KEEP_ALIVE_EVERY_MS, () => send(KEEP_ALIVE)),
    });
    // With 0.0.0.0 the machine's addresses may change, so they are read each time.
    const access = new AccessControl({ page: CONSOLE_PAGE, sessions, ownHosts: () => ownHosts(host, this.#port) });
    const page = { access, sessions, assets, streams: this.#streams };
    this.#console = operatorPipeline('console request', consoleRoutes({ page, state, parts }), state);
  }

  handle(exchange: Exchange): void {
    const { target } = exchange.head;
    if (CONSOLE_PATH.test(target)) {
      this.#console.handle(exchange);
      return;
    }
    exchange.receive(() => undefined);
    const refusal = refusalOf(exchange.head, this.#host);
    if (refusal) exchange.reply(refusal);
    else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (target === '/openapi.json') exchange.reply(this.#openApi);
    else if (target === '/metrics') {
      this.#metrics.reply(this.#state.gauges, this.#state.subject.sharedLog?.gauges, this.#state.witnessAges).then(
        (reply) => exchange.reply(reply),
        () => exchange.abort(),
      );
    } else exchange.reply(healthReply(target, this.#state));
  }

  /** Takes the port on which it listens. */
  listening(port: number): void {
    this.#port = port;
  }

  /** A URL that opens the console once, within a minute. */
  consoleUrl(): { url: string; lifetimeMs: number } {
    const address = { host: this.#host, port: this.#port };
    const url = pageLink(address, CONSOLE_PAGE.path, this.#sessions.issueToken());
    return { url, lifetimeMs: TOKEN_LIFETIME_MS };
  }

  /** Ends every stream, and resolves when the console is done with its requests. */
  async drain(): Promise<void> {
    this.#parts?.sampler.close();
    this.#streams.close();
    await this.#console.drain();
  }

  /** Stops reading the store; also to be called when it never listened. */
  async close(): Promise<void> {
    this.#parts?.sampler.close();
    await this.#parts?.epochs.close();
  }
}

/** Gathers what the console of a relay that serves shows besides its state. */
function consoleParts(serving: ServingRelay, state: RelayState, { activity }: Watch): ConsoleParts {
  const { settings, subject } = state;
  const { engine, store } = serving;
  const { clock, timers, randomBytes } = settings;
  const { monotonicMs } = clock;
  const onError = (error: unknown): void => state.unexpected(error, 'none');
  /** One of the regular backups, before its time. */
  const takeBackup: TakeBackup = () =>
    subject.jobs.backups?.takeNow() ?? Promise.reject(new Error('the relay is starting'));
  return {
    ...serving,
    rows: store,
    log: store,
    clock,
    monotonicMs,
    nameOf: (key) => engine.directory.get(key)?.hostName,
    lastPull: (target) => activity.lastPull(target),
    ...itemPositions(engine, store),
    activity,
    sampler: new Sampler({
      activity,
      gauges: () => state.gauges,
      epoch: () => engine.epoch,
      nowMs: clock.nowMs,
      timers,
      onError,
    }),
    epochs: new EpochHistory({ log: store, monotonicMs, onError }),
    takeBackup: settings.takeBackup ?? (settings.backups && takeBackup),
    rowsCheck: () => subject.jobs.rowsCheck,
    randomBytes,
    unexpected: (error, requestId) => state.unexpected(error, requestId),
  };
}

/** A standby may lead soon. */
const STANDBY_RETRY_S = 1;

const PATHS = new Set(['/livez', '/readyz', '/healthz', '/openapi.json', '/metrics']);
const CONSOLE_PATH = /^\/console(?:[/?]|$)/;

function healthReply(target: string, state: RelayState): Reply {
  const { whyNotReady } = state;
  const { serving } = state.subject;
  if (!serving) {
    return problemReply('UNAVAILABLE', whyNotReady ?? 'this relay follows', { retryAfterS: STANDBY_RETRY_S });
  }
  if (whyNotReady !== undefined) return problemReply('UNAVAILABLE', whyNotReady);
  return jsonReply(200, target === '/readyz' ? { status: 'ready' } : state.healthDocument(serving));
}

/** Judges a request as the pipeline does: target, route and method, framing. */
function refusalOf(head: RequestHead, listenHost: string): Reply | undefined {
  const target = readTarget(head);
  if (isReply(target)) return target;
  // Proxies that ask how the relay is speak HTTP/1.0 or 1.1, as HAProxy does with `httpchk`.
  const framing = readFraming(head, false);
  const close = isReply(framing);
  if (!PATHS.has(head.target)) return problemReply('NOT_FOUND', 'no such route', { close });
  if (head.method !== 'GET') {
    return problemReply('METHOD_NOT_ALLOWED', 'this route takes GET', { headers: { allow: 'GET' }, close });
  }
  if (isReply(framing)) return framing;
  const host = framing.header('host');
  return host !== undefined && isForeignName(host, listenHost)
    ? pageProblem('FOREIGN_HOST', 'ask this listener by its address, or as localhost')
    : undefined;
}
