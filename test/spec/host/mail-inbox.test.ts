/** mail_inbox: what a mailbox shows, page by page, and what reading changes. */
import { describe, expect, test } from 'vitest';
import { InboxInput, type InboxResult } from '../../../src/host/contract/mail.ts';
import { UNTRUSTED_NOTICE } from '../../../src/host/core/untrusted-text.ts';
import { parseInput } from '../../../src/host/contract/parse-input.ts';
import { removeAgent } from '../../../src/host/agents/agents.ts';
import { isoSecond } from '../../../src/protocol/time.ts';
import { useInbox } from '../../../src/host/mail/inbox.ts';
import { outboxRowOf, afterAttempt } from '../../../src/host/outbox/outbox.ts';
import { replyMail, sendMail } from '../../../src/host/mail/send.ts';
import { type Refusal, isRefusal } from '../../../src/host/core/refusal.ts';
import type { MessageRef } from '../../../src/host/core/rows.ts';
import { SHOWN_TO_MAX } from '../../../src/host/contract/limits.ts';
import { relay } from '../../support/hosts.ts';
import type { TestContext } from '../../support/test-context.ts';
import { accepted, addPeer, idOf, contextOf, refused, send } from '../../support/mail-context.ts';

async function inboxOf(context: TestContext, name: string, given: object): Promise<InboxResult | Refusal> {
  const input = parseInput(InboxInput, given);
  return isRefusal(input) ? input : useInbox(context, await idOf(context, name), input);
}

async function inbox(context: TestContext, name: string, given: object = {}): Promise<InboxResult> {
  return accepted(await inboxOf(context, name, given));
}

/** Sends so many messages from alice to bob; their ids, oldest first. */
async function sent(context: TestContext, bodies: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const body of bodies) ids.push(accepted(await send(context, 'alice', { to: ['bob'], body })).message_id);
  return ids;
}

const idsOf = (messages: readonly { message_id: string }[] = []): string[] => messages.map((one) => one.message_id);

describe('a list', () => {
  test('shows unread messages, newest first, without what is usual and under the notice', async () => {
    const context = await contextOf(['alice', 'bob']);
    const ids = await sent(context, ['a', 'b']);
    const result = await inbox(context, 'bob');
    expect(result).toEqual({ notice: UNTRUSTED_NOTICE, unread: 2, total: 2, summaries: expect.any(Array) as unknown });
    expect(idsOf(result.summaries)).toEqual(ids.toReversed());
    expect(result.summaries?.[0]).toEqual({
      message_id: ids[1],
      from: 'alice@here',
      subject: 'a subject',
      created_at: isoSecond(context.nowMs()),
    });
  });

  test('of every state pages by cursors, each message once, whatever comes in between', async () => {
    const context = await contextOf(['alice', 'bob']);
    const ids = await sent(context, ['a', 'b', 'c', 'd', 'e']);
    await inbox(context, 'bob', { action: 'mark_read', message_ids: [ids[0]] });
    await inbox(context, 'bob', { action: 'ack', message_ids: [ids[2]] });
    const expected = {
      unread: [ids[4], ids[3], ids[1]],
      unacked: [ids[4], ids[3], ids[1], ids[0]],
      all: ids.toReversed(),
    };
    for (const [state, wanted] of Object.entries(expected)) {
      const seen: string[] = [];
      let cursor: string | undefined = '';
      while (cursor !== undefined) {
        const page = await inbox(context, 'bob', { state, limit: 2, ...(cursor && { cursor }) });
        seen.push(...idsOf(page.summaries));
        cursor = page.next_cursor;
        if (state === 'all') await sent(context, ['later']);
      }
      expect(seen).toEqual(wanted);
    }
  });

  test('tells the sender that the recipient was told, once', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [id] = await sent(context, ['a']);
    const stateOf = () => context.store.read((reader) => reader.get('sent', id as MessageRef)?.recipients[0]?.state);
    expect(await stateOf()).toBe('delivered');
    await inbox(context, 'bob');
    expect(await stateOf()).toBe('notified');
    await inbox(context, 'bob', { action: 'read', message_ids: [id] });
    expect(await stateOf()).toBe('read');
    await inbox(context, 'bob', { action: 'ack', message_ids: [id] });
    expect(await stateOf()).toBe('acked');
    await inbox(context, 'bob', { state: 'all' });
    expect(await stateOf()).toBe('acked');
  });

  test.each(['', 'x', 'bGlzdCBhbGw6Mg', '////', 'bGlzdCB1bnJlYWQ6LTE'])(
    'refuses a cursor of elsewhere: %j',
    async (cursor) => {
      const context = await contextOf(['bob']);
      expect(refused(await inboxOf(context, 'bob', { cursor }))).toMatchObject({
        code: 'BAD_INPUT',
        details: { field: 'cursor' },
      });
    },
  );
});

describe('reading', () => {
  test('marks read what it shows to the end, unless it peeks', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [id = ''] = await sent(context, ['the body']);
    const peeked = await inbox(context, 'bob', { action: 'read', message_ids: [id], peek: true });
    expect(peeked).toMatchObject({ unread: 1, messages: [{ body: 'the body' }] });
    expect(peeked.messages?.[0]).not.toHaveProperty('state');
    const before = context.told.length;
    const read = await inbox(context, 'bob', { action: 'read', message_ids: [id] });
    expect(read).toMatchObject({
      unread: 0,
      total: 1,
      changed: [id],
      messages: [{ state: 'read' }],
    });
    expect(read.messages?.[0]).not.toHaveProperty('next_body_offset');
    const told = context.told.slice(before);
    expect(told).toContainEqual({ type: 'mail-handled', agentId: await idOf(context, 'bob') });
    expect(await inbox(context, 'bob', { action: 'read', message_ids: [id] })).not.toHaveProperty('changed');
  });

  test('of ids that are not in this mailbox names them and shows the others', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const [id = ''] = await sent(context, ['a']);
    const foreign = accepted(await send(context, 'alice', { to: ['carol'] })).message_id;
    const asked = { action: 'read', message_ids: ['nothing', id, foreign] };
    expect(await inbox(context, 'bob', asked)).toMatchObject({
      not_found: ['nothing', foreign],
      messages: [{ message_id: id }],
    });
  });

  test('shows what the agent itself sent, and changes nothing of it', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [id = ''] = await sent(context, ['mine']);
    const read = await inbox(context, 'alice', { action: 'read', message_ids: [id] });
    expect(read).toMatchObject({ messages: [{ body: 'mine', state: 'sent' }], total: 0 });
    expect(read.messages?.[0]?.recipients).toMatchObject([{ to: 'bob@here' }]);
    expect(read.messages?.[0]).not.toHaveProperty('to');
    expect(read).not.toHaveProperty('changed');
  });

  test('cuts a long body between code points, and goes on where it was cut until it is whole and read', async () => {
    const context = await contextOf(['alice', 'bob']);
    const body = 'aé語😀'.repeat(700);
    const [id] = await sent(context, [body]);
    let whole = '';
    let offset: number | null = 0;
    for (let pages = 0; offset !== null; pages++) {
      expect(pages).toBeLessThan(20);
      const given = { action: 'read', message_ids: [id], max_bytes: 1024, body_offset: offset };
      const page = await inbox(context, 'bob', given);
      const [message] = page.messages ?? [];
      const part = message?.body ?? '';
      expect(Buffer.byteLength(part)).toBeLessThanOrEqual(1024);
      expect(part.isWellFormed()).toBe(true);
      whole += part;
      offset = message?.next_body_offset ?? null;
      expect(page.unread).toBe(offset === null ? 0 : 1);
    }
    expect(whole).toBe(body);
  });

  test('of many holds whole ones as long as they fit, then a cursor', async () => {
    const context = await contextOf(['alice', 'bob']);
    const ids = await sent(context, ['a'.repeat(600), 'b'.repeat(600), 'c'.repeat(2000), 'd']);
    const pages: [string, number | undefined][][] = [];
    let cursor: string | undefined = '';
    while (cursor !== undefined) {
      const given = { action: 'read', message_ids: ids, max_bytes: 1024, ...(cursor && { cursor }) };
      const page = await inbox(context, 'bob', given);
      pages.push((page.messages ?? []).map(({ body, next_body_offset }) => [body.charAt(0), next_body_offset]));
      cursor = page.next_cursor;
    }
    expect(pages).toEqual([[['a', undefined]], [['b', undefined]], [['c', 1024]], [['d', undefined]]]);
    const { unread, summaries } = await inbox(context, 'bob');
    expect([unread, idsOf(summaries)]).toEqual([1, [ids[2]]]);
  });
});

describe('marking', () => {
  test('answers what changed and what is not there; what is acked is read', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [first, second] = await sent(context, ['a', 'b']);
    const acked = await inbox(context, 'bob', { action: 'ack', message_ids: [first, 'x', first] });
    expect(acked).toMatchObject({ changed: [first], not_found: ['x'], unread: 1, total: 2 });
    const marked = await inbox(context, 'bob', { action: 'mark_read', message_ids: [first, second] });
    expect(marked).toMatchObject({ changed: [second], unread: 0 });
    expect(marked).not.toHaveProperty('not_found');
    const again = await inbox(context, 'bob', { action: 'ack', message_ids: [first, second] });
    expect(again).toMatchObject({ changed: [second] });
  });

  test.each([
    ['message_ids', { action: 'read' }],
    ['message_ids', { action: 'ack' }],
    ['thread', { action: 'thread' }],
    ['peek', { action: 'thread', thread: 'a', peek: true }],
    ['message_ids', { message_ids: ['a'] }],
    ['cursor', { action: 'ack', message_ids: ['a'], cursor: 'x' }],
    ['body_offset', { action: 'read', message_ids: ['a', 'b'], body_offset: 1 }],
    ['limit', { limit: 0 }],
    ['max_bytes', { action: 'read', message_ids: ['a'], max_bytes: 10 }],
    ['action', { action: 'delete' }],
    ['message_ids', { action: 'read', message_ids: Array.from({ length: 21 }, () => 'a') }],
  ])('refuses by name: %s of %j', async (field, given) => {
    const context = await contextOf(['bob']);
    expect(refused(await inboxOf(context, 'bob', given))).toMatchObject({ code: 'BAD_INPUT', details: { field } });
  });
});

describe('a thread', () => {
  test('is a conversation of both sides, oldest first, by any of its messages', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const alice = await idOf(context, 'alice');
    const bob = await idOf(context, 'bob');
    const first = accepted(await send(context, 'alice', { to: ['bob'], body: '1' }));
    await sent(context, ['elsewhere']);
    const second = accepted(await replyMail(context, bob, { message_id: first.message_id, body: '2' }));
    const third = accepted(await replyMail(context, alice, { message_id: second.message_id, body: '3' }));
    for (const name of ['alice', 'bob']) {
      for (const { message_id } of [first, second, third]) {
        const { messages, unread } = await inbox(context, name, { action: 'thread', thread: message_id });
        expect(messages?.map(({ body }) => body)).toEqual(['1', '2', '3']);
        expect(unread).toBe(name === 'bob' ? 3 : 1);
      }
    }
    const foreign = await inbox(context, 'carol', { action: 'thread', thread: first.message_id });
    expect(foreign).toMatchObject({ messages: [], not_found: [first.message_id] });
  });

  test('pages by bytes and by count', async () => {
    const context = await contextOf(['alice', 'bob']);
    const first = accepted(await send(context, 'alice', { to: ['bob'], body: 'x'.repeat(800) }));
    for (const letter of ['a', 'b', 'c']) {
      const input = { to: ['bob'], subject: 's', body: letter.repeat(300), reply_to: first.message_id };
      accepted(await sendMail(context, await idOf(context, 'alice'), input));
    }
    for (const bounds of [{ max_bytes: 1024 }, { limit: 2 }]) {
      const bodies: string[] = [];
      const sizes: number[] = [];
      let cursor: string | undefined = '';
      while (cursor !== undefined) {
        const given = { action: 'thread', thread: first.thread, ...bounds, ...(cursor && { cursor }) };
        const page = await inbox(context, 'bob', given);
        bodies.push(...(page.messages ?? []).map(({ body }) => body.charAt(0)));
        sizes.push(page.messages?.length ?? 0);
        cursor = page.next_cursor;
      }
      expect(bodies).toEqual(['x', 'a', 'b', 'c']);
      expect(sizes).toEqual('limit' in bounds ? [2, 2] : [1, 3]);
    }
  });
});

test('the mailbox of an agent that was removed is closed', async () => {
  const context = await contextOf(['alice', 'bob']);
  const bob = await idOf(context, 'bob');
  await sent(context, ['a']);
  expect(accepted(await removeAgent(context, { name: 'bob' }))).toEqual({ name: 'bob', dropped: 1, dropped_unread: 1 });
  expect(refused(await useInbox(context, bob, {})).code).toBe('NO_SUCH_AGENT');
});

describe('what the agent sent', () => {
  const SECOND_MS = 1000;

  test('is listed, newest first, with the state of each recipient and when it came to be', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const atMs = context.nowMs();
    const first = accepted(await send(context, 'alice', { to: ['bob', 'carol'], subject: 'first' }));
    context.clock.nowMs += SECOND_MS;
    await inbox(context, 'bob', { action: 'read', message_ids: [first.message_id] });
    const second = accepted(await send(context, 'alice', { to: ['carol'], subject: 'second' }));
    await send(context, 'bob', { to: ['alice'], subject: 'of another' });
    const { sent: listed } = await inbox(context, 'alice', { action: 'sent' });
    expect(listed).toMatchObject([
      {
        message_id: second.message_id,
        recipients: [{ to: 'carol@here', state: 'delivered', at: isoSecond(atMs + SECOND_MS) }],
      },
      {
        message_id: first.message_id,
        recipients: [
          { to: 'bob@here', state: 'read', at: isoSecond(atMs + SECOND_MS) },
          { to: 'carol@here', state: 'delivered', at: isoSecond(atMs) },
        ],
      },
    ]);
    // What is the usual is left out.
    expect(Object.keys(listed?.[1] ?? {})).toEqual(['message_id', 'subject', 'created_at', 'recipients']);
    expect(Object.keys(listed?.[1]?.recipients[0] ?? {})).toEqual(['to', 'state', 'at']);
    // The list marks nothing.
    expect(await inbox(context, 'alice')).toMatchObject({ unread: 1 });

    const page = await inbox(context, 'alice', { action: 'sent', limit: 1 });
    const rest = await inbox(context, 'alice', { action: 'sent', cursor: page.next_cursor });
    expect([idsOf(page.sent), idsOf(rest.sent)]).toEqual([[second.message_id], [first.message_id]]);
  });

  test('says its thread, kind and whether it needs a reply where those are not the usual', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [id = ''] = await sent(context, ['a']);
    await send(context, 'alice', { to: ['bob'], reply_to: id, kind: 'request', needs_reply: true });
    const { sent: listed } = await inbox(context, 'alice', { action: 'sent', limit: 1 });
    expect(listed).toMatchObject([{ thread: id, kind: 'request', needs_reply: true }]);
  });

  test('has the steps of one message that is named, and says which ids it did not send', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [id = '', other = ''] = await sent(context, ['a', 'b']);
    const theirs = accepted(await send(context, 'bob', { to: ['alice'] })).message_id;
    await inbox(context, 'bob', { action: 'ack', message_ids: [id] });
    const one = await inbox(context, 'alice', { action: 'sent', message_ids: [id] });
    const states = one.sent?.[0]?.recipients[0]?.steps?.map(({ state }) => state);
    expect(states).toEqual(['delivered', 'acked']);
    const several = await inbox(context, 'alice', { action: 'sent', message_ids: [id, other, theirs] });
    expect(several).toMatchObject({ sent: [{ message_id: id }, { message_id: other }], not_found: [theirs] });
    expect(several.sent?.[0]?.recipients[0]).toEqual({
      to: 'bob@here',
      state: 'acked',
      at: isoSecond(context.nowMs()),
    });
    const mixed = await inboxOf(context, 'alice', { action: 'sent', message_ids: [id], limit: 1 });
    expect(refused(mixed)).toMatchObject({ code: 'BAD_INPUT', details: { field: 'message_ids' } });
  });

  test('of many recipients shows the first ones and how many there are; one that is named shows all', async () => {
    const names = Array.from({ length: SHOWN_TO_MAX + 2 }, (_, at) => `agent${at}`);
    const context = await contextOf(['alice', ...names]);
    const { message_id } = accepted(await send(context, 'alice', { to: ['*'] }));
    const { sent: [short] = [] } = await inbox(context, 'alice', { action: 'sent' });
    expect(short).toMatchObject({ recipient_count: SHOWN_TO_MAX + 2 });
    expect(short?.recipients).toHaveLength(SHOWN_TO_MAX);
    const { sent: [whole] = [] } = await inbox(context, 'alice', { action: 'sent', message_ids: [message_id] });
    expect(whole?.recipients).toHaveLength(SHOWN_TO_MAX + 2);
  });

  test('is in its threads with the same states: stored, with the relay, and what the recipient did', async () => {
    const context = await contextOf(['alice', 'bob']);
    const peer = await addPeer(context, 'there', [{ name: 'carol', roles: [] }]);
    const atMs = context.nowMs();
    const { message_id: id } = accepted(await send(context, 'alice', { to: ['bob', 'carol@there'] }));
    const shown = async (name: string): Promise<object | undefined> =>
      (await inbox(context, name, { action: 'thread', thread: id })).messages?.[0];
    const local = { to: 'bob@here', state: 'delivered', at: isoSecond(atMs) };
    expect(await shown('alice')).toMatchObject({
      recipients: [local, { to: 'carol@there', state: 'stored', at: isoSecond(atMs) }],
    });
    expect(await shown('bob')).not.toHaveProperty('recipients');

    context.clock.nowMs += SECOND_MS;
    await context.store.transact((tx) => {
      const row = outboxRowOf(tx, peer.peerId, id);
      afterAttempt(tx, context, row?.rowId ?? 0, { type: 'relay-stored', relayPubkey: relay.key });
    });
    const atRelay = { to: 'carol@there', state: 'relay', at: isoSecond(atMs + SECOND_MS) };
    expect(await shown('alice')).toMatchObject({ recipients: [local, atRelay] });
    const { sent: [one] = [] } = await inbox(context, 'alice', { action: 'sent', message_ids: [id] });
    expect(one?.recipients[1]).toMatchObject({
      ...atRelay,
      steps: [{ state: 'stored', at: isoSecond(atMs) }, { state: 'relay' }],
    });
  });
});
