import { describe, expect, test } from 'vitest';
import { type Mentionable, isMentioned, mentionsIn } from '../../../src/host/core/waking.ts';

const bob = { names: ['bob'], host: 'laptop' };

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
    '@@bob',
    'https://example.test/@bob',
    '@bob/package',
    '@bob@desktop',
    '@bob@',
    '@bobé',
    'é@bob',
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
    expect(mentions(`${'a'.repeat(262_140)}@bob`, bob)).toBe(false);
    expect(performance.now() - started).toBeLessThan(1000);
  });
});
