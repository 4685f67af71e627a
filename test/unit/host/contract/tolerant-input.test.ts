/** The daemon takes inputs of the mail operations as agents write them, where they can mean only one thing. */
import { describe, expect, test } from 'vitest';
import { parseOperationInput } from '../../../../src/host/api/handlers.ts';
import type { OperationName } from '../../../../src/host/api/operations.ts';

function parsed(name: OperationName, given: object): object {
  return parseOperationInput(name, Buffer.from(JSON.stringify(given)));
}

const MAIL = { to: ['bob'], subject: 's', body: 'b' };

describe('an input of a mail operation', () => {
  test.each<[what: string, name: OperationName, given: object, taken: object]>([
    ['one text for a list', 'mail-send', { ...MAIL, to: 'bob', refs: 'a' }, { ...MAIL, refs: ['a'] }],
    ['a list as JSON', 'mail-send', { ...MAIL, to: '["bob","eve"]' }, { ...MAIL, to: ['bob', 'eve'] }],
    ['what only begins as a list', 'mail-send', { ...MAIL, refs: '[1] a' }, { ...MAIL, refs: ['[1] a'] }],
    ['a list of no texts', 'mail-send', { ...MAIL, refs: '[1]' }, { ...MAIL, refs: ['[1]'] }],
    ['an empty text for a list', 'mail-send', { ...MAIL, refs: '' }, { ...MAIL, refs: [] }],
    [
      'JSON in a text',
      'mail-send',
      { ...MAIL, subject: 'false', body: '["b"]' },
      { ...MAIL, subject: 'false', body: '["b"]' },
    ],
    ['null for absent', 'mail-send', { ...MAIL, kind: null, refs: null, idempotency_key: null }, MAIL],
    ['a truth value as text', 'mail-send', { ...MAIL, needs_reply: 'true' }, { ...MAIL, needs_reply: true }],
    ['the same with a capital', 'mail-inbox', { action: 'read', peek: 'False' }, { action: 'read', peek: false }],
    ['a number as text', 'mail-inbox', { limit: '20' }, { limit: 20 }],
    ['message_id for message_ids', 'mail-inbox', { message_id: 'a' }, { message_ids: ['a'] }],
    ['the other way round', 'mail-reply', { message_ids: 'a', body: 'b' }, { message_id: 'a', body: 'b' }],
    ['messageId for message_id', 'mail-reply', { messageId: 'a', body: 'b' }, { message_id: 'a', body: 'b' }],
    ['id for the only id', 'mail-reply', { id: 'a', body: 'b' }, { message_id: 'a', body: 'b' }],
    ['thread_id for thread', 'mail-inbox', { action: 'thread', thread_id: 't' }, { action: 'thread', thread: 't' }],
    ['a hyphen', 'mail-inbox', { 'max-bytes': 2048 }, { max_bytes: 2048 }],
    ['a plural', 'mail-agents', { roles: 'qa' }, { role: 'qa' }],
    ['what is right', 'mail-inbox', { action: 'ack', message_ids: ['a'] }, { action: 'ack', message_ids: ['a'] }],
  ])('takes %s', (_what, name, given, taken) => {
    expect(parsed(name, given)).toEqual(taken);
  });

  test.each<[what: string, name: OperationName, given: object, field: string, message: RegExp]>([
    ['a name that is near', 'mail-send', { ...MAIL, needs_repl: true }, 'needs_repl', /did you mean needs_reply\?$/],
    ['another name', 'mail-send', { ...MAIL, text: 'b' }, 'text', /no member of the input: it has to, subject, body,/],
    ['both names at once', 'mail-inbox', { message_ids: ['a'], message_id: 'b' }, 'message_id', /mean message_ids\?$/],
    ['two other names', 'mail-inbox', { messageId: 'a', id: 'b' }, 'id', /^id is no member/],
    ['no recipient', 'mail-send', { ...MAIL, to: '' }, 'to', /a list of 1 to 20 items$/],
    ['a text of another member', 'mail-reply', { message: 'words', body: 'b' }, 'message_id', /and message is no/],
    ['null for what is needed', 'mail-send', { ...MAIL, to: null }, 'to', /^to is missing$/],
    ['a word for a truth value', 'mail-send', { ...MAIL, needs_reply: 'yes' }, 'needs_reply', /true or false$/],
    ['a number for a text', 'mail-send', { ...MAIL, subject: 7 }, 'subject', /a text of 1 to 200 characters$/],
    ['a wrong number', 'mail-inbox', { limit: '1000' }, 'limit', /a whole number from 1 to 100$/],
    ['a list of the wrong', 'mail-send', { ...MAIL, to: [7] }, 'to', /^to\[0\] must be a text/],
  ])('refuses %s, and says what to do', (_what, name, given, field, message) => {
    expect(parsed(name, given)).toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringMatching(message) as string,
      details: { field },
    });
  });

  test('has no member that it did not name', () => {
    const given = Buffer.from('{"__proto__":{"to":["bob"]},"subject":"s","body":"b"}');
    expect(parseOperationInput('mail-send', given)).toMatchObject({ code: 'BAD_INPUT' });
  });
});

test('an input that no agent writes is held to its schema', () => {
  expect(parsed('outbox', { limit: '20' })).toMatchObject({ code: 'BAD_INPUT', details: { field: 'limit' } });
});
