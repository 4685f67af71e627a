import { describe, expect, test } from 'vitest';
import { isoTime } from '../../../../src/protocol/time.ts';
import {
  ENDED_KEPT_MS,
  SESSION_LIVE_MS,
  SESSIONS_PER_AGENT_MAX,
  SILENT_KEPT_MS,
  tidySessions,
} from '../../../../src/host/agents/sessions.ts';
import type { SessionListResult } from '../../../../src/host/contract/agents.ts';
import { removeAgent } from '../../../../src/host/agents/agents.ts';
import { SESSION_TIDY_MS, SessionKeeper } from '../../../../src/host/wake/session-service.ts';
import type { ProcessFacts } from '../../../../src/host/wake/processes.ts';
import { idOf, refused } from '../../../support/mail-context.ts';
import { COMMAND, type WakeContext, wakeContext } from '../../../support/wake-context.ts';

const NOON: ProcessFacts = { mark: { pid: 77, startedAt: 'noon' }, parentPid: 1, group: 77, foregroundGroup: 77 };

type Session = SessionListResult['sessions'][number];

async function sessions({ sessions }: WakeContext): Promise<Session[]> {
  return (await sessions.list(null)).sessions;
}

const cameOrWent = ({ context }: WakeContext): string[] =>
  context.told.map(({ type }) => type).filter((type) => /^session-(?:registered|ended)$/.test(type));

describe('a session', () => {
  test('is live until it is silent for the window of liveness, and again when it is heard of', async () => {
    const wake = await wakeContext(['bob']);
    await wake.register('bob', 's1');
    wake.pass(SESSION_LIVE_MS - 1);
    expect(await sessions(wake)).toMatchObject([{ presence: 'live' }]);
    wake.pass(1);
    expect(await sessions(wake)).toMatchObject([{ presence: 'silent' }]);
    const bob = await idOf(wake.context, 'bob');
    expect(await wake.sessions.heartbeat(bob, { session_id: 's1' })).toMatchObject({ live_ms: SESSION_LIVE_MS });
    expect(await sessions(wake)).toMatchObject([{ presence: 'live' }]);
    // What came while it was silent is rung for.
    expect(cameOrWent(wake)).toEqual(['session-registered', 'session-registered']);
  });

  test('that was heard of while the clock was ahead is silent until it is heard of again', async () => {
    const wake = await wakeContext(['bob']);
    await wake.register('bob', 's1');
    wake.context.clock.nowMs -= 86_400_000;
    expect(await sessions(wake)).toMatchObject([{ presence: 'silent' }]);
    await wake.register('bob', 's1');
    expect(await sessions(wake)).toMatchObject([{ presence: 'live' }]);
  });

  test('that registers as before is only heard of; with another way to be woken it is new', async () => {
    const wake = await wakeContext(['bob']);
    const { nowMs } = wake.context.clock;
    await wake.register('bob', 's1', { wake: [COMMAND] });
    wake.pass(1000);
    await wake.register('bob', 's1', { wake: [COMMAND] });
    expect(cameOrWent(wake)).toHaveLength(1);
    expect(await sessions(wake)).toMatchObject([
      { registered_at: isoTime(nowMs), seen_at: isoTime(nowMs + 1000), wake: ['command'] },
    ]);
    await wake.register('bob', 's1', { wake: [COMMAND, { type: 'hook' }] });
    expect(cameOrWent(wake)).toHaveLength(2);
  });

  test('that ended is refused until it registers again', async () => {
    const wake = await wakeContext(['bob']);
    const bob = await idOf(wake.context, 'bob');
    await wake.register('bob', 's1');
    expect(await wake.sessions.end(bob, { session_id: 's1' })).toEqual({ ended: true });
    expect(await wake.sessions.end(bob, { session_id: 's1' })).toEqual({ ended: false });
    expect(refused(await wake.sessions.heartbeat(bob, { session_id: 's1' }))).toMatchObject({
      code: 'NO_SUCH_SESSION',
    });
    await wake.register('bob', 's1');
    expect(await sessions(wake)).toMatchObject([{ presence: 'live', ended_at: null }]);
    expect(cameOrWent(wake)).toEqual(['session-registered', 'session-ended', 'session-registered']);
  });

  test('is forgotten a while after its end, or a longer while after its last word', async () => {
    const wake = await wakeContext(['bob']);
    const bob = await idOf(wake.context, 'bob');
    await wake.register('bob', 'silent');
    await wake.register('bob', 'ended');
    await wake.sessions.end(bob, { session_id: 'ended' });
    const names = async (): Promise<string[]> => {
      await tidySessions(wake.context, []);
      return (await sessions(wake)).map(({ session_id }) => session_id);
    };
    wake.context.clock.nowMs += ENDED_KEPT_MS - 1;
    expect(await names()).toHaveLength(2);
    wake.context.clock.nowMs += 1;
    expect(await names()).toEqual(['silent']);
    wake.context.clock.nowMs += SILENT_KEPT_MS - ENDED_KEPT_MS;
    expect(await names()).toEqual([]);
  });

  test('of an agent that was removed is over, and no new one comes', async () => {
    const wake = await wakeContext(['bob']);
    const bob = await idOf(wake.context, 'bob');
    await wake.register('bob', 's1');
    await removeAgent(wake.context, { name: 'bob' });
    expect(refused(await wake.sessions.heartbeat(bob, { session_id: 's1' }))).toMatchObject({
      code: 'NO_SUCH_SESSION',
    });
    expect(refused(await wake.sessions.register(bob, { session_id: 's2' }))).toMatchObject({ code: 'NO_SUCH_AGENT' });
  });

  test('takes the place of the one that was silent longest when an agent has as many as it may', async () => {
    const wake = await wakeContext(['bob']);
    const bob = await idOf(wake.context, 'bob');
    await wake.register('bob', 'first');
    wake.pass(SESSION_LIVE_MS);
    for (let number = 1; number < SESSIONS_PER_AGENT_MAX; number++) await wake.register('bob', `s${number}`);
    await wake.register('bob', 'last');
    const names = (await sessions(wake)).map(({ session_id }) => session_id);
    expect(names).toHaveLength(SESSIONS_PER_AGENT_MAX);
    expect(names).not.toContain('first');
    expect(refused(await wake.sessions.register(bob, { session_id: 'more' }))).toMatchObject({ code: 'UNAVAILABLE' });
  });

  test('may not name a process that does not run, nor a terminal without one', async () => {
    const wake = await wakeContext(['bob']);
    const bob = await idOf(wake.context, 'bob');
    const register = (given: object) => wake.sessions.register(bob, { session_id: 's1', ...given });
    expect(refused(await register({ pid: 77 }))).toMatchObject({ code: 'BAD_INPUT', details: { field: 'pid' } });
    const tmux = { type: 'tmux', socket: null, pane: '%1' };
    expect(refused(await register({ wake: [tmux] }))).toMatchObject({ code: 'BAD_INPUT', details: { field: 'pid' } });
  });
});

describe('the keeper of sessions', () => {
  test('keeps a session live as long as its program runs, and no other that has its number', async () => {
    const wake = await wakeContext(['bob']);
    const { context, timers, processes } = wake;
    processes.set(77, NOON);
    await wake.register('bob', 's1', { pid: 77 });
    const keeper = new SessionKeeper({ context, timers, factsOf: (pid) => Promise.resolve(processes.get(pid)) });
    await keeper.idle();
    for (let minutes = 0; minutes < 10; minutes++) {
      wake.pass(SESSION_TIDY_MS);
      await keeper.idle();
    }
    expect(await sessions(wake)).toMatchObject([{ presence: 'live', pid: 77 }]);
    processes.set(77, { ...NOON, mark: { pid: 77, startedAt: 'one' } });
    wake.pass(SESSION_TIDY_MS);
    await keeper.idle();
    expect(await sessions(wake)).toMatchObject([{ presence: 'ended' }]);
    await keeper.close();
  });
});
