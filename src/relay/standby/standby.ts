/**
 * What a relay does while it follows a shared log: it refuses hosts, tells its operator who leads, takes backups of its
 * view, scrubs it and compares its rows with the log. All of it ends before the relay leads.
 */
import { type Connections, connectionsOfAll } from '../../http/connections.ts';
import type { Exchange, HttpServer, Reply } from '../../http/exchange.ts';
import { listenNode } from '../../http/server-node.ts';
import { keepTlsCurrent, readTls } from '../../http/tls-files.ts';
import { Services } from '../../lib/services.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { ConsoleFollowing, SharedLogShown } from '../../protocol/operator-documents.ts';
import { OPERATOR_CONNECTIONS_MAX } from '../serve/connection-limits.ts';
import type { LostFinder } from '../engine/lost-items.ts';
import { refuse } from './leader-gate.ts';
import { FollowedStore, NothingFollowed } from './standby-store.ts';
import { countText } from '../core/count-text.ts';
import type { BackupJob } from '../jobs/backup-job.ts';
import { freeBytesOf } from '../jobs/disk-guard.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import type { Scrub } from '../jobs/scrub.ts';
import { backupStreams } from '../operator/backup-stream.ts';
import type { Watch } from '../operator/activity.ts';
import { faultsOf } from '../operator/condition.ts';
import { FollowerConsole } from '../operator/follower-console.ts';
import { followerControl, followerPages } from '../operator/follower-pages.ts';
import type { LogGauges } from '../operator/log-metrics.ts';
import { checkRows } from '../operator/online-check.ts';
import { relayShown } from '../operator/relay-shown.ts';
import { controlProblem } from '../operator/hosts.ts';
import { listenControl } from '../operator/socket.ts';
import type { RelayOptions } from '../serve/options.ts';
import { statusDocument } from '../serve/relay-status.ts';
import { startBackups, startRowsCheck, startScrub } from '../serve/jobs.ts';
import type { FollowedView } from '../shared-log/node-options.ts';
import type { SharedLog } from '../shared-log/shared-log.ts';

interface FollowingOptions {
  options: RelayOptions;
  /** Where the view is made whole from. */
  log: SharedLog;
  watch: Watch | undefined;
  status: () => SharedLogShown;
  gauges: () => LogGauges;
}

export class Following {
  readonly #options: FollowingOptions;
  readonly #store: FollowedStore;
  readonly #services = new Services();
  readonly #servers: HttpServer[] = [];
  #control: Promise<void> | undefined;
  #backups: BackupJob | undefined;
  #scrub: Scrub | undefined;
  /** Of the view that is followed with now. */
  #rowsCheck: RowsCheck | undefined;
  /** What the newest whole check found, of any view of this process: the next view may lie in the same folder. */
  #rowsFound = 0;
  #console: FollowerConsole | undefined;
  readonly #startedMs: number;
  #hasJobs = false;
  #isStopping = false;
  /** When a command last took a backup over the control socket; 0 when none did. */
  #streamedBackupMs = 0;

  private constructor(following: FollowingOptions) {
    const { log } = following.options;
    this.#options = following;
    this.#startedMs = following.options.clock.monotonicMs();
    this.#store = new FollowedStore({
      log: following.log,
      onRepaired: (items, foundBy) =>
        log.error({ items, foundBy }, 'items were missing or altered on the disk, and are whole again from the log'),
      onMissing: (items: number, foundBy: LostFinder) =>
        log.warn(
          { items, foundBy },
          'items are missing or altered on the disk, and the log does not have them: the relay that leads finds out whether they are lost',
        ),
      onUnreadable: (rows, foundBy) =>
        log.error(
          { rows, foundBy },
          'rows of the view are damaged: stop the relay and move its database aside, and it is made anew from the log',
        ),
    });
  }

  /** Listens where the relay will listen when it leads. Throws `ListenFailed`. */
  static async start(given: FollowingOptions): Promise<Following> {
    const following = new Following(given);
    try {
      await following.#listen();
      return following;
    } catch (error) {
      await following.stop();
      throw error;
    }
  }

  /** The node holds this view from now on, and follows with it. */
  follows(view: FollowedView): void {
    this.#store.follows(view);
    this.#control ??= this.#listenControl();
  }

  /**
   * To be called before a view is closed. A thread that still had its database open would be given it again in the place of
   * the next one.
   */
  async leavesView(): Promise<void> {
    const check = this.#rowsCheck;
    this.#foundRows();
    this.#rowsCheck = undefined;
    await check?.stop();
  }

  /** Why the view is not to be led with, as a clause. */
  get viewFault(): string | undefined {
    const found = this.#foundRows();
    if (found === 0) return undefined;
    const differ = `${countText(found, 'row')} of its view ${found === 1 ? 'is' : 'are'} not what the log gives`;
    return `${differ}: stop the relay and move its database aside, and it is made anew from the log`;
  }

  /** The view is not far behind any more: from now on backups are taken of it, and it is scrubbed and checked. */
  caughtUp(): void {
    if (this.#isStopping) return;
    this.#rowsCheck ??= this.#startRowsCheck();
    if (this.#hasJobs) return;
    this.#hasJobs = true;
    const { options, watch } = this.#options;
    const parts = { relay: options, engine: this.#store, lostItems: this.#store };
    this.#backups = options.signer && startBackups({ ...parts, signer: options.signer });
    this.#scrub = startScrub({ ...parts, watch });
    for (const [name, job] of Object.entries({ backups: this.#backups, scrub: this.#scrub }))
      if (job) this.#services.add(name, { stop: () => job.stop() });
  }

  /** Ends all of it, so that the relay may lead or end. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const server of this.#servers) server.close();
    await this.#control;
    await this.leavesView();
    await this.#services.stop();
  }

  #startRowsCheck(): RowsCheck | undefined {
    const { store } = this.#store;
    if (!store) throw new Error('invariant: a node follows with a view');
    // Nothing of this relay is served: only the relay that leads begins an epoch.
    return startRowsCheck({ relay: this.#options.options, store, isView: true, onFound: () => undefined });
  }

  /** How many rows the newest whole check found. */
  #foundRows(): number {
    const last = this.#rowsCheck?.last;
    if (last) this.#rowsFound = last.checked.found;
    return this.#rowsFound;
  }

  async #listen(): Promise<void> {
    const { listen, tls: files, adminListen, randomBytes, timers, log } = this.#options.options;
    const connections = connectionsOfAll(OPERATOR_CONNECTIONS_MAX);
    const toHosts = (exchange: Exchange): void => refuse(exchange, randomBytes(8).toString('hex'));
    const tls = files && (await readTls(files));
    const hosts = await listenNode({ ...listen, handler: toHosts, connections, tls });
    this.#servers.push(hosts);
    const current = tls && keepTlsCurrent({ tls, timers, log, renew: (renewed) => hosts.renewTls(renewed) });
    this.#services.add('certificate', { stop: () => current?.stop() });
    if (adminListen) await this.#listenToOperator(adminListen, connections);
  }

  async #listenToOperator(listen: NonNullable<RelayOptions['adminListen']>, connections: Connections): Promise<void> {
    const { status, options } = this.#options;
    const { clock, timers, randomBytes, consoleFolder, log } = options;
    const { host } = listen;
    const console = await FollowerConsole.start({
      host,
      clock,
      timers,
      randomBytes,
      consoleFolder,
      overview: () => this.#overview(),
      unexpected: (error) => log.error({ err: error }, 'a request of the console met an unexpected error'),
    });
    this.#services.add('console', { stop: () => console.close() });
    const metrics = (): Promise<Reply> => this.#metrics();
    const handler = followerPages({ status, console, metrics, host });
    const server = await listenNode({ ...listen, handler, connections });
    this.#servers.push(server);
    console.listening(server.port);
    this.#console = console;
  }

  async #overview(): Promise<ConsoleFollowing> {
    const { options, status } = this.#options;
    const { clock, version, limits, diskFloorBytes, signer, logRetention } = options;
    if (!signer) throw new Error('invariant: nodes of a shared log get their key from outside');
    const { store } = this.#store;
    const [sharedLog, backups, nowMs] = [status(), this.#backups?.state, clock.nowMs()];
    const diskFreeBytes = await this.#freeBytes();
    return {
      role: 'following',
      ...relayShown({
        version,
        relayPubkey: signer.publicKey,
        serverName: this.#servers[0]?.name ?? '',
        uptimeMs: clock.monotonicMs() - this.#startedMs,
        nowMs,
        backups,
        commandBackupMs: this.#streamedBackupMs,
        log: store && { firstLsn: store.firstLsn, entry: (lsn) => store.entry(lsn) },
        logRetention,
        lastRemoval: undefined,
        diskFreeBytes,
      }),
      faults: faultsOf({
        isReady: undefined,
        isDiskLow: diskFreeBytes < diskFloorBytes,
        brokenQueues: 0,
        rowsFound: this.#foundRows(),
        damagedRows: store?.damagedRows.count ?? 0,
        lost: this.#scrub?.last?.lost ?? 0,
        oldestItemAgeMs: undefined,
        retentionMs: limits.retention_days * DAY_MS,
        backups,
        sharedLog,
        refusals: [],
        nowMs,
      }),
      shared_log: sharedLog,
    };
  }

  /** Not a number when the file system does not say. */
  #freeBytes(): Promise<number> {
    const { freeBytes = () => freeBytesOf(this.#options.options.storeDir) } = this.#options.options;
    return freeBytes().catch(() => Number.NaN);
  }

  async #metrics(): Promise<Reply> {
    const { options, watch, gauges } = this.#options;
    if (!watch) throw new Error('invariant: what the listener of the operator shows is counted');
    const { store } = this.#store;
    return watch.metrics.replyFollowing({
      logPosition: store?.lastLsn ?? 0,
      logFirstPosition: store?.firstLsn ?? 0,
      rowsFound: this.#foundRows(),
      damagedRows: store?.damagedRows.count ?? 0,
      diskFreeBytes: await this.#freeBytes(),
      lastBackupMs: options.backups || this.#streamedBackupMs > 0 ? this.#lastBackupMs : undefined,
      log: gauges(),
    });
  }

  get #lastBackupMs(): number {
    return Math.max(this.#backups?.lastGoodMs ?? 0, this.#streamedBackupMs);
  }

  async #listenControl(): Promise<void> {
    const { options, status } = this.#options;
    const { storeDir, version, clock, timers, randomBytes, log } = options;
    const newId = (): string => randomBytes(8).toString('hex');
    const stream = backupStreams({
      snapshot: () => this.#store.snapshot(),
      found: (damage) => this.#store.foundByBackup(damage),
      isStopping: () => this.#isStopping,
      taken: (atMs) => void (this.#streamedBackupMs = atMs),
      version,
    });
    const handler = followerControl({
      status: () => {
        return statusDocument(options, {
          role: 'following',
          isReady: false,
          server: this.#servers[0]?.name ?? '',
          connections: null,
          brokenQueues: 0,
          damagedRows: this.#store.store?.damagedRows.count ?? 0,
          lastBackupMs: this.#lastBackupMs,
          sharedLog: status(),
        });
      },
      backup: async (exchange) => {
        try {
          return await stream(exchange, newId(), clock.nowMs());
        } catch (error) {
          if (error instanceof NothingFollowed) return controlProblem('NOTHING_YET', `${error.message}: try again`);
          throw error;
        }
      },
      verify: async (exchange, body) =>
        checkRows({ body, exchange, id: newId() }, { rowsCheck: () => this.#rowsCheck, timers }),
      consoleUrl: () => this.#console?.consoleUrl(),
      clock,
      unexpected: (error) => log.error({ err: error }, 'a local request met an unexpected error'),
    });
    try {
      const listener = await listenControl(storeDir, handler);
      this.#services.add('control socket', {
        stop: () => {
          listener.stopAccepting();
          listener.close();
        },
      });
    } catch (error) {
      if (!(error instanceof SocketUnavailable)) throw error;
      log.warn({}, `Local commands such as poste relay backup cannot reach this relay: ${error.message}.`);
    }
  }
}
