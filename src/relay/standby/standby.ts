/**
 * A relay while it follows a shared log: it refuses hosts, shows its operator how it is, takes backups of its view,
 * scrubs it and compares its rows with the log. All of it ends before the relay leads.
 */
import { connectionsOfAll } from '../../http/connections.ts';
import type { HttpServer } from '../../http/exchange.ts';
import { listenNode } from '../../http/server-node.ts';
import { Services } from '../../lib/services.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { countText } from '../core/count-text.ts';
import type { LostFinder } from '../engine/lost-items.ts';
import type { BackupJob } from '../jobs/backup-job.ts';
import type { DiskGuard } from '../jobs/disk-guard.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import type { Scrub } from '../jobs/scrub.ts';
import type { Watch } from '../operator/activity.ts';
import type { RelaySubject } from '../operator/relay-state.ts';
import { OPERATOR_CONNECTIONS_MAX } from '../serve/connection-limits.ts';
import { listenToHosts } from '../serve/hosts-listener.ts';
import { startBackups, startDiskGuard, startRowsCheck, startScrub } from '../serve/jobs.ts';
import { startOperator } from '../serve/operator.ts';
import type { RelayOptions } from '../serve/options.ts';
import type { FollowedView } from '../shared-log/node-options.ts';
import type { SharedLog } from '../shared-log/shared-log.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import type { WireDamage } from '../store/wire-check.ts';
import { refuse } from './leader-gate.ts';
import { StandbyStore } from './standby-store.ts';

interface StandbyOptions {
  options: RelayOptions;
  signer: Signer;
  /** The view is made whole from it. */
  log: SharedLog;
  watch: Watch | undefined;
  sharedLog: RelaySubject['sharedLog'];
}

export class Standby implements RelaySubject {
  readonly serving = undefined;
  readonly isReady = false;
  readonly startedMs: number;
  readonly relayPubkey: PublicKey;
  readonly sharedLog: RelaySubject['sharedLog'];
  readonly #options: StandbyOptions;
  readonly #store: StandbyStore;
  readonly #services = new Services();
  #hosts: HttpServer | undefined;
  #disk: DiskGuard | undefined;
  #listenToCommands: (() => Promise<string[]>) | undefined;
  #commands: Promise<void> | undefined;
  #backups: BackupJob | undefined;
  #scrub: Scrub | undefined;
  /** Checks the view that this node follows with now. */
  #rowsCheck: RowsCheck | undefined;
  /** The newest whole check found so many rows, of any view of this process: the next may lie in the same folder. */
  #rowsFound = 0;
  #hasJobs = false;
  #isStopping = false;

  private constructor(standby: StandbyOptions) {
    const { options, signer, log: copies, sharedLog } = standby;
    const { clock, log } = options;
    this.#options = standby;
    this.startedMs = clock.monotonicMs();
    this.relayPubkey = signer.publicKey;
    this.sharedLog = sharedLog;
    this.#store = new StandbyStore({
      log: copies,
      onRepaired: (items, foundBy) =>
        log.error({ items, foundBy }, 'items were missing or altered on the disk, and are whole again from the log'),
      onMissing: (items: number, foundBy: LostFinder) =>
        log.warn(
          { items, foundBy },
          'items are missing or altered on the disk, and the log does not have them: the relay that leads finds ' +
            'out whether they are lost',
        ),
      onUnreadable: (rows, foundBy) =>
        log.error(
          { rows, foundBy },
          'rows of the view are damaged: stop the relay and move its database aside, and it is made anew from the log',
        ),
    });
  }

  /** Listens where the relay will listen when it leads. Throws `ListenFailed`. */
  static async start(given: StandbyOptions): Promise<Standby> {
    const standby = new Standby(given);
    try {
      await standby.#start();
      return standby;
    } catch (error) {
      await standby.stop();
      throw error;
    }
  }

  get serverName(): string {
    return this.#hosts?.name ?? '';
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  get store(): RelayStore | undefined {
    return this.#store.store;
  }

  get disk(): RelaySubject['disk'] {
    return this.#disk ?? { freeBytes: Number.NaN, isLow: false };
  }

  get jobs(): RelaySubject['jobs'] {
    return { backups: this.#backups, scrub: this.#scrub, rowsCheck: this.#rowsCheck };
  }

  /** The number of rows that the newest whole check found. */
  get rowsFound(): number {
    const last = this.#rowsCheck?.last;
    if (last) this.#rowsFound = last.checked.found;
    return this.#rowsFound;
  }

  snapshot(): Promise<StoreSnapshot> {
    return this.#store.snapshot();
  }

  foundByBackup(damage: WireDamage): Promise<void> {
    return this.#store.foundByBackup(damage);
  }

  /** The node holds this view from now on, and follows with it. */
  follows(view: FollowedView): void {
    this.#store.follows(view);
    this.#commands ??= this.#startCommands();
  }

  /**
   * Must come before a view is closed. A thread that still had its database open would be given it again in the place
   * of the next one.
   */
  async leavesView(): Promise<void> {
    const check = this.#rowsCheck;
    this.#rowsFound = this.rowsFound;
    this.#rowsCheck = undefined;
    await check?.stop();
  }

  /** Says why the view is not to be led with, as a clause. */
  get viewFault(): string | undefined {
    const found = this.rowsFound;
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
    const { options, signer, watch } = this.#options;
    const parts = { relay: options, engine: this.#store, lostItems: this.#store };
    this.#backups = startBackups({ ...parts, signer });
    this.#scrub = startScrub({ ...parts, watch });
    for (const [name, job] of Object.entries({ backups: this.#backups, scrub: this.#scrub }))
      if (job) this.#services.add(name, { stop: () => job.stop() });
  }

  /** Ends all of it, so that the relay may lead or end. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#hosts?.close();
    await this.#commands;
    await this.leavesView();
    // Connections are cut at once: nobody waits for the lead until a slow reader of a backup is done.
    const drained = this.#services.drain();
    await this.#services.stop();
    await drained;
  }

  #startRowsCheck(): RowsCheck | undefined {
    const { store } = this.#store;
    if (!store) throw new Error('invariant: a node follows with a view');
    // Nothing of this relay is served: only the relay that leads begins an epoch.
    return startRowsCheck({ relay: this.#options.options, store, isView: true, onFound: () => undefined });
  }

  async #start(): Promise<void> {
    const { options, watch } = this.#options;
    const { randomBytes } = options;
    const services = this.#services;
    this.#hosts = await listenToHosts({
      relay: options,
      services,
      handler: (exchange) => refuse(exchange, randomBytes),
      connections: connectionsOfAll(OPERATOR_CONNECTIONS_MAX),
      listenHere: listenNode,
    });
    this.#disk = await startDiskGuard(options, services);
    ({ listenToCommands: this.#listenToCommands } = await startOperator({ options, services, watch, subject: this }));
  }

  async #startCommands(): Promise<void> {
    const { log } = this.#options.options;
    for (const notice of (await this.#listenToCommands?.()) ?? []) log.warn({}, notice);
  }
}
