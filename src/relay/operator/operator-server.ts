/** Composes what the operator's listener serves: health, metrics and the console. */
import { AccessControl, type PageNames, ownHosts } from '../../http/browser-session/access.ts';
import { builtPage, readAssets } from '../../http/browser-session/assets.ts';
import { KEEP_ALIVE, LiveStreams, formatEvent } from '../../http/browser-session/live-streams.ts';
import { pageLink } from '../../http/browser-session/page-routes.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../http/browser-session/sessions.ts';
import type { Exchange } from '../../http/exchange.ts';
import type { RequestPipeline } from '../../http/pipeline.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import type { Watch } from './activity.ts';
import { type ConsoleParts, consoleRoutes } from './console-routes.ts';
import { operatorHandler } from './health.ts';
import { itemPositions } from './item-trace.ts';
import { EpochHistory } from './log-search.ts';
import { type OperatorRoute, operatorPipeline } from './operator-pipeline.ts';
import type { RelayState, ServingRelay, TakeBackup } from './relay-state.ts';
import { Sampler } from './sampler.ts';

const CONSOLE_PAGE: PageNames = { path: '/console', cookie: 'poste_console', command: 'poste relay console' };
/** A browser takes a stream as lost that says nothing for a minute. */
const KEEP_ALIVE_EVERY_MS = 20_000;

interface OperatorServerOptions {
  state: RelayState;
  watch: Watch;
  openApi: OpenApiDocument;
  /** Where it is to listen. */
  host: string;
}

export class OperatorServer {
  readonly #host: string;
  readonly #sessions: Sessions;
  readonly #streams: LiveStreams;
  /** `undefined`: a standby. */
  readonly #parts: ConsoleParts | undefined;
  readonly #console: RequestPipeline<OperatorRoute>;
  readonly #handle: (exchange: Exchange) => void;
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
    const sessions = new Sessions(() => clock.monotonicMs(), randomBytes);
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
    this.#handle = operatorHandler({
      state,
      host,
      openApi,
      metrics: () => watch.metrics.reply(state.gauges, state.subject.sharedLog?.gauges),
      console: this.#console,
    });
  }

  handle(exchange: Exchange): void {
    this.#handle(exchange);
  }

  /** To be called with the port on which it listens. */
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
  const monotonicMs = (): number => clock.monotonicMs();
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
      nowMs: () => clock.nowMs(),
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
