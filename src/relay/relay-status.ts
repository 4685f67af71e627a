/** How this relay is, as `poste relay doctor` asks for it over the control socket. */
import type { SharedLogShown } from '../protocol/operator-documents.ts';
import { openFilesMax } from './connection-limits.ts';
import type { StatusDocument } from './operator/documents.ts';
import type { RelayOptions } from './options.ts';

interface KnownStatus<Log extends SharedLogShown | null> {
  role: StatusDocument['role'];
  isReady: boolean;
  server: string;
  /** Of the last good backup; 0 before any. */
  lastBackupMs: number;
  sharedLog: Log;
}

export function statusDocument<Log extends SharedLogShown | null>(
  options: RelayOptions,
  { role, isReady, server, lastBackupMs, sharedLog }: KnownStatus<Log>,
): StatusDocument & { shared_log: Log } {
  return {
    version: options.version,
    pid: process.pid,
    role,
    is_ready: isReady,
    server,
    open_files_max: options.openFilesMax ?? openFilesMax(),
    disk_floor_bytes: options.diskFloorBytes,
    last_backup_at: lastBackupMs === 0 ? null : lastBackupMs,
    backup_every_ms: options.backups?.everyMs ?? null,
    shared_log: sharedLog,
  };
}
