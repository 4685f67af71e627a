/** `poste mcp` before its server is loaded: which calls come here, and what the server is handed. */
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { handshakeParams, readyAnswers } from '../../../scripts/ready-answers.ts';
import { mcpRunOf, runAsMcp } from '../../../src/cli/mail/run-as-mcp.ts';
import type { MailToolsOptions } from '../../../src/cli/mail/serve-mail-tools.ts';
import type { CommandContext } from '../../../src/cli/lib/context.ts';
import { commandContext } from '../../support/command-run.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const ready = await readyAnswers();
const RUN = { agent: 'eve', start: true, wakeUnattended: false };

const server = vi.hoisted(() => ({
  serveMailTools: vi.fn<(context: CommandContext, options: MailToolsOptions) => Promise<void>>(),
}));
vi.mock('../../../src/cli/mail/serve-mail-tools.ts', () => server);

/** The server finds this on standard input, and is told this. */
interface Handed {
  read: string;
  options: MailToolsOptions;
}

let handed: Handed[] = [];
beforeEach(() => {
  handed = [];
  server.serveMailTools.mockReset();
  server.serveMailTools.mockImplementation(async ({ stdin }, options) => {
    const here = { read: '', options };
    handed.push(here);
    stdin.on('data', (chunk: Buffer) => {
      here.read += chunk.toString();
    });
    stdin.resume();
    await Promise.race([once(stdin, 'end'), options.signalled]);
  });
});

function begun(environment = { POSTE_HOME: '/nowhere' }) {
  const stdin = new PassThrough();
  const stdout = new PassThrough().setEncoding('utf8');
  const context = { ...commandContext({ environment, stdin }), stdout };
  const ended = runAsMcp(context, RUN, ready);
  return { stdin, stdout, signals: context.signals, stderr: context.stderr, ended };
}

function request(id: number, method: string): string {
  const params = handshakeParams('2025-06-18')(method);
  return `${JSON.stringify({ jsonrpc: '2.0', id, method, ...(params && { params }) })}\n`;
}

const BEGIN = request(0, 'initialize');
const LIST = request(1, 'tools/list');
const CALL = request(2, 'tools/call');

/** The ids that were answered, once there are so many. */
async function answeredIds(stdout: PassThrough, count: number): Promise<unknown[]> {
  let text = '';
  while (text.split('\n').length <= count) text += String((await once(stdout, 'data'))[0]);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { id: unknown }).id);
}

test.each([
  [['mcp', '--agent', 'eve'], '', { ...RUN }],
  [['mcp', '--agent', 'eve', '--start'], 'bob', RUN],
  [['mcp', '--no-start', '--agent', 'eve'], '', { ...RUN, start: false }],
  [['mcp', '--wake-unattended', '--start', '--agent', 'eve'], '', { agent: 'eve', start: true, wakeUnattended: true }],
  [['mcp'], 'eve', RUN],
  [['mcp', '--agent', 'bob', '--agent', 'eve'], '', RUN],
  [['mcp', '--program', 'codex', '--default-agent', 'bob'], 'eve', RUN],
  [['mcp', '--program', 'codex', '--default-agent', 'eve', '--start'], '', RUN],
])('%j is a call of a program', (argv, usual, run) => {
  expect(mcpRunOf(argv, { POSTE_AGENT: usual })).toEqual(run);
});

test.each([
  ['1', [], false],
  ['0', [], true],
  ['', ['--no-start'], false],
  // As settings have it that earlier versions wrote.
  ['1', ['--start'], true],
])('with POSTE_NO_START=%s and %j the tools start a daemon: %s', (POSTE_NO_START, flags, start) => {
  expect(mcpRunOf(['mcp', '--agent', 'eve', ...flags], { POSTE_NO_START })).toEqual({ ...RUN, start });
});

test('the agent of the project in which a program starts them goes before its default', async () => {
  const home = await temporaryFolder();
  const words = ['mcp', '--program', 'codex', '--default-agent', 'bob'];
  const file = join(home, 'projects.json');
  await writeFile(file, JSON.stringify({ version: 1, projects: { [realpathSync('.')]: { codex: 'eve' } } }));
  expect(mcpRunOf(words, { POSTE_HOME: home })).toEqual(RUN);
  expect(mcpRunOf(['mcp', '--default-agent', 'bob'], { POSTE_HOME: home })).toEqual({ ...RUN, agent: 'bob' });
  // The command line says that the file is broken.
  await writeFile(file, '{');
  expect(mcpRunOf(words, { POSTE_HOME: home })).toBeUndefined();
});

test.each([
  [[], 'eve'],
  [['mcp', '--default-agent'], ''],
  [['mcp', '--default-agent', '--start'], ''],
  [['hooks', '--agent', 'eve'], 'eve'],
  [['mcp'], ''],
  [['mcp', '--agent'], 'eve'],
  [['mcp', '--agent', ''], 'eve'],
  [['mcp', '--agent', 'a b'], ''],
  [['mcp', '--agent', '--start'], ''],
  [['mcp', '--agent', 'Owner'], ''],
  [['mcp', '--agent', 'e\uFFFD'], ''],
  [['mcp', '--help'], 'eve'],
  [['mcp', '--agent', 'eve', 'more'], ''],
  [['mcp', '--agent', 'eve', '--json'], ''],
])('%j is for the command line', (argv, usual) => {
  expect(mcpRunOf(argv, { POSTE_AGENT: usual })).toBeUndefined();
});

test('in a folder that is gone, a flag names the agent, and the command line says what is wrong without one', () => {
  const cwd = vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw new Error('uv_cwd');
  });
  const environment = { POSTE_HOME: '/nowhere' };
  const runs = [
    ['--agent', 'eve'],
    ['--program', 'codex'],
  ].map((flags) => mcpRunOf(['mcp', ...flags], environment));
  cwd.mockRestore();
  expect(runs).toEqual([RUN, undefined]);
});

describe('the server', () => {
  test('comes once the client knows the tools, and reads from the first line what was answered', async () => {
    const { stdin, stdout, ended } = begun();
    stdin.write(BEGIN);
    expect(await answeredIds(stdout, 1)).toEqual([0]);
    stdin.write(LIST);
    expect(await answeredIds(stdout, 1)).toEqual([1]);
    await vi.waitFor(() => expect(handed).toHaveLength(1));
    stdin.end(CALL);
    expect(await ended).toBe(true);
    expect(handed).toMatchObject([{ read: BEGIN + LIST + CALL, options: { ...RUN, answered: new Set([0, 1]) } }]);
  });

  test('comes at once for a line that needs it, and gets it with what follows', async () => {
    const { stdin, stdout, ended } = begun();
    stdin.end(BEGIN + CALL + LIST);
    expect(await answeredIds(stdout, 1)).toEqual([0]);
    await ended;
    expect(handed).toMatchObject([{ read: BEGIN + CALL + LIST, options: { answered: new Set([0]) } }]);
  });

  test('comes without a word of the client too, as the session of its agent begins by it', async () => {
    const { stdin, ended } = begun();
    await vi.waitFor(() => expect(handed).toHaveLength(1), 10_000);
    stdin.end(BEGIN);
    await ended;
    expect(handed).toMatchObject([{ read: BEGIN, options: { answered: new Set() } }]);
  });

  test('gets a line that has no end yet and is too long to wait for', async () => {
    const { stdin, ended } = begun();
    const long = `{"x":"${'y'.repeat(1 << 16)}`;
    stdin.write(BEGIN);
    stdin.end(long);
    await ended;
    expect(handed).toMatchObject([{ read: BEGIN + long, options: { answered: new Set([0]) } }]);
  });

  test('comes for a client that asks on and on', async () => {
    const { stdin, stdout, ended } = begun();
    stdout.resume();
    stdin.write(BEGIN);
    for (let id = 2; handed.length === 0 && id < 10_000; id++) {
      stdin.write(request(id, 'ping'));
      if (id % 50 === 0) await new Promise(setImmediate);
    }
    expect(handed).toHaveLength(1);
    stdin.end();
    await ended;
  });

  test('does not come when the client leaves, or a signal comes, before it', async () => {
    const left = begun();
    left.stdin.end(BEGIN);
    const signalled = begun();
    signalled.stdin.write(BEGIN);
    signalled.signals.emit('SIGTERM', 'SIGTERM');
    const broken = begun();
    broken.stdout.destroy(new Error('EPIPE'));
    expect(await Promise.all([left.ended, signalled.ended, broken.ended])).toEqual([true, true, true]);
    expect(handed).toEqual([]);
    // Nothing holds the process of one that has ended.
    for (const { stdin } of [left, signalled, broken]) expect(stdin.listenerCount('data')).toBe(0);
    expect(signalled.stdin.isPaused()).toBe(true);
  });
});

test('a line in pieces is answered once it is whole', async () => {
  const { stdin, stdout, ended } = begun();
  const answered = answeredIds(stdout, 2);
  for (const byte of Buffer.from(BEGIN + LIST)) stdin.write(Buffer.of(byte));
  expect(await answered).toEqual([0, 1]);
  stdin.end();
  await ended;
});

test('with a path that no socket can have, the command line says what is wrong', async () => {
  const { ended, stdin } = begun({ POSTE_HOME: `/${'x'.repeat(200)}` });
  expect(await ended).toBe(false);
  expect(stdin.listenerCount('data')).toBe(0);
});
