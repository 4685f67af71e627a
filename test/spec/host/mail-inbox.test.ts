/** mail_inbox: what a mailbox shows, page by page, and what reading changes. */
import { describe, expect, test } from 'vitest';
import { InboxInput, type InboxResult, UNTRUSTED_NOTICE } from '../../../src/host/documents/mail.ts';
import { parseInput } from '../../../src/host/documents/parse-input.ts';
import { removeAgent } from '../../../src/host/office/agents.ts';
import { useInbox } from '../../../src/host/office/inbox.ts';
import { replyMail } from '../../../src/host/office/reply.ts';
import { sendMail } from '../../../src/host/office/send.ts';
import { type Refusal, isRefusal } from '../../../src/host/core/refusal.ts';
import type { MessageRef } from '../../../src/host/core/rows.ts';
import type { TestOffice } from '../../support/test-office.ts';
import { accepted, idOf, officeOf, refused, send } from '../../support/mail-office.ts';

async function inboxOf(office: TestOffice, name: string, given: object): Promise<InboxResult | Refusal> {
  const input = parseInput(InboxInput, given);
  return isRefusal(input) ? input : useInbox(office, await idOf(office, name), input);
}

async function inbox(office: TestOffice, name: string, given: object = {}): Promise<InboxResult> {
  return accepted(await inboxOf(office, name, given));
}

/** Sends so many messages from alice to bob; their ids, oldest first. */
async function sent(office: TestOffice, bodies: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const body of bodies) ids.push(accepted(await send(office, 'alice', { to: ['bob'], body })).message_id);
  return ids;
}

const idsOf = (messages: readonly { message_id: string }[] = []): string[] => messages.map((one) => one.message_id);

describe('a list', () => {
  test('shows unread messages, newest first, under the notice about what others wrote', async () => {
    const office = await officeOf(['alice', 'bob']);
    const ids = await sent(office, ['a', 'b']);
    const result = await inbox(office, 'bob');
    expect(result).toMatchObject({ notice: UNTRUSTED_NOTICE, unread: 2, total: 2, next_cursor: null });
    expect(idsOf(result.summaries)).toEqual(ids.toReversed());
    expect(result.summaries?.[0]).toEqual({
      message_id: ids[1],
      thread: ids[1],
      reply_to: null,
      from: 'alice@here',
      to: ['bob@here'],
      to_count: 1,
      subject: 'a subject',
      kind: 'message',
      needs_reply: false,
      origin: 'agent',
      created_at: office.nowMs(),
      stored_at: office.nowMs(),
      state: 'unread',
      forwarded_from: null,
      body_bytes: 1,
    });
  });

  test('of every state pages by cursors, each message once, whatever comes in between', async () => {
    const office = await officeOf(['alice', 'bob']);
    const ids = await sent(office, ['a', 'b', 'c', 'd', 'e']);
    await inbox(office, 'bob', { action: 'mark_read', message_ids: [ids[0]] });
    await inbox(office, 'bob', { action: 'ack', message_ids: [ids[2]] });
    const expected = {
      unread: [ids[4], ids[3], ids[1]],
      unacked: [ids[4], ids[3], ids[1], ids[0]],
      all: ids.toReversed(),
    };
    for (const [state, wanted] of Object.entries(expected)) {
      const seen: string[] = [];
      let cursor: string | null | undefined;
      while (cursor !== null) {
        const page = await inbox(office, 'bob', { state, limit: 2, ...(cursor && { cursor }) });
        seen.push(...idsOf(page.summaries));
        cursor = page.next_cursor;
        if (state === 'all') await sent(office, ['later']);
      }
      expect(seen).toEqual(wanted);
    }
  });

  test('tells the sender that the recipient was told, once', async () => {
    const office = await officeOf(['alice', 'bob']);
    const [id] = await sent(office, ['a']);
    const stateOf = () => office.store.read((reader) => reader.get('sent', id as MessageRef)?.recipients[0]?.state);
    expect(await stateOf()).toBe('delivered');
    await inbox(office, 'bob');
    expect(await stateOf()).toBe('notified');
    await inbox(office, 'bob', { action: 'read', message_ids: [id] });
    expect(await stateOf()).toBe('read');
    await inbox(office, 'bob', { action: 'ack', message_ids: [id] });
    expect(await stateOf()).toBe('acked');
    await inbox(office, 'bob', { state: 'all' });
    expect(await stateOf()).toBe('acked');
  });

  test.each(['', 'x', 'bGlzdCBhbGw6Mg', '////', 'bGlzdCB1bnJlYWQ6LTE'])(
    'refuses a cursor of elsewhere: %j',
    async (cursor) => {
      const office = await officeOf(['bob']);
      expect(refused(await inboxOf(office, 'bob', { cursor }))).toMatchObject({
        code: 'BAD_INPUT',
        details: { field: 'cursor' },
      });
    },
  );
});

describe('reading', () => {
  test('marks read what it shows to the end, unless it peeks', async () => {
    const office = await officeOf(['alice', 'bob']);
    const [id = ''] = await sent(office, ['the body']);
    const peeked = await inbox(office, 'bob', { action: 'read', message_ids: [id], peek: true });
    expect(peeked).toMatchObject({ unread: 1, messages: [{ body: 'the body', state: 'unread' }] });
    const before = office.told.length;
    const read = await inbox(office, 'bob', { action: 'read', message_ids: [id] });
    expect(read).toMatchObject({
      unread: 0,
      total: 1,
      changed: [id],
      messages: [{ state: 'read', next_body_offset: null }],
    });
    const told = office.told.slice(before);
    expect(told).toContainEqual({ type: 'mail-handled', agentId: await idOf(office, 'bob') });
    expect(await inbox(office, 'bob', { action: 'read', message_ids: [id] })).toMatchObject({ changed: [] });
  });

  test('of ids that are not in this mailbox names them and shows the others', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const [id = ''] = await sent(office, ['a']);
    const foreign = accepted(await send(office, 'alice', { to: ['carol'] })).message_id;
    const asked = { action: 'read', message_ids: ['nothing', id, foreign] };
    expect(await inbox(office, 'bob', asked)).toMatchObject({
      not_found: ['nothing', foreign],
      messages: [{ message_id: id }],
    });
  });

  test('shows what the agent itself sent, and changes nothing of it', async () => {
    const office = await officeOf(['alice', 'bob']);
    const [id = ''] = await sent(office, ['mine']);
    const read = await inbox(office, 'alice', { action: 'read', message_ids: [id] });
    expect(read).toMatchObject({ changed: [], messages: [{ body: 'mine', state: 'sent' }], total: 0 });
  });

  test('cuts a long body between code points, and goes on where it was cut until it is whole and read', async () => {
    const office = await officeOf(['alice', 'bob']);
    const body = 'aé語😀'.repeat(700);
    const [id] = await sent(office, [body]);
    let whole = '';
    let offset: number | null = 0;
    for (let pages = 0; offset !== null; pages++) {
      expect(pages).toBeLessThan(20);
      const given = { action: 'read', message_ids: [id], max_bytes: 1024, body_offset: offset };
      const page = await inbox(office, 'bob', given);
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
    const office = await officeOf(['alice', 'bob']);
    const ids = await sent(office, ['a'.repeat(600), 'b'.repeat(600), 'c'.repeat(2000), 'd']);
    const pages: [string, number | null][][] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const given = { action: 'read', message_ids: ids, max_bytes: 1024, ...(cursor && { cursor }) };
      const page = await inbox(office, 'bob', given);
      pages.push((page.messages ?? []).map(({ body, next_body_offset }) => [body.charAt(0), next_body_offset]));
      cursor = page.next_cursor;
    }
    expect(pages).toEqual([[['a', null]], [['b', null]], [['c', 1024]], [['d', null]]]);
    const { unread, summaries } = await inbox(office, 'bob');
    expect([unread, idsOf(summaries)]).toEqual([1, [ids[2]]]);
  });
});

describe('marking', () => {
  test('answers what changed and what is not there; what is acked is read', async () => {
    const office = await officeOf(['alice', 'bob']);
    const [first, second] = await sent(office, ['a', 'b']);
    const acked = await inbox(office, 'bob', { action: 'ack', message_ids: [first, 'x', first] });
    expect(acked).toMatchObject({ changed: [first], not_found: ['x'], unread: 1, total: 2 });
    const marked = await inbox(office, 'bob', { action: 'mark_read', message_ids: [first, second] });
    expect(marked).toMatchObject({ changed: [second], not_found: [], unread: 0 });
    const again = await inbox(office, 'bob', { action: 'ack', message_ids: [first, second] });
    expect(again).toMatchObject({ changed: [second] });
  });

  test.each([
    ['message_ids', { action: 'read' }],
    ['message_ids', { action: 'ack' }],
    ['thread', { action: 'thread' }],
    ['peek', { action: 'list', peek: true }],
    ['message_ids', { message_ids: ['a'] }],
    ['cursor', { action: 'ack', message_ids: ['a'], cursor: 'x' }],
    ['body_offset', { action: 'read', message_ids: ['a', 'b'], body_offset: 1 }],
    ['limit', { limit: 0 }],
    ['max_bytes', { action: 'read', message_ids: ['a'], max_bytes: 10 }],
    ['action', { action: 'delete' }],
    ['message_ids', { action: 'read', message_ids: Array.from({ length: 21 }, () => 'a') }],
  ])('refuses by name: %s of %j', async (field, given) => {
    const office = await officeOf(['bob']);
    expect(refused(await inboxOf(office, 'bob', given))).toMatchObject({ code: 'BAD_INPUT', details: { field } });
  });
});

describe('a thread', () => {
  test('is a conversation of both sides, oldest first, by any of its messages', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const alice = await idOf(office, 'alice');
    const bob = await idOf(office, 'bob');
    const first = accepted(await send(office, 'alice', { to: ['bob'], body: '1' }));
    await sent(office, ['elsewhere']);
    const second = accepted(await replyMail(office, bob, { message_id: first.message_id, body: '2' }));
    const third = accepted(await replyMail(office, alice, { message_id: second.message_id, body: '3' }));
    for (const name of ['alice', 'bob']) {
      for (const { message_id } of [first, second, third]) {
        const { messages, unread } = await inbox(office, name, { action: 'thread', thread: message_id });
        expect(messages?.map(({ body }) => body)).toEqual(['1', '2', '3']);
        expect(unread).toBe(name === 'bob' ? 3 : 1);
      }
    }
    const foreign = await inbox(office, 'carol', { action: 'thread', thread: first.message_id });
    expect(foreign).toMatchObject({ messages: [], not_found: [first.message_id] });
  });

  test('pages by bytes and by count', async () => {
    const office = await officeOf(['alice', 'bob']);
    const first = accepted(await send(office, 'alice', { to: ['bob'], body: 'x'.repeat(800) }));
    for (const letter of ['a', 'b', 'c']) {
      const input = { to: ['bob'], subject: 's', body: letter.repeat(300), reply_to: first.message_id };
      accepted(await sendMail(office, await idOf(office, 'alice'), input));
    }
    for (const bounds of [{ max_bytes: 1024 }, { limit: 2 }]) {
      const bodies: string[] = [];
      const sizes: number[] = [];
      let cursor: string | null | undefined;
      while (cursor !== null) {
        const given = { action: 'thread', thread: first.thread, ...bounds, ...(cursor && { cursor }) };
        const page = await inbox(office, 'bob', given);
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
  const office = await officeOf(['alice', 'bob']);
  const bob = await idOf(office, 'bob');
  await sent(office, ['a']);
  expect(accepted(await removeAgent(office, { name: 'bob' }))).toEqual({ name: 'bob', dropped: 1, dropped_unread: 1 });
  expect(refused(await useInbox(office, bob, {})).code).toBe('NO_SUCH_AGENT');
});
