import { expect, test } from 'vitest';
import { alice, bob } from '../../../support/hosts.ts';
import { SeenTokens } from '../../../../src/relay/auth/account-token.ts';

test('enrolment rule 7: a token serves one host key, for as long as it is in force', () => {
  let nowMs = 0;
  const seen = new SeenTokens(() => nowMs);
  expect(seen.use('t', alice.key, 1000)).toBe('used');
  expect(seen.use('t', alice.key, 1000)).toBe('used');
  expect(seen.use('t', bob.key, 1000)).toBe('used by another');
  expect(seen.use('u', bob.key, 1000)).toBe('used');
  nowMs = 999;
  expect(seen.use('t', bob.key, 1)).toBe('used by another');
  nowMs = 1000;
  expect(seen.use('t', bob.key, 1000)).toBe('used');
  expect(seen.use('t', alice.key, 1000)).toBe('used by another');
});

test('the table is bounded: when it is full no other token is taken until the oldest has ended', () => {
  let nowMs = 0;
  const seen = new SeenTokens(() => nowMs, 2);
  seen.use('a', alice.key, 1000);
  seen.use('b', alice.key, 2000);
  expect(seen.use('c', bob.key, 1000)).toBe('full');
  // Those that are known are still answered.
  expect(seen.use('b', alice.key, 2000)).toBe('used');
  expect(seen.use('b', bob.key, 2000)).toBe('used by another');
  nowMs = 1000;
  expect(seen.use('c', bob.key, 1000)).toBe('used');
  expect(seen.use('d', bob.key, 1000)).toBe('full');
});

test('a token that ended behind one in force is forgotten when it is used again', () => {
  let nowMs = 0;
  const seen = new SeenTokens(() => nowMs, 2);
  seen.use('long', alice.key, 5000);
  seen.use('short', alice.key, 1000);
  nowMs = 2000;
  expect(seen.use('short', bob.key, 1000)).toBe('full');
  nowMs = 5000;
  expect(seen.use('short', bob.key, 1000)).toBe('used');
});
