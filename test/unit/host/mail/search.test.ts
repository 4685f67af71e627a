import { describe, expect, test } from 'vitest';
import { isoSecond } from '../../../../src/protocol/time.ts';
import type { SearchResult } from '../../../../src/host/contract/mail.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { SEARCH_BYTES_MAX, searchMail } from '../../../../src/host/mail/search.ts';
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
    expect(await subjects(context, '.*')).toEqual([]);
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

  test('stops at its bound of bytes or at its limit, says so, and goes on from there', async () => {
    const context = await contextOf(['alice']);
    const body = 'x'.repeat(262_144);
    const count = SEARCH_BYTES_MAX / body.length + 2;
    for (let at = 0; at < count; at++)
      accepted(await send(context, 'alice', { to: ['owner'], subject: `m${at}`, body }));
    const first = accepted(await searchMail(context, OWNER_ID, { text: 'm0' }));
    expect(first).toMatchObject({ summaries: [], looked_at: count - 2, looked_back_to: isoSecond(context.nowMs()) });
    const rest = accepted(await searchMail(context, OWNER_ID, { text: 'm0', cursor: first.next_cursor ?? '' }));
    expect(rest).toMatchObject({ summaries: [{ subject: 'm0' }], looked_at: 2, next_cursor: null });
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const page: SearchResult = accepted(
        await searchMail(context, OWNER_ID, { text: 'm', limit: 7, ...(cursor && { cursor }) }),
      );
      found.push(...page.summaries.map(({ subject }) => subject));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(found).toEqual(Array.from({ length: count }, (_, at) => `m${count - 1 - at}`));
  });

  test('words that are none and a cursor of elsewhere are refused', async () => {
    const context = await contextOf(['alice']);
    expect(refused(await searchMail(context, OWNER_ID, { text: ' \n ' }))).toMatchObject({
      details: { field: 'text' },
    });
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
