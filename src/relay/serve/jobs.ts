/**
 * Starts the jobs of a relay: the sweep, the scrub, the check of the rows, the compaction while it is idle, the regular
 * backups, the retention of the log, its snapshots.
 */
import { Services } from '../../lib/services.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Challenges } from '../auth/challenges.ts';
import type { Engine } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import { BackupJob } from '../jobs/backup-job.ts';
import { DiskGuard, type DiskGuardOptions, freeBytesOf } from '../jobs/disk-guard.ts';
import { IdleCompaction } from '../jobs/idle-compaction.ts';
import { LogArchives, RetentionJob } from '../jobs/retention-job.ts';
import { type CheckedAt, RowsCheck } from '../jobs/rows-check.ts';
import { Scrub } from '../jobs/scrub.ts';
import { Sweeps } from '../jobs/sweep.ts';
import { Witnesses, type WitnessesOptions } from '../jobs/witnesses.ts';
import type { RelayOptions } from './options.ts';
import type { SnapshotJob } from '../shared-log/snapshot-job.ts';
import { AuditThread } from '../replay/audit-thread.ts';
import { DamagedRow } from '../store/checksum.ts';
import type { DedupCount } from '../store/dedup-counts.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Watch } from '../operator/activity.ts';

interface JobsOptions {
  relay: RelayOptions;
  engine: Engine;
  store: RelayStore;
  signer: Signer;
  challenges: Challenges;
  lostItems: LostItems;
  watch: Watch | undefined;
  isClockSuspect: boolean;
  /** Gets the number of bytes that are about to be written, and returns false when there is no room. */
  hasRoom: (bytes: number) => boolean;
  disk: Pick<DiskGuard, 'hasRoomFor'>;
  /** Absent where the log is not shared. */
  startSnapshots: (() => SnapshotJob) | undefined;
  newEpoch: () => Epoch;
}

/** A standby starts these too. */
type ScrubParts = Pick<JobsOptions, 'relay' | 'watch'> &
  Pick<ConstructorParameters<typeof Scrub>[0], 'engine' | 'lostItems'>;
type BackupParts = Pick<JobsOptions, 'relay' | 'signer'> &
  Pick<Parameters<typeof BackupJob.start>[0], 'engine' | 'lostItems'>;

/** Starts it before the jobs, as the first look decides whether mail is taken. */
export async function startDiskGuard(
  { storeDir, freeBytes = () => freeBytesOf(storeDir), diskFloorBytes: floorBytes, timers, log }: RelayOptions,
  services: Services,
  heard: Pick<DiskGuardOptions, 'onFound' | 'onChange'> = {},
): Promise<DiskGuard> {
  const onError = (error: unknown): void =>
    log.error({ err: error }, 'the free space of the disk could not be looked at');
  const disk = await DiskGuard.start({ freeBytes, floorBytes, timers, onError, ...heard });
  services.add('disk guard', disk);
  return disk;
}

export interface Jobs {
  scrub: Scrub;
  /** `undefined` in a relay that runs from its sources: a thread runs no TypeScript. */
  rowsCheck: RowsCheck | undefined;
  backups: BackupJob | undefined;
  retention: RetentionJob | undefined;
  /** Draining gives up what the jobs are doing. */
  services: Services;
}

export function startJobs(options: JobsOptions): Jobs {
  const { relay, engine, challenges, isClockSuspect } = options;
  const { clock, timers, log } = relay;
  const sweeps = new Sweeps({
    engine,
    challenges,
    clock,
    timers,
    everyMs: relay.sweepMs,
    isClockSuspect,
    onError: (error) => log.error({ err: error }, 'a sweep met an unexpected error'),
  });
  const backups = startBackups(options);
  const scrub = startScrub(options);
  const { store, newEpoch } = options;
  const rowsCheck = startRowsCheck({
    relay,
    store,
    isView: options.startSnapshots !== undefined,
    onFound: async () => {
      await engine.rotateEpoch({ type: 'RotateEpoch', epoch: newEpoch(), reason: 'reset', nowMs: clock.nowMs() });
    },
  });
  const retention = startRetention(options, sweeps);
  const compaction = startCompaction(options, () => store.hasSnapshots || rowsCheck?.run !== undefined);
  const snapshots = options.startSnapshots?.();
  const services = new Services();
  for (const [name, job] of Object.entries({ sweeps, backups, scrub, rowsCheck, retention, compaction, snapshots })) {
    if (job) services.add(name, { drain: () => void job.stop(), stop: () => job.stop() });
  }
  return { scrub, rowsCheck, backups, retention, services };
}

/** `undefined` where nobody cosigns. */
export function startWitnesses(
  relay: RelayOptions,
  parts: Pick<WitnessesOptions, 'log' | 'relayPubkey' | 'endEpoch' | 'mayAsk'>,
): Witnesses | undefined {
  const { witnesses = [], clock, timers, log: logger } = relay;
  return witnesses.length === 0 ? undefined : new Witnesses({ witnesses, clock, timers, logger, ...parts });
}

/** Logs every pass; lost items are logged when they are found. */
export function startScrub({ relay, engine, lostItems, watch }: ScrubParts): Scrub {
  const { clock, timers, randomBytes, log } = relay;
  return new Scrub({
    engine,
    lostItems,
    clock,
    timers,
    randomBytes,
    onScrubbed: (items) => watch?.metrics.scrubbed(items),
    onPassEnded: ({ atMs: _atMs, durationMs, ...counts }) =>
      log.info({ ...counts, durationMs: Math.round(durationMs) }, 'everything that waits was compared with its hash'),
    onError: (error) => log.error({ err: error }, 'a scrub met an unexpected error'),
  });
}

export function startBackups({ relay, engine, signer, lostItems }: BackupParts): BackupJob | undefined {
  const { backups, clock, timers, version, log } = relay;
  if (!backups) return undefined;
  return BackupJob.start({
    ...backups,
    engine,
    lostItems,
    relayPubkey: signer.publicKey,
    clock,
    timers,
    version,
    onWritten: ({ bytes, items, damagedItems, header }) =>
      log.info({ bytes, items, damagedItems, lsn: header.lsn }, 'a backup was written'),
    onFailed: (error) => log.error({ err: error }, 'a backup could not be written; it is tried again'),
  });
}

/** The share of one processor: five million rows take half a minute. */
const COUNT_SHARE = 0.5;

/** Returns what counts the dedup rows in a thread; `undefined` in a relay that runs from its sources. */
export function countInThread(
  { log }: Pick<RelayOptions, 'log'>,
  { location }: Pick<RelayStore, 'location'>,
  services: Services,
): (() => Promise<DedupCount | undefined>) | undefined {
  if (!AuditThread.isToBeHad) return undefined;
  let counting: AuditThread<'dedup rows'> | undefined;
  let isStopped = false;
  const stop = async (): Promise<void> => {
    isStopped = true;
    await counting?.stop();
  };
  services.add('count of dedup rows', { stop });
  return async () => {
    if (isStopped) return undefined;
    try {
      counting = new AuditThread({ type: 'dedup rows', location, share: COUNT_SHARE });
      const count = await counting.done;
      if (count) log.info({ rows: count.rows, busyMs: Math.round(count.busyMs) }, 'the dedup rows were counted');
      return count;
    } catch (error) {
      log.error({ err: error }, 'the dedup rows could not be counted');
      return undefined;
    }
  };
}

interface RowsCheckParts {
  relay: RelayOptions;
  store: RelayStore;
  /** Says whether the log is shared, so that a damaged store is made anew from it. */
  isView: boolean;
  /** A check found rows that none of this process had found before. */
  onFound: () => Promise<void> | void;
}

/** Logs what a check finds row by row, as damage. `undefined` in a relay that runs from its sources. */
export function startRowsCheck({ relay, store, isView, onFound }: RowsCheckParts): RowsCheck | undefined {
  const { clock, timers, log } = relay;
  const { location } = store;
  const inThread = AuditThread.isToBeHad
    ? (share: number) => new AuditThread({ type: 'rows', location, share })
    : undefined;
  const start = relay.startRowsCheck ?? inThread;
  if (!start) return undefined;
  /** The faults that were found before: one that stays begins one epoch, not one each day. */
  const known = new Set<string>();
  const ended = async ({ durationMs, checked }: CheckedAt): Promise<void> => {
    const { findings, found, lsn, replayedFrom, records, rows, busyMs } = checked;
    const counts = { lsn, replayedFrom, records, rows, busyMs: Math.round(busyMs), durationMs: Math.round(durationMs) };
    if (found === 0) {
      log.info(counts, 'every row is what the log gives');
      return;
    }
    const fresh = findings.filter(({ message }) => !known.has(message));
    for (const { code, message, details } of fresh) {
      known.add(message);
      const { key } = details;
      if (typeof key === 'string')
        store.damagedRows.note(new DamagedRow(Buffer.from(key, 'hex'), 'is not what the log gives'));
      if (isView)
        log.error(
          { code },
          'a row of the view is not what the log gives: stop the relay and move its database aside, ' +
            'and it is made anew from the log',
        );
      else
        log.error(
          { code },
          'a row is not what the log gives: stop the relay, run poste relay log verify, and then rebuild',
        );
    }
    log.error({ ...counts, found }, 'rows are not what the log gives');
    if (fresh.length > 0) await onFound();
  };
  return new RowsCheck({
    start,
    clock,
    timers,
    onEnded: ended,
    onError: (error) => log.error({ err: error }, 'the rows could not be compared with the log'),
  });
}

function startCompaction({ relay, engine, store, disk, watch }: JobsOptions, isRead: () => boolean): IdleCompaction {
  const { clock, timers, log } = relay;
  return new IdleCompaction({
    store,
    hasRoomFor: (bytes) => disk.hasRoomFor(bytes),
    isRead,
    write: () => engine.heartbeat(clock.nowMs()),
    clock,
    timers,
    onCompacted: ({ bytesBefore, bytesAfter, durationMs }) => {
      watch?.metrics.compacted();
      const counts = { bytesBefore, bytesAfter, durationMs: Math.round(durationMs) };
      log.info(counts, 'the disk space of mail that was acked was given back, while the relay was idle');
    },
    onError: (error) => log.error({ err: error }, 'the disk space of mail that was acked could not be given back'),
  });
}

function startRetention(
  { relay, engine, store, signer, hasRoom }: JobsOptions,
  sweeps: Sweeps,
): RetentionJob | undefined {
  const { logRetention, clock, timers, version, log } = relay;
  if (!logRetention) return undefined;
  const { keepMs, archiveFolder: folder } = logRetention;
  const relayPubkey = signer.publicKey;
  return new RetentionJob({
    keepMs,
    archives: folder === undefined ? undefined : new LogArchives({ folder, relayPubkey, store, clock, version }),
    retention: engine.logRetention,
    store,
    clock,
    timers,
    isClockTrusted: () => sweeps.isClockTrusted,
    hasRoom,
    onCheckpoint: (taken) => {
      if (taken.type === 'CheckpointTaken') log.info(taken, 'the rows were kept, so that old log records may go');
      else log.warn({}, 'there is no room to keep the rows, so no log record can go: make room on the disk');
    },
    onPruned: (records, throughLsn, archive) =>
      log.info({ records, throughLsn, ...(archive !== undefined && { archive }) }, 'old log records were pruned'),
    onFailed: (error) => log.error({ err: error }, 'the log could not be pruned; it is tried again within the hour'),
  });
}
