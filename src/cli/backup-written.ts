/** What ends a command that writes a backup or an archive when there is none. */
import { BackupUnwritten, type UnwrittenReason, type WrittenKind } from '../system/backup-file.ts';
import { CommandFailed, type ExitName } from './exit.ts';

const UNWRITTEN_EXIT: Readonly<Record<UnwrittenReason, ExitName>> = {
  exists: 'conflict',
  'no-folder': 'notFound',
  'is-folder': 'usage',
  'no-file': 'usage',
  'no-right': 'refused',
  'no-space': 'failure',
  'not-whole': 'temporary',
  unreadable: 'failure',
  failed: 'failure',
};

/** Whatever else was thrown is given back. */
export function unwrittenFailure(error: unknown, what: WrittenKind = 'backup'): unknown {
  if (!(error instanceof BackupUnwritten)) return error;
  const code = `${what}_${error.reason}`.toUpperCase().replaceAll('-', '_');
  return new CommandFailed(UNWRITTEN_EXIT[error.reason], code, error.message);
}
