/**
 * A hook at one end of a socket and a sender at the other, with real programs where a program wakes: what the sender is
 * told rests on the proof alone. The daemon's clock stands still, so the proof of a hook comes in time on any machine.
 */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SendResult } from '../../../../src/host/api/schemas/mail.ts';
import { CLAUDE_CODE, CODEX, type HookProgram } from '../../../../src/host/hooks/programs.ts';
import { type HookOutcome, runHook } from '../../../../src/host/hooks/run-hook.ts';
import type { DaemonClient } from '../../../../src/host/api/client.ts';
import { tryCommand } from '../../../../src/host/wake/wake-methods.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { posixUtility } from '../../../support/programs.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { wakeContext } from '../../../support/wake-context.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';

interface Hooked {
  hook: (event: string) => Promise<HookOutcome>;
  /** A request of alice to bob; what she is told of him. */
  request: () => Promise<SendResult['recipients'][number] | undefined>;
  /** Resolves when a hook waits at the daemon. */
  waits: Promise<void>;
}

/** Bob's program and its hooks. */
async function hooked(program: HookProgram, programPath = ''): Promise<Hooked> {
  const here = await wakeContext(['alice', 'bob'], { command: tryCommand });
  const own = await processFacts(process.pid, new AbortController().signal);
  if (own) here.processes.set(process.pid, own);
  const { client } = await contextAtSocket(here);
  const waits = new Promise<void>((resolve) => {
    here.context.subscribe(({ type }) => type === 'session-waits' && resolve());
  });
  const surroundings = { environment: { PATH: process.env['PATH'] }, findProgram: () => programPath };
  const gone = new AbortController().signal;
  const call = {
    program,
    agent: 'bob',
    client: client as Pick<DaemonClient, 'call'>,
    pid: process.pid,
    surroundings,
    gone,
  };
  return {
    hook: (event) => runHook({ ...call, input: JSON.stringify({ session_id: 's-1', hook_event_name: event }) }),
    async request() {
      const mail = { to: ['bob'], subject: 'SUBJECT', body: 'BODY', kind: 'request' as const };
      return (await client.call('mail-send', mail, { as: 'alice' })).recipients[0];
    },
    waits,
  };
}

test('Claude Code: the sender hears that its hook took the doorbell, and the hook ends with 2', async () => {
  const { hook, request, waits } = await hooked(CLAUDE_CODE);
  const idle = hook('Stop');
  await waits;
  expect(await request()).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('hook') });
  expect(await idle).toEqual({ exitCode: 2, stdout: '', stderr: `${TEXT}\n` });
});

test('Codex: the sender hears that its queue took the text, when that ended with 0 and not otherwise', async () => {
  const folder = await temporaryFolder();
  const codex = join(folder, 'codex');
  const queued = join(folder, 'queued');
  await writeFile(codex, `#!/bin/sh\nprintf '%s|' "$@" > ${queued}\n`);
  await chmod(codex, 0o700);
  const { hook, request } = await hooked(CODEX, codex);
  await hook('SessionStart');
  expect(await request()).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('command') });
  expect(await readFile(queued, 'utf8')).toBe(`queue|--thread|s-1|--message|${TEXT}|`);
  const other = await hooked(CODEX, posixUtility('false'));
  await other.hook('SessionStart');
  expect(await other.request()).toMatchObject({
    status: 'live-next-prompt',
    detail: expect.stringContaining('proves'),
  });
});
