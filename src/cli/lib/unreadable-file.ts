/** A file that a command was given and cannot read. */
import { fileFault } from '../../lib/file-fault.ts';
import { CommandFailed, type ExitName } from './exit.ts';

const EXITS: Readonly<Record<string, ExitName>> = {
  ENOENT: 'notFound',
  ENOTDIR: 'notFound',
  EACCES: 'refused',
  EPERM: 'refused',
};

/** `code` is for programs; `what` names the file, and `advice` is what to do. */
export function unreadableFile(error: unknown, code: string, what: string, advice: string): CommandFailed {
  const exit = EXITS[(error as NodeJS.ErrnoException).code ?? ''] ?? 'failure';
  return new CommandFailed(exit, code, `${what} cannot be read (${fileFault(error)}): ${advice}`);
}
