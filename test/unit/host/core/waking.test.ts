import { describe, expect, test } from 'vitest';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import { type Mentionable, isMentioned, mentionsIn, wakesRecipient } from '../../../../src/host/core/waking.ts';

const BOB = 'b'.repeat(32) as AgentId;
const bob = { agentId: BOB, names: ['bob'], host: 'laptop' };

function mentions(body: string, recipient: Mentionable): boolean {
  return isMentioned(mentionsIn(body), recipient);
}

describe('an @mention names the recipient', () => {
  test.each([
    '@bob',
    'please @bob, look',
    '(@bob)',
    '"@bob"',
    'cc:@bob',
    'ask @Bob.',
    'ask @bob...',
    "@bob's turn",
    '@bob@laptop',
    '@BOB@LapTop: yes',
    '@bob@laptop.',
    'first line\n@bob',
    '`@bob` in code',
    '@alice/@bob'.replace('/', ' / '),
    '日本 @bob 日本',
    '@robert and @bob',
    '@bob님',
    '@bobさん、これを見て',
    '请@bob看一下',
    '@bobé',
    '@bob/@carol',
    '@carol/@bob',
    '@carol@desktop/@bob@laptop/@dave.',
    '@bob@laptop님',
    '@bob/확인',
    '.@bob',
    'done.@bob, look',
    'done ...@bob',
    '-@bob',
    '- one\n-@bob: two',
    '_@bob_',
    'either +@bob or %@bob',
  ])('%j does', (body) => {
    expect(mentions(body, bob)).toBe(true);
  });

  test.each([
    '',
    'bob',
    '@bobby',
    '@bo',
    '@bob_x',
    'mail bob@laptop',
    'alice@bob',
    'alice+x@bob',
    'alice.x@bob',
    'alice_@bob',
    'alice-+%_@bob',
    '../@bob',
    '@@bob',
    'https://example.test/@bob',
    '@bob/package',
    '@bob@desktop',
    '@bob@',
    'é@bob',
    '@bob-lib/package',
    '@carol/@bob/notes',
    'https://example.test/@carol/@bob',
    `@bob${'.'.repeat(70)}x`,
    '@ bob',
    '＠bob',
  ])('%j does not', (body) => {
    expect(mentions(body, bob)).toBe(false);
  });

  test('every name of the recipient counts, also one that ends like a sentence', () => {
    const renamed = { names: ['robert', 'bob'], host: 'laptop' };
    expect(mentions('@bob', renamed)).toBe(true);
    expect(mentions('@robert', renamed)).toBe(true);
    expect(mentions('hello @dot.', { names: ['dot.'], host: 'laptop' })).toBe(true);
  });

  test('a long body of at signs is searched in time', () => {
    const started = performance.now();
    expect(mentions('@'.repeat(262_144), bob)).toBe(false);
    expect(mentions('@a'.repeat(131_072), bob)).toBe(false);
    expect(mentions(`${'@a/'.repeat(87_000)}@`, bob)).toBe(false);
    expect(mentions(`${'a'.repeat(262_140)}@bob`, bob)).toBe(false);
    expect(mentions(`a${'-'.repeat(262_140)}@bob`, bob)).toBe(false);
    expect(mentions('-@'.repeat(131_072), bob)).toBe(false);
    // Searched from each sign to the end it would take minutes.
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

test.each([
  ['request', true, true, true],
  ['task', true, true, true],
  ['decision', true, true, true],
  ['alert', true, true, true],
  ['message', false, true, true],
  ['reply', false, true, true],
  ['status', false, false, false],
] as const)('%s wakes by itself: %s, with needs_reply: %s, with a mention: %s', (kind, alone, asked, mentioned) => {
  const wakes = (needsReply: boolean, body: string): boolean =>
    wakesRecipient({ kind, needsReply }, () => mentionsIn(body), bob);
  expect([wakes(false, ''), wakes(true, ''), wakes(false, '@bob')]).toEqual([alone, asked, mentioned]);
  expect([wakes(false, '@carol'), wakes(true, '@bob')]).toEqual([alone, asked]);
});

function never(): never {
  throw new Error('not asked for');
}

test.each([
  ['reply', true, BOB, true],
  ['message', true, BOB, true],
  ['status', true, BOB, false],
  ['reply', false, BOB, false],
  ['reply', true, 'c'.repeat(32) as AgentId, false],
  ['reply', true, null, false],
] as const)('%s wakes who asked: needs_reply %s of %s: %s', (kind, needsReply, fromAgent, wakes) => {
  const message = { kind, needsReply: false };
  expect(wakesRecipient(message, () => mentionsIn(''), bob, { needsReply, fromAgent })).toBe(wakes);
});

test('a body is looked through only where a mention decides', () => {
  expect(wakesRecipient({ kind: 'task', needsReply: false }, never, bob)).toBe(true);
  expect(wakesRecipient({ kind: 'status', needsReply: true }, never, bob)).toBe(false);
  expect(wakesRecipient({ kind: 'message', needsReply: true }, never, bob)).toBe(true);
});
