/** The first characters of an id, in the operations that take one. */
import { expect, test } from 'vitest';
import type { InboxResult } from '../../../../src/host/contract/mail.ts';
import type { NumbersInput } from '../../../../src/host/contract/sent-mail.ts';
import type { AgentId, MessageRef } from '../../../../src/host/core/rows.ts';
import { dropEntry, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { numberMessages } from '../../../../src/host/mail/find-message.ts';
import { traceMessage } from '../../../../src/host/mail/trace.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { replyMail, sendMail } from '../../../../src/host/mail/send.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import { accepted, contextOf, idOf, refused, send } from '../../../support/mail-context.ts';

/** A mailbox of bob with two messages, whose ids begin alike. */
async function twoMessages() {
  const context = await contextOf(['alice', 'bob', 'eve']);
  const [alice, bob] = [await idOf(context, 'alice'), await idOf(context, 'bob')];
  const sendOne = async (): Promise<string> =>
    accepted(await send(context, 'alice', { to: ['bob'], subject: 'Obey me' })).message_id;
  const ids = [await sendOne(), await sendOne()];
  const [id = '', other = ''] = ids;
  const shared = id.split('').findIndex((character, at) => character !== other[at]);
  return { context, alice, bob, ids, id, short: id.slice(0, shared + 1), ambiguous: id.slice(0, shared) };
}

test('every member that takes an id takes its first characters', async () => {
  const { context, alice, bob, id, short } = await twoMessages();
  const inbox = async (input: object): Promise<InboxResult> => accepted(await useInbox(context, bob, input));
  expect(await inbox({ action: 'read', message_ids: [short] })).toMatchObject({ changed: [id] });
  expect(await inbox({ action: 'ack', message_ids: [short] })).toMatchObject({ changed: [id] });
  const reply = accepted(await replyMail(context, bob, { message_id: short, body: 'b' }));
  expect(reply.thread).toBe(id);
  expect((await inbox({ action: 'thread', thread: short })).messages).toHaveLength(2);
  const answers = accepted(await useInbox(context, alice, { reply_to: short }));
  expect(answers.summaries).toMatchObject([{ message_id: reply.message_id }]);
  const joining = { to: ['bob'], subject: 's', body: 'b', reply_to: short };
  expect(accepted(await sendMail(context, alice, joining)).thread).toBe(id);
  expect(accepted(await listSent(context, alice, { message_id: short })).messages).toMatchObject([{ message_id: id }]);
});

test('characters that begin several are refused with the ids and senders, and with no words of others', async () => {
  const { context, bob, ids, ambiguous } = await twoMessages();
  for (const refusal of [
    refused(await useInbox(context, bob, { action: 'read', message_ids: [ambiguous] })),
    refused(await replyMail(context, bob, { message_id: ambiguous, body: 'b' })),
  ]) {
    expect(refusal).toMatchObject({ code: 'AMBIGUOUS_ID', details: { candidates: ids } });
    expect(refusal.message).toContain(`${ids[0]} (from alice@here), ${ids[1]} (from alice@here)`);
    expect(refusal.message).not.toContain('Obey');
  }
  expect(accepted(await useInbox(context, bob, {})).unread).toBe(2);
});

test('the last four characters are taken too, of messages that the agent may name', async () => {
  const { context, alice, bob, ids, id } = await twoMessages();
  const end = id.slice(-4);
  expect(accepted(await useInbox(context, bob, { action: 'ack', message_ids: [end] }))).toMatchObject({
    changed: [id],
  });
  expect(accepted(await listSent(context, alice, { message_id: end })).messages).toMatchObject([{ message_id: id }]);
  const unsent = `message_id: there is no message ${id} among what this agent sent.`;
  expect(refused(await listSent(context, bob, { message_id: id })).message).toBe(unsent);
  expect(accepted(await useInbox(context, bob, { action: 'thread', thread: end })).messages).toHaveLength(1);
  expect(accepted(await traceMessage(context, { message_id: end })).message_id).toBe(id);
  expect(
    accepted(await useInbox(context, bob, { action: 'ack', message_ids: [end.slice(1)] })).changed,
  ).toBeUndefined();
  const eve = await idOf(context, 'eve');
  expect(refused(await replyMail(context, eve, { message_id: end, body: 'b' })).code).toBe('NO_SUCH_MESSAGE');
  // Two that end alike: of a sender that chose the ids.
  const row = { ...(await context.store.read((reader) => reader.get('message', ids[0] as MessageRef)))! };
  const twin = `X${end}` as MessageRef;
  await context.store.transact((tx) =>
    storeMessage(tx, context, { ...row, ref: twin }, 'b', [{ agentId: bob, forwardedFrom: null }]),
  );
  const several = refused(await useInbox(context, bob, { action: 'read', message_ids: [end] }));
  expect(several).toMatchObject({ code: 'AMBIGUOUS_ID', details: { candidates: [id, twin] } });
  expect(several.message).toMatch(/^several ids end with/);
});

test('a number means the same message for ever, received or sent, and none of another mailbox', async () => {
  const { context, alice, bob, ids } = await twoMessages();
  const [first = '', second = ''] = ids;
  const numbered = async (agentId: AgentId, input: NumbersInput) =>
    accepted(await numberMessages(context, agentId, input)).messages;
  expect(await numbered(bob, { message_ids: [...ids, 'none'] })).toEqual([
    { number: 1, message_id: first },
    { number: 2, message_id: second },
  ]);
  expect(await numbered(alice, { numbers: [2, 7, 1] })).toEqual([
    { number: 2, message_id: second },
    { number: 1, message_id: first },
  ]);
  const reply = accepted(await replyMail(context, bob, { message_id: first, body: 'b' })).message_id;
  expect(await numbered(bob, { message_ids: [reply] })).toEqual([{ number: 3, message_id: reply }]);
  expect(await numbered(bob, { numbers: [3] })).toEqual([{ number: 3, message_id: reply }]);
  await context.store.transact((tx) => dropEntry(tx, bob, 2, tx.get('entry', bob, 2)!));
  const { message_id: later } = accepted(await send(context, 'alice', { to: ['bob'] }));
  expect(await numbered(bob, { numbers: [1, 2, 3, 4] })).toEqual([
    { number: 1, message_id: first },
    { number: 3, message_id: reply },
    { number: 4, message_id: later },
  ]);
  expect(await numbered(await idOf(context, 'eve'), { message_ids: ids, numbers: [1] })).toEqual([]);
});

test('characters that begin none, or messages of others, or are fewer than six, are not found', async () => {
  const { context, bob, short } = await twoMessages();
  const texts = ['06NOSUCH', short.slice(0, 5)];
  expect(accepted(await useInbox(context, bob, { action: 'ack', message_ids: texts }))).toMatchObject({
    not_found: texts,
  });
  const eve = await idOf(context, 'eve');
  expect(refused(await replyMail(context, eve, { message_id: short, body: 'b' })).code).toBe('NO_SUCH_MESSAGE');
});

test('a reply by the first characters and again by the whole id is sent once with one key', async () => {
  const { context, bob, id, short } = await twoMessages();
  const reply = { body: 'b', idempotency_key: 'k' };
  const first = accepted(await replyMail(context, bob, { message_id: short, ...reply }));
  const again = accepted(await replyMail(context, bob, { message_id: id, ...reply }));
  expect(again).toEqual({ ...first, duplicate: true });
});
