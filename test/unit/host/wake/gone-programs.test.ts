/** Sessions whose program has ended, and sockets that are not tried twice in vain. */
import { describe, expect, test } from 'vitest';
import type { SessionState } from '../../../../src/host/contract/agents.ts';
import type { Refusal } from '../../../../src/host/core/refusal.ts';
import { sendMail } from '../../../../src/host/mail/send.ts';
import type { SendResult } from '../../../../src/host/contract/mail.ts';
import type { ProcessFacts } from '../../../../src/host/wake/processes.ts';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import type { SessionRow } from '../../../../src/host/core/session-rows.ts';
import { ClaudeSockets } from '../../../../src/host/wake/waiters.ts';
import type { TryWakeOutcome } from '../../../../src/host/wake/wake-methods.ts';
import { accepted, idOf, refused } from '../../../support/mail-context.ts';
import { COMMAND, type WakeContext, wakeContext } from '../../../support/wake-context.ts';

const CLAUDE: ProcessFacts = { mark: { pid: 77, startedAt: 'noon' }, parentPid: 1, group: 77, foregroundGroup: 77 };
const HOOK = { type: 'hook' } as const;

async function withProgram(): Promise<WakeContext> {
  const wake = await wakeContext(['alice', 'bob']);
  wake.processes.set(77, CLAUDE);
  return wake;
}

async function request({ context, wakeAgent }: WakeContext): Promise<SendResult['recipients'][number] | undefined> {
  const input = { to: ['bob'], subject: 'build', body: 'please', kind: 'request' as const };
  return accepted(await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent })).recipients[0];
}

async function registerAlone({ context, sessions }: WakeContext, pid: number): Promise<SessionState | Refusal> {
  return sessions.register(await idOf(context, 'bob'), { session_id: 'run', pid, alone: true });
}

describe('a session that one process at a time has', () => {
  const OTHER: ProcessFacts = { ...CLAUDE, mark: { pid: 88, startedAt: 'noon' } };
  test('is refused to another one while it runs, also when both ask at once', async () => {
    const wake = await withProgram();
    wake.processes.set(88, OTHER);
    const asked = await Promise.all([registerAlone(wake, 77), registerAlone(wake, 88)]);
    accepted(asked[0]);
    expect(refused(asked[1])).toMatchObject({ code: 'NAME_TAKEN', message: expect.stringContaining('process 77') });
    accepted(await registerAlone(wake, 77));
  });

  test('is had by another one once its process has ended, or it was ended', async () => {
    const wake = await withProgram();
    wake.processes.set(88, OTHER);
    accepted(await registerAlone(wake, 77));
    wake.processes.delete(77);
    accepted(await registerAlone(wake, 88));
    wake.processes.set(77, CLAUDE);
    await wake.sessions.end(await idOf(wake.context, 'bob'), { session_id: 'run' });
    accepted(await registerAlone(wake, 77));
    expect(await wake.sessions.list(null)).toMatchObject({ sessions: [{ session_id: 'run', pid: 77 }] });
  });
});

describe('a session whose program has ended', () => {
  test('is not tried, ends, and its waiter is let go', async () => {
    const wake = await withProgram();
    await wake.register('bob', 's1', { wake: [HOOK, COMMAND], pid: 77 });
    const { answer } = await wake.wait('bob', 's1');
    wake.processes.delete(77);
    expect(await request(wake)).toMatchObject({ detail: expect.stringContaining('None of its sessions') });
    expect(wake.tried).toEqual([]);
    expect(await answer).toMatchObject({ event: 'released' });
    expect(await wake.sessions.list(null)).toMatchObject({ sessions: [{ presence: 'ended' }] });
  });

  test('is not tried either when its number was given to another program', async () => {
    const wake = await withProgram();
    await wake.register('bob', 's1', { wake: [COMMAND], pid: 77 });
    wake.processes.set(77, { ...CLAUDE, mark: { pid: 77, startedAt: 'later' } });
    await request(wake);
    expect(wake.tried).toEqual([]);
  });

  test('is not kept alive by a wait that it left behind', async () => {
    const wake = await withProgram();
    await wake.register('bob', 's1', { wake: [HOOK], pid: 77 });
    wake.processes.delete(77);
    const bob = await idOf(wake.context, 'bob');
    const waited = wake.sessions.wait(bob, { session_id: 's1', wait_ms: 1000 }, new AbortController().signal);
    expect(refused(await waited)).toMatchObject({ code: 'NO_SUCH_SESSION' });
  });

  test('is ended before anybody is told who is there', async () => {
    const wake = await withProgram();
    await wake.register('bob', 's1', { pid: 77 });
    wake.processes.delete(77);
    await wake.sessions.endGone(null);
    expect(await request(wake)).toMatchObject({ status: 'offline' });
  });
});

describe('an attempt that lasts', () => {
  const TWO = [
    { type: 'codex-socket', socket: '/s' },
    { type: 'tmux', socket: null, pane: '%3' },
  ] as const;

  /** Does something to the session while its first method is tried; returns what was tried after that. */
  async function triedAfter(meanwhile: (wake: WakeContext, bob: AgentId) => Promise<unknown>): Promise<string[]> {
    const wake: WakeContext = await wakeContext(['alice', 'bob'], {
      'codex-socket': async ({ agentId }) => {
        await meanwhile(wake, agentId);
        return 'unheard';
      },
    });
    wake.processes.set(77, CLAUDE);
    await wake.register('bob', 's1', { wake: [...TWO], pid: 77, reports_prompts: true });
    await request(wake);
    return wake.tried;
  }

  test('goes on with a session that is as it was', async () => {
    expect(await triedAfter(() => Promise.resolve())).toEqual(['tmux s1']);
  });

  test('leaves a session alone that ended meanwhile, though its program runs', async () => {
    expect(await triedAfter(({ sessions }, bob) => sessions.end(bob, { session_id: 's1' }))).toEqual([]);
  });

  test('types nothing into the terminal of an agent that began to work meanwhile', async () => {
    const works = { session_id: 's1', doing: 'work' } as const;
    expect(await triedAfter(({ sessions }, bob) => sessions.heartbeat(bob, works))).toEqual([]);
  });
});

describe("the socket of Claude Code, by the session's poste mcp", () => {
  const bob = 'b'.repeat(32) as AgentId;
  const session: SessionRow = {
    agentId: bob,
    sessionId: 'mcp-1',
    registeredAtMs: 0,
    seenAtMs: 0,
    endedAtMs: null,
    wake: [{ type: 'claude-socket' }],
    process: CLAUDE.mark,
    woken: null,
  };

  test('is left alone after one try without proof, until its agent or its program shows itself', async () => {
    const outcomes: TryWakeOutcome[] = ['unheard', 'given', 'given', 'given'];
    const sockets = new ClaudeSockets({ ring: () => Promise.resolve(outcomes.shift() ?? 'unheard') });
    const tried = () => sockets.tryWake(session, { type: 'claude-socket' }, 'LINE', new AbortController().signal);
    // What was not posted is no notice to anybody.
    expect([await tried(), await tried(), await tried()]).toEqual(['unheard', 'given', 'unavailable']);
    sockets.trust({ agentId: bob, sessionId: 's1', process: { pid: 78, startedAt: 'noon' } });
    sockets.trust({ agentId: 'c'.repeat(32) as AgentId, sessionId: 's1', process: CLAUDE.mark });
    expect(await tried()).toBe('unavailable');
    sockets.trust({ agentId: bob, sessionId: 'cleared', process: CLAUDE.mark });
    expect([await tried(), await tried()]).toEqual(['given', 'unavailable']);
    sockets.trust({ agentId: bob, sessionId: 'mcp-1', process: null });
    expect(await tried()).toBe('given');
  });
});
