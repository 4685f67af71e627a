/** The input of a command: an answer on the terminal, a secret that no command line may hold, or the text of a file. */
import { createInterface, type Interface } from 'node:readline/promises';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { CommandContext } from './context.ts';
import { CommandFailed, type ExitName } from './exit.ts';
import { accessSync, constants, createReadStream } from 'node:fs';
import { fileFault } from '../../lib/file-fault.ts';
import { readAllText } from '../../lib/user-text.ts';

/** The streams on which a question is answered and asked. */
type Terminal = Pick<CommandContext, 'stdin' | 'stderr'>;

/** True when a person can answer. */
export function isInteractive({ stdin, stderr }: Terminal): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

interface Confirmation {
  yes?: boolean | undefined;
  /** Says why the command asks, as a clause: "unpairing ends what waits for that host". */
  stake: string;
  /** Advice besides `--yes`. */
  advice?: string;
}

/** Asks on the terminal unless `--yes` was given. Throws `CommandFailed` unless the answer is yes. */
export async function confirmed(context: CommandContext, question: string, given: Confirmation): Promise<void> {
  await confirmation(context, given)(question);
}

/**
 * Returns a function that asks later, unless `--yes` was given, and shows a text before its question. Throws
 * `CommandFailed` at once when nobody could answer.
 */
export function confirmation(
  context: CommandContext,
  { yes, stake, advice = '' }: Confirmation,
): (question: string, shown?: string) => Promise<void> {
  const message = `there is no terminal to ask on, and ${stake}: add --yes to go ahead${advice}`;
  if (!yes && !isInteractive(context)) throw new CommandFailed('usage', 'NOT_CONFIRMED', message);
  return async (question, shown = '') => {
    if (yes) return;
    if (shown !== '') context.stderr.write(shown);
    await confirm(context, question);
  };
}

/** Resolves when the answer is yes. Throws `CommandFailed` for any other answer, and when the input ends. */
export async function confirm(terminal: Terminal, question: string): Promise<void> {
  if (!/^y(?:es)?$/i.test(await answerTo(terminal, `${question} [y/N] `))) {
    throw new CommandFailed('failure', 'NOT_CONFIRMED', 'nothing was done, because the answer was not yes');
  }
}

/** The time that a terminal may need to hand over what it holds. */
const TYPED_MS = 50;

/** Drops what was typed already: it is no answer to a question that was not asked yet. */
export async function dropTyped({ stdin }: Terminal): Promise<void> {
  stdin.resume();
  await elapsed(TYPED_MS);
  stdin.pause();
}

/** A line from the terminal. Throws `CommandFailed` when the input ends. */
export async function answerTo({ stdin: input, stderr: output }: Terminal, question: string): Promise<string> {
  const lines = createInterface({ input, output });
  try {
    const answer = input.readableEnded ? undefined : await Promise.race([lines.question(question), inputEnd(lines)]);
    if (answer !== undefined) return answer.trim();
    output.write('\n');
    throw new CommandFailed('interrupted', 'INTERRUPTED', 'nothing was done, because the question was not answered');
  } finally {
    lines.close();
  }
}

/** A secret: an answer on the terminal, else standard input. Every user of the machine can read a command line. */
export async function secretGiven(context: CommandContext, what: string): Promise<string> {
  if (isInteractive(context)) return answerTo(context, `${what}: `);
  return (await givenText(context, '-', { code: 'BAD_INPUT', advice: `give ${what} there as it was printed` })).trim();
}

/** Resolves when the input ends: at ctrl-c or ctrl-d the question itself stays pending. */
function inputEnd(lines: Interface): Promise<undefined> {
  return new Promise((resolve) => {
    lines.once('close', () => resolve(undefined));
  });
}

const EXITS: Readonly<Record<string, ExitName>> = {
  ENOENT: 'notFound',
  ENOTDIR: 'notFound',
  EACCES: 'refused',
  EPERM: 'refused',
  NOT_UTF8: 'usage',
  TOO_LARGE: 'usage',
};

interface GivenFile {
  /** The code for programs. */
  code: string;
  /** Names the file, where its path alone does not. */
  what?: string;
  /** Says what to do. */
  advice: string;
  /** A larger one is refused, and not read to its end. */
  bytesMax?: number;
  /** The exit of a fault that has none of its own. */
  otherwise?: ExitName;
}

/** Throws `CommandFailed`. */
export async function givenText(
  { stdin }: Pick<CommandContext, 'stdin'>,
  file: string,
  { code, what = nameOf(file), advice, bytesMax, otherwise }: GivenFile,
): Promise<string> {
  try {
    return await readAllText(file === '-' ? stdin : createReadStream(file), bytesMax);
  } catch (error) {
    const message = `${what} cannot be read (${fileFault(error)}): ${advice}`;
    throw new CommandFailed(exitOfFile(error, otherwise), code, message);
  }
}

/** The exit of a command that could not read a file for this reason. */
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
