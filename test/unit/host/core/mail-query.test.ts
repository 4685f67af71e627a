import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MailQuery, isMeantBy, parseMailQuery, termsOfMessage } from '../../../../src/host/core/mail-query.ts';
import type { Address, AgentId, MessageRef, MessageRow } from '../../../../src/host/core/rows.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { anyText } from '../../../support/any-text.ts';
import { share } from '../../../support/thorough.ts';

function messageOf(given: Partial<MessageRow> = {}): MessageRow {
  return {
    ref: 'r' as MessageRef,
    id: 'i' as ItemId,
    thread: 'r' as MessageRef,
    from: 'alice@here' as Address,
    fromAgent: null as AgentId | null,
    fromPeer: null,
    to: ['bob@here' as Address],
    subject: '',
    kind: 'message',
    needsReply: false,
    origin: 'agent',
    refs: [],
    replyTo: null,
    createdAtMs: 0,
    storedAtMs: 0,
    bodyBytes: 0,
    ...given,
  };
}

function queryOf(text: string): MailQuery {
  const query = parseMailQuery(text);
  if (typeof query === 'string') throw new Error(`${text}: ${query}`);
  return query;
}

function finds(text: string, body: string, given: Partial<MessageRow> = {}): boolean {
  return isMeantBy(queryOf(text), messageOf(given), () => body);
}

/** Says whether the index would propose the message. */
function proposes({ terms }: MailQuery, message: MessageRow, body: string): boolean {
  const known = [...(termsOfMessage(message, body) ?? [])];
  return terms.every(({ text, isPrefix }) => known.some((term) => (isPrefix ? term.startsWith(text) : term === text)));
}

describe('a word', () => {
  test('finds the words that begin with it, in any case and form, and no middle of a word', () => {
    expect(finds('LINK', 'the linker says no')).toBe(true);
    expect(finds('inker', 'the linker says no')).toBe(false);
    expect(finds('A\u0308rger', 'Größe und ÄRGER')).toBe(true);
    expect(finds('cafe', 'café')).toBe(false);
    expect(finds('λογος', 'Ο ΛΟΓΟΣ, ΛΟΓΟΣΑΝ')).toBe(true);
    expect(finds('flaky test', 'a test that is flaky')).toBe(true);
    expect(finds('alice plan', '', { subject: 'The plan' })).toBe(true);
    expect(finds('alice lunch', 'plan')).toBe(false);
  });

  test('with other signs in it is found with them', () => {
    expect(finds('src/mail.ts', 'see src/mail.ts:12')).toBe(true);
    expect(finds('src/mail.ts', 'mail in src, ts')).toBe(false);
    expect(finds('snake_case', 'a snake_case name')).toBe(true);
    expect(finds('case', 'a snake_case name')).toBe(true);
    expect(finds('C++', 'c + b')).toBe(false);
    expect(finds('C++ (x|y) [a]', 'in C++: (x|y) [a]')).toBe(true);
  });

  test('is found in scripts without spaces wherever it stands', () => {
    expect(finds('住む', '東京都に住む人')).toBe(true);
    expect(finds('京', '東京都に住む人')).toBe(true);
    expect(finds('京む', '東京都に住む人')).toBe(false);
    expect(finds('linuxで', 'Linuxで動く')).toBe(true);
    expect(finds('กิน', 'ฉันกินข้าว')).toBe(true);
  });

  test('with a colon is a word where what stands before it is no name of a filter', () => {
    for (const word of ['http://x.example/a', 'localhost:8080', '12:30', 'std::vector', 'TypeError:x', 'note:'])
      expect([word, finds(word, `look: ${word} and more`)]).toEqual([word, true]);
  });
});

test('a phrase finds its words alone, in this order, over a line’s end too', () => {
  expect(finds('"flaky test"', 'a flaky\n test')).toBe(true);
  expect(finds('"flaky test"', 'flaky tests')).toBe(false);
  expect(finds('"flaky test"', 'test flaky')).toBe(false);
  expect(finds('"flaky', 'flaky')).toBe(true);
  expect(finds('"from:alice"', 'write from:alice there', { from: 'bob@here' as Address })).toBe(true);
});

test('filters narrow, by name or whole address, and all must be true', () => {
  const given = { from: 'Alice@here' as Address, kind: 'task', subject: 'Build broken' } as const;
  for (const text of [
    'from:alice',
    'from:ALICE@here',
    'to:bob',
    'kind:task',
    'subject:build',
    'subject:"build broken"',
  ])
    expect([text, finds(text, '', given)]).toEqual([text, true]);
  for (const text of ['from:ali', 'from:alice@there', 'to:alice', 'kind:alert', 'subject:uild', 'from:alice from:bob'])
    expect([text, finds(text, 'uild', given)]).toEqual([text, false]);
  expect(queryOf('is:unacked is:unread is:needs-reply')).toMatchObject({ state: 'unread', needsReply: true });
  expect(queryOf('after:2026-03-01 before:2026-03-02T10:00:00Z')).toMatchObject({
    sinceMs: Date.UTC(2026, 2, 1),
    untilMs: Date.UTC(2026, 2, 2, 10),
  });
});

test.each([
  ['form:alice', /^has form:, which is no filter: use from:, to:, .*, or put it all in quotes$/],
  ['x:"a b"', /^has x:, which is no filter/],
  ['kind:tasks', /^has kind: without one of message, request/],
  ['is:open', /^has is: without one of unread, unacked, needs-reply$/],
  ['before:yesterday', /^has before: without a date such as 2026-03-31$/],
  ['after:2026-02-30', /^has after: without a date/],
  ['from:', /without an agent/],
  ['subject:', /without a word/],
  [' \n', /^holds no word$/],
  ['.* →', /^holds no word$/],
])('%s is refused in one sentence', (text, problem) => {
  expect(parseMailQuery(text)).toMatch(problem);
});

const LETTERS = Array.from('abAB ÄäßςΣσ éıİ01_-:."\n東京都に住กิ๋ん\u0301\u200d😀𝒜@/+');
const words = fc.string({ unit: fc.constantFrom(...LETTERS), maxLength: 60 });

test('a message that a query means has all its terms, whatever the texts are', () => {
  fc.assert(
    fc.property(
      words,
      words,
      fc.nat(59),
      fc.nat(12),
      fc.constantFrom('', '"', 'subject:'),
      (subject, body, at, length, mark) => {
        const text = `${mark}${(mark === 'subject:' ? subject : body).slice(at % 30, (at % 30) + length)}`;
        const query = parseMailQuery(text.toWellFormed());
        fc.pre(typeof query !== 'string');
        const message = messageOf({ subject });
        expect(!isMeantBy(query, message, () => body) || proposes(query, message, body)).toBe(true);
      },
    ),
    { numRuns: share(2000) },
  );
});

test('no text is too odd to be parsed, and a word that is too long for the index is found by its beginning', () => {
  fc.assert(fc.property(anyText(), (text) => void parseMailQuery(text)));
  const long = 'a'.repeat(50);
  expect(proposes(queryOf(long), messageOf(), `${long}b`)).toBe(true);
  expect(proposes(queryOf(`${'a'.repeat(39)}𝒜𝒜`), messageOf(), `${'a'.repeat(39)}𝒜𝒜`)).toBe(true);
});
