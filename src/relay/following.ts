/**
 * What a relay does while it follows a shared log: it refuses hosts, tells its operator who leads, takes backups of its
 * view and scrubs it. All of it ends before the relay leads.
 */
import { type Connections, connectionsOfAll } from '../http/connections.ts';
import type { Exchange, HttpServer, Reply } from '../http/exchange.ts';
import { problemReply } from '../http/replies.ts';
import { listenNode } from '../http/server-node.ts';
import { keepTlsCurrent, readTls } from '../http/tls-files.ts';
import { Services } from '../lib/services.ts';
import { SocketUnavailable } from '../lib/unix-socket.ts';
import type { SharedLogShown } from '../protocol/operator-documents.ts';
import { OPERATOR_CONNECTIONS_MAX } from './connection-limits.ts';
import type { LostFinder } from './engine/lost-items.ts';
import { FollowedStore, NothingFollowed } from './followed-store.ts';
import type { BackupJob } from './jobs/backup-job.ts';
import { freeBytesOf } from './jobs/disk-guard.ts';
import { backupStreams } from './operator/backup-stream.ts';
import type { Watch } from './operator/activity.ts';
import { FOLLOWER_RETRY_S, followerControl, followerPages } from './operator/follower-pages.ts';
import type { LogGauges } from './operator/log-metrics.ts';
import { controlProblem } from './operator/hosts.ts';
import { listenControl } from './operator/socket.ts';
import type { RelayOptions } from './options.ts';
import { statusDocument } from './relay-status.ts';
import { startBackups, startScrub } from './start-jobs.ts';
import type { FollowedView } from './shared-log/node-options.ts';
import type { SharedLog } from './shared-log/shared-log.ts';

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
  #hasJobs = false;
  #isStopping = false;
  /** When a command last took a backup over the control socket; 0 when none did. */
  #streamedBackupMs = 0;

  private constructor(following: FollowingOptions) {
    const { log } = following.options;
    this.#options = following;
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

  /** The view is not far behind any more: from now on backups are taken of it, and it is scrubbed. */
  caughtUp(): void {
    if (this.#hasJobs || this.#isStopping) return;
    this.#hasJobs = true;
    const { options, watch } = this.#options;
    const parts = { relay: options, engine: this.#store, lostItems: this.#store };
    this.#backups = options.signer && startBackups({ ...parts, signer: options.signer });
    const scrub = startScrub({ ...parts, watch });
    for (const [name, job] of Object.entries({ backups: this.#backups, scrub }))
      if (job) this.#services.add(name, { stop: () => job.stop() });
  }

  /** Ends all of it, so that the relay may lead or end. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const server of this.#servers) server.close();
    await this.#control;
    await this.#services.stop();
  }

  async #listen(): Promise<void> {
    const { listen, tls: files, adminListen, randomBytes, timers, log } = this.#options.options;
    const connections = connectionsOfAll(OPERATOR_CONNECTIONS_MAX);
    const toHosts = (exchange: Exchange): void => refuse(exchange, randomBytes(8).toString('hex'));
    const tls = files && (await readTls(files));
    const hosts = await listenNode({ ...listen, handler: toHosts, connections, tls });
    this.#servers.push(hosts);
    const cancel = tls && keepTlsCurrent({ tls, timers, log, renew: (renewed) => hosts.renewTls(renewed) });
    this.#services.add('certificate', { stop: () => cancel?.() });
    if (adminListen) await this.#listenToOperator(adminListen, connections);
  }

  async #listenToOperator(listen: NonNullable<RelayOptions['adminListen']>, connections: Connections): Promise<void> {
    const { status } = this.#options;
    const metrics = (): Promise<Reply> => this.#metrics();
    const handler = followerPages({ status, metrics, host: listen.host });
    this.#servers.push(await listenNode({ ...listen, handler, connections }));
  }

  async #metrics(): Promise<Reply> {
    const { options, watch, gauges } = this.#options;
    if (!watch) throw new Error('invariant: what the listener of the operator shows is counted');
    const freeBytes = options.freeBytes ?? ((): Promise<number> => freeBytesOf(options.storeDir));
    const { store } = this.#store;
    return watch.metrics.replyFollowing({
      logPosition: store?.lastLsn ?? 0,
      logFirstPosition: store?.firstLsn ?? 0,
      damagedRows: store?.damagedRows.count ?? 0,
      diskFreeBytes: await freeBytes().catch(() => Number.NaN),
      lastBackupMs: options.backups || this.#streamedBackupMs > 0 ? this.#lastBackupMs : undefined,
      log: gauges(),
    });
  }

  get #lastBackupMs(): number {
    return Math.max(this.#backups?.lastGoodMs ?? 0, this.#streamedBackupMs);
  }

  async #listenControl(): Promise<void> {
    const { options, status } = this.#options;
    const { storeDir, version, clock, randomBytes, log } = options;
    const stream = backupStreams({
      snapshot: () => this.#store.snapshot(),
      found: (damage) => this.#store.foundByBackup(damage),
      isStopping: () => this.#isStopping,
      taken: (atMs) => void (this.#streamedBackupMs = atMs),
      version,
    });
    const handler = followerControl({
      status: () => {
        const known = { server: this.#servers[0]?.name ?? '', lastBackupMs: this.#lastBackupMs };
        return statusDocument(options, { ...known, role: 'following', isReady: false, sharedLog: status() });
      },
      backup: async (exchange) => {
        try {
          return await stream(exchange, randomBytes(8).toString('hex'), clock.nowMs());
        } catch (error) {
          if (error instanceof NothingFollowed) return controlProblem('NOTHING_YET', `${error.message}: try again`);
          throw error;
        }
      },
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

/** What hosts are told by a node that does not lead. */
export function notLeadingReply(requestId: string): Reply {
  const detail = 'this node of the relay does not lead';
  const reply = problemReply('UNAVAILABLE', detail, { retryAfterS: FOLLOWER_RETRY_S });
  return { ...reply, headers: { ...reply.headers, 'x-request-id': requestId } };
}

export function refuse(exchange: Exchange, requestId: string): void {
  exchange.receive(() => undefined);
  exchange.reply({ ...notLeadingReply(requestId), close: true });
}
