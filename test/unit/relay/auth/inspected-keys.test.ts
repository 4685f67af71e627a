import { expect, test } from 'vitest';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { InspectedKeys } from '../../../../src/relay/auth/inspected-keys.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';

test('a good key is inspected once, a known one never, a bad one each time', () => {
  const inspected: PublicKey[] = [];
  const keys = new InspectedKeys(
    (key) => key === alice.key,
    (key) => inspected.push(key) > 0 && key === bob.key,
  );
  const verdicts = [alice, bob, carol, alice, bob, carol].map(({ key }) => keys.isAcceptable(key));
  expect(verdicts).toEqual([true, true, false, true, true, false]);
  expect(inspected).toEqual([bob.key, carol.key, carol.key]);
});

const numbered = (number: number): PublicKey => `${number}` as PublicKey;

test('ten thousand are remembered, and the one longest known goes', () => {
  let inspections = 0;
  const keys = new InspectedKeys(
    () => false,
    () => ++inspections > 0,
  );
  for (let number = 0; number <= 10_000; number++) keys.isAcceptable(numbered(number));
  expect(inspections).toBe(10_001);
  keys.isAcceptable(numbered(1));
  expect(inspections).toBe(10_001);
  keys.isAcceptable(numbered(0));
  expect(inspections).toBe(10_002);
});
