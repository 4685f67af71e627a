import { describe, expect, test } from 'vitest';
import { DOORBELL_COOLDOWN_MS } from '../../../../src/host/core/doorbell.ts';
import type { EntryRow } from '../../../../src/host/core/rows.ts';
import { SendInput, type SendResult } from '../../../../src/host/contract/mail.ts';
import { parseInput } from '../../../../src/host/contract/parse-input.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { sendMail } from '../../../../src/host/mail/send.ts';
import { Doorbells, TURN_LOOK_MS, WAKE_WAIT_MS } from '../../../../src/host/wake/doorbells.ts';
import { PROOF_MS } from '../../../../src/host/wake/wake-methods.ts';
import { HEARD_MS } from '../../../../src/host/wake/waiters.ts';
import { accepted, idOf } from '../../../support/mail-context.ts';
import { settled } from '../../../support/settled.ts';
import { COMMAND, type WakeContext, wakeContext } from '../../../support/wake-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const HOOK = { type: 'hook' } as const;

/** A request, which wakes, from alice to bob. */
async function request(wake: WakeContext, given: object = {}): Promise<SendResult['recipients'][number]> {
  const { context, wakeAgent } = wake;
  const input = { to: ['bob'], subject: 'build', body: 'please', kind: 'request', ...given };
  const result = accepted(
    await sendMail(context, await idOf(context, 'alice'), accepted(parseInput(SendInput, input)), { wakeAgent }),
  );
  const [recipient] = result.recipients;
  if (!recipient) throw new Error('nobody was sent to');
  return recipient;
}

async function readAll({ context }: WakeContext): Promise<void> {
  const bob = await idOf(context, 'bob');
  const { summaries = [] } = accepted(await useInbox(context, bob, {}));
  accepted(
    await useInbox(context, bob, { action: 'read', message_ids: summaries.map(({ message_id }) => message_id) }),
  );
}

async function entriesOf({ context }: WakeContext): Promise<EntryRow[]> {
  return rowsOf(context.store, 'entry', [await idOf(context, 'bob')]);
}

describe('mail_send with doorbells', () => {
  test('says live-wake on proof, marks the mail notified and records what woke the session', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND] });
    const recipient = await request(wake);
    expect(recipient).toMatchObject({ status: 'live-wake' });
    expect(recipient.detail).toContain('Woken now');
    expect(wake.tried).toEqual(['command s1']);
    expect(await entriesOf(wake)).toMatchObject([{ notifiedAtMs: wake.context.clock.nowMs, state: 'unread' }]);
    expect(await wake.sessions.list(null)).toMatchObject({ sessions: [{ session_id: 's1', woken_by: 'command' }] });
    const sent = await wake.context.store.read((reader) => reader.range('sent', []).next());
    expect(sent.value).toMatchObject({ row: { recipients: [{ state: 'notified' }] } });
  });

  test('says live-next-prompt when nothing proves the wake, and the mail stays as it is', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    wake.answers.push('unheard');
    await wake.register('bob', 's1', { wake: [COMMAND], reports_prompts: true });
    const recipient = await request(wake);
    expect(recipient).toMatchObject({ status: 'live-next-prompt' });
    expect(recipient.detail).toContain('no program took it');
    expect(await entriesOf(wake)).toMatchObject([{ notifiedAtMs: null }]);
  });

  test.each([
    ['queued', 'It is at work'],
    ['waits for approval', 'has to approve something'],
  ] as const)('says why the line is not read yet when it is %s, and tries nothing else', async (answer, why) => {
    const wake = await wakeContext(['alice', 'bob']);
    wake.answers.push(answer);
    await wake.register('bob', 's1', {
      wake: [{ type: 'codex-socket', socket: '/s' }, COMMAND],
      reports_prompts: true,
    });
    const recipient = await request(wake);
    expect(recipient).toMatchObject({ status: 'live-next-prompt', detail: expect.stringContaining(why) });
    expect(wake.tried).toEqual(['codex-socket s1']);
  });

  test('says that a terminal shows something else, and rings there again', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    wake.answers.push('occupied');
    wake.processes.set(100, { mark: { pid: 100, startedAt: 'b 1' }, parentPid: 1, group: 100, foregroundGroup: 100 });
    const pane = { type: 'tmux', socket: null, pane: '%1', input: 'gemini' } as const;
    await wake.register('bob', 's1', { wake: [pane], pid: 100, reports_prompts: true });
    const why = expect.stringContaining('nothing was submitted there');
    expect(await request(wake)).toMatchObject({ status: 'live-next-prompt', detail: why });
    wake.pass(2 * DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['tmux s1', 'tmux s1']);
    expect(await entriesOf(wake)).toMatchObject([{ notifiedAtMs: wake.context.clock.nowMs }]);
  });

  test('rings in a terminal after a turn in which nothing was typed, also after one that failed', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    wake.processes.set(100, { mark: { pid: 100, startedAt: 'b 1' }, parentPid: 1, group: 100, foregroundGroup: 100 });
    const pane = { type: 'tmux', socket: null, pane: '%1', input: 'qwen' } as const;
    await wake.register('bob', 's1', { wake: [pane], pid: 100, reports_prompts: true, tell: true, doing: 'work' });
    expect(await request(wake)).toMatchObject({ status: 'live-next-prompt' });
    expect(wake.tried).toEqual([]);
    await wake.sessions.heartbeat(await idOf(wake.context, 'bob'), { session_id: 's1', doing: 'failed' });
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['tmux s1']);
  });

  test('does not ring for kind status, nor for a message that asks for nothing', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND], reports_prompts: true });
    expect(await request(wake, { kind: 'status', needs_reply: true })).toMatchObject({ status: 'live-next-prompt' });
    expect(await request(wake, { kind: 'message' })).toMatchObject({ status: 'live-next-prompt' });
    expect(wake.tried).toEqual([]);
  });

  test('says offline when no session is live, and rings when one registers', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    expect(await request(wake)).toMatchObject({ status: 'offline' });
    await wake.register('bob', 's1', { wake: [COMMAND] });
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['command s1']);
    expect(await entriesOf(wake)).toMatchObject([{ notifiedAtMs: wake.context.clock.nowMs }]);
  });

  test('says offline when its last session ended in the attempt, and of mail tools alone', async () => {
    const wake = await wakeContext(['alice', 'bob', 'carol']);
    wake.answers.push('gone', 'unheard');
    await wake.register('bob', 's1', { wake: [COMMAND], reports_prompts: true });
    const offline = { status: 'offline', detail: expect.stringContaining('no session of it is live') };
    expect(await request(wake)).toMatchObject(offline);
    await wake.register('carol', 'tools', { wake: [COMMAND] });
    const looks = expect.stringContaining('its mail tools run; it sees the mail when it looks.');
    expect(await request(wake, { to: ['carol'] })).toMatchObject({ status: 'offline', detail: looks });
  });

  test('of a program that takes one message after the other, says live-wake of the message that it has', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 'run', { wake: [HOOK], reports_prompts: true });
    const bob = await idOf(wake.context, 'bob');
    const has = (...ids: string[]) =>
      wake.sessions.heartbeat(bob, { session_id: 'run', doing: 'work', has: ids }).then(accepted);
    const { answer } = await wake.wait('bob', 'run');
    const first = request(wake);
    const { ring } = await answer;
    await wake.sessions.heard(bob, { session_id: 'run', ring: ring ?? '' });
    const [entry] = await entriesOf(wake);
    await has(entry?.ref ?? '', 'no-such-message');
    expect(await first).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('has this message') });
    const second = await request(wake);
    expect(second).toMatchObject({ status: 'live-next-prompt', detail: expect.stringContaining('in its turn') });
    const { nowMs } = wake.context.clock;
    expect(await entriesOf(wake)).toMatchObject([{ notifiedAtMs: nowMs }, { notifiedAtMs: null }]);
    expect(await wake.sessions.list(null)).toMatchObject({ sessions: [{ session_id: 'run', woken_by: 'hook' }] });
  });

  test('what a program has before it takes the doorbell proves the wake as well', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 'run', { wake: [HOOK], reports_prompts: true });
    const bob = await idOf(wake.context, 'bob');
    const { answer } = await wake.wait('bob', 'run');
    const sent = request(wake);
    const { ring } = await answer;
    const [entry] = await entriesOf(wake);
    await wake.sessions.heartbeat(bob, { session_id: 'run', has: [entry?.ref ?? ''] });
    await wake.sessions.heard(bob, { session_id: 'run', ring: ring ?? '' });
    expect(await sent).toMatchObject({ status: 'live-wake' });
  });

  test('coalesces what comes within the cooldown into one doorbell', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND], reports_prompts: true });
    await request(wake);
    const second = await request(wake);
    await request(wake);
    expect(second).toMatchObject({ status: 'live-next-prompt' });
    expect(second.detail).toContain('rings again if this stays unread');
    expect(wake.tried).toHaveLength(1);
    wake.pass(DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toHaveLength(2);
    expect((await entriesOf(wake)).every(({ notifiedAtMs }) => notifiedAtMs !== null)).toBe(true);
  });

  test('cancels the doorbell of a mailbox that was drained', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND] });
    await request(wake);
    await request(wake);
    await readAll(wake);
    wake.pass(10 * DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toHaveLength(1);
    await request(wake);
    expect(wake.tried).toHaveLength(2);
  });

  test('waits a bounded time for a doorbell that takes long', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [HOOK], reports_prompts: true });
    const bob = await idOf(wake.context, 'bob');
    const { answer: waiting } = await wake.wait('bob', 's1');
    const sending = request(wake);
    expect(await waiting).toMatchObject({ event: 'doorbell' });
    const ringing = wake.wakeAgent(bob);
    await settled({ ringing });
    expect(PROOF_MS).toBeLessThan(WAKE_WAIT_MS);
    wake.pass(HEARD_MS);
    expect(await sending).toMatchObject({ status: 'live-next-prompt' });
    expect(await ringing).toMatchObject({ isWoken: false });
  });
});

describe('a hook that waits', () => {
  test('is answered with constant text and a count; the prompt that its agent then gets is the proof', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [HOOK] });
    const bob = await idOf(wake.context, 'bob');
    const { answer: waiting } = await wake.wait('bob', 's1');
    const sending = request(wake, { subject: 'SUBJECT', body: 'BODY' });
    const answer = await waiting;
    expect(answer).toEqual({
      event: 'doorbell',
      ring: expect.stringMatching(/^[0-9a-f]{32}$/),
      text: 'You have 1 unread message in Poste. Read it with mail_inbox.',
    });
    expect(await wake.sessions.heard(bob, { session_id: 's1', ring: 'another' })).toEqual({ counted: false });
    expect(await wake.sessions.heard(bob, { session_id: 's1', ring: answer.ring ?? '' })).toEqual({ counted: true });
    await wake.register('bob', 's1', { wake: [HOOK], reports_prompts: true, tell: true, lines: [answer.text ?? ''] });
    expect(await sending).toMatchObject({ status: 'live-wake' });
    expect(await wake.sessions.heard(bob, { session_id: 's1', ring: answer.ring ?? '' })).toEqual({ counted: false });
  });

  test('is answered at once when mail came while nobody waited', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [HOOK], reports_prompts: true });
    expect(await request(wake)).toMatchObject({ status: 'live-next-prompt' });
    const { answer } = await wake.wait('bob', 's1');
    expect(await answer).toMatchObject({ event: 'doorbell' });
  });

  test('is not woken again for what its agent was told', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [HOOK] });
    await request(wake);
    expect(await wake.register('bob', 's1', { wake: [HOOK], tell: true, doing: 'work' })).toMatchObject({ unread: 1 });
    const { answer: waiting } = await wake.wait('bob', 's1', 5000);
    await wake.quiet('bob');
    expect(await settled({ waiting })).toEqual([]);
    wake.pass(5000);
    expect(await waiting).toMatchObject({ event: 'nothing' });
  });

  test('waits no longer when its session ends, or waits elsewhere, and on while its agent works', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [HOOK] });
    const bob = await idOf(wake.context, 'bob');
    const first = await wake.wait('bob', 's1');
    const second = await wake.wait('bob', 's1');
    expect(await first.answer).toMatchObject({ event: 'released' });
    accepted(await wake.sessions.heartbeat(bob, { session_id: 's1', doing: 'work' }));
    const waiting = second.answer;
    expect(await settled({ waiting })).toEqual([]);
    expect(await wake.sessions.end(bob, { session_id: 's1' })).toEqual({ ended: true });
    expect(await waiting).toMatchObject({ event: 'released' });
    const again = wake.sessions.wait(bob, { session_id: 's1', wait_ms: 0 }, new AbortController().signal);
    expect(await again).toMatchObject({ code: 'NO_SUCH_SESSION' });
  });
});

describe('a ring that was heard in a turn that failed', () => {
  const given = { wake: [COMMAND], reports_prompts: true };

  /** The prompt hook of the woken session reports the line, and the turn runs. */
  async function rung(wake: WakeContext, methods = given): Promise<void> {
    await wake.register('bob', 's1', methods);
    expect(await request(wake)).toMatchObject({ status: 'live-wake' });
    await wake.register('bob', 's1', { ...methods, tell: true, doing: 'work' });
    await wake.quiet('bob');
  }

  test('rings again after a pause that grows, until its agent uses a mail tool', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await rung(wake);
    for (const pauseMs of [2, 4].map((times) => times * DOORBELL_COOLDOWN_MS)) {
      await wake.register('bob', 's1', { ...given, doing: 'failed' });
      await wake.quiet('bob');
      wake.tried.splice(0);
      wake.pass(pauseMs - 1);
      await wake.quiet('bob');
      expect(wake.tried).toEqual([]);
      wake.pass(1);
      await wake.quiet('bob');
      expect(wake.tried).toEqual(['command s1']);
      await wake.register('bob', 's1', { ...given, tell: true, doing: 'work' });
    }
    await wake.sessions.usedTool(await idOf(wake.context, 'bob'), 'tools');
    await wake.register('bob', 's1', { ...given, doing: 'failed' });
    wake.pass(10 * DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['command s1']);
  });

  test('is not taken for lost when its mail was read before', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await rung(wake);
    await readAll(wake);
    await wake.register('bob', 's1', { ...given, doing: 'failed' });
    wake.pass(10 * DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['command s1']);
  });

  test('of Codex is found by looking at the thread, less and less often while the turn runs', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    wake.turns.push('runs', 'failed');
    await rung(wake, { wake: [{ type: 'codex-socket', socket: '/s' } as never], reports_prompts: true });
    wake.pass(TURN_LOOK_MS);
    await wake.quiet('bob');
    expect(wake.turns).toEqual(['failed']);
    wake.pass(2 * TURN_LOOK_MS - 1);
    await wake.quiet('bob');
    expect(wake.turns).toEqual(['failed']);
    wake.pass(1);
    await wake.quiet('bob');
    expect(wake.turns).toEqual([]);
    wake.pass(2 * DOORBELL_COOLDOWN_MS);
    await wake.quiet('bob');
    expect(wake.tried).toEqual(['codex-socket s1', 'codex-socket s1']);
  });
});

test('a session that registers and tells its agent itself is not rung for', async () => {
  const wake = await wakeContext(['alice', 'bob']);
  await request(wake);
  const state = await wake.register('bob', 's1', { wake: [COMMAND], tell: true });
  expect(state).toMatchObject({ unread: 1, text: 'You have 1 unread message in Poste. Read it with mail_inbox.' });
  await wake.quiet('bob');
  wake.pass(DOORBELL_COOLDOWN_MS);
  await wake.quiet('bob');
  expect(wake.tried).toEqual([]);
  await request(wake);
  expect(wake.tried).toEqual(['command s1']);
});

const noProcess = (): Promise<undefined> => Promise.resolve(undefined);
const noTurn = (): Promise<'unknown'> => Promise.resolve('unknown');

test('doorbells that start again ring for what was not told, and only for that', async () => {
  const wake = await wakeContext(['alice', 'bob', 'carol']);
  await wake.register('bob', 's1', { wake: [COMMAND] });
  await wake.register('carol', 's2', { wake: [COMMAND] });
  await request(wake, { to: ['carol'] });
  wake.answers.push('unheard');
  await request(wake);
  await wake.doorbells.close();
  wake.tried.splice(0);
  const { context, timers, methods, rings } = wake;
  const again = new Doorbells({ context, timers, methods, rings, factsOf: noProcess, turnOf: noTurn });
  await again.start();
  await again.wakeAgent(await idOf(context, 'bob'));
  await again.wakeAgent(await idOf(context, 'carol'));
  await again.close();
  expect(wake.tried).toEqual(['command s1']);
});
