import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { confirm, isInteractive } from '../../../../src/cli/lib/input.ts';
import { CommandFailed } from '../../../../src/cli/lib/exit.ts';

describe('confirm', () => {
  test.each(['y', 'Y', 'yes', ' Yes '])('%j is yes', async (answer) => {
    const { asked, terminal } = terminalThatSays(`${answer}\n`);
    await confirm(terminal, 'Revoke it?');
    expect(asked()).toBe('Revoke it? [y/N] ');
  });

  test.each(['', 'n', 'no', 'yess', 'j', 'y y'])('%j is not', async (answer) => {
    const { terminal } = terminalThatSays(`${answer}\n`);
    await expect(confirm(terminal, 'Revoke it?')).rejects.toMatchObject({ exit: 'failure', code: 'NOT_CONFIRMED' });
  });

  test('an input that ends is no answer', async () => {
    const { asked, terminal } = terminalThatSays('');
    terminal.stdin.end();
    const failed = confirm(terminal, 'Revoke it?');
    await expect(failed).rejects.toBeInstanceOf(CommandFailed);
    await expect(failed).rejects.toMatchObject({ exit: 'interrupted' });
    expect(asked()).toBe('Revoke it? [y/N] \n');
  });
});

test('somebody can be asked when both ends are a terminal', () => {
  expect(isInteractive(ttys(true, true))).toBe(true);
  for (const [input, output] of [
    [true, false],
    [false, true],
    [false, false],
  ] as const) {
    expect(isInteractive(ttys(input, output))).toBe(false);
  }
});

function terminalThatSays(text: string): {
  asked: () => string;
  terminal: { stdin: PassThrough; stderr: PassThrough };
} {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()];
  stdin.write(text);
  return { asked: () => String(stderr.read() ?? ''), terminal: { stdin, stderr } };
}

function ttys(inputIsTTY: boolean, outputIsTTY: boolean): Parameters<typeof isInteractive>[0] {
  return {
    stdin: Object.assign(new PassThrough(), { isTTY: inputIsTTY }),
    stderr: Object.assign(new PassThrough(), { isTTY: outputIsTTY }),
  };
}
