/** "What the service does" and "Message (input of mail_send)", sentence by sentence, over a real store. */
import { describe, expect, test } from 'vitest';
import {
  type Address,
  type AgentId,
  MESSAGE_KINDS,
  type MessageRow,
  type PeerId,
} from '../../../src/host/core/rows.ts';
import { REF_CHARACTERS_MAX } from '../../../src/host/contract/limits.ts';
import { mailboxOf, newMessage, storeMessage } from '../../../src/host/mailbox/mailbox.ts';
import { removeAgent, renameAgent } from '../../../src/host/agents/agents.ts';
import { replyMail, sendMail } from '../../../src/host/mail/send.ts';
import { LAN_BODY_BYTES_MAX, LAN_ITEM_BYTES_MAX } from '../../../src/protocol/lan.ts';
import type { TestContext } from '../../support/test-context.ts';
import {
  accepted,
  addAgents,
  addPeer,
  addSession,
  idOf,
  contextOf,
  refused,
  send,
  storedRows,
} from '../../support/mail-context.ts';
import { rowsOf } from '../../support/stored-rows.ts';

const valid = { to: ['bob'], subject: 's', body: 'b' };

/** A message from dave of the paired host laptop. */
async function receive(context: TestContext, to: AgentId, fromPeer: PeerId, needsReply: boolean): Promise<MessageRow> {
  return context.store.transact((tx) => {
    const parts = { from: 'dave@laptop' as Address, fromAgent: null, to: ['bob@here' as Address], subject: 's' };
    const rest = { kind: 'message', needsReply, origin: 'agent', refs: [], replyTo: null } as const;
    const message = { ...newMessage(tx, context, { ...parts, ...rest, refs: [] }, 'b', null), fromPeer };
    storeMessage(tx, context, message, 'b', [{ agentId: to, forwardedFrom: null }]);
    return message;
  });
}

const text = (length: number, of = 'x'): string => of.repeat(length);

describe('every constraint of the table', () => {
  test.each<[what: string, given: object]>([
    ['to: 1 item', { to: ['bob'] }],
    ['to: 20 items', { to: Array.from({ length: 20 }, () => 'bob') }],
    ['subject: 1 character', { subject: 'x' }],
    ['subject: 200 characters', { subject: text(200) }],
    ['subject: 200 characters beyond the basic plane', { subject: text(200, '😀') }],
    ['body: empty', { body: '' }],
    ['body: 262,144 characters', { body: text(262_144) }],
    ['body: 262,144 characters beyond the basic plane', { body: text(262_144, '😀') }],
    ['refs: 20 items', { refs: Array.from({ length: 20 }, () => text(REF_CHARACTERS_MAX)) }],
    ['refs: none', { refs: [] }],
    ['refs: an empty one', { refs: [''] }],
    ['idempotency_key: an empty one', { idempotency_key: '' }],
    ['idempotency_key: 100 characters', { idempotency_key: text(100, 'é') }],
    ['origin: agent', { origin: 'agent' }],
    ['origin: external', { origin: 'external' }],
    ...MESSAGE_KINDS.map((kind) => [`kind: ${kind}`, { kind }] as [string, object]),
  ])('accepted: %s', async (_, given) => {
    const context = await contextOf(['alice', 'bob']);
    expect(accepted(await send(context, 'alice', { ...valid, ...given })).recipients).toHaveLength(1);
  });

  test.each([
    ['to', { to: undefined }],
    ['to', { to: [] }],
    ['to', { to: Array.from({ length: 21 }, () => 'bob') }],
    ['to', { to: [''] }],
    ['to', { to: 'bob' }],
    ['to', { to: ['bob', 7] }],
    ['to', { to: ['bob smith'] }],
    ['to', { to: ['bob', 'bob@'] }],
    ['subject', { subject: undefined }],
    ['subject', { subject: '' }],
    ['subject', { subject: text(201) }],
    ['subject', { subject: text(201, '😀') }],
    ['subject', { subject: 'half \ud83d' }],
    ['body', { body: undefined }],
    ['body', { body: text(262_145) }],
    ['body', { body: '\udc00' }],
    ['body', { body: null }],
    ['kind', { kind: 'shout' }],
    ['kind', { kind: null }],
    ['reply_to', { reply_to: 'a b' }],
    ['reply_to', { reply_to: '' }],
    ['needs_reply', { needs_reply: 'true' }],
    ['refs', { refs: Array.from({ length: 21 }, () => 'x') }],
    ['refs', { refs: [text(REF_CHARACTERS_MAX + 1)] }],
    ['refs', { refs: ['\ud800'] }],
    ['idempotency_key', { idempotency_key: text(101) }],
    ['idempotency_key', { idempotency_key: '\ud800' }],
    ['origin', { origin: 'elsewhere' }],
    ['idempotencyKey', { idempotencyKey: 'x' }],
  ])('refused by name: %s of %j', async (field, given) => {
    const context = await contextOf(['alice', 'bob']);
    const before = await storedRows(context);
    const refusal = refused(await send(context, 'alice', { ...valid, ...given }));
    expect(refusal).toMatchObject({ code: 'BAD_INPUT', details: { field } });
    expect(refusal.message.startsWith(field)).toBe(true);
    expect(await storedRows(context)).toEqual(before);
    expect(context.told.filter(({ type }) => type !== 'agents-changed')).toEqual([]);
  });

  test('the defaults: kind message, no reply needed, no refs, from an agent', async () => {
    const context = await contextOf(['alice', 'bob']);
    const { message_id } = accepted(await send(context, 'alice', valid));
    const message = await context.store.read((reader) => reader.get('message', message_id as never));
    expect(message).toMatchObject({ kind: 'message', needsReply: false, refs: [], origin: 'agent', replyTo: null });
    expect(message).toMatchObject({ from: 'alice@here', to: ['bob@here'], thread: message_id, bodyBytes: 1 });
  });
});

async function contextAndPeers(): Promise<TestContext> {
  const context = await contextOf(['alice:qa', 'bob:QA', 'carol:dev']);
  await addPeer(context, 'laptop', [
    { name: 'dave', roles: ['qa'] },
    { name: 'erin', roles: [] },
    { name: 'owner', roles: ['qa'] },
  ]);
  await addPeer(context, 'gone', [{ name: 'frank', roles: ['qa'] }], { unpairedAtMs: 1 });
  return context;
}

describe('recipient address forms: an agent name; agent@host; role:<role>; * (everyone); owner', () => {
  test.each([
    [['bob'], { 'bob@here': ['bob'] }],
    [['BOB'], { 'bob@here': ['BOB'] }],
    [['bob@HERE'], { 'bob@here': ['bob@HERE'] }],
    [['alice'], { 'alice@here': ['alice'] }],
    [['owner'], { 'owner@here': ['owner'] }],
    [['owner@here', 'Owner'], { 'owner@here': ['owner@here', 'Owner'] }],
    [['owner@laptop'], { 'owner@laptop': ['owner@laptop'] }],
    [['Dave@Laptop'], { 'dave@laptop': ['Dave@Laptop'] }],
    [['role:qa'], { 'bob@here': ['role:qa'], 'dave@laptop': ['role:qa'] }],
    [['*'], { 'bob@here': ['*'], 'carol@here': ['*'], 'dave@laptop': ['*'], 'erin@laptop': ['*'] }],
    [
      ['bob', 'role:qa', 'dave@laptop', 'bob@here', 'bob'],
      { 'bob@here': ['bob', 'role:qa', 'bob@here'], 'dave@laptop': ['role:qa', 'dave@laptop'] },
    ],
    [
      ['*', 'alice'],
      { 'bob@here': ['*'], 'carol@here': ['*'], 'dave@laptop': ['*'], 'erin@laptop': ['*'], 'alice@here': ['alice'] },
    ],
  ])('%j', async (to, expected) => {
    const { recipients } = accepted(await send(await contextAndPeers(), 'alice', { to }));
    expect(Object.fromEntries(recipients.map((one) => [one.recipient, one.addressed_as]))).toEqual(expected);
  });

  test('several addresses on one host are one envelope for it', async () => {
    const context = await contextOf(['alice']);
    const laptop = await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const desktop = await addPeer(context, 'desktop', []);
    const to = ['dave@laptop', 'erin@laptop', 'frank@desktop'];
    const { message_id } = accepted(await send(context, 'alice', { to }));
    const rows = await rowsOf(context.store, 'outbox', []);
    expect(rows.map(({ peerId, itemId, recipients }) => [peerId, itemId, recipients])).toEqual([
      [laptop.peerId, message_id, ['dave@laptop', 'erin@laptop']],
      [desktop.peerId, message_id, ['frank@desktop']],
    ]);
  });
});

describe('a name that never existed on this host is refused, with suggestions', () => {
  test.each([
    ['reviwer', 'unknown-agent', ['reviewer']],
    ['dave', 'unknown-agent', ['dave@laptop']],
    ['dev', 'unknown-agent', ['role:dev']],
    ['role:qq', 'empty-role', ['role:qa']],
    ['dave@latpop', 'unknown-host', ['dave@laptop']],
    ['frank@gone', 'unknown-host', []],
    ['poste', 'nobody-reads', []],
    ['poste@laptop', 'nobody-reads', []],
  ])('%s: %s, %j', async (to, reason, suggestions) => {
    const context = await contextOf(['alice', 'reviewer:dev']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: ['qa'] }]);
    await addPeer(context, 'gone', [{ name: 'frank', roles: [] }], { unpairedAtMs: 1 });
    const before = await storedRows(context);
    const refusal = refused(await send(context, 'alice', { to: ['reviewer', to] }));
    expect(refusal).toMatchObject({
      code: 'UNKNOWN_RECIPIENT',
      details: { field: 'to', recipients: [{ to, reason, suggestions }] },
    });
    for (const suggestion of suggestions) expect(refusal.message).toContain(suggestion);
    expect(await storedRows(context)).toEqual(before);
  });

  test('a removed agent is refused, said so, by each of its names', async () => {
    const context = await contextOf(['alice', 'bob']);
    accepted(await renameAgent(context, { name: 'bob', new_name: 'robert' }));
    accepted(await removeAgent(context, { name: 'robert' }));
    for (const to of ['bob', 'robert']) {
      expect(refused(await send(context, 'alice', { to: [to] })).details).toMatchObject({
        recipients: [{ to, reason: 'removed-agent' }],
      });
    }
    // Also when a group in the same list makes all names be looked at.
    accepted(await send(context, 'owner', { to: ['*'] }));
    expect(refused(await send(context, 'owner', { to: ['*', 'bob'] })).details).toMatchObject({
      recipients: [{ to: 'bob', reason: 'removed-agent' }],
    });
  });

  test('everyone is refused when there is nobody else', async () => {
    const context = await contextOf(['alice']);
    expect(refused(await send(context, 'alice', { to: ['*'] })).details).toMatchObject({
      recipients: [{ to: '*', reason: 'nobody-else' }],
    });
  });

  test('a name that a paired host did not list may be new there: it is sent, and the doubt is said', async () => {
    const context = await contextOf(['alice']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    await addPeer(context, 'desktop', null);
    context.clock.nowMs += 3 * 3_600_000;
    const to = ['dave@laptop', 'new@laptop', 'any@desktop'];
    const { recipients } = accepted(await send(context, 'alice', { to, kind: 'request' }));
    expect(recipients.map(({ status, detail }) => [status, detail])).toEqual([
      ['remote', 'Queued for laptop; not delivered yet.'],
      ['remote', expect.stringContaining('3 h ago')],
      ['remote', expect.stringContaining('has not sent its list of agents yet')],
    ]);
  });
});

describe('message kind decides waking', () => {
  test.each([
    ['request', {}, true],
    ['task', {}, true],
    ['decision', {}, true],
    ['alert', {}, true],
    ['message', {}, false],
    ['message', { needs_reply: true }, true],
    ['message', { body: 'see @bob' }, true],
    ['message', { body: 'see @carol' }, false],
    ['reply', {}, false],
    ['reply', { needs_reply: true }, true],
    ['reply', { body: '@bob@here: yes' }, true],
    ['reply', { body: '@bob@laptop: yes' }, false],
    ['status', {}, false],
    ['status', { needs_reply: true, body: '@bob' }, false],
  ])('%s with %j wakes: %s', async (kind, given, wakes) => {
    const context = await contextOf(['alice', 'bob']);
    const woken: string[] = [];
    const result = await sendMail(
      context,
      await idOf(context, 'alice'),
      { ...valid, kind: kind as never, ...given },
      {
        wakeAgent: async (agentId) => {
          woken.push(agentId);
          return { isWoken: true, detail: 'Woken by its hook.' };
        },
      },
    );
    const [recipient] = accepted(result).recipients;
    expect(woken).toEqual(wakes ? [await idOf(context, 'bob')] : []);
    expect(recipient?.status).toBe(wakes ? 'live-wake' : 'offline');
    const { unreadWaking } = await context.store.read(async (reader) => mailboxOf(reader, await idOf(context, 'bob')));
    expect(unreadWaking).toBe(wakes ? 1 : 0);
  });

  const ADVICE = / wakes nobody(?: by itself)?: for that use /;

  test.each<[what: string, given: object, advised: string[]]>([
    ['a message', { to: ['bob', 'carol'] }, ['bob@here']],
    ['a status, whatever else it says', { to: ['bob'], kind: 'status', needs_reply: true }, ['bob@here']],
    ['a message that wakes one of them', { to: ['bob', 'carol'], body: '@carol' }, []],
    ['a request', { to: ['bob'], kind: 'request' }, []],
    ['a message that needs a reply', { to: ['dave@laptop'], needs_reply: true }, []],
    ['a message to another host', { to: ['dave@laptop'] }, ['dave@laptop']],
    ['one that mentions an agent there', { to: ['dave@laptop'], body: '@dave@laptop' }, []],
    ['a message to the owner, whom nothing wakes', { to: ['owner'] }, []],
    ['a message to the owner and an agent', { to: ['owner', 'bob'] }, ['bob@here']],
  ])('the sender learns once how to wake: %s', async (_what, given, advised) => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const { recipients } = accepted(await send(context, 'alice', given));
    expect(recipients.flatMap(({ recipient, detail }) => (ADVICE.test(detail) ? [recipient] : []))).toEqual(advised);
  });

  test('an answer to an agent of another host that asked for it wakes it, and says nothing more', async () => {
    const context = await contextOf(['bob']);
    const bob = await idOf(context, 'bob');
    const peer = await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    const answersOf = async (needsReply: boolean): Promise<string> => {
      const { ref } = await receive(context, bob, peer.peerId, needsReply);
      const { recipients } = accepted(await replyMail(context, bob, { message_id: ref, body: 'Yes.' }));
      return recipients[0]?.detail ?? '';
    };
    expect(await answersOf(true)).not.toMatch(ADVICE);
    expect(await answersOf(false)).toMatch(ADVICE);
  });
});

describe('the result states per recipient', () => {
  test('live-wake only on proof, live-next-prompt where a hook reports the prompts, else offline', async () => {
    const context = await contextOf(['alice', 'bob', 'carol', 'dave', 'erin']);
    await addSession(context, 'bob', { reportsPrompts: true });
    await addSession(context, 'erin');
    await addSession(context, 'carol');
    const carol = await idOf(context, 'carol');
    const to = ['bob', 'carol', 'dave', 'erin'];
    const input = { ...valid, to, kind: 'request' as const, idempotency_key: 'k' };
    const wakeAgent = async (agentId: string) => ({ isWoken: agentId === carol, detail: 'Woken.' });
    const result = accepted(await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent }));
    const statuses = result.recipients.map(({ recipient, status }) => [recipient, status]);
    expect(statuses).toEqual([
      ['bob@here', 'live-next-prompt'],
      ['carol@here', 'live-wake'],
      ['dave@here', 'offline'],
      ['erin@here', 'offline'],
    ]);
    const [bob, , dave, erin] = result.recipients.map(({ detail }) => detail);
    expect(bob).toContain('a session of it is live and sees it on its next prompt.');
    expect(dave).toContain('no session of it is live, the message waits.');
    expect(erin).toContain('its mail tools run; it sees the mail when it looks.');
    const again = accepted(await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent }));
    expect(again).toEqual({ ...result, duplicate: true });
    context.clock.nowMs += 3_600_000;
    const later = accepted(await send(context, 'alice', { to: ['bob'] }));
    expect(later.recipients[0]?.status).toBe('offline');
  });

  test('forwarded: the mailbox was renamed, however often, and the detail says what it is called', async () => {
    const context = await contextOf(['alice', 'bob']);
    accepted(await renameAgent(context, { name: 'bob', new_name: 'robert' }));
    accepted(await renameAgent(context, { name: 'robert', new_name: 'rob' }));
    const { recipients } = accepted(await send(context, 'alice', { to: ['bob'] }));
    expect(recipients).toMatchObject([{ recipient: 'rob@here', addressed_as: ['bob'], status: 'forwarded' }]);
    expect(recipients[0]?.detail).toContain('rob@here');
    const both = accepted(await send(context, 'alice', { to: ['bob', 'rob'] }));
    expect(both.recipients).toMatchObject([{ addressed_as: ['bob', 'rob'], status: 'offline' }]);
  });

  test('a name that another agent took means that one', async () => {
    const context = await contextOf(['alice', 'bob']);
    accepted(await renameAgent(context, { name: 'bob', new_name: 'robert' }));
    await addAgents(context, ['Bob']);
    const { recipients } = accepted(await send(context, 'alice', { to: ['bob'] }));
    expect(recipients).toMatchObject([{ recipient: 'Bob@here', status: 'offline' }]);
  });
});

describe('idempotency_key: the same key twice sends only once', () => {
  const keyed = { ...valid, idempotency_key: 'key' };

  test('the same content gives the same result, marked, and stores nothing', async () => {
    const context = await contextOf(['alice', 'bob']);
    const first = accepted(await send(context, 'alice', keyed));
    const before = await storedRows(context);
    // Defaults that are spelled out are the same content.
    const again = await send(context, 'alice', {
      ...keyed,
      kind: 'message',
      needs_reply: false,
      refs: [],
      origin: 'agent',
    });
    expect(accepted(again)).toEqual({ ...first, duplicate: true });
    expect(first.duplicate).toBe(false);
    expect(await storedRows(context)).toEqual(before);
  });

  test('also when both come at once, and when the recipient is gone since', async () => {
    const context = await contextOf(['alice', 'bob']);
    const results = (await Promise.all([1, 2, 3].map(() => send(context, 'alice', keyed)))).map(accepted);
    expect(new Set(results.map(({ message_id }) => message_id)).size).toBe(1);
    expect(results.filter(({ duplicate }) => duplicate)).toHaveLength(2);
    accepted(await removeAgent(context, { name: 'bob' }));
    expect(accepted(await send(context, 'alice', keyed)).duplicate).toBe(true);
  });

  test.each([
    { to: ['carol'] },
    { subject: 'other' },
    { body: 'other' },
    { kind: 'task' },
    { needs_reply: true },
    { refs: ['x'] },
    { origin: 'external' },
  ])('other content is a conflict that names the field: %j', async (other) => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', keyed));
    const before = await storedRows(context);
    expect(refused(await send(context, 'alice', { ...keyed, ...other }))).toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
      details: { field: 'idempotency_key', message_id },
    });
    expect(await storedRows(context)).toEqual(before);
  });

  test('an empty key is none', async () => {
    const context = await contextOf(['alice', 'bob']);
    const empty = { ...valid, idempotency_key: '' };
    const first = accepted(await send(context, 'alice', empty));
    const other = accepted(await send(context, 'alice', { ...empty, body: 'other' }));
    expect(other).toMatchObject({
      duplicate: false,
      message_id: expect.not.stringMatching(first.message_id) as string,
    });
  });

  test('a key belongs to the agent that used it', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    accepted(await send(context, 'alice', keyed));
    expect(accepted(await send(context, 'carol', keyed)).duplicate).toBe(false);
  });
});

describe('reply_to: id of the message being answered; keeps the thread', () => {
  test('of a message in the mailbox, or of one that was sent', async () => {
    const context = await contextOf(['alice', 'bob']);
    const first = accepted(await send(context, 'alice', valid));
    const answer = accepted(await send(context, 'bob', { ...valid, to: ['alice'], reply_to: first.message_id }));
    const after = accepted(await send(context, 'bob', { ...valid, to: ['alice'], reply_to: answer.message_id }));
    expect([answer.thread, after.thread]).toEqual([first.thread, first.thread]);
  });

  test('of one that is unknown, or another agent’s, is refused by name', async () => {
    const context = await contextOf(['alice', 'bob', 'carol']);
    const { message_id } = accepted(await send(context, 'alice', valid));
    const before = await storedRows(context);
    for (const [from, reply_to] of [
      ['bob', 'nothing'],
      ['carol', message_id],
    ] as const) {
      expect(refused(await send(context, from, { ...valid, to: ['alice'], reply_to }))).toMatchObject({
        code: 'NO_SUCH_MESSAGE',
        details: { field: 'reply_to' },
      });
    }
    expect(await storedRows(context)).toEqual(before);
  });
});

describe('what a body becomes when it is sealed', () => {
  test('a body of 262,144 characters goes to another host; its sender learns of a relay’s limit', async () => {
    const context = await contextOf(['alice', 'bob']);
    await addPeer(context, 'laptop', [{ name: 'dave', roles: [] }]);
    // Six bytes each in JSON: the longest body there is.
    for (const [character, isTooLarge] of [
      ['x', false],
      ['語', true],
      ['\u0001', true],
    ] as const) {
      const body = character.repeat(262_144);
      const refs = Array.from({ length: 20 }, () => character.repeat(REF_CHARACTERS_MAX));
      const given = { to: ['dave@laptop'], body, ...(isTooLarge && { refs }) };
      const { recipients } = accepted(await send(context, 'alice', given));
      expect(recipients[0]?.detail.includes('too large for a relay')).toBe(isTooLarge);
    }
    const sizes = (await rowsOf(context.store, 'outbox', [])).map(({ wireBytes }) => wireBytes);
    expect(sizes.map((bytes) => bytes > 524_288)).toEqual([false, true, true]);
    // As base64 in one request, with room.
    expect(Math.max(...sizes)).toBeLessThanOrEqual(LAN_ITEM_BYTES_MAX);
    expect((LAN_ITEM_BYTES_MAX / 3) * 4 + 10_000).toBeLessThan(LAN_BODY_BYTES_MAX);
  });

  test('an agent that is not here sends nothing', async () => {
    const context = await contextOf(['alice', 'bob']);
    const bob = await idOf(context, 'bob');
    accepted(await removeAgent(context, { name: 'bob' }));
    expect(refused(await sendMail(context, bob, { ...valid, to: ['alice'] })).code).toBe('NO_SUCH_AGENT');
  });
});
