/** What a person gives a command while it runs: a yes or no on the terminal. */
import { createInterface, type Interface } from 'node:readline/promises';
import type { CommandContext, InputStream, OutputStream } from './context.ts';
import { CommandFailed } from './exit.ts';

/** Where a question is asked, and answered. */
export interface Terminal {
  input: InputStream;
  output: OutputStream;
}

export function terminalOf({ stdin: input, stderr: output }: CommandContext): Terminal {
  return { input, output };
}

/** Whether a person can answer. */
export function isInteractive({ input, output }: Terminal): boolean {
  return input.isTTY === true && output.isTTY === true;
}

interface Confirmation {
  /** The flag `--yes`. */
  yes?: boolean | undefined;
  /** Why the command asks, as a clause: "unpairing ends what waits for that host". */
  stake: string;
  /** Advice besides `--yes`. */
  advice?: string;
}

/** Throws `CommandFailed` when `--yes` is missing and nobody can answer. */
export function requireConfirmation(context: CommandContext, { yes, stake, advice = '' }: Confirmation): void {
  if (yes || isInteractive(terminalOf(context))) return;
  const message = `there is no terminal to ask on, and ${stake}: add --yes to go ahead${advice}`;
  throw new CommandFailed('usage', 'NOT_CONFIRMED', message);
}

/** Asks on the terminal unless `--yes` was given. Throws `CommandFailed` unless the answer is yes. */
export async function confirmed(context: CommandContext, question: string, confirmation: Confirmation): Promise<void> {
  requireConfirmation(context, confirmation);
  if (!confirmation.yes) await confirm(question, terminalOf(context));
}

/** Resolves when the answer is yes. Throws `CommandFailed` for any other answer, and when the input ends. */
export async function confirm(question: string, { input, output }: Terminal): Promise<void> {
  const lines = createInterface({ input, output });
  try {
    const answer = await Promise.race([lines.question(`${question} [y/N] `), inputEnd(lines)]);
    if (answer === undefined) {
      output.write('\n');
      throw new CommandFailed('interrupted', 'INTERRUPTED', 'nothing was done, because the question was not answered');
    }
    if (!/^y(?:es)?$/i.test(answer.trim())) {
      throw new CommandFailed('failure', 'NOT_CONFIRMED', 'nothing was done, because the answer was not yes');
    }
  } finally {
    lines.close();
  }
}

/** Resolves when the input ends: at ctrl-c or ctrl-d the question itself stays pending. */
function inputEnd(lines: Interface): Promise<undefined> {
  return new Promise((resolve) => {
    lines.once('close', () => resolve(undefined));
  });
}
