/** mail_reply: whom an answer goes to, its subject and its thread. */
import { describe, expect, test } from 'vitest';
import type { ItemId } from '../../../src/protocol/names.ts';
import type { Refusal } from '../../../src/host/core/refusal.ts';
import type { Address, MessageRef, PeerRow } from '../../../src/host/core/rows.ts';
import { type ReplyInput, type SendResult, SUBJECT_CHARACTERS_MAX } from '../../../src/host/documents/mail.ts';
import { removeAgent, renameAgent } from '../../../src/host/office/agents.ts';
import { storeMessage } from '../../../src/host/office/mailbox.ts';
import { replyMail } from '../../../src/host/office/reply.ts';
import { reportToAgent } from '../../../src/host/office/reports.ts';
import type { TestOffice } from '../../support/test-office.ts';
import { accepted, addAgents, addPeer, idOf, officeOf, refused, send, storedRows } from '../../support/mail-office.ts';

async function reply(office: TestOffice, from: string, input: ReplyInput): Promise<SendResult | Refusal> {
  return replyMail(office, await idOf(office, from), input);
}

const recipientsOf = (result: SendResult | Refusal): string[] =>
  accepted(result).recipients.map((one) => one.recipient);

/** A message as it lies in bob's mailbox when a peer sent it. */
async function storeFromPeer(office: TestOffice, peer: PeerRow, from: string, to: string[]): Promise<string> {
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
    storedAtMs: office.nowMs(),
    bodyBytes: 1,
  };
  const agentId = await idOf(office, 'bob');
  await office.store.transact((tx) => storeMessage(tx, office, message, 'b', [{ agentId, forwardedFrom: null }]));
  return id;
}

describe('a reply', () => {
  test('goes to the sender, in the thread, as kind reply with a subject of its own', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const first = accepted(await send(office, 'alice', { to: ['bob', 'carol'], subject: 'Build' }));
    const second = accepted(await reply(office, 'bob', { message_id: first.message_id, body: 'done' }));
    expect(second).toMatchObject({ thread: first.thread, recipients: [{ recipient: 'alice@here' }] });
    const message = await office.store.read((reader) => reader.get('message', second.message_id as MessageRef));
    expect(message).toMatchObject({
      subject: 'Re: Build',
      kind: 'reply',
      replyTo: first.message_id,
      needsReply: false,
    });
    const third = accepted(await reply(office, 'alice', { message_id: second.message_id, body: 'thanks' }));
    const answer = await office.store.read((reader) => reader.get('message', third.message_id as MessageRef));
    expect(answer?.subject).toBe('Re: Build');
  });

  test('has a subject of at most 200 characters, never half of one', async () => {
    const office = await officeOf(['alice', 'bob']);
    const first = accepted(await send(office, 'alice', { to: ['bob'], subject: '😀'.repeat(200) }));
    const second = accepted(await reply(office, 'bob', { message_id: first.message_id, body: '' }));
    const message = await office.store.read((reader) => reader.get('message', second.message_id as MessageRef));
    expect(message?.subject).toBe(`Re: ${'😀'.repeat(SUBJECT_CHARACTERS_MAX - 4)}`);
  });

  test('to all goes to the others too, and not to whoever replies', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    await addPeer(office, 'laptop', [{ name: 'dave', roles: [] }]);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob', 'carol', 'owner', 'dave@laptop'] }));
    const result = await reply(office, 'bob', { message_id, body: '', to_all: true });
    expect(recipientsOf(result)).toEqual(['alice@here', 'carol@here', 'owner@here', 'dave@laptop']);
  });

  test('finds people by who they are, not by a name that somebody else has now', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob', 'carol'] }));
    accepted(await renameAgent(office, { name: 'alice', new_name: 'alicia' }));
    accepted(await renameAgent(office, { name: 'carol', new_name: 'caroline' }));
    await addAgents(office, ['alice', 'carol']);
    const result = await reply(office, 'bob', { message_id, body: '', to_all: true });
    expect(recipientsOf(result)).toEqual(['alicia@here', 'caroline@here']);
  });

  test('to all leaves out, by name, whoever is gone; to a sender that is gone it is refused', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob', 'carol'] }));
    accepted(await removeAgent(office, { name: 'carol' }));
    const result = accepted(await reply(office, 'bob', { message_id, body: '', to_all: true }));
    expect(result.left_out).toEqual([{ recipient: 'carol@here', detail: 'that agent was removed' }]);
    accepted(await removeAgent(office, { name: 'alice' }));
    const before = await storedRows(office);
    expect(refused(await reply(office, 'bob', { message_id, body: '', to_all: true }))).toMatchObject({
      code: 'UNKNOWN_RECIPIENT',
      details: { field: 'message_id', recipients: [{ to: 'alice@here', reason: 'removed-agent' }] },
    });
    expect(await storedRows(office)).toEqual(before);
  });

  test('to a message of one’s own follows up to those it went to', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob', 'carol', 'alice'] }));
    expect(recipientsOf(await reply(office, 'alice', { message_id, body: '' }))).toEqual(['bob@here', 'carol@here']);
    const note = accepted(await send(office, 'alice', { to: ['alice'] }));
    expect(recipientsOf(await reply(office, 'alice', { message_id: note.message_id, body: '' }))).toEqual([
      'alice@here',
    ]);
  });

  test('to a peer’s agent goes to the host that sent, whatever it is called now', async () => {
    const office = await officeOf(['bob']);
    const peer = await addPeer(office, 'laptop', null);
    const message_id = await storeFromPeer(office, peer, 'dave@laptop', ['bob@here', 'erin@third']);
    await office.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, hostName: 'notebook' as never }));
    await addPeer(office, 'laptop', [{ name: 'dave', roles: [] }]);
    const result = accepted(await reply(office, 'bob', { message_id, body: '', to_all: true }));
    expect(result.recipients.map(({ recipient }) => recipient)).toEqual(['dave@notebook']);
    expect(result.left_out).toMatchObject([{ recipient: 'erin@third' }]);
    expect(result.thread).toBe('their-thread');
    await office.store.transact((tx) => tx.put('peer', [peer.peerId], { ...peer, unpairedAtMs: 5 }));
    expect(refused(await reply(office, 'bob', { message_id, body: '' })).details).toMatchObject({
      recipients: [{ to: 'dave@laptop', reason: 'unknown-host' }],
    });
  });

  test('to a report of the host itself is refused', async () => {
    const office = await officeOf(['bob']);
    const bob = await idOf(office, 'bob');
    const ref = await office.store.transact((tx) =>
      reportToAgent(tx, office, bob, { subject: 's', body: 'b', kind: 'alert' }),
    );
    expect(refused(await reply(office, 'bob', { message_id: ref, body: '' })).details).toMatchObject({
      recipients: [{ to: 'poste@here', reason: 'nobody-reads' }],
    });
  });

  test('to a message of others is refused', async () => {
    const office = await officeOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob'] }));
    expect(refused(await reply(office, 'carol', { message_id, body: '' }))).toMatchObject({
      code: 'NO_SUCH_MESSAGE',
      details: { field: 'message_id' },
    });
  });

  test('with an idempotency_key is sent once; the key of a message that was sent is taken', async () => {
    const office = await officeOf(['alice', 'bob']);
    const { message_id } = accepted(await send(office, 'alice', { to: ['bob'] }));
    const keyed = { message_id, body: 'b', idempotency_key: 'k' };
    const first = accepted(await reply(office, 'bob', keyed));
    expect(accepted(await reply(office, 'bob', keyed))).toEqual({ ...first, duplicate: true });
    const sameKey = await send(office, 'bob', { to: ['alice'], body: 'b', idempotency_key: 'k' });
    expect(refused(sameKey).code).toBe('IDEMPOTENCY_CONFLICT');
  });
});
