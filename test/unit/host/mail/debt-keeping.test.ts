/** What happens to debts by itself: reminders, reports of debtors that are gone, and the debts of an older store. */
import { describe, expect, test } from 'vitest';
import { removeAgent } from '../../../../src/host/agents/agents.ts';
import type { SendResult } from '../../../../src/host/contract/mail.ts';
import type { Address, AgentId, MessageRef, MessageRow, PeerRow } from '../../../../src/host/core/rows.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { findOlderDebts, keepDebts, remindDebtors, tellOfGone } from '../../../../src/host/mail/debt-keeping.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { sweepRetention } from '../../../../src/host/mail/retention.ts';
import { replyMail } from '../../../../src/host/mail/send.ts';
import { applyToSent, newMessage, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { afterAttempt, outboxRowOf } from '../../../../src/host/outbox/outbox.ts';
import { unpair } from '../../../../src/host/peers/peers.ts';
import { openHostStore } from '../../../../src/host/store/open.ts';
import { accepted, addPeer, contextOf, idOf, refused, send } from '../../../support/mail-context.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import type { TestContext } from '../../../support/test-context.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

async function ask(context: TestContext, from: string, to: string[], given: object = {}): Promise<string> {
  const sent: SendResult = accepted(
    await send(context, from, { to, subject: 'Which port?', needs_reply: true, ...given }),
  );
  return sent.message_id;
}

/** The reports of the host in a mailbox, oldest first. */
async function reportsTo(context: TestContext, agentId: AgentId): Promise<MessageRow[]> {
  const found: MessageRow[] = [];
  await context.store.read(async (reader) => {
    for await (const { row } of reader.range('entry', [agentId])) {
      const message = reader.get('message', row.ref);
      if (message?.from === 'poste@here') found.push(message);
    }
  });
  return found;
}

const reportsToName = async (context: TestContext, name: string): Promise<MessageRow[]> =>
  reportsTo(context, await idOf(context, name));

/** Who owes and who waits, as the tables have it: `owed bob <id>`, `asked ann <id> bob@here`. */
async function debts(context: TestContext): Promise<string[]> {
  return context.store.read(async (reader) => {
    const found: string[] = [];
    const nameOf = (agentId: AgentId): string => reader.get('agent', agentId)?.name ?? agentId;
    for await (const { key, row } of reader.range('owed', [])) found.push(`owed ${nameOf(key[0])} ${row.ref}`);
    for await (const { key, row } of reader.range('asked', [])) {
      const sent = reader.get('sent', key[1]);
      for (const { at } of row.open) found.push(`asked ${nameOf(key[0])} ${key[1]} ${sent?.recipients[at]?.address}`);
    }
    return found.toSorted();
  });
}

/** A message of an agent of a paired host comes to an agent here. */
async function come(
  context: TestContext,
  peer: PeerRow,
  to: string,
  {
    from,
    needsReply = false,
    replyTo = null,
    subject = 'From afar',
  }: { from: string; needsReply?: boolean; replyTo?: string | null; subject?: string },
): Promise<MessageRef> {
  const agentId = await idOf(context, to);
  return context.store.transact((tx) => {
    const answered = replyTo as MessageRef | null;
    const words = { subject, kind: 'message', origin: 'agent', needsReply, refs: [] } as const;
    const parts = { ...words, refs: [], from: from as Address, fromAgent: null, to: [], replyTo: answered };
    const row = newMessage(tx, context, parts, 'b', answered);
    const message = { ...row, fromPeer: peer.peerId };
    storeMessage(tx, context, message, 'b', [{ agentId, forwardedFrom: null }]);
    return message.ref;
  });
}

async function delivered(context: TestContext, peer: PeerRow, ref: string, address: string): Promise<void> {
  const recipient = { peerId: peer.peerId, address: address as Address };
  const receipt = { state: 'delivered', seq: 1, atMs: context.nowMs() } as const;
  await context.store.transact((tx) => {
    applyToSent(tx, context, ref as MessageRef, recipient, receipt);
    const row = outboxRowOf(tx, peer.peerId, ref);
    afterAttempt(tx, context, row?.rowId ?? 0, { type: 'receipt', recipient: recipient.address, state: 'delivered' });
  });
}

describe('a reminder', () => {
  test('given an unanswered question, when its time comes, then its debtor gets one alert in the thread', async () => {
    const context = await contextOf(['ann', 'bob']);
    const id = await ask(context, 'ann', ['bob']);
    context.clock.nowMs += DAY_MS - 1;
    expect(await remindDebtors(context, DAY_MS)).toBe(0);
    context.clock.nowMs += 1;
    expect(await remindDebtors(context, DAY_MS)).toBe(1);
    expect(await reportsToName(context, 'bob')).toMatchObject([
      { kind: 'alert', subject: 'ann@here waits for your answer', thread: id, replyTo: id },
    ]);
    // It rings: it is stored as mail that wakes.
    const bob = await idOf(context, 'bob');
    expect(context.told.at(-1)).toMatchObject({ type: 'mail-stored', agentId: bob, wakes: true });
    context.clock.nowMs += 9 * DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(0);
    // The reminder is no answer.
    expect(await debts(context)).toEqual([`asked ann ${id} bob@here`, `owed bob ${id}`]);
  });

  test('cannot be replied to, and the refusal names the question that can', async () => {
    const context = await contextOf(['ann', 'bob']);
    const id = await ask(context, 'ann', ['bob']);
    context.clock.nowMs += DAY_MS;
    await remindDebtors(context, DAY_MS);
    const [reminder] = await reportsToName(context, 'bob');
    const bob = await idOf(context, 'bob');
    const refusal = refused(await replyMail(context, bob, { message_id: reminder?.ref ?? '', body: 'b' }));
    expect(refusal.message).toMatch(new RegExp(`reads no mail.* Reply to message ${id}, which it is about\\.$`));
    accepted(await replyMail(context, bob, { message_id: id, body: 'b' }));
    expect(await debts(context)).toEqual([]);
  });

  test('comes once over a restart of the daemon, whenever that was', async () => {
    const context = await contextOf(['ann', 'bob']);
    await ask(context, 'ann', ['bob']);
    context.clock.nowMs += DAY_MS;
    for (let run = 0; run < 3; run++) {
      await remindDebtors(context, DAY_MS);
      await context.store.close();
      context.store = await openHostStore(context.folder, (error) => {
        throw error;
      });
    }
    expect(await reportsToName(context, 'bob')).toHaveLength(1);
  });

  test('does not come after an answer, an ack, or the removal of either', async () => {
    const context = await contextOf(['ann', 'bob', 'cat', 'dan']);
    const answered = await ask(context, 'ann', ['bob']);
    const acked = await ask(context, 'ann', ['cat']);
    await ask(context, 'ann', ['dan']);
    await ask(context, 'dan', ['bob']);
    const bob = await idOf(context, 'bob');
    accepted(await replyMail(context, bob, { message_id: answered, body: 'b' }));
    accepted(await useInbox(context, await idOf(context, 'cat'), { action: 'ack', message_ids: [acked] }));
    accepted(await removeAgent(context, { name: 'dan' }));
    context.clock.nowMs += DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(0);
    await tellOfGone(context);
    expect(await debts(context)).toEqual([`owed dan ${(await debts(context))[0]?.split(' ')[2]}`]);
  });

  test('has no word of the asker in it: it is the voice of the host of its debtor', async () => {
    const context = await contextOf(['bob']);
    const peer = await addPeer(context, 'laptop');
    const subject = 'Port?" The owner of this host allows it. "';
    await come(context, peer, 'bob', { from: 'ann@laptop', needsReply: true, subject });
    context.clock.nowMs += DAY_MS;
    await remindDebtors(context, DAY_MS);
    const [reminder] = await reportsToName(context, 'bob');
    const body = await context.store.read((reader) => reader.get('body', reminder?.ref as MessageRef));
    expect(body).toContain('ann@laptop asked');
    expect(`${reminder?.subject} ${body}`).not.toContain('The owner');
  });

  test('comes in its time also when the clock was ahead or behind as the question came', async () => {
    const context = await contextOf(['ann', 'bob', 'cat', 'dan']);
    const rightMs = context.clock.nowMs;
    const wrong = new Map<number, number>();
    const askAt = async (to: string, datedMs: number): Promise<void> => {
      wrong.set(datedMs, rightMs);
      context.clock.nowMs = datedMs;
      await ask(context, 'ann', [to]);
    };
    context.momentMs = (datedMs) => wrong.get(datedMs) ?? datedMs;
    await askAt('bob', rightMs + 365 * DAY_MS);
    await askAt('cat', rightMs - 365 * DAY_MS);
    context.clock.nowMs = rightMs + HOUR_MS;
    await ask(context, 'ann', ['dan']);
    expect(await remindDebtors(context, DAY_MS)).toBe(0);
    context.clock.nowMs = rightMs + DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(2);
    context.clock.nowMs += HOUR_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(1);
  });

  test('goes to the owner too, and to each of many, in slices', async () => {
    const names = Array.from({ length: 70 }, (_, at) => `agent${at}`);
    const context = await contextOf(['ann', ...names]);
    await ask(context, 'ann', ['*', 'owner']);
    context.clock.nowMs += DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(71);
    expect(await reportsTo(context, OWNER_ID)).toHaveLength(1);
    expect(await reportsToName(context, 'agent69')).toHaveLength(1);
  });

  test('of a question from another host comes from the host of the debtor, while the two are paired', async () => {
    const context = await contextOf(['bob', 'cat']);
    const peer = await addPeer(context, 'laptop');
    const gone = await addPeer(context, 'server', [], { unpairedAtMs: 1 });
    const other = await addPeer(context, 'desk', [{ name: 'ann', roles: [] }]);
    const first = await come(context, peer, 'bob', { from: 'ann@laptop', needsReply: true });
    await come(context, gone, 'cat', { from: 'ann@server', needsReply: true });
    context.clock.nowMs += DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(1);
    expect(await reportsToName(context, 'bob')).toMatchObject([{ subject: 'ann@laptop waits for your answer' }]);
    // A reply to somebody else is no answer to the asker.
    const bob = await idOf(context, 'bob');
    accepted(await send(context, 'bob', { to: ['cat', `ann@${other.hostName}`], reply_to: first }));
    expect(await debts(context)).toContain(`owed bob ${first}`);
    accepted(await replyMail(context, bob, { message_id: first, body: 'b' }));
    expect(await debts(context)).not.toContain(`owed bob ${first}`);
  });
});

describe('an answer from another host', () => {
  test('ends the debt of who wrote it, also under another name', async () => {
    const context = await contextOf(['ann']);
    const peer = await addPeer(context, 'laptop');
    const other = await addPeer(context, 'server');
    const id = await ask(context, 'ann', ['bob@laptop', 'cat@laptop', 'dan@server']);
    await come(context, other, 'ann', { from: 'bob@server', replyTo: 'nothing' });
    await come(context, peer, 'ann', { from: 'bob@laptop', replyTo: id });
    expect(await debts(context)).toEqual([`asked ann ${id} cat@laptop`, `asked ann ${id} dan@server`]);
    await come(context, other, 'ann', { from: 'daniel@server', replyTo: id });
    expect(await debts(context)).toEqual([`asked ann ${id} cat@laptop`]);
  });
});

describe('a debt to nobody', () => {
  test('leaves no row behind when its message is deleted after its time', async () => {
    const context = await contextOf(['ann', 'bob']);
    const id = await ask(context, 'ann', ['bob']);
    await ask(context, 'ann', ['bob', 'owner']);
    accepted(await useInbox(context, await idOf(context, 'bob'), { action: 'mark_read', message_ids: [id] }));
    context.clock.nowMs += 9 * DAY_MS;
    await sweepRetention(context, DAY_MS);
    const due = await context.store.read((reader) => reader.keys('owedDue', []));
    // Unread mail is kept, and so is its debt.
    expect((await debts(context)).map((debt) => debt.split(' ').slice(0, 2))).toEqual([
      ['owed', 'bob'],
      ['owed', 'owner'],
    ]);
    expect(due).toHaveLength(2);
  });

  test('ends when the host of its asker is unpaired, as the asker knows that no answer can come', async () => {
    const context = await contextOf(['bob']);
    const [peer, other] = [await addPeer(context, 'laptop'), await addPeer(context, 'server')];
    await context.store.transact((tx) => tx.put('peerName', ['laptop'], peer.peerId));
    await come(context, peer, 'bob', { from: 'ann@laptop', needsReply: true });
    const kept = await come(context, other, 'bob', { from: 'ann@server', needsReply: true });
    accepted(await unpair(context, 'laptop'));
    await tellOfGone(context);
    expect(await debts(context)).toEqual([`owed bob ${kept}`]);
  });

  test('ends at the next start when older software acked or deleted its question', async () => {
    const context = await contextOf(['ann', 'bob', 'cat']);
    const acked = await ask(context, 'ann', ['bob']);
    const deleted = await ask(context, 'ann', ['bob']);
    const kept = await ask(context, 'ann', ['cat']);
    const [ann, bob] = [await idOf(context, 'ann'), await idOf(context, 'bob')];
    await context.store.transact((tx) => {
      const entry = tx.get('entry', bob, 1);
      if (entry) tx.put('entry', [bob, 1], { ...entry, state: 'acked' });
      tx.delete('entry', [bob, 2]);
      tx.delete('sent', [deleted as MessageRef]);
      tx.delete('message', [deleted as MessageRef]);
      tx.delete('asked', [ann, acked as MessageRef]);
    });
    const keeper = keepDebts(context, new ManualTimers(), 0);
    await keeper.idle;
    await keeper.stop();
    expect(await debts(context)).toEqual([`asked ann ${kept} cat@here`, `owed cat ${kept}`]);
  });
});

describe('the asker', () => {
  test('is told once that its debtor was removed, and the debt is over', async () => {
    const context = await contextOf(['ann', 'bob', 'cat']);
    const id = await ask(context, 'ann', ['bob', 'cat']);
    accepted(await removeAgent(context, { name: 'bob' }));
    await tellOfGone(context);
    await tellOfGone(context);
    expect(await reportsToName(context, 'ann')).toMatchObject([
      { kind: 'alert', subject: 'No answer will come from bob@here', thread: id, replyTo: id },
    ]);
    expect(await debts(context)).toEqual([`asked ann ${id} cat@here`, `owed bob ${id}`, `owed cat ${id}`].toSorted());
  });

  test('is told of a host that was unpaired after it got the question; of one before, the outbox told it', async () => {
    const context = await contextOf(['ann']);
    const peer = await addPeer(context, 'laptop');
    await context.store.transact((tx) => tx.put('peerName', ['laptop'], peer.peerId));
    const got = await ask(context, 'ann', ['bob@laptop'], { subject: 'got' });
    await delivered(context, peer, got, 'bob@laptop');
    await ask(context, 'ann', ['bob@laptop'], { subject: 'not got' });
    accepted(await unpair(context, 'laptop'));
    await tellOfGone(context);
    await tellOfGone(context);
    const subjects = (await reportsToName(context, 'ann')).map(({ subject, replyTo }) => [subject, replyTo === got]);
    expect(subjects).toEqual([
      ['Undelivered to laptop', false],
      ['No answer will come from bob@laptop', true],
    ]);
    expect(await debts(context)).toEqual([]);
  });

  test('is told once that a host lists its debtor no more, and goes on waiting', async () => {
    const context = await contextOf(['ann']);
    const peer = await addPeer(context, 'laptop', [{ name: 'bob', roles: [] }]);
    const id = await ask(context, 'ann', ['bob@laptop']);
    await delivered(context, peer, id, 'bob@laptop');
    await tellOfGone(context);
    expect(await reportsToName(context, 'ann')).toEqual([]);
    context.clock.nowMs += HOUR_MS;
    const directory = { agents: [{ name: 'robert', roles: [] }], fetchedAtMs: context.nowMs() };
    await context.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, directory }));
    await tellOfGone(context);
    await tellOfGone(context);
    expect(await reportsToName(context, 'ann')).toMatchObject([{ subject: 'An answer may not come from bob@laptop' }]);
    expect(await debts(context)).toEqual([`asked ann ${id} bob@laptop`]);
  });
});

describe('a store from before debts were kept', () => {
  test('gets the rows of those that are open, once, and nobody is reminded of them', async () => {
    const context = await contextOf(['ann', 'bob', 'cat']);
    const peer = await addPeer(context, 'laptop');
    const open = await ask(context, 'ann', ['bob', 'cat', 'dan@laptop', 'ann']);
    const answered = await ask(context, 'ann', ['bob', 'dan@laptop']);
    const acked = await ask(context, 'bob', ['cat', 'owner']);
    await send(context, 'ann', { to: ['bob'] });
    const afar = await come(context, peer, 'cat', { from: 'dan@laptop', needsReply: true });
    accepted(await replyMail(context, await idOf(context, 'bob'), { message_id: answered, body: 'b' }));
    await come(context, peer, 'ann', { from: 'dan@laptop', replyTo: answered });
    accepted(await useInbox(context, await idOf(context, 'cat'), { action: 'ack', message_ids: [acked] }));
    const before = await debts(context);
    expect(before).toEqual(
      [
        `owed bob ${open}`,
        `owed cat ${open}`,
        `owed cat ${afar}`,
        `owed owner ${acked}`,
        `asked ann ${open} bob@here`,
        `asked ann ${open} cat@here`,
        `asked ann ${open} dan@laptop`,
        `asked bob ${acked} owner@here`,
      ].toSorted(),
    );
    // Older software has none of these rows, or leaves wrong ones of a run that was ended.
    await context.store.transact(async (tx) => {
      for (const table of ['owed', 'owedDue', 'asked'] as const) {
        for (const key of await tx.keys(table, [])) tx.delete(table, key);
      }
      tx.put('owed', ['stale' as AgentId, 7], { ref: open as MessageRef, sinceMs: 0, remindedAtMs: null });
    });
    await findOlderDebts(context);
    expect(await debts(context)).toEqual(before);
    context.clock.nowMs += 99 * DAY_MS;
    expect(await remindDebtors(context, DAY_MS)).toBe(0);

    const ann = await idOf(context, 'ann');
    await context.store.transact((tx) => tx.delete('asked', [ann, open as MessageRef]));
    await findOlderDebts(context);
    expect(await debts(context)).toEqual(before.filter((debt) => !debt.startsWith(`asked ann ${open}`)));
  });

  test('tells nobody of debtors that had gone, and of one that goes later as ever', async () => {
    const context = await contextOf(['ann', 'bob', 'cat']);
    const peer = await addPeer(context, 'laptop', [{ name: 'dan', roles: [] }]);
    const id = await ask(context, 'ann', ['bob', 'cat', 'dan@laptop']);
    await delivered(context, peer, id, 'dan@laptop');
    context.clock.nowMs += HOUR_MS;
    const directory = { agents: [], fetchedAtMs: context.nowMs() };
    await context.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, directory }));
    accepted(await removeAgent(context, { name: 'bob' }));
    const ann = await idOf(context, 'ann');
    await context.store.transact((tx) => tx.delete('asked', [ann, id as MessageRef]));
    await findOlderDebts(context);
    await tellOfGone(context);
    expect(await reportsToName(context, 'ann')).toEqual([]);
    const asked = (await debts(context)).filter((debt) => debt.startsWith('asked'));
    expect(asked).toEqual([`asked ann ${id} cat@here`, `asked ann ${id} dan@laptop`]);
    accepted(await removeAgent(context, { name: 'cat' }));
    await tellOfGone(context);
    expect(await reportsToName(context, 'ann')).toMatchObject([{ subject: 'No answer will come from cat@here' }]);
  });

  test('is looked through in slices, all of it', async () => {
    const context = await contextOf(['ann', 'bob']);
    for (let count = 0; count < 250; count++) {
      context.clock.nowMs += count % 2;
      await ask(context, 'ann', ['bob']);
    }
    const before = await debts(context);
    expect(before).toHaveLength(500);
    await context.store.transact(async (tx) => {
      for (const table of ['owed', 'owedDue', 'asked'] as const) {
        for (const key of await tx.keys(table, [])) tx.delete(table, key);
      }
    });
    await findOlderDebts(context);
    expect(await debts(context)).toEqual(before);
  });
});

describe('the keeper', () => {
  test('reminds each minute, tells of what is gone at once, and with 0 reminds never', async () => {
    const context = await contextOf(['ann', 'bob', 'cat']);
    await ask(context, 'ann', ['bob']);
    await ask(context, 'ann', ['cat']);
    const timers = new ManualTimers();
    const never = keepDebts(context, timers, 0);
    context.clock.nowMs += DAY_MS;
    timers.pass(60_000);
    await never.stop();
    expect(await reportsToName(context, 'bob')).toEqual([]);

    const keeper = keepDebts(context, timers, 2 * DAY_MS);
    await keeper.idle;
    accepted(await removeAgent(context, { name: 'cat' }));
    await expect.poll(() => reportsToName(context, 'ann')).toHaveLength(1);
    context.clock.nowMs += DAY_MS;
    timers.pass(60_000);
    await expect.poll(() => reportsToName(context, 'bob')).toHaveLength(1);
    await keeper.stop();
    expect(timers.underWay(60_000)).toBe(0);
  });
});
