/** The list of who waits for whom: of one agent, of all, and as the tools show it. */
import { expect, test } from 'vitest';
import { removeAgent } from '../../../../src/host/agents/agents.ts';
import { InboxInput } from '../../../../src/host/contract/mail.ts';
import { parseInput } from '../../../../src/host/contract/parse-input.ts';
import type { Debt } from '../../../../src/host/contract/waiting.ts';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import type { Address, AgentId, MessageRef, PeerRow } from '../../../../src/host/core/rows.ts';
import { remindDebtors } from '../../../../src/host/mail/debt-keeping.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { replyMail } from '../../../../src/host/mail/send.ts';
import { listWaiting } from '../../../../src/host/mail/waiting.ts';
import type { RelayReach } from '../../../../src/host/outbox/peer-work.ts';
import { applyToSent, newMessage, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { isoSecond } from '../../../../src/protocol/time.ts';
import { accepted, addPeer, addSession, contextOf, idOf, refused, send } from '../../../support/mail-context.ts';
import type { TestContext } from '../../../support/test-context.ts';

const SECOND_MS = 1000;
const HOUR_MS = 3_600_000;
const REACHED: Partial<PeerRow> = { address: '127.0.0.1:1', reachedAtMs: 1 };
const OUT_OF_REACH: Partial<PeerRow> = { address: '127.0.0.1:1', lanFailures: 9, reachedAtMs: 1 };
const noRelay: RelayReach = { factsFor: () => null };

/** The clock goes on with each question, so that their order is known. */
async function ask(context: TestContext, from: string, to: string[], subject: string): Promise<string> {
  context.clock.nowMs += SECOND_MS;
  return accepted(await send(context, from, { to, subject, needs_reply: true })).message_id;
}

async function waiting(context: TestContext, name: string | null, limit?: number): Promise<Debt[]> {
  const agentId = name === null ? null : await idOf(context, name);
  return accepted(await listWaiting(context, agentId, limit === undefined ? {} : { limit }, noRelay)).debts;
}

const inShort = ({ asker, debtor, subject }: Debt): string => `${asker} ${debtor} ${subject}`;

/** A question of an agent at a paired host comes to an agent here. */
async function comeFrom(context: TestContext, peer: PeerRow, agentId: AgentId): Promise<void> {
  await context.store.transact((tx) => {
    const words = { subject: 'afar', kind: 'request', origin: 'agent', needsReply: true } as const;
    const given = {
      ...words,
      from: `zoe@${peer.hostName}` as Address,
      fromAgent: null,
      to: [],
      refs: [],
      replyTo: null,
    };
    const message = { ...newMessage(tx, context, given, 'b', null), fromPeer: peer.peerId };
    storeMessage(tx, context, message, 'b', [{ agentId, forwardedFrom: null }]);
  });
}

test('of all agents each debt is listed once, the oldest first, with what is known of both sides', async () => {
  const context = await contextOf(['ann', 'bob', 'cat']);
  const laptop = await addPeer(context, 'laptop', null, OUT_OF_REACH);
  await addSession(context, 'bob');
  const first = await ask(context, 'ann', ['bob'], 'first');
  const atMs = context.nowMs();
  context.clock.nowMs += HOUR_MS;
  await comeFrom(context, laptop, await idOf(context, 'cat'));
  context.clock.nowMs += HOUR_MS;
  await addSession(context, 'bob');
  accepted(await useInbox(context, await idOf(context, 'bob'), { action: 'read', message_ids: [first] }));
  await ask(context, 'cat', ['dan@laptop', 'owner'], 'later');
  const debts = await waiting(context, null);
  expect(debts.map(inShort)).toEqual([
    'ann@here bob@here first',
    'zoe@laptop cat@here afar',
    'cat@here dan@laptop later',
    'cat@here owner@here later',
  ]);
  expect(debts[0]).toEqual({
    message_id: first,
    subject: 'first',
    asker: 'ann@here',
    debtor: 'bob@here',
    since: isoSecond(atMs),
    state: 'read',
    at: isoSecond(atMs + 2 * HOUR_MS),
    asker_is: 'offline',
    debtor_is: 'live',
    reminded_at: null,
  });
  expect(debts[1]).toMatchObject({ asker_is: 'unreachable', debtor_is: 'offline', state: 'delivered' });
  expect(debts[2]).toMatchObject({ debtor_is: 'unreachable', state: 'stored' });
  expect(accepted(await listWaiting(context, null, { limit: 1 }))).toMatchObject({
    debts: [{ subject: 'first' }],
    total: 4,
  });
});

test('of one agent what it owes and is owed is listed, and nothing of others', async () => {
  const context = await contextOf(['ann', 'bob', 'cat']);
  await ask(context, 'ann', ['bob'], 'one');
  await ask(context, 'bob', ['cat'], 'two');
  await ask(context, 'cat', ['ann'], 'three');
  expect((await waiting(context, 'ann')).map(inShort)).toEqual(['ann@here bob@here one', 'cat@here ann@here three']);
  accepted(await removeAgent(context, { name: 'cat' }));
  expect(await waiting(context, 'bob')).toMatchObject([{ subject: 'one' }, { subject: 'two', debtor_is: 'gone' }]);
  const bob = await idOf(context, 'bob');
  accepted(await removeAgent(context, { name: 'bob' }));
  expect(refused(await listWaiting(context, bob, {}))).toMatchObject({ code: 'NO_SUCH_AGENT' });
});

test('a host that lists its agent no more, one that was unpaired and a reminder are said', async () => {
  const context = await contextOf(['ann', 'bob']);
  const laptop = await addPeer(context, 'laptop', [{ name: 'dan', roles: [] }], REACHED);
  const server = await addPeer(context, 'server', null, REACHED);
  const asked = await ask(context, 'ann', ['bob', 'dan@laptop', 'eve@server'], 'q');
  expect((await waiting(context, 'ann')).map((debt) => debt.debtor_is)).toEqual(['offline', 'remote', 'remote']);
  context.clock.nowMs += 24 * HOUR_MS;
  await remindDebtors(context, 24 * HOUR_MS);
  await context.store.transact((tx) => {
    tx.put('peer', [server.peerId], { ...server, unpairedAtMs: context.nowMs() });
    const directory = { agents: [], fetchedAtMs: context.nowMs() };
    tx.put('peer', [laptop.peerId], { ...laptop, directory });
    for (const [peer, address] of [
      [laptop, 'dan@laptop'],
      [server, 'eve@server'],
    ] as const) {
      const receipt = { state: 'read', seq: 1, atMs: context.nowMs() - 1 } as const;
      const recipient = { peerId: peer.peerId, address: address as Address };
      applyToSent(tx, context, asked as MessageRef, recipient, receipt);
    }
  });
  const debts = await waiting(context, 'ann');
  expect(debts.map((debt) => debt.debtor_is)).toEqual(['offline', 'unlisted', 'gone']);
  expect(debts.map((debt) => debt.reminded_at)).toEqual([isoSecond(context.nowMs()), null, null]);
});

test('mail_inbox shows both sides with their age, until they are settled', async () => {
  const context = await contextOf(['ann', 'bob']);
  const mine = await ask(context, 'ann', ['bob'], 'mine');
  const theirs = await ask(context, 'bob', ['ann'], 'theirs');
  const [mineAt, theirsAt] = [isoSecond(context.nowMs() - SECOND_MS), isoSecond(context.nowMs())];
  context.clock.nowMs += 26 * HOUR_MS;
  const ann = await idOf(context, 'ann');
  const show = async (given: object = {}): Promise<unknown> => {
    const input = parseInput(InboxInput, { action: 'waiting', ...given });
    return isRefusal(input) ? input : accepted(await useInbox(context, ann, input)).waiting;
  };
  expect(await show()).toEqual({
    you_owe: [
      { to: 'bob@here', message_id: theirs, subject: 'theirs', since: theirsAt, age: '26 hours', is: 'offline' },
    ],
    owed_to_you: [
      {
        from: 'bob@here',
        message_id: mine,
        subject: 'mine',
        since: mineAt,
        age: '26 hours',
        state: 'delivered',
        at: mineAt,
        is: 'offline',
      },
    ],
  });
  expect(await show({ limit: 1 })).toMatchObject({ more: 1 });
  accepted(await replyMail(context, ann, { message_id: theirs, body: 'b' }));
  accepted(await useInbox(context, await idOf(context, 'bob'), { action: 'ack', message_ids: [mine] }));
  expect(await show()).toEqual({ you_owe: [], owed_to_you: [] });
});
