/** Composes what the operator's listener serves: health, metrics and the console. */
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import type { BackupState } from '../jobs/backup-job.ts';
import type { LogRemoval, LogRetentionSettings } from '../jobs/retention-job.ts';
import type { DiskGuard } from '../jobs/disk-guard.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { Exchange } from '../../http/exchange.ts';
import { Handler, type HandlerOptions } from '../http/handler.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { AccessControl, type PageNames, isForeignName, ownHosts } from '../../http/browser-session/access.ts';
import { builtPage, readAssets } from '../../http/browser-session/assets.ts';
import { itemPositions } from './item-trace.ts';
import { LiveStreams, formatEvent } from '../../http/browser-session/live-streams.ts';
import { pageLink } from '../../http/browser-session/page-routes.ts';
import type { Condition } from './condition.ts';
import type { OverviewParts, TakeBackup } from './console-overview.ts';
import { consoleRoutes } from './console-routes.ts';
import type { RelayFacts } from './relay-shown.ts';
import { Sampler, OldestItemWatch } from './sampler.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../http/browser-session/sessions.ts';
import { type Health, operatorHandler } from './health.ts';
import type { LogGauges } from './log-metrics.ts';
import type { Gauges } from './metrics.ts';
import type { Watch } from './activity.ts';
import { EpochHistory } from './log-search.ts';

export const CONSOLE_PAGE: PageNames = { path: '/console', cookie: 'poste_console', command: 'poste relay console' };

interface OperatorServerOptions {
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
  /** Connections to the listener of hosts. */
  openConnections: () => number;
  openApi: OpenApiDocument;
  /** Where it is to listen. */
  host: string;
  /** Of the handler of the console; its routes are made here. */
  handler: Omit<HandlerOptions, 'routes'>;
  /** Where the built page is; absent: in `dist`. */
  consoleFolder?: string | undefined;
  takeBackup?: TakeBackup | undefined;
  /** The regular backups; `undefined` without a plan, and while the relay starts. */
  backups: () => BackupState | undefined;
  /** When a command last took one; 0 when none did. */
  commandBackupMs: () => number;
  /** When the last good one was taken, as in `Gauges`. */
  lastGoodBackupMs: () => Gauges['lastBackupMs'];
  /** `undefined`: the log is kept for ever. */
  logRetention: LogRetentionSettings | undefined;
  lastRemoval: () => LogRemoval | undefined;
  admission: OverviewParts['admission'];
  /** Of a log that several relays share; absent where the store holds the log. */
  sharedLog?:
    | { readonly gauges: LogGauges; readonly shown: SharedLogShown; readonly whyNotReady: string | undefined }
    | undefined;
  /** Of the daily scrub. */
  lastScrub: () => Health['lastScrub'];
  /** `undefined` while the relay starts, and where it cannot be done. */
  rowsCheck: () => RowsCheck | undefined;
}

export class OperatorServer {
  readonly #options: OperatorServerOptions;
  readonly #sessions: Sessions;
  readonly #oldest: OldestItemWatch;
  readonly #sampler: Sampler;
  readonly #streams: LiveStreams;
  readonly #epochs: EpochHistory;
  readonly #console: Handler;
  #handle: (exchange: Exchange) => void;
  #port = 0;

  static async start(options: OperatorServerOptions): Promise<OperatorServer> {
    return new OperatorServer(
      options,
      await readAssets(options.consoleFolder ?? builtPage('console'), CONSOLE_PAGE.path),
    );
  }

  private constructor(options: OperatorServerOptions, assets: Awaited<ReturnType<typeof readAssets>>) {
    const { engine, store, watch, clock, timers, randomBytes, host, version, startedMs, admission } = options;
    const { unexpected } = options.handler;
    const monotonicMs = () => clock.monotonicMs();
    const onError = (error: unknown) => unexpected(error, 'none');
    const gauges = () => this.#gauges();
    this.#options = options;
    this.#sessions = new Sessions(monotonicMs, randomBytes);
    this.#oldest = new OldestItemWatch({ engine, clock, timers, onError });
    const { activity } = watch;
    const epoch = () => engine.epoch;
    this.#sampler = new Sampler({ activity, gauges, epoch, nowMs: () => clock.nowMs(), timers, onError });
    this.#streams = new LiveStreams({
      sessions: this.#sessions,
      subscribe: (send) => this.#sampler.listen((sample) => send(formatEvent('sample', sample))),
    });
    this.#epochs = new EpochHistory({ log: store, monotonicMs, onError });
    // With 0.0.0.0 the machine's addresses may change, so they are read each time.
    const access = new AccessControl({
      page: CONSOLE_PAGE,
      sessions: this.#sessions,
      ownHosts: () => ownHosts(host, this.#port),
    });
    const routes = consoleRoutes({
      engine,
      rows: store,
      log: store,
      clock,
      monotonicMs,
      nameOf: (key) => engine.directory.get(key)?.hostName,
      lastPull: (target) => activity.lastPull(target),
      ...itemPositions(engine, store),
      access,
      sessions: this.#sessions,
      assets,
      activity,
      sampler: this.#sampler,
      streams: this.#streams,
      epochs: this.#epochs,
      relay: () => this.#facts(),
      condition: () => this.#condition(),
      admission,
      takeBackup: options.takeBackup,
      rowsCheck: options.rowsCheck,
      randomBytes,
      sharedLog: () => options.sharedLog?.shown,
      unexpected,
    });
    this.#console = new Handler({ ...options.handler, routes });
    this.#handle = operatorHandler({
      health: () => ({
        isReady: options.isReady(),
        whyNotReady: options.sharedLog?.whyNotReady,
        version,
        epoch: engine.epoch,
        hosts: engine.directory.liveCount,
        uptimeMs: clock.monotonicMs() - startedMs,
        brokenQueues: engine.brokenQueues.length,
        damagedRows: store.damagedRows.count,
        lastBackup: options.backups()?.last,
        lastScrub: options.lastScrub(),
        lastRowsCheck: options.rowsCheck()?.last,
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

  /** To be called with the port on which it listens. */
  listening(port: number): void {
    this.#port = port;
  }

  /** A URL that opens the console once, within a minute. */
  consoleUrl(): { url: string; lifetimeMs: number } {
    const address = { host: this.#options.host, port: this.#port };
    const url = pageLink(address, CONSOLE_PAGE.path, this.#sessions.issueToken());
    return { url, lifetimeMs: TOKEN_LIFETIME_MS };
  }

  /** Ends every stream, and resolves when the console is done with its requests. */
  async drain(): Promise<void> {
    this.#sampler.close();
    this.#streams.close();
    await this.#console.drain();
  }

  /** Stops reading the store; also to be called when it never listened. */
  async close(): Promise<void> {
    this.#sampler.close();
    await Promise.all([this.#oldest.close(), this.#epochs.close()]);
  }

  #facts(): Omit<RelayFacts, 'relayPubkey' | 'nowMs'> {
    const { clock, version, serverName, startedMs, store, disk, logRetention } = this.#options;
    return {
      version,
      serverName,
      uptimeMs: clock.monotonicMs() - startedMs,
      backups: this.#options.backups(),
      commandBackupMs: this.#options.commandBackupMs(),
      log: { firstLsn: store.firstLsn, entry: (lsn) => store.entry(lsn) },
      logRetention,
      lastRemoval: this.#options.lastRemoval(),
      diskFreeBytes: disk.freeBytes,
    };
  }

  #condition(): Omit<Condition, 'refusals' | 'nowMs' | 'sharedLog'> {
    const { engine, lastScrub, backups } = this.#options;
    const { isReady, isDiskLow, brokenQueues, damagedRows, rowsFound } = this.#gauges();
    return {
      isReady,
      isDiskLow,
      brokenQueues,
      damagedRows,
      rowsFound,
      lost: lastScrub()?.lost ?? 0,
      oldestItemAgeMs: this.#oldest.ageMs,
      retentionMs: engine.settings.limits.retention_days * DAY_MS,
      backups: backups(),
    };
  }

  #gauges(): Gauges {
    const { engine, store, disk, isReady, openConnections, lastGoodBackupMs, rowsCheck } = this.#options;
    const { items, bytes } = engine.waiting;
    const { ageMs } = this.#oldest;
    return {
      queueItems: items,
      queueBytes: bytes,
      oldestItemAgeS: ageMs === undefined ? undefined : ageMs / 1000,
      logPosition: store.lastLsn,
      logFirstPosition: store.firstLsn,
      hosts: engine.directory.liveCount,
      waitingPulls: engine.waits,
      brokenQueues: engine.brokenQueues.length,
      openConnections: openConnections(),
      damagedRows: store.damagedRows.count,
      rowsFound: rowsCheck()?.last?.checked.found ?? 0,
      diskFreeBytes: disk.freeBytes,
      isDiskLow: disk.isLow,
      isReady: isReady(),
      lastBackupMs: lastGoodBackupMs(),
      log: this.#options.sharedLog?.gauges,
    };
  }
}
