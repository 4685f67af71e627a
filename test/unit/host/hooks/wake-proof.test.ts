/**
 * A hook at one end of a socket and a sender at the other, with real programs where a program wakes: what the sender is
 * told rests on the proof alone. The daemon's clock stands still, so the proof of a hook comes in time on any machine.
 */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { SendResult } from '../../../../src/host/contract/mail.ts';
import { CLAUDE_CODE, CODEX, GEMINI, type HookProgram } from '../../../../src/host/hooks/programs.ts';
import { type HookOutcome, runHook } from '../../../../src/host/hooks/run-hook.ts';
import type { DaemonClient } from '../../../../src/host/api/client.ts';
import {
  COMMAND_PROOF_MS,
  PROOF_MS,
  tryCommand,
  type WakeMethodTable,
} from '../../../../src/host/wake/wake-methods.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { posixUtility } from '../../../support/programs.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { type WakeContext, wakeContext } from '../../../support/wake-context.ts';
import { onEvent } from '../../../support/on-event.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';

type Recipient = SendResult['recipients'][number] | undefined;

interface Hooked {
  here: WakeContext;
  hook: (event: string, given?: object) => Promise<HookOutcome>;
  /** A request of alice to bob; what she is told of him. */
  request: () => Promise<Recipient>;
  /** Resolves when a hook waits at the daemon. */
  waits: Promise<void>;
}

/** Bob's program and its hooks. */
async function hooked(program: HookProgram, programPath = '', methods: Partial<WakeMethodTable> = {}): Promise<Hooked> {
  const here = await wakeContext(['alice', 'bob'], {
    command: tryCommand,
    'codex-socket': () => Promise.resolve('unavailable'),
    ...methods,
  });
  const own = await processFacts(process.pid, new AbortController().signal);
  if (typeof own === 'object') here.processes.set(process.pid, own);
  const { client } = await contextAtSocket(here);
  const waits = new Promise<void>((resolve) => {
    onEvent(here.context, ({ type }) => type === 'session-waits' && resolve());
  });
  const pane = { TMUX: '/tmux,1,0', TMUX_PANE: '%1' };
  const environment = { PATH: process.env['PATH'], ...pane };
  const surroundings = { environment, findProgram: () => programPath, commandLine: () => [] };
  const call = {
    program,
    agentIn: () => 'bob',
    client: client as Pick<DaemonClient, 'call'>,
    pid: process.pid,
    surroundings,
    waits: false,
    pause: () => Promise.resolve(),
    gone: new AbortController().signal,
  };
  return {
    here,
    hook: (event, given = {}) =>
      runHook({ ...call, input: JSON.stringify({ session_id: 's-1', hook_event_name: event, ...given }) }),
    async request() {
      const mail = { to: ['bob'], subject: 'SUBJECT', body: 'BODY', kind: 'request' as const };
      return (await client.call('mail-send', mail, { as: 'alice' })).recipients[0];
    },
    waits,
  };
}

/** Resolves when the daemon waits this long for a proof. */
async function waitsForProof({ here }: Hooked, ms: number): Promise<void> {
  await vi.waitFor(() => expect(here.timers.underWay(ms)).toBeGreaterThan(0), { timeout: PATIENCE_MS });
}

test('Claude Code: it is woken when its prompt hook reports the line, and no second line is added', async () => {
  const claude = await hooked(CLAUDE_CODE);
  const idle = claude.hook('Stop');
  await claude.waits;
  const sending = claude.request();
  expect(await idle).toEqual({ exitCode: 2, stdout: '', stderr: `${TEXT}\n` });
  await waitsForProof(claude, PROOF_MS);
  const prompt = `<task-notification>${TEXT}</task-notification>`;
  expect(await claude.hook('UserPromptSubmit', { prompt })).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  expect(await sending).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('hook') });
});

test('Claude Code: a hook that took the doorbell proves nothing, and neither does another prompt', async () => {
  const claude = await hooked(CLAUDE_CODE);
  const idle = claude.hook('Stop');
  await claude.waits;
  const sending = claude.request();
  expect(await idle).toMatchObject({ exitCode: 2 });
  await waitsForProof(claude, PROOF_MS);
  await claude.hook('UserPromptSubmit', { prompt: 'go', session_id: 's-2' });
  await claude.hook('UserPromptSubmit', { prompt: TEXT, session_id: 's-2' });
  claude.here.pass(PROOF_MS);
  expect(await sending).toMatchObject({
    status: 'live-next-prompt',
    detail: expect.stringContaining('nothing proves yet'),
  });
});

test('Codex: it is woken when its prompt hook reports the line, and not because its queue took it', async () => {
  const folder = await temporaryFolder();
  const program = join(folder, 'codex');
  const queued = join(folder, 'queued');
  await writeFile(program, `#!/bin/sh\nprintf '%s|' "$@" > ${queued}\n`);
  await chmod(program, 0o700);
  const codex = await hooked(CODEX, program);
  await codex.hook('SessionStart');
  const sending = codex.request();
  await waitsForProof(codex, COMMAND_PROOF_MS);
  expect(await readFile(queued, 'utf8')).toBe(`queue|--thread|s-1|--message|${TEXT}|`);
  await codex.hook('UserPromptSubmit', { prompt: TEXT });
  expect(await sending).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('command') });
  const other = await hooked(CODEX, posixUtility('false'));
  await other.hook('SessionStart');
  expect(await other.request()).toMatchObject({
    status: 'live-next-prompt',
    detail: expect.stringContaining('no program took it'),
  });
});

test('Codex: nothing is queued for a thread that its user interrupted', async () => {
  const codex = await hooked(CODEX, posixUtility('true'));
  await codex.hook('SessionStart');
  await codex.hook('Interrupt');
  expect(await codex.request()).toMatchObject({
    status: 'live-next-prompt',
    detail: expect.stringContaining('None of its sessions can be woken now'),
  });
});

test('Gemini CLI: it is typed to when it is idle, and not in a turn, where Enter could answer a dialog', async () => {
  let typed = 0;
  const gemini = await hooked(GEMINI, '', { tmux: () => Promise.resolve(++typed === 1 ? 'given' : 'unheard') });
  await gemini.hook('SessionStart');
  await gemini.hook('BeforeAgent', { prompt: 'go' });
  expect(await gemini.request()).toMatchObject({
    status: 'live-next-prompt',
    detail: expect.stringContaining('None of its sessions can be woken now'),
  });
  expect(typed).toBe(0);
  await gemini.hook('AfterAgent');
  await waitsForProof(gemini, PROOF_MS);
  expect(typed).toBe(1);
  expect(await gemini.hook('BeforeAgent', { prompt: TEXT })).toMatchObject({ stdout: '' });
  await gemini.here.quiet('bob');
  const [session] = (await gemini.here.sessions.list(null)).sessions;
  expect(session).toMatchObject({ woken_by: 'tmux' });
});
