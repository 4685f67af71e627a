/** What a relay tells its operator of itself, whether it leads or follows: its backups, how far back its log goes, its key. */
import type { BackupsShown, ConsoleFollowing, LogKeptShown } from '../../protocol/operator-documents.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { eventTimeMs } from '../core/event.ts';
import type { BackupState } from '../jobs/backup-job.ts';
import type { LogRemoval, LogRetentionSettings } from '../jobs/retention-job.ts';
import type { LogBack } from './log-search.ts';

export interface RelayFacts {
  version: string;
  relayPubkey: PublicKey;
  serverName: string;
  uptimeMs: number;
  nowMs: number;
  /** `undefined` without a plan. */
  backups: BackupState | undefined;
  /** When a command last took a backup; 0 when none did. */
  commandBackupMs: number;
  /** `undefined` while there is no store. */
  log: Pick<LogBack, 'firstLsn' | 'entry'> | undefined;
  /** `undefined`: the log is kept for ever. */
  logRetention: LogRetentionSettings | undefined;
  lastRemoval: LogRemoval | undefined;
  /** Not a number while it is unknown. */
  diskFreeBytes: number;
}

type RelayShown = Omit<ConsoleFollowing, 'role' | 'shared_log' | 'faults'>;

export function relayShown(facts: RelayFacts): RelayShown {
  const { version, relayPubkey, serverName, uptimeMs, nowMs, backups, commandBackupMs, diskFreeBytes } = facts;
  return {
    version,
    relay_pubkey: relayPubkey,
    fingerprint: displayFingerprint(relayPubkey),
    server: serverName,
    uptime_ms: uptimeMs,
    now: nowMs,
    backups: backups ? backupsShown(backups) : null,
    command_backup_at: commandBackupMs === 0 ? null : commandBackupMs,
    log_kept: logKept(facts),
    disk_free_bytes: Number.isFinite(diskFreeBytes) ? diskFreeBytes : null,
  };
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

function logKept({ log, logRetention, lastRemoval }: RelayFacts): LogKeptShown {
  return {
    first_at: log ? firstTime(log) : null,
    is_pruned: (log?.firstLsn ?? 1) > 1,
    keep_ms: logRetention?.keepMs ?? null,
    archive_folder: logRetention?.archiveFolder ?? null,
    last_removal: lastRemoval
      ? {
          at: lastRemoval.atMs,
          records: lastRemoval.records,
          from: lastRemoval.fromMs,
          through: lastRemoval.throughMs,
          archive: lastRemoval.archive ?? null,
        }
      : null,
  };
}

/** `null` for a record that cannot be read: poste relay log verify says more about it. */
function firstTime({ firstLsn, entry }: NonNullable<RelayFacts['log']>): number | null {
  try {
    const first = entry(firstLsn);
    return first ? eventTimeMs(first.event) : null;
  } catch {
    return null;
  }
}
