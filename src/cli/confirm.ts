/** Asks a person before what cannot be undone. */
import { type Interface, createInterface } from 'node:readline/promises';
import { CommandFailed } from './exit.ts';

/** What a person is asked through. */
export interface Terminal {
  input: NodeJS.ReadableStream & { isTTY?: boolean };
  output: NodeJS.WritableStream & { isTTY?: boolean };
}

/** Whether there is somebody to ask. */
export function isInteractive({ input, output }: Terminal): boolean {
  return input.isTTY === true && output.isTTY === true;
}

/**
 * Asks on the terminal, unless `yes` was said. Throws `CommandFailed` when there is nobody to ask; `stake` says why one
 * is asked at all, as in "unpairing ends what waits".
 */
export async function confirmed(question: string, { yes, stake }: { yes?: boolean; stake: string }): Promise<void> {
  if (yes) return;
  const terminal = { input: process.stdin, output: process.stderr };
  if (!isInteractive(terminal)) {
    const message = `there is no terminal to ask on, and ${stake}: say --yes if it is meant`;
    throw new CommandFailed('usage', 'NOT_CONFIRMED', message);
  }
  await confirm(question, terminal);
}

/** Resolves when the answer is yes. Throws `CommandFailed` for any other answer, and when the input ends. */
export async function confirm(question: string, { input, output }: Terminal): Promise<void> {
  const lines = createInterface({ input, output });
  try {
    const answer = await Promise.race([lines.question(`${question} [y/N] `), left(lines)]);
    if (answer === undefined) {
      output.write('\n');
      throw new CommandFailed('interrupted', 'INTERRUPTED', 'nothing was done, as the question was left');
    }
    if (!/^y(?:es)?$/i.test(answer.trim())) {
      throw new CommandFailed('failure', 'NOT_CONFIRMED', 'nothing was done, as the answer was not yes');
    }
  } finally {
    lines.close();
  }
}

/** Without it a question that is left with ctrl-c or ctrl-d would never be answered. */
function left(lines: Interface): Promise<undefined> {
  return new Promise((resolve) => {
    lines.once('close', () => resolve(undefined));
  });
}
