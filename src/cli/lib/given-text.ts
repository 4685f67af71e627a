/** The text of a file that a command was given, or of standard input for `-`. */
import { accessSync, constants } from 'node:fs';
import { fileFault } from '../../lib/file-fault.ts';
import { readAllText, readText } from '../../lib/user-text.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, type ExitName } from './exit.ts';

const EXITS: Readonly<Record<string, ExitName>> = {
  ENOENT: 'notFound',
  ENOTDIR: 'notFound',
  EACCES: 'refused',
  EPERM: 'refused',
  NOT_UTF8: 'usage',
};

interface GivenFile {
  /** For programs. */
  code: string;
  /** Names the file, where its path alone does not. */
  what?: string;
  /** What to do. */
  advice: string;
}

/** Throws `CommandFailed`. */
export async function givenText(
  { stdin }: Pick<CommandContext, 'stdin'>,
  file: string,
  { code, what = nameOf(file), advice }: GivenFile,
): Promise<string> {
  try {
    return file === '-' ? await readAllText(stdin) : readText(file);
  } catch (error) {
    throw new CommandFailed(exitOfFile(error), code, `${what} cannot be read (${fileFault(error)}): ${advice}`);
  }
}

/** How a command ends that could not read a file for this reason. */
export function exitOfFile(error: unknown, otherwise: ExitName = 'failure'): ExitName {
  return EXITS[((error ?? {}) as Partial<NodeJS.ErrnoException>).code ?? ''] ?? otherwise;
}

/** Throws `CommandFailed` for a file that this user cannot read. */
export function requireReadable(file: string): void {
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    const message = `${file} cannot be read (${fileFault(error)}): name a file that you can read`;
    throw new CommandFailed(exitOfFile(error), 'NO_FILE', message);
  }
}

export function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}
