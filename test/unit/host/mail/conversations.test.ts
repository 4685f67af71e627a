import { describe, expect, test } from 'vitest';
import { fullSummary } from '../../../../src/host/contract/usual-mail.ts';
import type { ConversationsInput, ConversationsResult } from '../../../../src/host/contract/owner-page.ts';
import { CONVERSATION_MESSAGES_MAX } from '../../../../src/host/contract/limits.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import { listConversations, markAllRead, previewOf } from '../../../../src/host/mail/conversations.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { SEARCH_MESSAGES_MAX } from '../../../../src/host/mail/search.ts';
import { indexWords } from '../../../../src/host/mail/word-index.ts';
import { newMessage, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { accepted, contextOf, idOf, refused, send } from '../../../support/mail-context.ts';
import type { TestContext } from '../../../support/test-context.ts';

async function list(context: TestContext, input: ConversationsInput = {}): Promise<ConversationsResult> {
  return accepted(await listConversations(context, OWNER_ID, input));
}

async function subjects(context: TestContext, input: ConversationsInput = {}): Promise<string[]> {
  return (await list(context, input)).conversations.map(({ newest }) => newest.subject);
}

async function toOwner(context: TestContext, from: string, given: object): Promise<string> {
  return accepted(await send(context, from, { to: ['owner'], ...given })).message_id;
}

async function stateAt(context: TestContext, sender: string, messageId: string): Promise<string | undefined> {
  const sent = accepted(await listSent(context, await idOf(context, sender), { message_id: messageId }));
  return sent.messages[0]?.recipients[0]?.state;
}

describe('the list of conversations', () => {
  test('has each conversation once, at its newest message, with who wrote and what is unread', async () => {
    const context = await contextOf(['alice', 'bob']);
    const first = await toOwner(context, 'alice', { subject: 'Plan', body: '# Plan\n\n- one', to: ['owner', 'bob'] });
    const other = await toOwner(context, 'bob', { subject: 'Lunch' });
    accepted(await send(context, 'owner', { to: ['alice', 'bob'], subject: 'Re: Plan', reply_to: first }));
    const last = await toOwner(context, 'bob', { subject: 'Re: Plan', body: 'mine', reply_to: first });
    accepted(await useInbox(context, OWNER_ID, { action: 'ack', message_ids: [first] }));
    const { conversations, unread, total, next_cursor } = await list(context);
    expect({ unread, total, next_cursor }).toEqual({ unread: 2, total: 3, next_cursor: null });
    expect(conversations).toMatchObject([
      {
        newest: { message_id: last, subject: 'Re: Plan' },
        preview: 'mine',
        messages: 3,
        senders: ['alice@here', 'owner@here', 'bob@here'],
        unread: [last],
        not_done: [last],
      },
      { newest: { message_id: other }, preview: 'a body', messages: 1, senders: ['bob@here'], unread: [other] },
    ]);
  });

  test('is narrowed by state, sender, kind and words together', async () => {
    const context = await contextOf(['alice', 'bob']);
    const read = await toOwner(context, 'alice', { subject: 'a', kind: 'task', body: 'red' });
    await toOwner(context, 'bob', { subject: 'b', kind: 'task', body: 'red' });
    await toOwner(context, 'alice', { subject: 'c', body: 'blue' });
    accepted(await useInbox(context, OWNER_ID, { action: 'mark_read', message_ids: [read] }));
    expect(await subjects(context, { from: 'Alice@here' })).toEqual(['c', 'a']);
    expect(await subjects(context, { kind: 'task' })).toEqual(['b', 'a']);
    expect(await subjects(context, { kind: 'task', state: 'unread' })).toEqual(['b']);
    expect(await subjects(context, { text: 'RED', from: 'alice@here' })).toEqual(['a']);
    expect(await subjects(context, { text: 'red', kind: 'alert' })).toEqual([]);
    expect(refused(await listConversations(context, OWNER_ID, { text: ' ' }))).toMatchObject({ code: 'BAD_INPUT' });
  });

  test('a message needs a reply until the owner replied to it, or is done with it', async () => {
    const context = await contextOf(['alice']);
    const asked = await toOwner(context, 'alice', { subject: 'asked', needs_reply: true });
    const done = await toOwner(context, 'alice', { subject: 'done', needs_reply: true });
    const told = await toOwner(context, 'alice', { subject: 'told' });
    const open = await toOwner(context, 'alice', { subject: 'open', needs_reply: true });
    // Not a reply to what was asked.
    accepted(await send(context, 'owner', { to: ['alice'], subject: 'note', reply_to: told }));
    expect(await subjects(context, { needs_reply: true })).toEqual(['open', 'done', 'asked']);
    accepted(await useInbox(context, OWNER_ID, { action: 'ack', message_ids: [done] }));
    accepted(await send(context, 'owner', { to: ['alice'], subject: 'answer', reply_to: asked }));
    expect(await subjects(context, { needs_reply: true })).toEqual(['open']);
    expect((await list(context)).conversations.map(({ newest, needs_reply }) => [newest.subject, needs_reply])).toEqual(
      [
        ['open', true],
        ['told', false],
        ['done', false],
        ['asked', false],
      ],
    );
    // One more question in the conversation that was answered.
    await toOwner(context, 'alice', { subject: 'again', needs_reply: true, reply_to: asked });
    expect(await subjects(context, { needs_reply: true })).toEqual(['again', 'open']);
    expect(open).not.toBe(asked);
  });

  test('comes in pages without a conversation twice, also when the newer message is of another filter', async () => {
    const context = await contextOf(['alice', 'bob']);
    const threads: string[] = [];
    for (let at = 0; at < 5; at++) {
      threads.push(await toOwner(context, 'alice', { subject: `t${at}`, to: ['owner', 'bob'] }));
    }
    for (const reply_to of threads) await toOwner(context, 'bob', { subject: 'later', reply_to });
    // What is older are messages of these conversations: a next page would be empty.
    expect((await list(context, { limit: threads.length })).next_cursor).toBeNull();
    const pages = async (input: ConversationsInput): Promise<string[]> => {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const page: ConversationsResult = await list(context, { ...input, limit: 2, ...(cursor && { cursor }) });
        found.push(...page.conversations.map(({ newest }) => fullSummary(newest, 'owner').thread));
        cursor = page.next_cursor;
      } while (cursor !== null);
      return found;
    };
    expect(await pages({})).toEqual(threads.toReversed());
    expect(await pages({ from: 'alice@here' })).toEqual(threads.toReversed());
    const marked = threads.slice(0, 2);
    accepted(await useInbox(context, OWNER_ID, { action: 'mark_read', message_ids: marked }));
    expect(await pages({ state: 'unread', from: 'alice@here' })).toEqual(threads.slice(2).toReversed());
    expect(refused(await listConversations(context, OWNER_ID, { cursor: 'x' }))).toMatchObject({ code: 'BAD_INPUT' });
  });

  test('stops where one answer read enough, and goes on there; with the index one answer is enough', async () => {
    const context = await contextOf(['alice']);
    await toOwner(context, 'alice', { subject: 'old', kind: 'alert' });
    await context.store.transact((tx) => {
      for (let at = 0; at < SEARCH_MESSAGES_MAX; at++) {
        const given = {
          from: 'a@b',
          fromAgent: null,
          to: [],
          subject: 'hay',
          kind: 'message',
          needsReply: false,
        } as const;
        const rest = { origin: 'agent', refs: [], replyTo: null } as const;
        const message = newMessage(tx, context, { ...given, ...rest, to: [], refs: [] } as never, '', null);
        storeMessage(tx, context, message, '', [{ agentId: OWNER_ID, forwardedFrom: null }]);
      }
      return undefined;
    });
    const first = await list(context, { kind: 'alert' });
    expect(first.conversations).toEqual([]);
    const found = { conversations: [{ newest: { subject: 'old' } }], next_cursor: null };
    expect(await list(context, { kind: 'alert', cursor: first.next_cursor ?? '' })).toMatchObject(found);
    for await (const _ of indexWords(context));
    expect(await list(context, { kind: 'alert' })).toMatchObject(found);
    expect(await list(context, { needs_reply: true })).toMatchObject({ conversations: [], next_cursor: null });
  });

  test('has what is unread also behind more messages than a conversation counts', async () => {
    const context = await contextOf(['alice']);
    const first = await toOwner(context, 'alice', { subject: 'first', needs_reply: true });
    const later: string[] = [];
    for (let at = 0; at < CONVERSATION_MESSAGES_MAX; at++) {
      later.push(await toOwner(context, 'alice', { subject: 'later', reply_to: first }));
    }
    for (let at = 0; at < later.length; at += 20) {
      accepted(await useInbox(context, OWNER_ID, { action: 'ack', message_ids: later.slice(at, at + 20) }));
    }
    for (const input of [{ state: 'unread' }, { state: 'unacked' }, { needs_reply: true }] as const) {
      const { conversations } = await list(context, input);
      expect(conversations).toMatchObject([
        { messages: CONVERSATION_MESSAGES_MAX, unread: [first], not_done: [first] },
      ]);
    }
  });

  test('marks what it shows as notified, and a search marks nothing', async () => {
    const context = await contextOf(['alice']);
    const one = await toOwner(context, 'alice', { subject: 'one' });
    await list(context, { text: 'one' });
    expect(await stateAt(context, 'alice', one)).toBe('delivered');
    await list(context);
    expect(await stateAt(context, 'alice', one)).toBe('notified');
  });
});

describe('marking everything read', () => {
  test('reads what the list means and had, and no mail that came after it', async () => {
    const context = await contextOf(['alice', 'bob']);
    const ids: string[] = [];
    for (let at = 0; at < 150; at++) ids.push(await toOwner(context, 'alice', { subject: `m${at}` }));
    await toOwner(context, 'bob', { subject: 'of bob' });
    const { through } = await list(context);
    await toOwner(context, 'alice', { subject: 'late' });
    expect(await markAllRead(context, OWNER_ID, { through, from: 'alice@here' })).toEqual({ changed: 150 });
    expect(await subjects(context, { state: 'unread' })).toEqual(['late', 'of bob']);
    expect(await stateAt(context, 'alice', ids[149] ?? '')).toBe('read');
    expect(await markAllRead(context, OWNER_ID, { through })).toEqual({ changed: 1 });
    expect(refused(await markAllRead(context, OWNER_ID, { through, text: ' ' }))).toMatchObject({ code: 'BAD_INPUT' });
  });
});

test('a preview is one line without the marks of Markdown, and ends between two characters', () => {
  expect(previewOf('## Done\n\n- **all** [is](https://a.example/x) `green`\n> as asked\n```sh\nnpm test\n```\n')).toBe(
    'Done all is green as asked npm test',
  );
  expect(previewOf(`${'a'.repeat(159)}😀`)).toBe('a'.repeat(159));
  expect(previewOf('2 * 3 - 1 > 4')).toBe('2 * 3 - 1 > 4');
});
