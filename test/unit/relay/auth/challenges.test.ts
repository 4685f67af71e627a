import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { type PublicKey, publicKeyFromBytes } from '../../../../src/protocol/public-key.ts';
import { Challenges } from '../../../../src/relay/auth/challenges.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { found } from '../../../support/found.ts';

const LIFETIME_MS = 300_000;

let nowMs: number;
let challenges: Challenges;

beforeEach(() => {
  nowMs = 1000.5;
  challenges = new Challenges(() => nowMs, randomBytes);
});

function issue(host = alice, address = '1.1.1.1'): string {
  return found(challenges.issue(host.key, address), 'no challenge was given');
}

function keyNumbered(number: number): PublicKey {
  return publicKeyFromBytes(Buffer.alloc(32, `key ${number} `));
}

function use(text: string, host = alice, address = '1.1.1.1'): string {
  return challenges.use(host.key, address, (open) => open === text);
}

test('enrolment rule 2: a challenge is 32 bytes and is used once', () => {
  const text = issue();
  expect(Buffer.from(text, 'base64')).toHaveLength(32);
  expect([use(text), use(text)]).toEqual(['used', 'none open']);
});

test('an attempt that verifies under no challenge uses none up', () => {
  const text = issue();
  expect([use('another'), use(text)]).toEqual(['none verifies', 'used']);
});

test('enrolment rule 2: a challenge belongs to one key', () => {
  const text = issue(alice);
  expect(use(text, bob)).toBe('none open');
  issue(bob);
  expect(use(text, bob)).toBe('none verifies');
  expect(use(text, alice)).toBe('used');
});

test('enrolment rule 2: a challenge ends after 5 minutes, to the millisecond', () => {
  const [first, second] = [issue(), issue()];
  nowMs += LIFETIME_MS - 1;
  expect(use(first)).toBe('used');
  nowMs += 1;
  expect(use(second)).toBe('none open');
});

test('enrolment rule 2: of a key and an address the newest 4 stay open', () => {
  const texts = Array.from({ length: 6 }, () => issue());
  expect(texts.map((text) => use(text))).toEqual(['none verifies', 'none verifies', 'used', 'used', 'used', 'used']);
});

test('challenges given to another address or for another key count apart', () => {
  const first = issue(alice, '1.1.1.1');
  for (let count = 0; count < 4; count++) issue(alice, '2.2.2.2');
  for (let count = 0; count < 4; count++) issue(bob, '1.1.1.1');
  expect(use(first)).toBe('used');
});

describe('with 10,000 open', () => {
  beforeEach(() => {
    for (let number = 0; number < 9999; number++) challenges.issue(keyNumbered(number), 'one address');
    issue(alice);
  });

  test('enrolment rule 2: no other is given', () => {
    expect(challenges.issue(alice.key, 'another')).toBeUndefined();
    expect(challenges.issue(bob.key, 'address 1')).toBeUndefined();
  });

  test('one that is used makes room for one', () => {
    challenges.use(alice.key, '1.1.1.1', () => true);
    expect(challenges.issue(bob.key, 'x')).toBeDefined();
    expect(challenges.issue(bob.key, 'x')).toBeUndefined();
  });

  test('those that end make room', () => {
    nowMs += LIFETIME_MS;
    expect(challenges.issue(bob.key, 'x')).toBeDefined();
    expect(challenges.use(alice.key, '1.1.1.1', () => true)).toBe('none open');
  });
});

test('the oldest of a key and address gives way also when 10,000 are open', () => {
  for (let count = 0; count < 4; count++) issue(alice, 'full');
  for (let number = 0; number < 9996; number++) challenges.issue(keyNumbered(number), 'one address');
  const text = issue(alice, 'full');
  expect(challenges.issue(alice.key, 'other')).toBeUndefined();
  expect(use(text)).toBe('used');
});

test('a sweep forgets what has ended and nothing else', () => {
  issue();
  nowMs += LIFETIME_MS / 2;
  const later = issue();
  nowMs += LIFETIME_MS / 2;
  challenges.forgetEnded();
  expect(use('x')).toBe('none verifies');
  expect(use(later)).toBe('used');
  expect(use('x')).toBe('none open');
});

test('of the challenges of other addresses only the newest are tried, however many are open for a key', () => {
  const own = issue(alice, 'own');
  for (let number = 0; number < 500; number++) issue(alice, `address ${number}`);
  const tried: string[] = [];
  challenges.use(alice.key, 'own', (text) => tried.push(text) < 0);
  expect(tried[0]).toBe(own);
  expect(tried.length).toBeLessThan(50);
  expect(use(own, alice, 'own')).toBe('used');
});
