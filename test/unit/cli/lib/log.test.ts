/** What the log of a daemon or a relay makes of the words of others. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { commandLog } from '../../../../src/cli/lib/log.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';
import { commandContext } from '../../../support/command-run.ts';

function logged(write: (log: ReturnType<typeof commandLog>) => void): { text: string; line: Record<string, unknown> } {
  const stderr = new PassThrough();
  write(commandLog({ ...commandContext(), stderr }, 'info'));
  const text = String(stderr.read());
  return { text, line: JSON.parse(text) as Record<string, unknown> };
}

test.each([
  ['text turned around', 'a\u202eb'],
  ['a terminal command of one character', 'a\u009b2Jb'],
  ['line breaks', 'a\r\n\u2028b'],
  ['an invisible character', 'a\u200bb'],
])('%s is one line, printable, and the same when it is parsed', (_what, words) => {
  const { text, line } = logged((log) => log.warn({ code: words, deep: { words } }, words));
  expect(text.endsWith('\n')).toBe(true);
  expect(isPrintable(text.slice(0, -1))).toBe(true);
  expect(line).toMatchObject({ code: words, deep: { words }, msg: words });
  expect(line['time']).toMatch(/^\d{4}-\d{2}-\d{2}T[0-9:.]+Z$/);
});

test('an error is written with its cause in some length, and without what is attached to it', () => {
  const error = Object.assign(new Error('x'.repeat(1 << 20), { cause: new Error('the root') }), {
    document: { secret: 'y'.repeat(1 << 20) },
    code: 'EFAIL',
  });
  const { text, line } = logged((log) => log.error({ err: error }, 'it failed'));
  expect(text.length).toBeLessThan(20_000);
  expect(line['err']).toMatchObject({ type: 'Error', code: 'EFAIL', message: expect.stringMatching(/^x+$/) as string });
  const short = logged((log) => log.error({ err: new Error('outer', { cause: new Error('the root') }) }, 'it failed'));
  expect(short.line['err']).toMatchObject({ message: 'outer: the root', stack: expect.stringContaining('log.test') });
  expect(logged((log) => log.error({ err: 'thrown words' }, 'it failed')).line['err']).toBe('thrown words');
});
