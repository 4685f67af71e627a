/** The tmux rung against tmux itself. */
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, type TestContext, vi } from 'vitest';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import type { SessionRow } from '../../../../src/host/core/session-rows.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { tmuxMethod } from '../../../../src/host/wake/terminal.ts';
import { TMUX, neededProgram } from '../../../support/programs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';
const { signal } = new AbortController();

interface Pane {
  folder: string;
  tmux: (...args: string[]) => string;
  /** Rings in the pane. */
  ring: (session: SessionRow, input: 'gemini' | 'unknown', text?: string) => Promise<string>;
}

async function openPane(context: TestContext, ...command: string[]): Promise<Pane> {
  const program = neededProgram(context, TMUX);
  const folder = await temporaryFolder();
  const socket = join(folder, 'tmux');
  const tmux = (...args: string[]): string =>
    spawnSync(program, ['-f', '/dev/null', '-S', socket, ...args], { encoding: 'utf8', timeout: PATIENCE_MS }).stdout;
  onTestFinished(() => {
    tmux('kill-server');
  });
  tmux('new-session', '-d', '-x', '200', '-y', '50', '-c', folder, ...command);
  const pane = tmux('display-message', '-p', '#{pane_id}').trim();
  const ring: Pane['ring'] = (session, input, text = TEXT) =>
    tmuxMethod({ factsOf: processFacts, program, callMs: PATIENCE_MS })(
      session,
      { type: 'tmux', socket, pane, input },
      text,
      signal,
    );
  return { folder, tmux, ring };
}

async function sessionOf(pid: number): Promise<SessionRow> {
  const facts = await processFacts(pid, signal);
  return {
    agentId: 'a'.repeat(32) as AgentId,
    sessionId: 's1',
    registeredAtMs: 0,
    seenAtMs: 0,
    endedAtMs: null,
    wake: [],
    process: typeof facts === 'object' ? facts.mark : null,
    woken: null,
  };
}

test('types into the pane of a program that runs there, not into the shell that it leaves behind', async (context) => {
  const { folder, tmux, ring } = await openPane(context, 'sh', '-i');
  const heard = join(folder, 'heard');
  const started = join(folder, 'pid');
  // A program in a shell of its own: it says its number, reads one line and ends; then the shell is in front.
  const reader = `sh -c 'echo $$ > ${started}; read line; echo "$line" > ${heard}'`;
  tmux('send-keys', '-l', '--', reader);
  tmux('send-keys', 'Enter');
  const session = await sessionOf(Number(await contentOf(started)));
  expect(await ring(session, 'unknown')).toBe('given');
  expect(await contentOf(heard)).toBe(`${TEXT}\n`);
  expect(await ring(session, 'unknown', `touch ${join(folder, 'obeyed')}`)).toBe('unavailable');
  expect(tmux('capture-pane', '-p')).not.toContain('obeyed');
});

/**
 * Draws and obeys as Gemini CLI does: a prompt, a shell command after `!`, and a menu, which Enter changes something
 * in.
 */
const LIKE_GEMINI = `
const { appendFileSync } = require('node:fs');
let [mode, text] = ['>', ''];
const draw = () => {
  const placeholder = mode === '>' ? '  Type your message or @path/to/file' : '  Type your shell command';
  const menu = '╭────────╮\\r\\n│ ● Vim Mode    false │\\r\\n╰────────╯\\r\\n';
  const line = mode === 'menu' ? menu : ' ' + mode + ' ' + (text || placeholder);
  const cursor = mode === 'menu' ? '' : '\\x1b[' + (4 + text.length) + 'G';
  process.stdout.write('\\x1b[H\\x1b[2Jpid ' + process.pid + ' \\r\\n' + line + cursor);
};
process.stdin.setRawMode(true);
process.stdin.on('data', (data) => {
  for (const key of String(data)) {
    if (key === '\\r') {
      appendFileSync('done', mode + ' ' + text + '\\n');
      text = '';
    } else if (key === '\\x15') [mode, text] = ['>', ''];
    else if (key === '!' && text === '') mode = '!';
    else if (key === '~') mode = 'menu';
    else text += key;
  }
  draw();
});
draw();
`;

test('submits its line to an empty input line, and nothing to a draft, a shell command or a menu', async (context) => {
  const program = join(await temporaryFolder(), 'gemini.cjs');
  await writeFile(program, LIKE_GEMINI);
  const { folder, tmux, ring } = await openPane(context, process.execPath, program);
  const shows = (what: RegExp): Promise<string> =>
    vi.waitFor(
      () => {
        const screen = tmux('capture-pane', '-p');
        expect(screen).toMatch(what);
        return screen;
      },
      { timeout: PATIENCE_MS },
    );
  const session = await sessionOf(Number(/pid ([0-9]+)/.exec(await shows(/pid [0-9]+\n.*Type your message/))?.[1]));
  const states: [keys: string, shown: RegExp][] = [
    ['half a thought', /> half a thought/],
    ['!', /! {3}Type your shell command/],
    ['!touch x; echo ', /! touch x; echo/],
    ['~', /Vim Mode/],
  ];
  for (const [keys, shown] of states) {
    tmux('send-keys', '-l', '--', keys);
    const before = await shows(shown);
    for (const input of ['gemini', 'unknown'] as const) expect(await ring(session, input)).toBe('occupied');
    expect(tmux('capture-pane', '-p')).toBe(before);
    tmux('send-keys', 'C-u');
    await shows(/> {3}Type your message/);
  }
  // Whether it is a placeholder is known of Gemini CLI alone.
  expect(await ring(session, 'unknown')).toBe('occupied');
  expect(await ring(session, 'gemini')).toBe('given');
  expect(await contentOf(join(folder, 'done'))).toBe(`> ${TEXT}\n`);
});

/** Resolves when the file has so many lines. */
function contentOf(path: string, lines = 1): Promise<string> {
  return vi.waitFor(
    async () => {
      const text = await readFile(path, 'utf8');
      expect(text.split('\n').length).toBeGreaterThan(lines);
      return text;
    },
    { timeout: PATIENCE_MS },
  );
}
