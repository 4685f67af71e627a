import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type AgentId, type MessageRow, OWNER_ID } from '../../../src/host/core/rows.ts';
import { addressOf } from '../../../src/host/core/address.ts';
import {
  advanceEntry,
  dropEntry,
  keepSent,
  mailboxOf,
  release,
  storeMessage,
} from '../../../src/host/office/mailbox.ts';
import { newMessage } from '../../../src/host/office/new-message.ts';
import { reportToAgent } from '../../../src/host/office/reports.ts';
import { type TestOffice, testOffice } from '../../support/test-office.ts';

const ALICE = 'a'.repeat(32) as AgentId;
const BOB = 'b'.repeat(32) as AgentId;

async function officeWithAgents(): Promise<TestOffice> {
  const office = await testOffice();
  await office.store.transact((tx) => {
    for (const [agentId, name] of [
      [ALICE, 'alice'],
      [BOB, 'bob'],
    ] as const) {
      tx.put('agent', [agentId], { agentId, name, roles: [], createdAtMs: office.nowMs(), removedAtMs: null });
      tx.put('agentName', [name], { agentId, name, retiredAtMs: null });
    }
  });
  return office;
}

function someMessage(office: TestOffice, given: Partial<MessageRow> = {}, body = 'hello'): Promise<MessageRow> {
  const { hostName } = office.identity();
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
  return office.store.read((reader) => newMessage(reader, office, { ...defaults, ...given }, body, null));
}

const to = (agentId: AgentId) => ({ agentId, forwardedFrom: null });

describe('a message that is stored', () => {
  test('is looked through once for mentions, however many it goes to', async () => {
    const office = await officeWithAgents();
    const body = 'for @alice and nobody else';
    const message = await someMessage(office, {}, body);
    const looks = vi.spyOn(String.prototype, 'matchAll');
    onTestFinished(() => looks.mockRestore());
    const stored = await office.store.transact((tx) =>
      storeMessage(tx, office, message, body, [to(ALICE), to(BOB), to(OWNER_ID)]),
    );
    expect(stored.map(({ wakes }) => wakes)).toEqual([true, false, false]);
    expect(looks).toHaveBeenCalledOnce();
  });

  test('is in the mailbox with everything that finds and counts it, and is told of after the commit', async () => {
    const office = await officeWithAgents();
    const message = await someMessage(office, { kind: 'request' });
    const stored = await office.store.transact((tx) => {
      const entries = storeMessage(tx, office, message, 'hello', [to(BOB)]);
      expect(office.told).toEqual([]);
      return entries;
    });
    expect(stored).toEqual([{ agentId: BOB, position: 1, wakes: true }]);
    expect(office.told).toEqual([{ type: 'mail-stored', agentId: BOB, position: 1, wakes: true }]);
    await office.store.read((reader) => {
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
    const office = await officeWithAgents();
    const message = await someMessage(office);
    const twice = await office.store.transact((tx) => [
      storeMessage(tx, office, message, 'hello', [to(BOB), to(BOB), to(OWNER_ID)]).length,
      storeMessage(tx, office, message, 'hello', [to(BOB)]).length,
    ]);
    expect(twice).toEqual([2, 0]);
    await office.store.read((reader) => {
      expect(mailboxOf(reader, BOB).total).toBe(1);
      expect(reader.get('held', message.ref)).toBe(2);
    });
  });

  test('wakes by the name that it was forwarded from too', async () => {
    const office = await officeWithAgents();
    const message = await someMessage(office, {}, 'ask @robert');
    const [entry] = await office.store.transact((tx) =>
      storeMessage(tx, office, message, 'ask @robert', [{ agentId: BOB, forwardedFrom: 'robert' }]),
    );
    expect(entry?.wakes).toBe(true);
  });

  test('is kept as long as a mailbox or its sender keeps it', async () => {
    const office = await officeWithAgents();
    const message = await someMessage(office);
    await office.store.transact((tx) => {
      storeMessage(tx, office, message, 'hello', [to(BOB)]);
      keepSent(tx, ALICE, message, 'hello');
      dropEntry(tx, BOB, 1, tx.get('entry', BOB, 1)!);
    });
    await office.store.read((reader) => expect(reader.get('body', message.ref)).toBe('hello'));
    await office.store.transact((tx) => release(tx, message.ref));
    await office.store.read((reader) => {
      expect(reader.get('message', message.ref)).toBeUndefined();
      expect(reader.get('body', message.ref)).toBeUndefined();
      expect(reader.get('held', message.ref)).toBeUndefined();
      expect(mailboxOf(reader, BOB)).toEqual({ nextPosition: 2, total: 0, unread: 0, unreadWaking: 0 });
    });
  });

  test('stands in its sender’s thread, once when the sender is among the recipients', async () => {
    const office = await officeWithAgents();
    const message = await someMessage(office);
    await office.store.transact((tx) => {
      storeMessage(tx, office, message, 'hello', [to(BOB), to(ALICE)]);
      keepSent(tx, ALICE, message, 'hello');
      keepSent(tx, OWNER_ID, message, 'hello');
    });
    for (const agentId of [ALICE, BOB, OWNER_ID]) {
      expect(await threadOf(office, agentId, message)).toEqual([message.ref]);
    }
  });
});

async function threadOf(office: TestOffice, agentId: AgentId, message: MessageRow): Promise<string[]> {
  return office.store.read(async (reader) => {
    const refs: string[] = [];
    for await (const { row } of reader.range('threadEntry', [agentId, message.thread])) refs.push(row);
    return refs;
  });
}

describe('an entry moves forward only', () => {
  test.each([
    [['notified', 'notified'], [true, false], 'unread'],
    [['read', 'notified', 'read'], [true, false, false], 'read'],
    [['acked', 'read', 'acked'], [true, false, false], 'acked'],
    [['notified', 'read', 'acked'], [true, true, true], 'acked'],
  ] as const)('%j changes %j', async (changes, expected, state) => {
    const office = await officeWithAgents();
    const message = await someMessage(office, { kind: 'task' });
    const changed = await office.store.transact((tx) => {
      storeMessage(tx, office, message, 'hello', [to(BOB)]);
      return changes.map((change) => advanceEntry(tx, BOB, 1, change, 7));
    });
    expect(changed).toEqual(expected);
    await office.store.read((reader) => {
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
    const office = await officeWithAgents();
    expect(await office.store.transact((tx) => advanceEntry(tx, BOB, 1, 'read', 7))).toBe(false);
  });
});

describe('a report', () => {
  test('comes from the host itself, wakes as its kind says and joins the thread it is about', async () => {
    const office = await officeWithAgents();
    const about = await someMessage(office);
    const ref = await office.store.transact((tx) =>
      reportToAgent(tx, office, ALICE, { subject: 'Undelivered to laptop', body: 'b', kind: 'alert', about }),
    );
    await office.store.read((reader) => {
      const message = reader.get('message', ref);
      expect(message).toMatchObject({ from: 'poste@here', fromAgent: null, fromPeer: null, to: ['alice@here'] });
      expect(message).toMatchObject({ thread: about.thread, replyTo: about.ref, kind: 'alert' });
      expect(mailboxOf(reader, ALICE)).toMatchObject({ unread: 1, unreadWaking: 1 });
    });
  });

  test('goes to the owner when its agent was removed', async () => {
    const office = await officeWithAgents();
    await office.store.transact((tx) => {
      tx.put('agent', [ALICE], { ...tx.get('agent', ALICE)!, removedAtMs: 1 });
      reportToAgent(tx, office, ALICE, { subject: 's', body: 'b', kind: 'alert' });
    });
    await office.store.read((reader) => {
      expect(mailboxOf(reader, ALICE).total).toBe(0);
      expect(mailboxOf(reader, OWNER_ID).total).toBe(1);
    });
  });
});

test('an id that is taken here is not given to a new message', async () => {
  const office = await officeWithAgents();
  const rolls = [1, 1, 2].map((value) => Buffer.alloc(10, value));
  const rolling = { ...office, randomBytes: () => rolls.shift()! };
  const first = await someMessage(rolling);
  await office.store.transact((tx) => storeMessage(tx, office, first, 'hello', [to(BOB)]));
  const second = await someMessage(rolling);
  expect(second.id).not.toBe(first.id);
  expect(rolls).toEqual([]);
});
