/** What an audit looks into: the folder of a relay that does not run, a backup file, or an archive of the log. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { BulkFailed } from '../relay/store/bulk.ts';
import { ReplayFailed } from '../relay/store/replay.ts';
import { DamagedRecord } from '../relay/store/record.ts';
import { type OfflineStore, openArchive, openBackup, openOffline } from '../relay/store/offline.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { CommandFailed } from './exit.ts';
import { interruption } from './interruption.ts';
import { STORE_DIR_DEFAULT } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';

export interface AuditedStoreFlags {
  storeDir: string;
  backup?: string;
  archive?: string;
}

/** Adds `--store-dir` and `--backup`. */
export function withAuditedStore(command: Command): Command {
  return command
    .addOption(new Option('--store-dir <dir>', 'the store folder of a stopped relay').default(STORE_DIR_DEFAULT))
    .addOption(new Option('--backup <file>', 'look into this backup file instead'));
}

/** Adds `--archive` besides, for what needs the log alone. */
export function withAuditedLog(command: Command): Command {
  const archive = new Option('--archive <file>', 'look into this archive of the log instead').conflicts('backup');
  return withAuditedStore(command).addOption(archive);
}

/**
 * Opens the store, lets `work` look into it until the signal aborts, and closes it again; what is temporary is removed
 * also when the command is interrupted. Throws `CommandFailed`.
 */
export async function inAuditedStore<T>(
  flags: AuditedStoreFlags,
  work: (offline: OfflineStore, signal: AbortSignal) => Promise<T>,
  options: { isChecked?: boolean } = {},
): Promise<T> {
  const interrupted = interruption();
  const { signal } = interrupted;
  try {
    const offline = await openAudited(flags, signal, options);
    try {
      return await work(offline, signal);
    } finally {
      await offline.close();
    }
  } catch (error) {
    throw interrupted.failure() ?? auditFailure(error, flags.archive ?? flags.backup ?? flags.storeDir);
  }
}

function openAudited(
  { storeDir, backup, archive }: AuditedStoreFlags,
  signal: AbortSignal,
  options: { isChecked?: boolean },
): Promise<OfflineStore> {
  if (archive !== undefined) return openArchive(resolve(archive), signal);
  return backup === undefined ? openOffline(resolve(storeDir), options) : openBackup(resolve(backup), signal);
}

function auditFailure(error: unknown, place: string): unknown {
  if (error instanceof StoreRefused) return storeRefused(error);
  if (error instanceof DamagedRecord || error instanceof ReplayFailed) {
    return new CommandFailed(
      'failure',
      'LOG_DAMAGED',
      `the log of ${place} cannot be read further (${error.message}): poste relay log verify tells what that means`,
    );
  }
  if (error instanceof BulkFailed) {
    return new CommandFailed(
      'failure',
      'NO_SPACE',
      `${error.message}: free space there; what is temporary goes to another folder with TMPDIR`,
    );
  }
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'LEVEL_CORRUPTION' || code === 'LEVEL_IO_ERROR') {
    return new CommandFailed(
      'failure',
      'STORE_DAMAGED',
      `the database of ${place} cannot be read (${message}): restore the newest backup that verifies`,
    );
  }
  // What the file system refused.
  if (typeof code === 'string' && /^E[A-Z]+$/.test(code)) {
    return new CommandFailed(
      'failure',
      'UNUSABLE',
      `the store of ${place} cannot be used (${message}): mend that first`,
    );
  }
  return error;
}
