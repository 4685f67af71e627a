import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../src/protocol/limits.ts';
import type { MessageRef } from '../../../src/host/core/rows.ts';
import { IDEMPOTENCY_MS } from '../../../src/host/documents/mail.ts';
import { removeAgent } from '../../../src/host/office/agents.ts';
import { useInbox } from '../../../src/host/office/inbox.ts';
import { mailboxOf } from '../../../src/host/office/mailbox.ts';
import { afterAttempt } from '../../../src/host/office/outbox.ts';
import { replyMail } from '../../../src/host/office/reply.ts';
import { sweepRetention } from '../../../src/host/office/retention.ts';
import { listSent } from '../../../src/host/office/sent-list.ts';
import type { TestOffice } from '../../support/test-office.ts';
import { accepted, addPeer, idOf, officeOf, refused, send } from '../../support/mail-office.ts';

const KEPT_MS = 90 * DAY_MS;

async function sentTo(office: TestOffice, to: string[], given: object = {}): Promise<string> {
  return accepted(await send(office, 'alice', { to, ...given })).message_id;
}

async function mark(office: TestOffice, name: string, action: 'mark_read' | 'ack', ids: string[]): Promise<void> {
  accepted(await useInbox(office, await idOf(office, name), { action, message_ids: ids }));
}

const isKept = (office: TestOffice, id: string): Promise<boolean> =>
  office.store.read((reader) => reader.get('body', id as MessageRef) !== undefined);

describe('a mailbox', () => {
  test('keeps unread mail for ever, and what was read or acked for its time after that', async () => {
    const office = await officeOf(['alice', 'bob']);
    const [unread, read, acked] = [
      await sentTo(office, ['bob']),
      await sentTo(office, ['bob']),
      await sentTo(office, ['bob']),
    ];
    await mark(office, 'bob', 'mark_read', [read, acked]);
    office.clock.nowMs += 10 * DAY_MS;
    await mark(office, 'bob', 'ack', [acked]);
    office.clock.nowMs += KEPT_MS - 10 * DAY_MS - 1;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 0, sent: 0 });
    office.clock.nowMs += 1;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 1, sent: 3 });
    expect([await isKept(office, unread), await isKept(office, read), await isKept(office, acked)]).toEqual([
      true,
      false,
      true,
    ]);
    office.clock.nowMs += 10 * DAY_MS;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 1 });
    const list = accepted(await useInbox(office, await idOf(office, 'bob'), { state: 'all' }));
    expect(list).toMatchObject({ total: 1, unread: 1, summaries: [{ message_id: unread }] });
    const bob = await idOf(office, 'bob');
    expect(refused(await replyMail(office, bob, { message_id: acked, body: '' })).code).toBe('NO_SUCH_MESSAGE');
  });

  test('is swept behind what was stored while the clock was ahead', async () => {
    const office = await officeOf(['alice', 'bob']);
    office.clock.nowMs += 365 * DAY_MS;
    const ahead = await sentTo(office, ['bob']);
    office.clock.nowMs -= 365 * DAY_MS;
    const read = await sentTo(office, ['bob']);
    await mark(office, 'bob', 'mark_read', [ahead, read]);
    office.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 2 });
  });

  test('is swept in slices, all of it', async () => {
    const office = await officeOf(['alice', 'bob']);
    const ids = await Promise.all(Array.from({ length: 450 }, () => sentTo(office, ['bob'])));
    for (let at = 0; at < 440; at += 20) await mark(office, 'bob', 'mark_read', ids.slice(at, at + 20));
    office.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 440, sent: 450 });
    await office.store.read(async (reader) => {
      expect(mailboxOf(reader, await idOf(office, 'bob'))).toMatchObject({ total: 10, unread: 10 });
      const left: number[] = [];
      for await (const { row } of reader.range('held', [])) left.push(row);
      expect(left).toEqual(Array.from({ length: 10 }, () => 1));
    });
  });

  test('of an agent that was removed is emptied at the next sweep; mail of others is kept', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const [one, both] = [await sentTo(office, ['bob']), await sentTo(office, ['bob', 'carol'])];
    accepted(await removeAgent(office, { name: 'bob' }));
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ entries: 2, sent: 0 });
    // Alice still keeps what she sent.
    expect([await isKept(office, one), await isKept(office, both)]).toEqual([true, true]);
    office.clock.nowMs += KEPT_MS;
    await sweepRetention(office, KEPT_MS);
    expect([await isKept(office, one), await isKept(office, both)]).toEqual([false, true]);
  });

  test('is left as it is when the sweep is ended', async () => {
    const office = await officeOf(['alice', 'bob']);
    await mark(office, 'bob', 'ack', [await sentTo(office, ['bob'])]);
    office.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(office, KEPT_MS, AbortSignal.abort())).toEqual({
      entries: 0,
      sent: 0,
      idempotencyKeys: 0,
    });
  });
});

describe('what was sent', () => {
  test('is kept with its rows as long as the outbox may do anything about it', async () => {
    const office = await officeOf(['alice']);
    await addPeer(office, 'laptop', [{ name: 'dave', roles: [] }]);
    const id = await sentTo(office, ['dave@laptop']);
    office.clock.nowMs += KEPT_MS;
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ sent: 0 });
    await office.store.transact((tx) => {
      afterAttempt(tx, office, 1, { type: 'receipt', recipient: 'dave@laptop' as never, state: 'read' });
    });
    expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ sent: 1 });
    expect(await isKept(office, id)).toBe(false);
    await office.store.read(async (reader) => {
      for (const table of ['outbox', 'outboxItem', 'outboxDue', 'sentBy', 'threadEntry'] as const) {
        for await (const row of reader.range(table, [])) expect.unreachable(`${table} holds ${JSON.stringify(row)}`);
      }
    });
  });

  test('is listed newest first, in pages, with the state of each recipient', async () => {
    const office = await officeOf(['alice', 'bob']);
    await addPeer(office, 'laptop', [{ name: 'dave', roles: [] }]);
    const alice = await idOf(office, 'alice');
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.push(await sentTo(office, ['bob', 'dave@laptop']));
      office.clock.nowMs += count % 2;
    }
    const seen: string[] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = accepted(await listSent(office, alice, { limit: 2, ...(cursor && { cursor }) }));
      seen.push(...page.messages.map((one) => one.message_id));
      cursor = page.next_cursor;
      expect(page.messages[0]?.recipients).toMatchObject([
        { recipient: 'bob@here', state: 'delivered' },
        { recipient: 'dave@laptop', state: 'pending' },
      ]);
    }
    expect(seen).toHaveLength(5);
    expect(new Set(seen)).toEqual(new Set(ids));
    expect(refused(await listSent(office, alice, { cursor: 'x' })).details).toMatchObject({ field: 'cursor' });
  });
});

test('an idempotency key is remembered 30 days, then may be used again', async () => {
  const office = await officeOf(['alice', 'bob']);
  const keyed = { idempotency_key: 'k' };
  const first = await sentTo(office, ['bob'], keyed);
  office.clock.nowMs += IDEMPOTENCY_MS - 1;
  await sweepRetention(office, KEPT_MS);
  expect(await sentTo(office, ['bob'], keyed)).toBe(first);
  office.clock.nowMs += 1;
  expect(await sweepRetention(office, KEPT_MS)).toMatchObject({ idempotencyKeys: 1 });
  expect(await sentTo(office, ['bob'], keyed)).not.toBe(first);
});
