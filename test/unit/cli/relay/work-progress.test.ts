import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import type { OutputStream } from '../../../../src/cli/lib/context.ts';
import { progressText, withProgress } from '../../../../src/cli/lib/output.ts';
import type { Progress } from '../../../../src/relay/replay/finding.ts';

async function* work(): AsyncGenerator<Progress, string> {
  for (const done of [1, 2, 3]) yield { stage: 'log', done, of: 3 };
  return 'result';
}

function lineOutput(lines: string[], isTTY: boolean): OutputStream {
  const write = (chunk: Buffer, _encoding: string, done: () => void): void => {
    lines.push(chunk.toString());
    done();
  };
  return Object.assign(new Writable({ write }), { isTTY });
}

/** What is written, by a clock that goes on by `stepMs` each time it is read. */
async function writtenTo(isTTY: boolean, stepMs: number): Promise<string[]> {
  const lines: string[] = [];
  let nowMs = 0;
  const output = lineOutput(lines, isTTY);
  const monotonicMs = (): number => {
    nowMs += stepMs;
    return nowMs;
  };
  expect(await withProgress({ stderr: output, signals: new EventEmitter() }, work(), monotonicMs)).toBe('result');
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

test('after two seconds of a stage of known length the line says how long the rest of it takes', async () => {
  const lines: string[] = [];
  let nowMs = 0;
  const steps = (async function* (): AsyncGenerator<Progress, void> {
    // Each step comes a second after the one before: ten a second, then one, then a stage of unknown length.
    for (const done of [100, 110, 120]) yield { stage: 'log', done, of: 1200 };
    for (const done of [1, 2, 3]) yield { stage: 'rows', done, of: 9000 };
    for (const done of [1, 2, 3]) yield { stage: 'due', done, of: 9 };
    for (const done of [1, 2, 3]) yield { stage: 'look-ups', done, of: undefined };
  })();
  await withProgress({ stderr: lineOutput(lines, true), signals: new EventEmitter() }, steps, () => (nowMs += 1000));
  expect(lines.filter((line) => line.includes('left')).map((line) => line.slice('\r\u001b[K'.length))).toEqual([
    'log: 120 of 1200 (10 %), about 108 s left',
    'rows: 3 of 9000 (0 %), about 3 h left',
    'due: 3 of 9 (33 %), about 6 s left',
  ]);
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
  const context = { stderr: lineOutput(lines, true), signals: new EventEmitter() };
  await expect(withProgress(context, failing, () => 1)).rejects.toThrow('no');
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
  await expect(withProgress({ stderr: lineOutput([], false), signals }, long)).rejects.toMatchObject({
    exit: 'interrupted',
    code: 'INTERRUPTED',
  });
  expect(seen).toEqual(['step 0', 'step 1', 'step 2', 'cleaned up']);
  for (const name of ['SIGINT', 'SIGTERM']) expect(signals.listenerCount(name)).toBe(0);
});

test('how much there is may be unknown', () => {
  expect(progressText({ stage: 'rows', done: 7, of: undefined })).toBe('rows: 7');
});
