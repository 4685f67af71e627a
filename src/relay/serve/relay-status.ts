/** How this relay is, as `poste relay doctor` asks for it over the control socket. */
import { listenAddressText } from '../../lib/listen-address.ts';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import { openFilesMax } from './connection-limits.ts';
import type { StatusDocument } from '../operator/documents.ts';
import type { RelayOptions } from './options.ts';
import { SCHEMA_VERSION } from '../store/open.ts';
import { positionPathOf } from '../store/position-place.ts';

interface KnownStatus<Log extends SharedLogShown | null> {
  role: StatusDocument['role'];
  isReady: boolean;
  server: string;
  connections: StatusDocument['connections'];
  brokenQueues: number;
  damagedRows: number;
  /** Of the last good backup; 0 before any. */
  lastBackupMs: number;
  sharedLog: Log;
}

export function statusDocument<Log extends SharedLogShown | null>(
  options: RelayOptions,
  known: KnownStatus<Log>,
): StatusDocument & { shared_log: Log } {
  const { version, listen, tls, server: serverAsked, backups, logRetention, storeDir, positionFile } = options;
  return {
    version,
    pid: process.pid,
    role: known.role,
    is_ready: known.isReady,
    listen: listenAddressText(listen),
    tls: tls ? { cert_file: tls.certFile, key_file: tls.keyFile } : null,
    server: known.server,
    server_asked: serverAsked ?? null,
    open_files_max: options.openFilesMax ?? openFilesMax(),
    connections: known.connections,
    disk_floor_bytes: options.diskFloorBytes,
    schema_version: SCHEMA_VERSION,
    position_file: positionPathOf(storeDir, positionFile),
    broken_queues: known.brokenQueues,
    damaged_rows: known.damagedRows,
    last_backup_at: known.lastBackupMs === 0 ? null : known.lastBackupMs,
    backups: backups ? { folder: backups.folder, every_ms: backups.everyMs } : null,
    log_archive_folder: logRetention?.archiveFolder ?? null,
    shared_log: known.sharedLog,
  };
}
