import { describe, expect, test } from 'vitest';
import type { InboxInput, SearchResult } from '../../../../src/host/contract/mail.ts';
import { type MailQuery, parseMailQuery } from '../../../../src/host/core/mail-query.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { MailLook, SEARCH_BYTES_MAX, searchMail } from '../../../../src/host/mail/search.ts';
import { accepted, idOf, contextOf, refused, send } from '../../../support/mail-context.ts';
import type { TestContext } from '../../../support/test-context.ts';

async function subjects(context: TestContext, text: string): Promise<string[]> {
  return accepted(await searchMail(context, OWNER_ID, { text })).summaries.map(({ subject }) => subject);
}

describe('search', () => {
  test('every word is in the sender, the subject or the body, whatever its case', async () => {
    const context = await contextOf(['alice', 'bob']);
    for (const [from, subject, body] of [
      ['alice', 'Build broken', 'the linker says no'],
      ['bob', 'build fixed', 'Größe und ÄRGER'],
      ['alice', 'lunch', ''],
    ] as const) {
      accepted(await send(context, from, { to: ['owner'], subject, body }));
    }
    expect(await subjects(context, 'BUILD')).toEqual(['build fixed', 'Build broken']);
    expect(await subjects(context, '  alice   linker ')).toEqual(['Build broken']);
    expect(await subjects(context, 'bob@here ärger')).toEqual(['build fixed']);
    expect(await subjects(context, 'build lunch')).toEqual([]);
    expect(await subjects(context, 'from:alice subject:build')).toEqual(['Build broken']);
    expect(await subjects(context, 'before:2025-11-20')).toEqual([]);
  });

  test('looks into one mailbox alone, and marks nothing', async () => {
    const context = await contextOf(['alice', 'bob']);
    accepted(await send(context, 'alice', { to: ['bob'], subject: 'private' }));
    accepted(await send(context, 'alice', { to: ['owner'], subject: 'open' }));
    expect(await subjects(context, 'private')).toEqual([]);
    expect(await subjects(context, 'open')).toEqual(['open']);
    const { messages } = accepted(await listSent(context, await idOf(context, 'alice'), {}));
    expect(messages.map(({ recipients }) => recipients[0]?.state)).toEqual(['delivered', 'delivered']);
    expect(accepted(await useInbox(context, OWNER_ID, {})).unread).toBe(1);
  });

  test('looks at so much of one conversation for what a page before has of it', async () => {
    const context = await contextOf(['alice']);
    const first = accepted(await send(context, 'alice', { to: ['owner'], subject: 's' }));
    const reply_to = first.message_id;
    for (const body of ['no', 'no', 'no', 'needle'])
      accepted(await send(context, 'alice', { to: ['owner'], subject: 's', body, reply_to }));
    const isMeantFrom = (messagesMax: number): Promise<boolean> =>
      context.store.read((reader) => {
        const look = new MailLook(context, reader, OWNER_ID, parseMailQuery('needle') as MailQuery, messagesMax);
        return look.isMeantFrom(reader.get('entry', OWNER_ID, 1)!, 1);
      });
    expect(await isMeantFrom(5)).toBe(true);
    expect(await isMeantFrom(4)).toBe(false);
  });

  test('stops at its bound without an index, and goes on there; no page but that one is empty', async () => {
    const context = await contextOf(['alice']);
    const body = 'x'.repeat(262_144);
    const count = SEARCH_BYTES_MAX / body.length + 2;
    for (let at = 0; at < count; at++)
      accepted(await send(context, 'alice', { to: ['owner'], subject: `m${at}`, body }));
    const first = accepted(await searchMail(context, OWNER_ID, { text: 'm0' }));
    expect(first.summaries).toEqual([]);
    const rest = accepted(await searchMail(context, OWNER_ID, { text: 'm0', cursor: first.next_cursor ?? '' }));
    expect(rest).toMatchObject({ summaries: [{ subject: 'm0' }], next_cursor: null });
    const found: string[][] = [];
    let cursor: string | null = null;
    do {
      const page: SearchResult = accepted(
        await searchMail(context, OWNER_ID, { text: 'm', limit: 17, ...(cursor && { cursor }) }),
      );
      found.push(page.summaries.map(({ subject }) => subject));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(found.map(({ length }) => length)).toEqual([17, 17]);
    expect(found.flat()).toEqual(Array.from({ length: count }, (_, at) => `m${count - 1 - at}`));
  });

  test('of mail_inbox lists what it finds in all mail unless a state is named, and marks it notified', async () => {
    const context = await contextOf(['alice', 'bob']);
    const bob = await idOf(context, 'bob');
    for (const subject of ['red one', 'red two', 'blue'])
      accepted(await send(context, 'alice', { to: ['bob'], subject, needs_reply: subject === 'red one' }));
    const listed = async (input: InboxInput): Promise<string[]> =>
      (accepted(await useInbox(context, bob, input)).summaries ?? []).map(({ subject }) => subject);
    const [, second] = accepted(await useInbox(context, bob, { search: 'red', peek: true })).summaries ?? [];
    accepted(await useInbox(context, bob, { action: 'mark_read', message_ids: [second?.message_id ?? ''] }));
    expect(await listed({ search: 'red from:alice' })).toEqual(['red two', 'red one']);
    expect(await listed({ search: 'red', state: 'unread' })).toEqual(['red two']);
    expect(await listed({ search: 'is:needs-reply' })).toEqual(['red one']);
    const first = accepted(await useInbox(context, bob, { search: 'red', limit: 1 }));
    expect(await listed({ search: 'red', limit: 1, cursor: first.next_cursor ?? '' })).toEqual(['red one']);
    const { messages } = accepted(await listSent(context, await idOf(context, 'alice'), {}));
    expect(messages.map(({ recipients }) => recipients[0]?.state)).toEqual(['delivered', 'notified', 'read']);
    for (const input of [{ search: 'x:y' }, { search: 'red', reply_to: second?.message_id ?? '' }])
      expect(refused(await useInbox(context, bob, input)).details).toMatchObject({ field: 'search' });
  });

  test('words that are none and a cursor of elsewhere are refused', async () => {
    const context = await contextOf(['alice']);
    for (const text of [' \n ', '.*', 'form:alice']) {
      const refusal = refused(await searchMail(context, OWNER_ID, { text }));
      expect([text, refusal.details['field']]).toEqual([text, 'text']);
    }
    const cursor = Buffer.from('list all:1').toString('base64url');
    expect(refused(await searchMail(context, OWNER_ID, { text: 'a', cursor }))).toMatchObject({
      details: { field: 'cursor' },
    });
  });
});

test('one sent message is shown by its id to its sender, and to nobody else', async () => {
  const context = await contextOf(['alice', 'bob']);
  const alice = await idOf(context, 'alice');
  const { message_id } = accepted(await send(context, 'alice', { to: ['bob'], subject: 'one' }));
  const shown = accepted(await listSent(context, alice, { message_id })).messages;
  expect(shown).toMatchObject([
    { subject: 'one', recipients: [{ state: 'delivered', steps: [{ state: 'delivered' }] }] },
  ]);
  for (const asked of [
    await listSent(context, await idOf(context, 'bob'), { message_id }),
    await listSent(context, alice, { message_id: 'no' }),
  ]) {
    expect(refused(asked).code).toBe('NO_SUCH_MESSAGE');
  }
  expect(refused(await listSent(context, alice, { message_id, limit: 1 })).details).toMatchObject({ field: 'limit' });
});
