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
