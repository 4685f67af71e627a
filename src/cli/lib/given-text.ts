/** The text of a file that a command was given, or of standard input for `-`. */
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
    const exit = EXITS[(error as NodeJS.ErrnoException).code ?? ''] ?? 'failure';
    throw new CommandFailed(exit, code, `${what} cannot be read (${fileFault(error)}): ${advice}`);
  }
}

export function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}
