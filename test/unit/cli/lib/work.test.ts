import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import type { OutputStream } from '../../../../src/cli/lib/context.ts';
import { Work, atWork, progressText } from '../../../../src/cli/lib/output.ts';
import type { Progress } from '../../../../src/relay/replay/finding.ts';
import { commandContext } from '../../../support/command-run.ts';

const NEVER = new AbortController().signal;

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

/** The text that is written, by a clock that goes on by `stepMs` each time it is read. */
async function writtenTo(isTTY: boolean, stepMs: number): Promise<string[]> {
  const lines: string[] = [];
  let nowMs = 0;
  const output = lineOutput(lines, isTTY);
  const monotonicMs = (): number => {
    nowMs += stepMs;
    return nowMs;
  };
  expect(await new Work(output, NEVER, monotonicMs).run(work())).toBe('result');
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
  await new Work(lineOutput(lines, true), NEVER, () => (nowMs += 1000)).run(steps);
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
  await expect(new Work(lineOutput(lines, true), NEVER, () => 1).run(failing)).rejects.toThrow('no');
  expect(lines.at(-1)).toBe('\r\u001b[K');
});

test.each(['SIGINT', 'SIGTERM'])('%s ends the work at its next step, after it cleaned up', async (signal) => {
  const context = commandContext();
  const seen: string[] = [];
  const long = (async function* (): AsyncGenerator<Progress, void> {
    try {
      for (let done = 0; done < 10; done++) {
        seen.push(`step ${done}`);
        if (done === 2) context.signals.emit(signal);
        yield { stage: 'log', done, of: undefined };
      }
    } finally {
      seen.push('cleaned up');
    }
  })();
  await expect(atWork(context, (one) => one.run(long))).rejects.toMatchObject({
    exit: 'interrupted',
    code: 'INTERRUPTED',
  });
  expect(seen).toEqual(['step 0', 'step 1', 'step 2', 'cleaned up']);
});

test('bytes are shown with their speed, and their share where that is known', () => {
  const lines: string[] = [];
  let nowMs = 0;
  const progress = new Work(lineOutput(lines, true), NEVER, () => nowMs);
  for (const [atMs, bytes, about] of [
    [1000, 5_000_000, 20_000_000],
    [1050, 6_000_000, 20_000_000],
    [2000, 20_400_000, 20_000_000],
    [3000, 30_000_000, 0],
  ] as const) {
    nowMs = atMs;
    progress.bytes('backup', bytes, about);
  }
  progress.end();
  progress.end();
  expect(lines.join('').split('\r\x1b[K')).toEqual([
    '',
    'backup: 5.0 MB, about 25%, 5 MB/s',
    'backup: 20.4 MB, about 99%, 10 MB/s',
    'backup: 30.0 MB, 10 MB/s',
    '',
  ]);
  const pipe: string[] = [];
  const silent = new Work(lineOutput(pipe, false), NEVER, () => 0);
  silent.bytes('backup', 1, 2);
  silent.say('the backup is unpacked ...');
  silent.end();
  expect(pipe).toEqual([]);
});

test('how much there is may be unknown', () => {
  expect(progressText({ stage: 'rows', done: 7, of: undefined })).toBe('rows: 7');
});
