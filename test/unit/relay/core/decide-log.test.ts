/** Epochs, lost items, checkpoints of the rows and how long records are kept. */
import { describe, expect, test } from 'vitest';
import { reportLostOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { accepted, acked, enrolledInAccount, noticed } from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { ageOf, baseCheckpoint, decideCheckpoint, isCheckpointDue } from '../../../../src/relay/core/decide-log.ts';

const queued = [enrolledInAccount(bob, 'acme'), accepted(alice, 'm1', [[bob, NOON_MS, 'xyz']])];

test('a rotation begins the epoch it was given, for the reason it was given', () => {
  const rotated = given().when(rotateEpochOf(epochNumbered(7), { reason: 'restore' }));
  expect(rotated.events).toEqual([{ type: 'EpochRotated', epoch: epochNumbered(7), reason: 'restore', atMs: NOON_MS }]);
  expect(rotated.outcome).toEqual({ type: 'EpochBegun', epoch: epochNumbered(7) });
});

test('a rotation that is to end one epoch begins none when that has ended: hosts that ask at once share one', () => {
  const [first, second] = [epochNumbered(7), epochNumbered(8)];
  const change = { reason: 'log-contradicted', ending: epochNumbered(1) } as const;
  const rotated = given().when(rotateEpochOf(first, change));
  expect(rotated.events).toMatchObject([{ epoch: first, reason: 'log-contradicted' }]);
  const again = given(...rotated.events).when(rotateEpochOf(second, change));
  expect([again.events, again.outcome]).toEqual([[], { type: 'EpochBegun', epoch: first }]);
});

test('an item that cannot be served is lost: it leaves queue, dedup and usage, and the epoch ends', () => {
  const lost = given(...queued).when(reportLostOf(bob, NOON_MS));
  expect(lost.events).toEqual([
    {
      type: 'ItemLost',
      targetPubkey: bob.key,
      seq: NOON_MS,
      kind: 'envelope',
      senderPubkey: alice.key,
      itemId: 'm1',
      pushedTo: bob.key,
      bytes: 3,
      account: 'acme',
      reason: 'corrupt',
      atMs: NOON_MS,
    },
    { type: 'EpochRotated', epoch: epochNumbered(98), reason: 'item-lost', atMs: NOON_MS },
  ]);
  const after = lost.after();
  expect(
    after
      .all()
      .map(({ table }) => table)
      .toSorted(),
  ).toEqual(['enrolment', 'relay', 'target']);
  expect(after.get('target', bob.key)).toEqual({ headSeq: NOON_MS, ackedThrough: 0, queueItems: 0, queueBytes: 0 });
  expect(after.get('relay', '')?.epoch).toBe(epochNumbered(98));
});

test('a notice that cannot be served is dropped: nobody can push it again, and no epoch ends for it', () => {
  const lost = given(...queued, noticed(bob, NOON_MS + 1)).when(reportLostOf(bob, NOON_MS + 1));
  expect(lost.events).toMatchObject([{ type: 'ItemLost', seq: NOON_MS + 1, kind: 'expired' }]);
  const after = lost.after();
  expect(after.queue(bob.key).map(({ itemId }) => itemId)).toEqual(['m1']);
  expect(after.get('target', bob.key)).toMatchObject({ queueItems: 1, queueBytes: 3 });
  expect(after.get('relay', '')?.epoch).toBe(epochNumbered(1));
});

test('an item that is not queued, or not any more, was not lost', () => {
  const nothing = given(...queued).when(reportLostOf(bob, NOON_MS + 1));
  expect([nothing.events, nothing.outcome]).toEqual([[], { type: 'Done' }]);
  expect(given(...queued).when(reportLostOf(alice, NOON_MS)).events).toEqual([]);
  const ackedByNow = given(...queued, acked(bob, NOON_MS, [[alice, 1, 3]], { account: 'acme' }));
  expect(ackedByNow.when(reportLostOf(bob, NOON_MS)).events).toEqual([]);
});

const DAY = { keepMs: 100, nowMs: 1000 };
const at = (...times: number[]) => times.map((atMs, index) => ({ throughLsn: index + 1, atMs }));

test.each([
  [0, 'old'],
  [900, 'old'],
  [901, 'young'],
  [1000, 'young'],
  [1001, 'unknown'],
] as const)('what was written at %i is %s', (atMs, age) => {
  expect(ageOf(atMs, DAY)).toBe(age);
});

describe('a checkpoint is due', () => {
  test.each([
    ['when there is none', [], true],
    ['when the newest is as old as records are kept', [900], true],
    ['when the newest is of a clock that was ahead', [900, 1001], true],
    ['not while the newest is younger', [100, 901], false],
    ['not while the newest of several is younger', [100, 800, 901], false],
  ] as const)('%s', (_when, times, isDue) => {
    expect(isCheckpointDue(at(...times), DAY)).toBe(isDue);
  });
});

describe('of the checkpoints', () => {
  test.each([
    ['none makes others needless while none is old', [901, 950], undefined],
    ['the only old one does', [900, 950], 1],
    ['the newest old one does', [100, 800, 900, 950], 3],
    ['one of a clock that was ahead is not old', [900, 1500, 950], 1],
    ['there may be none', [], undefined],
  ] as const)('%s', (_what, times, base) => {
    expect(baseCheckpoint(at(...times), DAY)?.throughLsn).toBe(base);
  });
});

test('the event says what was kept, and changes nothing else', () => {
  const kept = { throughLsn: 7, rows: 3, rowsHash: sha256Hex('rows'), dueHash: sha256Hex('due') };
  const { events, outcome } = decideCheckpoint({ type: 'TakeCheckpoint', ...kept, nowMs: 5 });
  expect(events).toEqual([{ type: 'CheckpointTaken', ...kept, atMs: 5 }]);
  expect(outcome).toEqual({ type: 'Done' });
});
