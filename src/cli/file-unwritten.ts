/** A file that could not be written, as the end of a command. */
import type { FileUnwritten, UnwrittenReason } from '../relay/store/whole-file.ts';
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

/** `what` begins the code: BACKUP_EXISTS, ARCHIVE_NO_SPACE. */
export function fileUnwritten({ reason, message }: FileUnwritten, what: string): CommandFailed {
  return new CommandFailed(UNWRITTEN_EXIT[reason], `${what}_${reason.toUpperCase().replaceAll('-', '_')}`, message);
}
