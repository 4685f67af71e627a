import { expect, test } from 'vitest';
import { progressText, withProgress } from '../../../src/cli/progress.ts';
import type { Progress } from '../../../src/relay/audit/finding.ts';

async function* work(): AsyncGenerator<Progress, string> {
  for (const done of [1, 2, 3]) yield { stage: 'log', done, of: 3 };
  return 'result';
}

/** What is written, by a clock that goes on by `stepMs` each time it is read. */
async function writtenTo(isTTY: boolean, stepMs: number): Promise<string[]> {
  const lines: string[] = [];
  let nowMs = 0;
  const terminal = { isTTY, write: (text: string) => lines.push(text) };
  expect(await withProgress(work(), terminal, () => (nowMs += stepMs))).toBe('result');
  return lines;
}

test('a terminal sees a line that is written over, ten times a second at most, and cleared at the end', async () => {
  const clear = '\r\u001b[2K';
  expect(await writtenTo(true, 100)).toEqual([
    `${clear}log: 1 of 3 (33 %)`,
    `${clear}log: 2 of 3 (66 %)`,
    `${clear}log: 3 of 3 (100 %)`,
    clear,
  ]);
  expect(await writtenTo(true, 1)).toEqual([`${clear}log: 1 of 3 (33 %)`, clear]);
});

test('a file or a pipe sees nothing', async () => {
  expect(await writtenTo(false, 1000)).toEqual([]);
});

test('the line is cleared when the work fails', async () => {
  const lines: string[] = [];
  const failing = (async function* (): AsyncGenerator<Progress, void> {
    yield { stage: 'log', done: 1, of: undefined };
    throw new Error('no');
  })();
  await expect(withProgress(failing, { isTTY: true, write: (text) => lines.push(text) })).rejects.toThrow('no');
  expect(lines.at(-1)).toBe('\r\u001b[2K');
});

test('how much there is may be unknown', () => {
  expect(progressText({ stage: 'rows', done: 7, of: undefined })).toBe('rows: 7');
});
