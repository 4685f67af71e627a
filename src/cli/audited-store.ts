/** The store that an audit looks into: the folder of a relay that does not run, or a backup file. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { BulkFailed } from '../relay/store/bulk.ts';
import { ReplayFailed } from '../relay/store/replay.ts';
import { DamagedRecord } from '../relay/store/record.ts';
import { type OfflineStore, openBackup, openOffline } from '../relay/store/offline.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { CommandFailed } from './exit.ts';
import { interruption } from './interruption.ts';
import { STORE_DIR_DEFAULT } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';

export interface AuditedStoreFlags {
  storeDir: string;
  backup?: string;
}

/** Adds `--store-dir` and `--backup`. */
export function withAuditedStore(command: Command): Command {
  return command
    .addOption(new Option('--store-dir <dir>', 'the store folder of a stopped relay').default(STORE_DIR_DEFAULT))
    .addOption(new Option('--backup <file>', 'look into this backup file instead'));
}

/**
 * Opens the store, lets `work` look into it until the signal aborts, and closes it again; what is temporary is removed
 * also when the command is interrupted. Throws `CommandFailed`.
 */
export async function inAuditedStore<T>(
  { storeDir, backup }: AuditedStoreFlags,
  work: (offline: OfflineStore, signal: AbortSignal) => Promise<T>,
  options: { isChecked?: boolean } = {},
): Promise<T> {
  const interrupted = interruption();
  const { signal } = interrupted;
  try {
    const offline =
      backup === undefined ? await openOffline(resolve(storeDir), options) : await openBackup(resolve(backup), signal);
    try {
      return await work(offline, signal);
    } finally {
      await offline.close();
    }
  } catch (error) {
    throw interrupted.failure() ?? auditFailure(error, backup ?? storeDir);
  }
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
