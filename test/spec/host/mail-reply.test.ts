/** mail_reply: whom an answer goes to, its subject and its thread. */
import { describe, expect, test } from 'vitest';
import type { ItemId } from '../../../src/protocol/names.ts';
import type { Refusal } from '../../../src/host/core/refusal.ts';
import type { Address, MessageRef, MessageRow, PeerRow } from '../../../src/host/core/rows.ts';
import type { ReplyInput, SendResult } from '../../../src/host/contract/mail.ts';
import { SUBJECT_CHARACTERS_MAX } from '../../../src/host/contract/limits.ts';
import { removeAgent, renameAgent } from '../../../src/host/agents/agents.ts';
import { reportToAgent, storeMessage } from '../../../src/host/mailbox/mailbox.ts';
import { replyMail } from '../../../src/host/mail/send.ts';
import type { TestContext } from '../../support/test-context.ts';
import {
  accepted,
  addAgents,
  addPeer,
  idOf,
  contextOf,
  refused,
  send,
  storedRows,
} from '../../support/mail-context.ts';

async function reply(context: TestContext, from: string, input: ReplyInput): Promise<SendResult | Refusal> {
  return replyMail(context, await idOf(context, from), input);
}

const recipientsOf = (result: SendResult | Refusal): string[] =>
  accepted(result).recipients.map((one) => one.recipient);

/** A message as it lies in bob's mailbox when a peer sent it. */
async function storeFromPeer(
  context: TestContext,
  peer: PeerRow,
  from: string,
  to: string[],
  given: Partial<MessageRow> = {},
): Promise<string> {
  const id = `m-${from}`.replace('@', '-');
  const ref = id as MessageRef;
  const message = {
    ref,
    id: id as ItemId,
    thread: 'their-thread' as MessageRef,
    from: from as Address,
    fromAgent: null,
    fromPeer: peer.peerId,
    to: to as Address[],
    subject: 's',
    kind: 'request' as const,
    needsReply: true,
    origin: 'agent' as const,
    refs: [],
    replyTo: null,
    createdAtMs: 1,
    storedAtMs: context.nowMs(),
    bodyBytes: 1,
    ...given,
  };
  const agentId = await idOf(context, 'bob');
  await context.store.transact((tx) => storeMessage(tx, context, message, 'b', [{ agentId, forwardedFrom: null }]));
  return id;
}

/** Says whether the newest message of an agent's mailbox wakes it. */
async function wakes(context: TestContext, name: string): Promise<boolean> {
  const agentId = await idOf(context, name);
  return context.store.read(async (reader) => {
    const { value } = await reader.range('unread', [agentId], { reverse: true }).next();
    return value?.row === true;
  });
}

describe('message kind decides waking', () => {
  test.each([
    [true, 'reply', true],
    [false, 'reply', false],
    [true, 'status', false],
  ] as const)('of an answer to a message with needs_reply %s, a %s: %s', async (needs_reply, kind, isWoken) => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob', 'carol'], needs_reply }));
    accepted(await reply(context, 'bob', { message_id, body: 'yes', kind, to_all: true }));
    expect([await wakes(context, 'alice'), await wakes(context, 'carol')]).toEqual([isWoken, false]);
  });

  test('of an answer from another host to a message of the agent with needs_reply: it does', async () => {
    const context = await contextOf(['bob']);
    const peer = await addPeer(context, 'desktop', [{ name: 'pat', roles: [] }]);
    const { message_id } = accepted(await send(context, 'bob', { to: ['pat@desktop'], needs_reply: true }));
    const given = { kind: 'reply', needsReply: false } as const;
    await storeFromPeer(context, peer, 'pat@desktop', ['bob@here'], { ...given, replyTo: message_id as MessageRef });
    expect(await wakes(context, 'bob')).toBe(true);
  });
});

describe('a reply', () => {
  test('goes to the sender, in the thread, as kind reply with a subject of its own', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const first = accepted(await send(context, 'alice', { to: ['bob', 'carol'], subject: 'Build' }));
    const second = accepted(await reply(context, 'bob', { message_id: first.message_id, body: 'done' }));
    expect(second).toMatchObject({ thread: first.thread, recipients: [{ recipient: 'alice@here' }] });
    const message = await context.store.read((reader) => reader.get('message', second.message_id as MessageRef));
    expect(message).toMatchObject({
      subject: 'Re: Build',
      kind: 'reply',
      replyTo: first.message_id,
      needsReply: false,
    });
    const third = accepted(await reply(context, 'alice', { message_id: second.message_id, body: 'thanks' }));
    const answer = await context.store.read((reader) => reader.get('message', third.message_id as MessageRef));
    expect(answer?.subject).toBe('Re: Build');
  });

  test('has a subject of at most 200 characters, never half of one', async () => {
    const context = await contextOf(['alice', 'bob']);
    const first = accepted(await send(context, 'alice', { to: ['bob'], subject: '😀'.repeat(200) }));
    const second = accepted(await reply(context, 'bob', { message_id: first.message_id, body: '' }));
    const message = await context.store.read((reader) => reader.get('message', second.message_id as MessageRef));
    expect(message?.subject).toBe(`Re: ${'😀'.repeat(SUBJECT_CHARACTERS_MAX - 4)}`);
  });

  test('to all goes to the others too, and not to the agent that replies', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob', 'carol', 'owner', 'dave@laptop'] }));
    const result = await reply(context, 'bob', { message_id, body: '', to_all: true });
    expect(recipientsOf(result)).toEqual(['alice@here', 'carol@here', 'owner@here', 'dave@laptop']);
  });

  test('finds people by who they are, not by a name that somebody else has now', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob', 'carol'] }));
    accepted(await renameAgent(context, { name: 'alice', new_name: 'alicia' }));
    accepted(await renameAgent(context, { name: 'carol', new_name: 'caroline' }));
    await addAgents(context, ['alice', 'carol']);
    const result = await reply(context, 'bob', { message_id, body: '', to_all: true });
    expect(recipientsOf(result)).toEqual(['alicia@here', 'caroline@here']);
  });

  test('to all leaves out, by name, the agents that are gone; to a sender that is gone it is refused', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob', 'carol'] }));
    accepted(await removeAgent(context, { name: 'carol' }));
    const result = accepted(await reply(context, 'bob', { message_id, body: '', to_all: true }));
    expect(result.left_out).toEqual([{ recipient: 'carol@here', detail: 'that agent was removed' }]);
    accepted(await removeAgent(context, { name: 'alice' }));
    const before = await storedRows(context);
    expect(refused(await reply(context, 'bob', { message_id, body: '', to_all: true }))).toMatchObject({
      code: 'UNKNOWN_RECIPIENT',
      details: { field: 'message_id', recipients: [{ to: 'alice@here', reason: 'removed-agent' }] },
    });
    expect(await storedRows(context)).toEqual(before);
  });

  test('to a message of one’s own follows up to those it went to', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob', 'carol', 'alice'] }));
    expect(recipientsOf(await reply(context, 'alice', { message_id, body: '' }))).toEqual(['bob@here', 'carol@here']);
    const note = accepted(await send(context, 'alice', { to: ['alice'] }));
    expect(recipientsOf(await reply(context, 'alice', { message_id: note.message_id, body: '' }))).toEqual([
      'alice@here',
    ]);
  });

  test('to a peer’s agent goes to the host that sent, whatever it is called now', async () => {
    const context = await contextOf(['bob']);
    const peer = await addPeer(context, 'laptop', null);
    const message_id = await storeFromPeer(context, peer, 'dave@laptop', ['bob@here', 'erin@third']);
    await context.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, hostName: 'notebook' as never }));
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const result = accepted(await reply(context, 'bob', { message_id, body: '', to_all: true }));
    expect(result.recipients.map(({ recipient }) => recipient)).toEqual(['dave@notebook']);
    expect(result.left_out).toMatchObject([{ recipient: 'erin@third' }]);
    expect(result.thread).toBe('their-thread');
    await context.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, unpairedAtMs: 5 }));
    expect(refused(await reply(context, 'bob', { message_id, body: '' })).details).toMatchObject({
      recipients: [{ to: 'dave@laptop', reason: 'unknown-host' }],
    });
  });

  test('to a report of the host itself is refused', async () => {
    const context = await contextOf(['bob']);
    const bob = await idOf(context, 'bob');
    const ref = await context.store.transact((tx) =>
      reportToAgent(tx, context, bob, { subject: 's', body: 'b', kind: 'alert' }),
    );
    expect(refused(await reply(context, 'bob', { message_id: ref, body: '' })).details).toMatchObject({
      recipients: [{ to: 'poste@here', reason: 'nobody-reads' }],
    });
  });

  test('to a message of others is refused', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob'] }));
    expect(refused(await reply(context, 'carol', { message_id, body: '' }))).toMatchObject({
      code: 'NO_SUCH_MESSAGE',
      details: { field: 'message_id' },
    });
  });

  test('with an idempotency_key is sent once; the key of a message that was sent is taken', async () => {
    const context = await contextOf(['alice', 'bob']);
    const { message_id } = accepted(await send(context, 'alice', { to: ['bob'] }));
    const keyed = { message_id, body: 'b', idempotency_key: 'k' };
    const first = accepted(await reply(context, 'bob', keyed));
    expect(accepted(await reply(context, 'bob', keyed))).toEqual({ ...first, duplicate: true });
    const sameKey = await send(context, 'bob', { to: ['alice'], body: 'b', idempotency_key: 'k' });
    expect(refused(sameKey).code).toBe('IDEMPOTENCY_CONFLICT');
  });
});
