import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import type { MessageRef } from '../../../../src/host/core/rows.ts';
import { removeAgent } from '../../../../src/host/agents/agents.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { mailboxOf } from '../../../../src/host/mailbox/mailbox.ts';
import { afterAttempt } from '../../../../src/host/outbox/outbox.ts';
import { replyMail } from '../../../../src/host/mail/send.ts';
import { sweepRetention } from '../../../../src/host/mail/retention.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import type { TestContext } from '../../../support/test-context.ts';
import { accepted, addPeer, idOf, contextOf, refused, send } from '../../../support/mail-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const KEPT_MS = 90 * DAY_MS;

async function sentTo(context: TestContext, to: string[], given: object = {}): Promise<string> {
  return accepted(await send(context, 'alice', { to, ...given })).message_id;
}

async function mark(context: TestContext, name: string, action: 'mark_read' | 'ack', ids: string[]): Promise<void> {
  accepted(await useInbox(context, await idOf(context, name), { action, message_ids: ids }));
}

const isKept = (context: TestContext, id: string): Promise<boolean> =>
  context.store.read((reader) => reader.get('body', id as MessageRef) !== undefined);

describe('a mailbox', () => {
  test('keeps unread mail for ever, and what was read or acked for its time after that', async () => {
    const context = await contextOf(['alice', 'bob']);
    const [unread, read, acked] = [
      await sentTo(context, ['bob']),
      await sentTo(context, ['bob']),
      await sentTo(context, ['bob']),
    ];
    await mark(context, 'bob', 'mark_read', [read, acked]);
    context.clock.nowMs += 10 * DAY_MS;
    await mark(context, 'bob', 'ack', [acked]);
    context.clock.nowMs += KEPT_MS - 10 * DAY_MS - 1;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 0, sent: 0 });
    context.clock.nowMs += 1;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 1, sent: 3 });
    expect([await isKept(context, unread), await isKept(context, read), await isKept(context, acked)]).toEqual([
      true,
      false,
      true,
    ]);
    context.clock.nowMs += 10 * DAY_MS;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 1 });
    const list = accepted(await useInbox(context, await idOf(context, 'bob'), { state: 'all' }));
    expect(list).toMatchObject({ total: 1, unread: 1, summaries: [{ message_id: unread }] });
    const bob = await idOf(context, 'bob');
    expect(refused(await replyMail(context, bob, { message_id: acked, body: '' })).code).toBe('NO_SUCH_MESSAGE');
  });

  test('is swept behind what was stored while the clock was ahead', async () => {
    const context = await contextOf(['alice', 'bob']);
    context.clock.nowMs += 365 * DAY_MS;
    const ahead = await sentTo(context, ['bob']);
    context.clock.nowMs -= 365 * DAY_MS;
    const read = await sentTo(context, ['bob']);
    await mark(context, 'bob', 'mark_read', [ahead, read]);
    context.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 2 });
  });

  test('is swept in slices, all of it', async () => {
    const context = await contextOf(['alice', 'bob']);
    const ids = await Promise.all(Array.from({ length: 450 }, () => sentTo(context, ['bob'])));
    for (let at = 0; at < 440; at += 20) await mark(context, 'bob', 'mark_read', ids.slice(at, at + 20));
    context.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 440, sent: 450 });
    await context.store.read(async (reader) => {
      expect(mailboxOf(reader, await idOf(context, 'bob'))).toMatchObject({ total: 10, unread: 10 });
    });
    expect(await rowsOf(context.store, 'held', [])).toEqual(Array.from({ length: 10 }, () => 1));
  });

  test('of an agent that was removed is emptied at the next sweep; mail of others is kept', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const [one, both] = [await sentTo(context, ['bob']), await sentTo(context, ['bob', 'carol'])];
    accepted(await removeAgent(context, { name: 'bob' }));
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ entries: 2, sent: 0 });
    // Alice still keeps what she sent.
    expect([await isKept(context, one), await isKept(context, both)]).toEqual([true, true]);
    context.clock.nowMs += KEPT_MS;
    await sweepRetention(context, KEPT_MS);
    expect([await isKept(context, one), await isKept(context, both)]).toEqual([false, true]);
  });

  test('is left as it is when the sweep is ended', async () => {
    const context = await contextOf(['alice', 'bob']);
    await mark(context, 'bob', 'ack', [await sentTo(context, ['bob'])]);
    context.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(context, KEPT_MS, AbortSignal.abort())).toEqual({
      entries: 0,
      sent: 0,
      idempotencyKeys: 0,
    });
  });
});

describe('what was sent', () => {
  test('is kept with its rows as long as the outbox may do anything about it', async () => {
    const context = await contextOf(['alice']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const id = await sentTo(context, ['dave@laptop']);
    context.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ sent: 0 });
    await context.store.transact((tx) => {
      afterAttempt(tx, context, 1, { type: 'receipt', recipient: 'dave@laptop' as never, state: 'read' });
    });
    expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ sent: 1 });
    expect(await isKept(context, id)).toBe(false);
    await context.store.read(async (reader) => {
      for (const table of ['outbox', 'outboxItem', 'outboxDue', 'sentBy', 'threadEntry'] as const) {
        for await (const row of reader.range(table, [])) expect.unreachable(`${table} holds ${JSON.stringify(row)}`);
      }
    });
  });

  test('is listed newest first, in pages, with the state of each recipient', async () => {
    const context = await contextOf(['alice', 'bob']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const alice = await idOf(context, 'alice');
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.push(await sentTo(context, ['bob', 'dave@laptop']));
      context.clock.nowMs += count % 2;
    }
    const seen: string[] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = accepted(await listSent(context, alice, { limit: 2, ...(cursor && { cursor }) }));
      seen.push(...page.messages.map((one) => one.message_id));
      cursor = page.next_cursor;
      expect(page.messages[0]?.recipients).toMatchObject([
        { recipient: 'bob@here', state: 'delivered' },
        { recipient: 'dave@laptop', state: 'stored' },
      ]);
    }
    expect(seen).toHaveLength(5);
    expect(new Set(seen)).toEqual(new Set(ids));
    expect(refused(await listSent(context, alice, { cursor: 'x' })).details).toMatchObject({ field: 'cursor' });
  });
});

test('an idempotency key is remembered 30 days, then may be used again', async () => {
  const context = await contextOf(['alice', 'bob']);
  const keyed = { idempotency_key: 'k' };
  const first = await sentTo(context, ['bob'], keyed);
  context.clock.nowMs += 30 * 86_400_000 - 1;
  await sweepRetention(context, KEPT_MS);
  expect(await sentTo(context, ['bob'], keyed)).toBe(first);
  context.clock.nowMs += 1;
  expect(await sweepRetention(context, KEPT_MS)).toMatchObject({ idempotencyKeys: 1 });
  expect(await sentTo(context, ['bob'], keyed)).not.toBe(first);
});
