import { existsSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import type { SessionRow } from '../../../../src/host/core/session-rows.ts';
import { tmuxMethod } from '../../../../src/host/wake/terminal.ts';
import { tryCommand } from '../../../../src/host/wake/wake-methods.ts';
import {
  factsByPs,
  isRunning,
  factsOfPs,
  factsOfStat,
  type ProcessFacts,
  processFacts,
  runBounded,
} from '../../../../src/host/wake/processes.ts';
import { posixUtility } from '../../../support/programs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';
const AGENT: ProcessFacts = {
  mark: { pid: 100, startedAt: 'boot 7' },
  parentPid: 90,
  group: 100,
  foregroundGroup: 100,
};
const SHELL: ProcessFacts = { mark: { pid: 90, startedAt: 'boot 5' }, parentPid: 1, group: 90, foregroundGroup: 100 };
const never = (): AbortSignal => new AbortController().signal;

const session = (given: Partial<SessionRow> = {}): SessionRow => ({
  agentId: 'a'.repeat(32) as AgentId,
  sessionId: 's1',
  registeredAtMs: 0,
  seenAtMs: 0,
  endedAtMs: null,
  wake: [],
  process: AGENT.mark,
  woken: null,
  ...given,
});

async function script(folder: string, name: string, lines: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, `#!/bin/sh\n${lines}\n`);
  await chmod(path, 0o700);
  return path;
}

describe('the command rung', () => {
  test('gives the text as the last argument, without a shell, and takes exit 0 as a sign that it took it', async () => {
    const folder = await temporaryFolder();
    const said = join(folder, 'said');
    const program = await script(folder, 'wake', `printf '%s|' "$@" > ${said}`);
    const argv = [program, '$(id)', '; true'];
    expect(await tryCommand(session(), { type: 'command', argv }, TEXT, never())).toBe('given');
    expect(await readFile(said, 'utf8')).toBe(`$(id)|; true|${TEXT}|`);
  });

  test('is unheard when the program fails or is not there', async () => {
    for (const program of [posixUtility('false'), '/no/such/program']) {
      expect(await tryCommand(session(), { type: 'command', argv: [program] }, TEXT, never())).toBe('unheard');
    }
  });
});

describe('a program that is run', () => {
  test('is ended with all that it started when its time is over', async () => {
    const folder = await temporaryFolder();
    const program = await script(folder, 'stubborn', `trap '' TERM\nsleep 1000 & echo $!; wait; sleep 1000`);
    const started = performance.now();
    const { code, stdout } = await runBounded(program, [], { timeoutMs: 1000, signal: never() });
    expect(code).toBeNull();
    expect(performance.now() - started).toBeLessThan(20_000);
    await expect.poll(() => processFacts(Number(stdout), never())).toBeUndefined();
  });

  test('is heard to its end, and not held up by what it leaves behind with its output open', async () => {
    const folder = await temporaryFolder();
    const program = await script(folder, 'leaver', `head -c 60000 /dev/zero | tr '\\0' x; sleep 1000 & echo $!`);
    const run = () => runBounded(program, [], { timeoutMs: 60_000, signal: never() });
    for (const { code, stdout } of await Promise.all(Array.from({ length: 8 }, run))) {
      process.kill(Number(stdout.slice(60_000)), 'SIGKILL');
      expect([code, stdout.slice(0, 60_000)]).toEqual([0, 'x'.repeat(60_000)]);
    }
  });

  test('is ended early when its caller stops', async () => {
    const stopping = new AbortController();
    const running = runBounded(posixUtility('sleep'), ['1000'], { timeoutMs: 60_000, signal: stopping.signal });
    stopping.abort();
    expect(await running).toMatchObject({ code: null });
    expect(await runBounded(posixUtility('true'), [], { timeoutMs: 60_000, signal: stopping.signal })).toMatchObject({
      code: null,
    });
  });
});

interface FakeTmux {
  program: string;
  calls: () => Promise<string[]>;
}

/** The cursor's place, and the rows of a pane. */
type Shown = readonly [x: number, y: number, ...rows: string[]];

/** Says `pane` of a pane that shows `before`, then `after` once it was typed into; writes down what it is asked. */
async function fakeTmux(pane: string, before: Shown, after: Shown, sendKeys = 'exit 0'): Promise<FakeTmux> {
  const folder = await temporaryFolder();
  const log = join(folder, 'calls');
  const shown = (name: string, [x, y, ...rows]: Shown): Promise<void> =>
    writeFile(join(folder, name), `${pane} ${x} ${y}\n${rows.join('\n')}\n`);
  await Promise.all([writeFile(log, ''), shown('screen', before), shown('after', after)]);
  const lines = `printf '%s|' "$@" >> ${log}; echo >> ${log}
case "$*" in
*display-message*) ${pane === '' ? 'exit 1' : `cat ${folder}/screen`};;
*Enter*) ;;
*send-keys*) cp ${folder}/after ${folder}/screen; ${sendKeys};;
esac`;
  const calls = async (): Promise<string[]> => (await readFile(log, 'utf8')).trimEnd().split('\n');
  return { program: await script(folder, 'tmux', lines), calls };
}

describe('the tmux rung', () => {
  const processes = new Map([AGENT, SHELL].map((facts) => [facts.mark.pid, facts]));
  const factsOf = (pid: number) => Promise.resolve(processes.get(pid));
  const method = { type: 'tmux', socket: '/tmp/tmux', pane: '%3', input: 'gemini' } as const;
  const unknown = { ...method, input: 'unknown' } as const;
  const PLACEHOLDER = ' >   Type your message or @path/to/file';
  const EMPTY: Shown = [3, 1, ' Shift+Tab to accept edits', PLACEHOLDER, '', ' ~/project     no sandbox'];
  const TYPED: Shown = [3 + TEXT.length, 1, ' Shift+Tab to accept edits', ` > ${TEXT}`, '', ' ~/project'];

  test('types the text literally, waits, looks again and presses Enter', async () => {
    const tmux = await fakeTmux('0 0 90', EMPTY, TYPED);
    const started = performance.now();
    expect(await tmuxMethod({ factsOf, program: tmux.program })(session(), method, TEXT, never())).toBe('given');
    expect(performance.now() - started).toBeGreaterThanOrEqual(150);
    const calls = await tmux.calls();
    expect(calls.map((call) => call.split('|')[2])).toEqual([
      'display-message',
      'send-keys',
      'display-message',
      'send-keys',
    ]);
    expect(calls[1]).toBe(`-S|/tmp/tmux|send-keys|-t|%3|-l|--|${TEXT}|`);
    expect(calls[3]).toBe('-S|/tmp/tmux|send-keys|-t|%3|Enter|');
  });

  test.each<[why: string, shown: Shown]>([
    ['a line that is half typed', [17, 0, ' > half a thought']],
    ['a line whose cursor was moved to its start', [3, 0, ' > half a thought']],
    ['the words of the placeholder, typed', [38, 0, ' > Type your message or @path/to/file']],
    ['the empty line of its shell mode', [3, 0, ' !   Type your shell command']],
    ['a command half typed in its shell mode', [17, 0, ' ! touch x; echo']],
    ['a search in its history', [7, 0, ' (r:)   Type your message or @path/to/file']],
    ['an open menu, below an empty line of before', [0, 3, PLACEHOLDER, '╭──────╮', '╰──────╯', '']],
    ['nothing yet', [0, 0, '']],
  ])('types nothing into a Gemini CLI that shows %s', async (_why, shown) => {
    const tmux = await fakeTmux('0 0 90', shown, TYPED);
    const rung = tmuxMethod({ factsOf, program: tmux.program });
    expect(await rung(session(), method, TEXT, never())).toBe('occupied');
    expect((await tmux.calls()).every((call) => call.includes('display-message'))).toBe(true);
  });

  const qwen = { ...method, input: 'qwen' } as const;
  const QWEN_EMPTY: Shown = [2, 1, '─────', '>   Type your message or @path/to/file', '─────'];

  test('presses Enter in a Qwen Code whose line holds the text, before a space of no width', async () => {
    const tmux = await fakeTmux('0 0 90', QWEN_EMPTY, [2 + TEXT.length, 1, '─────', `> ${TEXT} \u200B`, '─────']);
    expect(await tmuxMethod({ factsOf, program: tmux.program })(session(), qwen, TEXT, never())).toBe('given');
    expect((await tmux.calls()).at(-1)).toBe('-S|/tmp/tmux|send-keys|-t|%3|Enter|');
  });

  test.each<[why: string, shown: Shown]>([
    ['a line that is half typed', [11, 0, '> hello wor \u200B']],
    ['the words of the placeholder, typed', [37, 0, '> Type your message or @path/to/file \u200B']],
    ['the empty line of its shell mode', [2, 0, '!   Type your message or @path/to/file']],
    ['its settings, below an empty line of before', [0, 2, '>   Type your message or @path/to/file', '╰───╯', '']],
  ])('types nothing into a Qwen Code that shows %s', async (_why, shown) => {
    const tmux = await fakeTmux('0 0 90', shown, shown);
    expect(await tmuxMethod({ factsOf, program: tmux.program })(session(), qwen, TEXT, never())).toBe('occupied');
    expect((await tmux.calls()).every((call) => call.includes('display-message'))).toBe(true);
  });

  test.each<[why: string, shown: Shown]>([
    ['a line that is half typed', [17, 0, '$ touch x; echo ']],
    ['a shell escape', [2, 0, '! ']],
    ['a question of a command', [11, 0, 'Overwrite? ']],
    ['a question with an answer to choose', [20, 0, 'Continue? [y/N]:    ']],
    ['what a command asks for', [10, 0, 'Password: ']],
    ['a list of choices', [2, 0, '* ']],
    ['a line that is half typed and ends in a sign', [12, 0, '$ touch x >  ']],
    ['a line whose cursor was moved to its start', [2, 0, '$ touch x']],
    ['a text where its input may be', [2, 0, '> Try "explain this"']],
    ['a menu above an empty row', [0, 2, '│ 1. Yes │', '╰────────╯', '']],
  ])('types nothing, though its owner asked for it, into a program that shows %s', async (_why, shown) => {
    const tmux = await fakeTmux('0 0 90', shown, shown);
    const rung = tmuxMethod({ factsOf, program: tmux.program });
    expect(await rung(session(), unknown, TEXT, never())).toBe('occupied');
    expect((await tmux.calls()).every((call) => call.includes('display-message'))).toBe(true);
  });

  test.each<[why: string, shown: Shown]>([
    ['a bare line', [TEXT.length, 0, TEXT]],
    ['a prompt', [4 + TEXT.length, 0, `>>> ${TEXT}`]],
    ['a frame', [4 + TEXT.length, 1, '╭──────╮', `│ ❯ ${TEXT}   │`, '╰──────╯']],
    ['a narrow pane', [15, 2, '> You have 1 unread message in', '  Poste. Read it with', '  mail_inbox.  ']],
  ])('presses Enter in a program that its owner named when the line stands alone in %s', async (_why, shown) => {
    const tmux = await fakeTmux('0 0 90', [2, 0, '> '], shown);
    expect(await tmuxMethod({ factsOf, program: tmux.program })(session(), unknown, TEXT, never())).toBe('given');
  });

  test.each<[why: string, shown: Shown]>([
    ['the line is one of a shell', [63, 0, ` ! ${TEXT}`]],
    ['something stands before it', [68, 0, ` > half ${TEXT}`]],
    ['it stands behind a question', [11 + TEXT.length, 0, `Overwrite? ${TEXT}`]],
    ['something stands behind it', [63, 0, ` > ${TEXT}half`]],
    ['its user typed on', [68, 0, ` > ${TEXT} half`]],
    ['a part of it is missing', [60, 0, ` > ${TEXT.slice(3)}`]],
    ['a menu took it, below a line of before', [0, 3, ` > ${TEXT}`, '╭──────╮', '╰──────╯', '']],
  ])('presses no Enter when %s', async (_why, after) => {
    for (const given of [method, unknown]) {
      const tmux = await fakeTmux('0 0 90', EMPTY, after);
      const rung = tmuxMethod({ factsOf, program: tmux.program, shownMs: 1 });
      expect(await rung(session(), given, TEXT, never())).toBe('occupied');
      expect((await tmux.calls()).some((call) => call.includes('Enter'))).toBe(false);
    }
  });

  test.each([
    ['the pane is dead', '1 0 90', AGENT, 'unavailable'],
    ['the pane shows its history', '0 1 90', AGENT, 'occupied'],
    ['the pane is not there', '', AGENT, 'unavailable'],
    ['the program lives in another pane', '0 0 77', AGENT, 'unavailable'],
    [
      'the program ended and its number was given to another one',
      '0 0 90',
      { ...AGENT, mark: SHELL.mark },
      'unavailable',
    ],
    ['another program is in the foreground', '0 0 90', { ...AGENT, foregroundGroup: 90 }, 'unavailable'],
    ['the program ended', '0 0 90', undefined, 'unavailable'],
  ])('types nothing when %s', async (_why, pane, facts, outcome) => {
    const tmux = await fakeTmux(pane, EMPTY, TYPED);
    const rung = tmuxMethod({
      factsOf: (pid) => Promise.resolve(pid === 100 ? facts : processes.get(pid)),
      program: tmux.program,
    });
    expect(await rung(session(), method, TEXT, never())).toBe(outcome);
    expect((await tmux.calls()).every((call) => call.includes('display-message'))).toBe(true);
  });

  test('types nothing for a session without a program, nor where nothing is known of the input line', async () => {
    const tmux = await fakeTmux('0 0 90', EMPTY, TYPED);
    const rung = tmuxMethod({ factsOf, program: tmux.program });
    expect(await rung(session({ process: null }), method, TEXT, never())).toBe('unavailable');
    const { input: _input, ...old } = method;
    expect(await rung(session(), old, TEXT, never())).toBe('unavailable');
    expect((await tmux.calls()).some((call) => call.includes('send-keys'))).toBe(false);
  });

  test('does not press Enter when the program ended after the text', async () => {
    const tmux = await fakeTmux('0 0 90', EMPTY, TYPED);
    let asked = 0;
    const rung = tmuxMethod({
      factsOf: (pid) => Promise.resolve(pid === 100 && asked++ > 1 ? undefined : processes.get(pid)),
      program: tmux.program,
    });
    expect(await rung(session(), method, TEXT, never())).toBe('unheard');
    expect((await tmux.calls()).some((call) => call.includes('Enter'))).toBe(false);
  });

  test('is unheard when tmux cannot type, unavailable when there is no tmux', async () => {
    const tmux = await fakeTmux('0 0 90', EMPTY, TYPED, 'exit 1');
    expect(await tmuxMethod({ factsOf, program: tmux.program })(session(), method, TEXT, never())).toBe('unheard');
    const none = tmuxMethod({ factsOf, program: '/no/such/tmux' });
    expect(await none(session(), method, TEXT, never())).toBe('unavailable');
  });
});

describe('what the operating system says of a process', () => {
  test('this process runs, with a start that stays; one that ended is not there', async () => {
    const first = await processFacts(process.pid, never());
    const second = await processFacts(process.pid, never());
    expect(first).toMatchObject({ mark: { pid: process.pid }, parentPid: process.ppid });
    expect(second).toEqual(first);
    expect(await processFacts(2 ** 22 + 1, never())).toBeUndefined();
  });

  test.runIf(existsSync('/proc/self/stat'))('is there at once: each message asks for all programs', async () => {
    await processFacts(process.pid, never());
    const looked = vi.fn<() => void>();
    void processFacts(process.pid, never()).then(looked);
    await Promise.resolve();
    await Promise.resolve();
    expect(looked).toHaveBeenCalled();
  });

  test('one that cannot be looked at is unknown, and counts as running', async () => {
    expect(await factsByPs(process.pid, AbortSignal.abort())).toBe('unknown');
    expect(await isRunning(AGENT.mark, () => Promise.resolve('unknown'), never())).toBe(true);
    expect(await isRunning(AGENT.mark, () => Promise.resolve(undefined), never())).toBe(false);
  });

  test('a name with spaces and brackets hides nothing of /proc/<pid>/stat', () => {
    const fields = ['S', '90', '100', '90', '34816', '100', ...Array.from({ length: 13 }, () => '0'), '555', '0'];
    expect(factsOfStat(100, 'boot', `100 (a ) R 1 (b) ${fields.join(' ')}`)).toEqual({
      mark: { pid: 100, startedAt: 'boot 555' },
      parentPid: 90,
      group: 100,
      foregroundGroup: 100,
    });
    expect(factsOfStat(100, 'boot', `100 (a) Z ${fields.slice(1).join(' ')}`)).toBeUndefined();
  });

  test('ps is asked in one language and time zone: a daemon started in another knows the process again', async () => {
    const folder = await temporaryFolder();
    await script(folder, 'ps', 'echo "90 100 100 S $LC_ALL $TZ"');
    vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
    vi.stubEnv('TZ', 'Asia/Tokyo');
    vi.stubEnv('LC_ALL', 'de_DE.UTF-8');
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(await factsByPs(100, never())).toMatchObject({ mark: { pid: 100, startedAt: 'C UTC0' } });
  });

  test('a line of ps says the same', () => {
    expect(factsOfPs(100, '   90   100   100 S+   Fri Nov 21 08:00:01 2025\n')).toEqual({
      mark: { pid: 100, startedAt: 'Fri Nov 21 08:00:01 2025' },
      parentPid: 90,
      group: 100,
      foregroundGroup: 100,
    });
    expect(factsOfPs(100, '   90   100   100 Z+   Fri Nov 21 08:00:01 2025\n')).toBeUndefined();
  });
});
