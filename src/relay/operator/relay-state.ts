/**
 * Says how a relay is, to its operator: the one place that the health routes, the metrics, the console and the local
 * commands ask. A relay that serves and a standby, which follows a shared log and has no engine, are both a
 * `RelaySubject`.
 */
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import { DAY_MS, type Limits } from '../../protocol/limits.ts';
import type {
  BackupsShown,
  ConsoleFollowing,
  ConsoleOverview,
  LogKeptShown,
  RelayFault,
  SharedLogShown,
  WitnessShown,
} from '../../protocol/operator-documents.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { eventTimeMs } from '../core/event.ts';
import type { Engine } from '../engine/engine.ts';
import type { BackupJob, BackupSettings, BackupState } from '../jobs/backup-job.ts';
import type { DiskGuard } from '../jobs/disk-guard.ts';
import type { LogRemoval, LogRetentionSettings } from '../jobs/retention-job.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import type { Scrub } from '../jobs/scrub.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import type { WireDamage } from '../store/wire-check.ts';
import type { Watch } from './activity.ts';
import { faultsOf } from './condition.ts';
import type { Gauges, LogGauges } from './metrics.ts';
import { OldestItemWatch } from './sampler.ts';

/** Writes a copy of the store. Rejects when it cannot. */
export type TakeBackup = () => Promise<{ name: string; bytes: number }>;

/** The operator's side takes these settings of the relay. */
interface OperatorSettings {
  version: string;
  limits: Limits;
  backups?: BackupSettings;
  logRetention?: LogRetentionSettings;
  consoleFolder?: string;
  takeBackup?: TakeBackup;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
}

/** The operator's side shows this of a relay, and asks it. */
export interface RelaySubject {
  /** `undefined`: a standby. */
  readonly serving: ServingRelay | undefined;
  readonly relayPubkey: PublicKey;
  /** The HTTP server that hosts speak to. */
  readonly serverName: string;
  /** Monotonic milliseconds. */
  readonly startedMs: number;
  /** False while the relay starts or stops, after its store failed, while it may not answer, and of a standby. */
  readonly isReady: boolean;
  readonly isStopping: boolean;
  /** `undefined` where the store holds the log, which no other relay shares. */
  readonly sharedLog:
    | { readonly gauges: LogGauges; readonly shown: SharedLogShown; readonly whyNotReady: string | undefined }
    | undefined;
  /** `undefined` while a standby has no view. */
  readonly store: RelayStore | undefined;
  readonly disk: Pick<DiskGuard, 'freeBytes' | 'isLow'>;
  /** Absent where it asks none to cosign its log. */
  readonly witnesses?: { readonly shown: readonly WitnessShown[] } | undefined;
  /** The jobs that run now. */
  readonly jobs: {
    backups?: Pick<BackupJob, 'state' | 'lastGoodMs' | 'takeNow'> | undefined;
    scrub?: Pick<Scrub, 'last'> | undefined;
    /** `undefined` also where it cannot be done. */
    rowsCheck?: RowsCheck | undefined;
    retention?: { readonly lastRemoval: LogRemoval | undefined } | undefined;
  };
  /** The number of rows that the last check against the log found. */
  readonly rowsFound: number;
  /** Everything that is durable at one moment. Throws `NothingYet`. */
  snapshot(): Promise<StoreSnapshot>;
  /** Gets the damage that a backup finds. */
  foundByBackup(damage: WireDamage): Promise<void>;
}

export interface ServingRelay {
  engine: Engine;
  store: RelayStore;
  authority: ConsoleOverview['authority'];
  /** URLs under which it listens to hosts, as far as it knows. */
  addresses: () => readonly string[];
  /** The connections to the listener of hosts. */
  connections: () => { open: number; max: number };
}

/** A standby has no view, or nothing in it. */
export class NothingYet extends Error {
  constructor() {
    super('this relay has nothing of the log yet');
  }
}

interface RelayStateOptions {
  settings: OperatorSettings;
  subject: RelaySubject;
  /** `undefined` without an operator listener: nothing reads the counts then. */
  watch: Watch | undefined;
}

export class RelayState {
  readonly settings: OperatorSettings;
  readonly subject: RelaySubject;
  readonly #watch: Watch | undefined;
  readonly #oldest: OldestItemWatch | undefined;
  /** The time at which a command last took a backup over the control socket; 0 when none did. */
  #commandBackupMs = 0;

  constructor({ settings, subject, watch }: RelayStateOptions) {
    this.settings = settings;
    this.subject = subject;
    this.#watch = watch;
    const { clock, timers } = settings;
    const onError = (error: unknown): void => this.unexpected(error, 'none');
    this.#oldest =
      watch && subject.serving && new OldestItemWatch({ engine: subject.serving.engine, clock, timers, onError });
  }

  get role(): 'alone' | 'leading' | 'following' {
    const { serving, sharedLog } = this.subject;
    if (!serving) return 'following';
    return sharedLog ? 'leading' : 'alone';
  }

  get uptimeMs(): number {
    return this.settings.clock.monotonicMs() - this.subject.startedMs;
  }

  get damagedRows(): number {
    return this.subject.store?.damagedRows.count ?? 0;
  }

  /** 0 before any. */
  get lastGoodBackupMs(): number {
    return Math.max(this.subject.jobs.backups?.lastGoodMs ?? 0, this.#commandBackupMs);
  }

  /** The relay that leads a shared log; null while none does. */
  get leader(): string | null {
    return this.subject.sharedLog?.shown.leader ?? null;
  }

  /** Returns who leads, as a clause. */
  get ledBy(): string {
    return this.leader === null ? 'no node leads' : `${this.leader} leads`;
  }

  /** Says why no requests are to come here now, as a clause; `undefined` when they are. */
  get whyNotReady(): string | undefined {
    const { serving, isReady, sharedLog } = this.subject;
    if (isReady) return undefined;
    if (serving) return sharedLog?.whyNotReady ?? 'the relay is not ready';
    const fault = sharedLog?.shown.copy_fault ?? null;
    return `this node of the relay follows; ${this.ledBy}${fault === null ? '' : `; it waits: ${fault}`}`;
  }

  unexpected(error: unknown, requestId: string): void {
    this.settings.log.error({ err: error, requestId }, 'a request met an unexpected error');
  }

  /** Notes a backup that a command took over the control socket. */
  noteBackup(atMs: number): void {
    this.#commandBackupMs = atMs;
  }

  /** A standby is not ready, refuses no push for want of room, and knows nothing else of hosts. */
  get gauges(): Gauges {
    const { serving, store, disk, rowsFound, isReady } = this.subject;
    const engine = serving?.engine;
    const waiting = engine?.waiting;
    // 0 when a plan has none yet.
    const hasBackups = this.settings.backups !== undefined || this.#commandBackupMs > 0;
    return {
      queue_items: waiting?.items,
      queue_bytes: waiting?.bytes,
      oldest_item_age_seconds: engine && (this.#oldest?.ageMs ?? Number.NaN) / 1000,
      log_position: store?.lastLsn ?? 0,
      log_first_position: store?.firstLsn ?? 0,
      hosts: engine?.directory.liveCount,
      waiting_pulls: engine?.waits,
      broken_queues: engine?.brokenQueues.length,
      open_connections: serving?.connections().open,
      rows_check_found: rowsFound,
      damaged_rows: this.damagedRows,
      disk_free_bytes: disk.freeBytes,
      disk_low: Number(serving !== undefined && disk.isLow),
      last_backup_timestamp_seconds: hasBackups ? this.lastGoodBackupMs / 1000 : undefined,
      ready: Number(serving !== undefined && isReady),
    };
  }

  /** The seconds since each witness cosigned the log last, by its name; since the start where it did not yet. */
  get witnessAges(): ReadonlyMap<string, number> {
    const shown = this.subject.witnesses?.shown ?? [];
    return new Map(shown.map(({ name, cosigned_ms_ago: ms }) => [name, (ms ?? this.uptimeMs) / 1000]));
  }

  /** Returns what the console shows of every relay. */
  async shown(): Promise<Omit<ConsoleFollowing, 'role' | 'shared_log'>> {
    const { settings, subject, uptimeMs } = this;
    const { relayPubkey, serverName, jobs, disk } = subject;
    return {
      version: settings.version,
      relay_pubkey: relayPubkey,
      fingerprint: displayFingerprint(relayPubkey),
      server: serverName,
      uptime_ms: uptimeMs,
      now: settings.clock.nowMs(),
      faults: this.faults,
      backups: jobs.backups ? backupsShown(jobs.backups.state) : null,
      command_backup_at: this.#commandBackupMs === 0 ? null : this.#commandBackupMs,
      log_kept: await this.#logKept(),
      disk_free_bytes: Number.isFinite(disk.freeBytes) ? disk.freeBytes : null,
    };
  }

  /** `GET /healthz` of a relay that serves. */
  healthDocument({ engine }: ServingRelay): object {
    const { settings, subject, uptimeMs, damagedRows } = this;
    const { backups, scrub, rowsCheck } = subject.jobs;
    const { length: brokenQueues } = engine.brokenQueues;
    const [backup, pass, rows] = [backups?.state.last, scrub?.last, rowsCheck?.last];
    return {
      status: 'ready',
      version: settings.version,
      epoch: engine.epoch,
      hosts: engine.directory.liveCount,
      uptime_ms: Math.round(uptimeMs),
      ...(brokenQueues > 0 && { broken_queues: brokenQueues }),
      ...(damagedRows > 0 && { damaged_rows: damagedRows }),
      ...(backup && { last_backup: { at: backup.atMs, ok: backup.isGood } }),
      ...(pass && {
        last_scrub: { at: pass.atMs, items: pass.items, lost: pass.lost, unreadable: pass.unreadable },
      }),
      ...(rows && { last_rows_check: { at: rows.atMs, rows: rows.checked.rows, found: rows.checked.found } }),
    };
  }

  /** Stops reading the store. */
  async close(): Promise<void> {
    await this.#oldest?.stop();
  }

  /** Names what is wrong now, the worst first. */
  get faults(): RelayFault[] {
    const { serving, isReady, disk, rowsFound, jobs, sharedLog } = this.subject;
    return faultsOf({
      isReady: serving && isReady,
      isDiskLow: disk.isLow,
      brokenQueues: serving?.engine.brokenQueues.length ?? 0,
      damagedRows: this.damagedRows,
      rowsFound,
      lost: jobs.scrub?.last?.lost ?? 0,
      oldestItemAgeMs: this.#oldest?.ageMs,
      retentionMs: this.settings.limits.retention_days * DAY_MS,
      refusals: (serving && this.#watch?.activity.refusals()) ?? [],
      backups: jobs.backups?.state,
      sharedLog: sharedLog?.shown,
      nowMs: this.settings.clock.nowMs(),
    });
  }

  async #logKept(): Promise<LogKeptShown> {
    const { store, jobs } = this.subject;
    const { logRetention } = this.settings;
    const removal = jobs.retention?.lastRemoval;
    return {
      first_at: store ? await firstTime(store) : null,
      is_pruned: (store?.firstLsn ?? 1) > 1,
      keep_ms: logRetention?.keepMs ?? null,
      archive_folder: logRetention?.archiveFolder ?? null,
      last_removal: removal
        ? {
            at: removal.atMs,
            records: removal.records,
            from: removal.fromMs,
            through: removal.throughMs,
            archive: removal.archive ?? null,
          }
        : null,
    };
  }
}

function backupsShown({ folder, keep, everyMs, last, newest, nextMs }: BackupState): BackupsShown {
  return {
    folder,
    keep,
    every_ms: everyMs,
    last: last ? { at: last.atMs, ok: last.isGood } : null,
    newest: newest ? { name: newest.name, at: newest.atMs, bytes: newest.bytes } : null,
    next_at: Math.round(nextMs),
  };
}

/** `null` for a record that cannot be read: poste relay log verify says more about it. */
async function firstTime(store: RelayStore): Promise<number | null> {
  try {
    const first = await store.entry(store.firstLsn);
    return first ? eventTimeMs(first.event) : null;
  } catch {
    return null;
  }
}
