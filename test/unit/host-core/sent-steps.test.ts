import { expect, test } from 'vitest';
import type { Address, SentRecipient } from '../../../src/host/core/rows.ts';
import { SENT_STEPS_MAX, withStep } from '../../../src/host/core/sent-steps.ts';

const PENDING: SentRecipient = {
  address: 'bob@there' as Address,
  agentId: null,
  peerId: null,
  state: 'pending',
  atMs: 1,
  seq: 0,
  steps: [{ state: 'pending', atMs: 1 }],
};

test('what is learned comes behind what was known, and is the state', () => {
  const read = withStep(withStep(PENDING, { state: 'delivered', atMs: 2, seq: 5 }), { state: 'read', atMs: 4, seq: 6 });
  expect(read).toMatchObject({ state: 'read', atMs: 4, seq: 6 });
  expect(read.steps.map(({ state, atMs }) => [state, atMs])).toEqual([
    ['pending', 1],
    ['delivered', 2],
    ['read', 4],
  ]);
});

test('the same state again is no new step', () => {
  const twice = withStep(withStep(PENDING, { state: 'read', atMs: 2, seq: 5 }), { state: 'read', atMs: 3, seq: 6 });
  expect(twice.steps).toEqual([
    { state: 'pending', atMs: 1 },
    { state: 'read', atMs: 3 },
  ]);
});

test('what is said without a receipt keeps its seq', () => {
  const given = withStep({ ...PENDING, seq: 7 }, { state: 'undelivered', atMs: 2 });
  expect(given.seq).toBe(7);
});

test('the oldest steps make room', () => {
  let known = PENDING;
  for (let at = 0; at < 100; at++) known = withStep(known, { state: at % 2 ? 'pending' : 'undelivered', atMs: at });
  expect(known.steps.length).toBe(SENT_STEPS_MAX);
  expect(known.steps.at(-1)).toEqual({ state: known.state, atMs: 99 });
});
