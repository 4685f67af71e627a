/** What stands behind the operator's listener, put together: health, metrics and the console. */
import type { DiskGuard } from '../disk-guard.ts';
import type { Clock, RandomBytes, Timers } from '../engine/ambient.ts';
import type { Engine } from '../engine/engine.ts';
import type { Exchange } from '../../http/exchange.ts';
import { Handler, type HandlerOptions } from '../http/handler.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { Access, type PageNames } from '../../page-access/access.ts';
import { builtPage, readAssets } from '../../page-access/assets.ts';
import { EpochHistory } from './console/epoch-history.ts';
import { itemPlaces } from './console/item-places.ts';
import { pageLink } from '../../page-access/entry.ts';
import { LiveStreams, eventText } from '../../page-access/live-streams.ts';
import { isForeignName, ownHosts } from '../../page-access/own-hosts.ts';
import { type TakeBackup, consoleRoutes } from './console/routes.ts';
import { Sampler } from './console/sampler.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../page-access/sessions.ts';
import { type Health, operatorHandler } from './health.ts';
import type { Gauges } from './metrics.ts';
import { OldestItemWatch } from './oldest-item-watch.ts';
import type { Watch } from './watch.ts';

const PAGE: PageNames = { path: '/console', cookie: 'poste_console', command: 'poste relay console' };

export interface OperatorSideOptions {
  engine: Engine;
  store: RelayStore;
  watch: Watch;
  disk: DiskGuard;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  version: string;
  serverName: string;
  startedMs: number;
  isReady: () => boolean;
  openApi: OpenApiDocument;
  /** Where it is to listen. */
  host: string;
  /** Of the handler of the console; its routes are made here. */
  handler: Omit<HandlerOptions, 'routes'>;
  /** Where the built page is; absent: in `dist`. */
  consoleFolder?: string | undefined;
  takeBackup?: TakeBackup | undefined;
  /** Of the regular backups. */
  lastBackup: () => Health['lastBackup'];
  /** When the last good one was taken, as in `Gauges`. */
  lastGoodBackupMs: () => Gauges['lastBackupMs'];
  /** Of the daily scrub. */
  lastScrub: () => Health['lastScrub'];
}

export class OperatorSide {
  readonly #options: OperatorSideOptions;
  readonly #sessions: Sessions;
  readonly #oldest: OldestItemWatch;
  readonly #sampler: Sampler;
  readonly #streams: LiveStreams;
  readonly #epochs: EpochHistory;
  readonly #console: Handler;
  #handle: (exchange: Exchange) => void;
  #port = 0;

  static async start(options: OperatorSideOptions): Promise<OperatorSide> {
    return new OperatorSide(options, await readAssets(options.consoleFolder ?? builtPage('console'), PAGE.path));
  }

  private constructor(options: OperatorSideOptions, assets: Awaited<ReturnType<typeof readAssets>>) {
    const { engine, store, watch, clock, timers, randomBytes, host, version, serverName, startedMs } = options;
    const { unexpected } = options.handler;
    const monotonicMs = () => clock.monotonicMs();
    const gauges = () => this.#gauges();
    this.#options = options;
    this.#sessions = new Sessions(monotonicMs, randomBytes);
    this.#oldest = new OldestItemWatch({ engine, clock, timers });
    const { activity } = watch;
    const epoch = () => engine.epoch;
    this.#sampler = new Sampler({ activity, gauges, epoch, nowMs: () => clock.nowMs(), timers });
    this.#streams = new LiveStreams({
      sessions: this.#sessions,
      listen: (send) => this.#sampler.listen((sample) => send(eventText('sample', sample))),
    });
    this.#epochs = new EpochHistory({ log: store, monotonicMs, unexpected: (error) => unexpected(error, 'none') });
    // Behind 0.0.0.0 addresses come and go, so it is asked for each time.
    const access = new Access({ page: PAGE, sessions: this.#sessions, ownHosts: () => ownHosts(host, this.#port) });
    const routes = consoleRoutes({
      engine,
      rows: store,
      log: store,
      clock,
      monotonicMs,
      nameOf: (key) => engine.enrolment(key)?.hostName,
      lastPull: (target) => activity.lastPull(target),
      ...itemPlaces(engine, store),
      access,
      sessions: this.#sessions,
      assets,
      activity,
      sampler: this.#sampler,
      streams: this.#streams,
      epochs: this.#epochs,
      relay: { version, serverName, startedMs },
      takeBackup: options.takeBackup,
      unexpected,
    });
    this.#console = new Handler({ ...options.handler, routes });
    this.#handle = operatorHandler({
      health: () => ({
        isReady: options.isReady(),
        version,
        epoch: engine.epoch,
        hosts: engine.liveEnrolments,
        uptimeMs: clock.monotonicMs() - startedMs,
        lastBackup: options.lastBackup(),
        lastScrub: options.lastScrub(),
      }),
      openApi: options.openApi,
      metrics: () => watch.metrics.reply(gauges()),
      isForeign: (header) => isForeignName(header, host),
      console: this.#console,
    });
  }

  handle(exchange: Exchange): void {
    this.#handle(exchange);
  }

  /** Tells on which port it listens. */
  listening(port: number): void {
    this.#port = port;
  }

  /** A URL that opens the console once, within a minute. */
  consoleUrl(): { url: string; lifetimeMs: number } {
    const address = { host: this.#options.host, port: this.#port };
    const url = pageLink(address, PAGE.path, this.#sessions.issueToken());
    return { url, lifetimeMs: TOKEN_LIFETIME_MS };
  }

  /** Ends every stream, and resolves when the console is done with its requests. */
  async drain(): Promise<void> {
    this.#sampler.close();
    this.#streams.close();
    await this.#console.drain();
  }

  /** Reads no more of the store, and takes no samples of it; also when it never listened. */
  async close(): Promise<void> {
    this.#sampler.close();
    await Promise.all([this.#oldest.close(), this.#epochs.close()]);
  }

  #gauges(): Gauges {
    const { engine, store, disk, isReady, lastGoodBackupMs } = this.#options;
    const { items, bytes } = engine.waiting;
    const { ageMs } = this.#oldest;
    return {
      queueItems: items,
      queueBytes: bytes,
      oldestItemAgeS: ageMs === undefined ? undefined : ageMs / 1000,
      logPosition: store.lastLsn,
      logFirstPosition: store.firstLsn,
      hosts: engine.liveEnrolments,
      waitingPulls: engine.waits,
      diskFreeBytes: disk.freeBytes,
      isDiskLow: disk.isLow,
      isReady: isReady(),
      lastBackupMs: lastGoodBackupMs(),
    };
  }
}
