import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type AgentId, type MessageRow, OWNER_ID } from '../../../../src/host/core/rows.ts';
import { addressOf } from '../../../../src/host/core/address.ts';
import {
  advanceEntry,
  dropEntry,
  keepSent,
  mailboxOf,
  newMessage,
  release,
  reportToAgent,
  storeMessage,
} from '../../../../src/host/mailbox/mailbox.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const ALICE = 'a'.repeat(32) as AgentId;
const BOB = 'b'.repeat(32) as AgentId;

async function contextWithAgents(): Promise<TestContext> {
  const context = await testContext();
  await context.store.transact((tx) => {
    for (const [agentId, name] of [
      [ALICE, 'alice'],
      [BOB, 'bob'],
    ] as const) {
      tx.put('agent', [agentId], { agentId, name, roles: [], createdAtMs: context.nowMs(), removedAtMs: null });
      tx.put('agentName', [name], { agentId, name, retiredAtMs: null });
    }
  });
  return context;
}

function someMessage(context: TestContext, given: Partial<MessageRow> = {}, body = 'hello'): Promise<MessageRow> {
  const { hostName } = context.identity();
  const defaults = {
    from: addressOf('alice', hostName),
    fromAgent: ALICE,
    to: [addressOf('bob', hostName)],
    subject: 's',
    kind: 'message',
    needsReply: false,
    origin: 'agent',
    refs: [],
    replyTo: null,
  } satisfies Partial<MessageRow>;
  return context.store.read((reader) => newMessage(reader, context, { ...defaults, ...given }, body, null));
}

const to = (agentId: AgentId) => ({ agentId, forwardedFrom: null });

describe('a message that is stored', () => {
  test('is looked through once for mentions, however many it goes to', async () => {
    const context = await contextWithAgents();
    const body = 'for @alice and nobody else';
    const message = await someMessage(context, {}, body);
    const looks = vi.spyOn(String.prototype, 'matchAll');
    onTestFinished(() => looks.mockRestore());
    const stored = await context.store.transact((tx) =>
      storeMessage(tx, context, message, body, [to(ALICE), to(BOB), to(OWNER_ID)]),
    );
    expect(stored.map(({ wakes }) => wakes)).toEqual([true, false, false]);
    expect(looks).toHaveBeenCalledOnce();
  });

  test('is in the mailbox with everything that finds and counts it, and is told of after the commit', async () => {
    const context = await contextWithAgents();
    const message = await someMessage(context, { kind: 'request' });
    const stored = await context.store.transact((tx) => {
      const entries = storeMessage(tx, context, message, 'hello', [to(BOB)]);
      expect(context.told).toEqual([]);
      return entries;
    });
    expect(stored).toEqual([{ agentId: BOB, position: 1, wakes: true }]);
    expect(context.told).toEqual([{ type: 'mail-stored', agentId: BOB, position: 1, wakes: true }]);
    await context.store.read((reader) => {
      expect(reader.get('message', message.ref)).toEqual(message);
      expect(reader.get('body', message.ref)).toBe('hello');
      expect(reader.get('place', BOB, message.ref)).toBe(1);
      expect(reader.get('unread', BOB, 1)).toBe(true);
      expect(reader.get('unacked', BOB, 1)).toBe(true);
      expect(reader.get('threadEntry', BOB, message.thread, 1)).toBe(message.ref);
      expect(reader.get('entry', BOB, 1)).toMatchObject({ ref: message.ref, state: 'unread', readAtMs: null });
      expect(mailboxOf(reader, BOB)).toEqual({ nextPosition: 2, total: 1, unread: 1, unreadWaking: 1 });
    });
  });

  test('goes into each mailbox once, however often it is stored', async () => {
    const context = await contextWithAgents();
    const message = await someMessage(context);
    const twice = await context.store.transact((tx) => [
      storeMessage(tx, context, message, 'hello', [to(BOB), to(BOB), to(OWNER_ID)]).length,
      storeMessage(tx, context, message, 'hello', [to(BOB)]).length,
    ]);
    expect(twice).toEqual([2, 0]);
    await context.store.read((reader) => {
      expect(mailboxOf(reader, BOB).total).toBe(1);
      expect(reader.get('held', message.ref)).toBe(2);
    });
  });

  test('wakes by the name that it was forwarded from too', async () => {
    const context = await contextWithAgents();
    const message = await someMessage(context, {}, 'ask @robert');
    const [entry] = await context.store.transact((tx) =>
      storeMessage(tx, context, message, 'ask @robert', [{ agentId: BOB, forwardedFrom: 'robert' }]),
    );
    expect(entry?.wakes).toBe(true);
  });

  test('is kept as long as a mailbox or its sender keeps it', async () => {
    const context = await contextWithAgents();
    const message = await someMessage(context);
    await context.store.transact((tx) => {
      storeMessage(tx, context, message, 'hello', [to(BOB)]);
      keepSent(tx, ALICE, message, 'hello');
      dropEntry(tx, BOB, 1, tx.get('entry', BOB, 1)!);
    });
    await context.store.read((reader) => expect(reader.get('body', message.ref)).toBe('hello'));
    await context.store.transact((tx) => release(tx, message.ref));
    await context.store.read((reader) => {
      expect(reader.get('message', message.ref)).toBeUndefined();
      expect(reader.get('body', message.ref)).toBeUndefined();
      expect(reader.get('held', message.ref)).toBeUndefined();
      expect(mailboxOf(reader, BOB)).toEqual({ nextPosition: 2, total: 0, unread: 0, unreadWaking: 0 });
    });
  });

  test('stands in its sender’s thread, once when the sender is among the recipients', async () => {
    const context = await contextWithAgents();
    const message = await someMessage(context);
    await context.store.transact((tx) => {
      storeMessage(tx, context, message, 'hello', [to(BOB), to(ALICE)]);
      keepSent(tx, ALICE, message, 'hello');
      keepSent(tx, OWNER_ID, message, 'hello');
    });
    for (const agentId of [ALICE, BOB, OWNER_ID]) {
      expect(await threadOf(context, agentId, message)).toEqual([message.ref]);
    }
  });
});

async function threadOf(context: TestContext, agentId: AgentId, message: MessageRow): Promise<string[]> {
  return rowsOf(context.store, 'threadEntry', [agentId, message.thread]);
}

describe('an entry moves forward only', () => {
  test.each([
    [['notified', 'notified'], [true, false], 'unread'],
    [['read', 'notified', 'read'], [true, false, false], 'read'],
    [['acked', 'read', 'acked'], [true, false, false], 'acked'],
    [['notified', 'read', 'acked'], [true, true, true], 'acked'],
  ] as const)('%j changes %j', async (changes, expected, state) => {
    const context = await contextWithAgents();
    const message = await someMessage(context, { kind: 'task' });
    const changed = await context.store.transact((tx) => {
      storeMessage(tx, context, message, 'hello', [to(BOB)]);
      return changes.map((change) => advanceEntry(tx, BOB, 1, change, 7));
    });
    expect(changed).toEqual(expected);
    await context.store.read((reader) => {
      const isUnread = state === 'unread';
      const entry = reader.get('entry', BOB, 1);
      expect(entry).toMatchObject({ state, notifiedAtMs: 7, readAtMs: isUnread ? null : 7 });
      expect(entry?.ackedAtMs).toBe(state === 'acked' ? 7 : null);
      expect(reader.get('unread', BOB, 1)).toBe(isUnread ? true : undefined);
      expect(reader.get('unacked', BOB, 1)).toBe(state === 'acked' ? undefined : true);
      const count = isUnread ? 1 : 0;
      expect(mailboxOf(reader, BOB)).toMatchObject({ total: 1, unread: count, unreadWaking: count });
    });
  });

  test('one that is not there does not move', async () => {
    const context = await contextWithAgents();
    expect(await context.store.transact((tx) => advanceEntry(tx, BOB, 1, 'read', 7))).toBe(false);
  });
});

describe('a report', () => {
  test('comes from the host itself, wakes as its kind says and joins the thread it is about', async () => {
    const context = await contextWithAgents();
    const about = await someMessage(context);
    const ref = await context.store.transact((tx) =>
      reportToAgent(tx, context, ALICE, { subject: 'Undelivered to laptop', body: 'b', kind: 'alert', about }),
    );
    await context.store.read((reader) => {
      const message = reader.get('message', ref);
      expect(message).toMatchObject({ from: 'poste@here', fromAgent: null, fromPeer: null, to: ['alice@here'] });
      expect(message).toMatchObject({ thread: about.thread, replyTo: about.ref, kind: 'alert' });
      expect(mailboxOf(reader, ALICE)).toMatchObject({ unread: 1, unreadWaking: 1 });
    });
  });

  test('goes to the owner when its agent was removed', async () => {
    const context = await contextWithAgents();
    await context.store.transact((tx) => {
      tx.put('agent', [ALICE], { ...tx.get('agent', ALICE)!, removedAtMs: 1 });
      reportToAgent(tx, context, ALICE, { subject: 's', body: 'b', kind: 'alert' });
    });
    await context.store.read((reader) => {
      expect(mailboxOf(reader, ALICE).total).toBe(0);
      expect(mailboxOf(reader, OWNER_ID).total).toBe(1);
    });
  });
});

test('an id that is taken here is not given to a new message', async () => {
  const context = await contextWithAgents();
  const rolls = [1, 1, 2].map((value) => Buffer.alloc(10, value));
  const rolling = { ...context, randomBytes: () => rolls.shift()! };
  const first = await someMessage(rolling);
  await context.store.transact((tx) => storeMessage(tx, context, first, 'hello', [to(BOB)]));
  const second = await someMessage(rolling);
  expect(second.id).not.toBe(first.id);
  expect(rolls).toEqual([]);
});
