/** The log of a daemon or a relay escapes the words of others. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { commandLog, logText } from '../../../../src/cli/lib/log.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';
import { PIPE, terminal } from '../../../support/screens.ts';
import { commandContext } from '../../../support/command-run.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { atTestEnd } from '../../../support/test-end.ts';

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

test('joiners that are spelling are written as they are', () => {
  const words = 'می\u200cخواهم 👩\u200d💻';
  expect(logged((log) => log.warn({}, words)).text).toContain(words);
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

const LONG = 'x'.repeat(1000);

function linesOf(text: string): { msg: string; lost?: number }[] {
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as { msg: string; lost?: number }]));
}

test('a reader that stops loses lines and stops nobody; when it reads again it is told how many', async () => {
  const reader = spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
  atTestEnd(() => void reader.kill('SIGKILL'));
  reader.kill('SIGSTOP');
  const log = commandLog({ ...commandContext(), stderr: reader.stdin }, 'info');
  const written = 5_000;
  for (let line = 0; line < written; line++) log.info({}, `${line} ${LONG}`);
  expect(reader.stdin.writableLength).toBeLessThan(2 << 20);
  let read = '';
  reader.stdout.on('data', (chunk: Buffer) => (read += chunk.toString()));
  const drained = once(reader.stdin, 'drain');
  reader.kill('SIGCONT');
  await drained;
  log.info({}, 'afterwards');
  reader.stdin.end();
  await once(reader.stdout, 'end');
  const lines = linesOf(read);
  const { lost = 0 } = lines.at(-2) ?? {};
  expect(lost).toBeGreaterThan(0);
  expect(lines.at(-2)?.msg).toMatch(/^\d+ lines of this log could not be written: /);
  expect(lines.length - 2 + lost).toBe(written);
  expect(log.linesLost()).toBe(lost);
  expect(lines.slice(0, -2).map(({ msg }) => Number.parseInt(msg, 10))).toEqual([...lines.slice(0, -2).keys()]);
  expect(lines.at(-1)?.msg).toBe('afterwards');
});

test.skipIf(process.platform !== 'linux')('a full disk under the log loses lines and ends nobody', () => {
  const fd = openSync('/dev/full', 'w');
  atTestEnd(() => closeSync(fd));
  const log = commandLog({ ...commandContext(), stderr: Object.assign(new PassThrough(), { fd }) }, 'info');
  expect(() => Array.from({ length: 10 }, () => log.info({}, LONG))).not.toThrow();
  expect(log.linesLost()).toBe(10);
});

test('lines that a reader never gets, as it has ended, are counted too', async () => {
  const fault = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
  const stderr = new Writable({ write: (_line, _encoding, done) => void setImmediate(done, fault) });
  const log = commandLog({ ...commandContext(), stderr }, 'info');
  const closed = new Promise((done) => stderr.once('close', done));
  for (let line = 0; line < 3; line++) log.info({}, 'taken, and never written');
  await closed;
  log.info({}, 'not taken');
  expect(log.linesLost()).toBe(4);
});

test('a file has each line as soon as it was logged, with the rights that its descriptor has', async () => {
  const path = join(await temporaryFolder(), 'log');
  writeFileSync(path, '');
  const fd = openSync(path, 'a');
  atTestEnd(() => closeSync(fd));
  const stderr: Writable & { fd: number } = Object.assign(new PassThrough(), { fd });
  commandLog({ ...commandContext(), stderr }, 'info').info({}, 'at once');
  expect(linesOf(readFileSync(path, 'utf8'))).toMatchObject([{ msg: 'at once' }]);
});

/** What a log says of one event, on a terminal or in a pipe. */
function written(isTTY: boolean, ...format: ('text' | 'json')[]): string {
  const stderr = Object.assign(new PassThrough(), { isTTY });
  const context = { ...commandContext({ environment: { NO_COLOR: '1' } }), stderr };
  commandLog(context, 'info', ...format).info({ a: 1 }, 'said');
  return String(stderr.read());
}

describe('for people', () => {
  const AT = '2025-11-20T21:48:23.250Z';
  const lineOf = (facts: object): string => `${JSON.stringify({ level: 30, time: AT, ...facts })}\n`;

  test('a line has the local time, the level, what happened and its facts', () => {
    const line = lineOf({
      host: 'laptop',
      ms: 12,
      took: 36.46609600000011,
      on: true,
      why: 'a b',
      deep: { a: 1 },
      msg: 'pushed',
    });
    expect(logText(terminal(80, { timeZone: 'Asia/Tokyo' }), line)).toBe(
      '2025-11-21 06:48:23 info  pushed host=laptop ms=12 took=36.5 on=true why="a b" deep={"a":1}\n',
    );
    expect(logText(PIPE, line)).toMatch(/^2025-11-20T21:48:23\.250Z info {2}pushed host=laptop /);
    const failed = {
      level: 50,
      err: { type: 'Error', message: 'no room', stack: 'at\nat', code: 'ENOSPC' },
      msg: 'full',
    };
    expect(logText(PIPE, lineOf(failed))).toBe(`${AT} error full err="ENOSPC: no room"\n`);
  });

  test('colours are for a screen that has them', () => {
    const line = lineOf({ level: 40, key: 'v', msg: 'careful' });
    expect(logText(terminal(80, { hasColor: true }), line)).toBe(
      '\u001b[2m2025-11-20 21:48:23\u001b[22m \u001b[33mwarn \u001b[39m careful \u001b[2mkey=\u001b[22mv\n',
    );
  });

  test('the words of others stay one line that no terminal obeys, whatever they are', () => {
    const words = 'a\r\n\u009b2J\u202eb';
    for (const line of [
      lineOf({ [words]: words, err: { stack: '', message: words }, msg: words }),
      words,
      '[1]',
      '{}',
    ]) {
      const text = logText(terminal(80), line);
      expect({ line, isPrintable: isPrintable(text.slice(0, -1)) }).toEqual({ line, isPrintable: true });
      expect(text.endsWith('\n')).toBe(true);
    }
  });

  test('a terminal has text and a pipe JSON, unless the command says which', () => {
    const text = / info {2}said a=1\n$/;
    const json = /^\{"level":30,.*"msg":"said"\}\n$/;
    expect([written(true), written(false, 'text')].map((line) => text.test(line))).toEqual([true, true]);
    expect([written(false), written(true, 'json')].map((line) => json.test(line))).toEqual([true, true]);
  });
});
