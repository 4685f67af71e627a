import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { progressText, withProgress } from '../../../src/cli/work-progress.ts';
import type { Progress } from '../../../src/relay/audit/finding.ts';

async function* work(): AsyncGenerator<Progress, string> {
  for (const done of [1, 2, 3]) yield { stage: 'log', done, of: 3 };
  return 'result';
}

/** What is written, by a clock that goes on by `stepMs` each time it is read. */
async function writtenTo(isTTY: boolean, stepMs: number): Promise<string[]> {
  const lines: string[] = [];
  let nowMs = 0;
  const output = { isTTY, write: (text: string) => lines.push(text) };
  const monotonicMs = (): number => {
    nowMs += stepMs;
    return nowMs;
  };
  expect(await withProgress(work(), { output, monotonicMs, signals: new EventEmitter() })).toBe('result');
  return lines;
}

test('a terminal sees a line that is written over, ten times a second at most, and cleared at the end', async () => {
  const clear = '\r\u001b[K';
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
  const output = { isTTY: true, write: (text: string) => lines.push(text) };
  const watched = { output, monotonicMs: () => 1, signals: new EventEmitter() };
  await expect(withProgress(failing, watched)).rejects.toThrow('no');
  expect(lines.at(-1)).toBe('\r\u001b[K');
});

test.each(['SIGINT', 'SIGTERM'])('%s ends the work at its next step, after it cleaned up', async (signal) => {
  const signals = new EventEmitter();
  const seen: string[] = [];
  const long = (async function* (): AsyncGenerator<Progress, void> {
    try {
      for (let done = 0; done < 10; done++) {
        seen.push(`step ${done}`);
        if (done === 2) signals.emit(signal);
        yield { stage: 'log', done, of: undefined };
      }
    } finally {
      seen.push('cleaned up');
    }
  })();
  const watched = { output: { write: () => undefined }, monotonicMs: () => 0, signals };
  await expect(withProgress(long, watched)).rejects.toMatchObject({ exit: 'interrupted', code: 'INTERRUPTED' });
  expect(seen).toEqual(['step 0', 'step 1', 'step 2', 'cleaned up']);
  for (const name of ['SIGINT', 'SIGTERM']) expect(signals.listenerCount(name)).toBe(0);
});

test('how much there is may be unknown', () => {
  expect(progressText({ stage: 'rows', done: 7, of: undefined })).toBe('rows: 7');
});
