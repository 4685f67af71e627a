/** Agents that wait for mail in a call of mail_inbox, and what their senders are told. */
import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { listAgents } from '../../../../src/host/agents/directory.ts';
import { WAITS_PER_AGENT_MAX } from '../../../../src/host/base/waiting-calls.ts';
import { type InboxInput, type InboxResult, SendInput } from '../../../../src/host/contract/mail.ts';
import { parseInput } from '../../../../src/host/contract/parse-input.ts';
import { MESSAGE_KINDS } from '../../../../src/host/core/rows.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { hearOfWait, PASSED_ON_MS } from '../../../../src/host/mail/inbox-waits.ts';
import { replyMail, sendMail } from '../../../../src/host/mail/send.ts';
import { accepted, idOf, refused } from '../../../support/mail-context.ts';
import { COMMAND, type WakeContext, wakeContext } from '../../../support/wake-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const SECONDS = 50;
const DETAIL = 'It waits for mail in mail_inbox: this answered its call.';

interface Call {
  answer: Promise<InboxResult>;
  gone: AbortController;
}

/** Begins to wait as bob, under this name of the call. */
async function wait(wake: WakeContext, callId?: string, given: Partial<InboxInput> = {}): Promise<Call> {
  const { context, timers } = wake;
  const gone = new AbortController();
  const bob = await idOf(context, 'bob');
  const waiter = { timers, signal: gone.signal, callId };
  return { answer: useInbox(context, bob, { wait_seconds: SECONDS, ...given }, waiter).then(accepted), gone };
}

/** The same, for a caller that passes the answer on at once. */
async function waitAndPassOn(wake: WakeContext, callId: string, given: Partial<InboxInput> = {}): Promise<Call> {
  const { answer, gone } = await wait(wake, callId, given);
  const passing = answer.then(async (result) => {
    expect(await heard(wake, callId)).toEqual({ counted: true });
    return result;
  });
  return { answer: passing, gone };
}

async function heard({ context }: WakeContext, call: string, failed = false): Promise<{ counted: boolean }> {
  return hearOfWait(context, await idOf(context, 'bob'), { call, failed });
}

/** Sends what alice is told of bob; `message_id` of what she sent. */
async function send(
  { context, wakeAgent }: WakeContext,
  given: object = {},
): Promise<{ message_id: string; status: string; detail: string }> {
  const input = accepted(parseInput(SendInput, { to: ['bob'], subject: 's', body: 'b', ...given }));
  const { message_id, recipients } = accepted(
    await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent }),
  );
  const [recipient] = recipients;
  if (!recipient) throw new Error('nobody was sent to');
  return { message_id, ...recipient };
}

async function notified({ context }: WakeContext): Promise<boolean[]> {
  const entries = await rowsOf(context.store, 'entry', [await idOf(context, 'bob')]);
  return entries.map(({ notifiedAtMs }) => notifiedAtMs !== null);
}

function ids({ summaries = [] }: InboxResult): string[] {
  return summaries.map(({ message_id }) => message_id);
}

describe('a wait for mail', () => {
  test('ends with the mail that comes, marks it notified, and leaves nothing behind', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { answer, gone } = await wait(wake);
    const { message_id } = await send(wake);
    const result = await answer;
    expect(ids(result)).toEqual([message_id]);
    expect(result).toMatchObject({ unread: 1, total: 1 });
    expect(result.wait).toBeUndefined();
    expect(await notified(wake)).toEqual([true]);
    expect(getEventListeners(gone.signal, 'abort')).toEqual([]);
    expect(wake.timers.underWay(SECONDS * 1000)).toBe(0);
    expect(wake.context.waits.isWaiting(await idOf(wake.context, 'bob'))).toBe(false);
  });

  test('given mail that comes while the wait looks, when the look did not see it, then it looks again', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { context, timers } = wake;
    const bob = await idOf(context, 'bob');
    const alice = await idOf(context, 'alice');
    const input = accepted(parseInput(SendInput, { to: ['bob'], subject: 's', body: 'b' }));
    const { store } = context;
    const read = store.read.bind(store);
    let sent: Promise<string> | undefined;
    store.read = async (look) => {
      const seen = await read(look);
      if (sent) return seen;
      sent = sendMail(context, alice, input).then((result) => accepted(result).message_id);
      await expect.poll(() => context.told.some(({ type }) => type === 'mail-stored')).toBe(true);
      return seen;
    };
    const { signal } = new AbortController();
    const result = accepted(await useInbox(context, bob, { wait_seconds: SECONDS }, { timers, signal }));
    expect(ids(result)).toEqual([await sent]);
  });

  test('ends with its time, and with the daemon, and says which', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const late = await wait(wake);
    wake.pass(SECONDS * 1000);
    expect(await late.answer).toMatchObject({ summaries: [], unread: 0, wait: 'time is up' });
    const cut = await wait(wake, 'c');
    cut.gone.abort();
    expect(await cut.answer).toMatchObject({ summaries: [], wait: 'the daemon stops' });
    expect(wake.timers.count).toBe(0);
    expect(wake.context.waits.isWaiting(await idOf(wake.context, 'bob'))).toBe(false);
  });

  test('is over at once when something is unread; mail that is handled meanwhile does not end it', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { message_id } = await send(wake);
    expect(ids(await (await wait(wake)).answer)).toEqual([message_id]);
    const bob = await idOf(wake.context, 'bob');
    accepted(await useInbox(wake.context, bob, { action: 'mark_read', message_ids: [message_id] }));
    const { answer } = await wait(wake);
    accepted(await useInbox(wake.context, bob, { action: 'ack', message_ids: [message_id] }));
    wake.pass(SECONDS * 1000);
    expect(await answer).toMatchObject({ wait: 'time is up' });
  });

  test('is refused beyond so many of one agent, and with a cursor or another action', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const calls = await Promise.all(Array.from({ length: WAITS_PER_AGENT_MAX }, () => wait(wake)));
    const bob = await idOf(wake.context, 'bob');
    const { signal } = new AbortController();
    const more = useInbox(wake.context, bob, { wait_seconds: 1 }, { timers: wake.timers, signal });
    expect(refused(await more)).toMatchObject({ code: 'UNAVAILABLE' });
    wake.pass(SECONDS * 1000);
    for (const { answer } of calls) expect(await answer).toMatchObject({ wait: 'time is up' });
    const cases: InboxInput[] = [
      { wait_seconds: 1, cursor: 'x' },
      { action: 'thread', thread: 't', wait_seconds: 1 },
      { action: 'thread', thread: 't', reply_to: 'x' },
    ];
    for (const input of cases) expect(refused(await useInbox(wake.context, bob, input)).code).toBe('BAD_INPUT');
  });

  test('makes its agent live', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const presences = async (): Promise<string[]> => {
      const directories = { freshenDirectories: () => Promise.resolve() } as never;
      const { agents } = accepted(await listAgents(wake.context, null, {}, directories));
      return agents.map(({ presence }) => presence);
    };
    expect(await presences()).toEqual(['offline', 'offline']);
    const { answer } = await wait(wake);
    expect(await presences()).toEqual(['offline', 'live']);
    wake.pass(SECONDS * 1000);
    await answer;
    expect(await presences()).toEqual(['offline', 'offline']);
  });
});

describe('what the sender of mail for an agent that waits is told', () => {
  test.each(MESSAGE_KINDS)('%s: live-wake when the caller passed the answer on; nothing else rings', async (kind) => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND] });
    const { answer } = await waitAndPassOn(wake, 'c');
    expect(await send(wake, { kind, idempotency_key: 'k' })).toMatchObject({ status: 'live-wake', detail: DETAIL });
    expect(ids(await answer)).toHaveLength(1);
    await wake.quiet('bob');
    expect(wake.tried).toEqual([]);
    expect(await notified(wake)).toEqual([true]);
    const sent = await wake.context.store.read((reader) => reader.range('sent', []).next());
    expect(sent.value).toMatchObject({ row: { recipients: [{ state: 'notified' }] } });
    // The answer is the same when the send is repeated.
    expect(await send(wake, { kind, idempotency_key: 'k' })).toMatchObject({ status: 'live-wake', detail: DETAIL });
  });

  test.each(['says nothing', 'could not pass it on', 'is gone'])(
    'a caller that %s: no claim by the wait, the mail is as it was, and the doorbell rings',
    async (end) => {
      const wake = await wakeContext(['alice', 'bob']);
      await wake.register('bob', 's1', { wake: [COMMAND] });
      const { answer, gone } = await wait(wake, 'c');
      const said = send(wake, { kind: 'request' });
      expect(ids(await answer)).toHaveLength(1);
      expect([await notified(wake), wake.tried]).toEqual([[false], []]);
      if (end === 'says nothing') wake.pass(PASSED_ON_MS);
      else if (end === 'is gone') gone.abort();
      else await heard(wake, 'c', true);
      expect(await said).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('Woken now') });
      expect(wake.tried).toEqual(['command s1']);
      expect(await heard(wake, 'c')).toEqual({ counted: false });
      expect(wake.timers.underWay(PASSED_ON_MS)).toBe(0);
      expect(getEventListeners(gone.signal, 'abort')).toEqual([]);
    },
  );

  test('a status whose answer was not passed on is offline, and rings nobody', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    await wake.register('bob', 's1', { wake: [COMMAND] });
    const { answer } = await wait(wake, 'c');
    const said = send(wake, { kind: 'status' });
    await answer;
    wake.pass(PASSED_ON_MS);
    expect(await said).toMatchObject({ status: 'offline' });
    expect(wake.tried).toEqual([]);
  });

  test('a wait that peeks is no proof, and marks nothing', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { answer } = await wait(wake, 'c', { peek: true });
    expect(await send(wake)).toMatchObject({ status: 'offline' });
    expect(ids(await answer)).toHaveLength(1);
    expect([await heard(wake, 'c'), await notified(wake)]).toEqual([{ counted: false }, [false]]);
  });

  test('two waits of one agent get the same mail, and one that passes it on is proof', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const [lost, kept] = [await wait(wake, 'a'), await waitAndPassOn(wake, 'b')];
    const said = send(wake, { kind: 'request' });
    const answers = await Promise.all([lost.answer, kept.answer]);
    expect(answers.map((answer) => ids(answer).length)).toEqual([1, 1]);
    lost.gone.abort();
    expect(await said).toMatchObject({ status: 'live-wake', detail: DETAIL });
  });

  test('a page that leaves the message out is no proof of it', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { answer } = await waitAndPassOn(wake, 'c', { limit: 1 });
    const both = await Promise.all([send(wake, { kind: 'status' }), send(wake, { kind: 'status' })]);
    const [shown] = ids(await answer);
    for (const { message_id, status } of both) {
      expect(status).toBe(message_id === shown ? 'live-wake' : 'offline');
    }
  });
});

/** Bob asks, and alice may answer. */
async function withQuestion(): Promise<WakeContext & { question: string; answerIt: () => Promise<string> }> {
  const wake = await wakeContext(['alice', 'bob']);
  const { context, wakeAgent } = wake;
  const bob = await idOf(context, 'bob');
  const input = accepted(parseInput(SendInput, { to: ['alice'], subject: 's', body: 'b' }));
  const { message_id: question } = accepted(await sendMail(context, bob, input));
  const answerIt = async (): Promise<string> => {
    const reply = { message_id: question, body: 'yes' };
    const { recipients, message_id } = accepted(
      await replyMail(context, await idOf(context, 'alice'), reply, wakeAgent),
    );
    return `${message_id} ${recipients[0]?.status}`;
  };
  return { ...wake, question, answerIt };
}

describe('a wait for the answer to a message', () => {
  test('ends with the answer, which is claimed; other mail neither ends it nor is claimed', async () => {
    const wake = await withQuestion();
    const bob = await idOf(wake.context, 'bob');
    // To himself, which is no answer of another.
    accepted(await replyMail(wake.context, bob, { message_id: wake.question, body: 'and' }));
    const { answer } = await waitAndPassOn(wake, 'c', { reply_to: wake.question });
    const other = await send(wake, { kind: 'request' });
    expect(other).toMatchObject({ status: 'offline', detail: expect.stringContaining('its mail tools run') });
    const said = await wake.answerIt();
    const result = await answer;
    expect(said).toBe(`${ids(result)[0]} live-wake`);
    expect(result).toMatchObject({ unread: 2, summaries: [{ reply_to: wake.question }] });
  });

  test('is over at once when the answer is there, read or not; state: unread waits for another one', async () => {
    const wake = await withQuestion();
    const [first = ''] = (await wake.answerIt()).split(' ');
    const bob = await idOf(wake.context, 'bob');
    accepted(await useInbox(wake.context, bob, { action: 'mark_read', message_ids: [first] }));
    expect(ids(await (await wait(wake, 'c', { reply_to: wake.question })).answer)).toEqual([first]);
    const { answer } = await waitAndPassOn(wake, 'd', { reply_to: wake.question, state: 'unread' });
    const [second = ''] = (await wake.answerIt()).split(' ');
    expect(ids(await answer)).toEqual([second]);
    const all = accepted(await useInbox(wake.context, bob, { reply_to: wake.question, limit: 1 }));
    expect(ids(all)).toEqual([second]);
    const { next_cursor } = all;
    const rest = accepted(await useInbox(wake.context, bob, { reply_to: wake.question, cursor: next_cursor ?? '' }));
    expect([ids(rest), rest.next_cursor]).toEqual([[first], undefined]);
    accepted(await useInbox(wake.context, bob, { action: 'ack', message_ids: [first] }));
    const unacked = accepted(await useInbox(wake.context, bob, { reply_to: wake.question, state: 'unacked' }));
    expect(ids(unacked)).toEqual([second]);
  });

  test('of a message that the agent does not know is refused', async () => {
    const wake = await wakeContext(['alice', 'bob']);
    const { signal } = new AbortController();
    const input = { wait_seconds: SECONDS, reply_to: 'none' };
    const answer = await useInbox(wake.context, await idOf(wake.context, 'bob'), input, {
      timers: wake.timers,
      signal,
    });
    expect(refused(answer)).toMatchObject({ code: 'NO_SUCH_MESSAGE', details: { field: 'reply_to' } });
    expect(wake.timers.count).toBe(0);
  });
});
