import { expect, test } from 'vitest';
import { reportLostOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { accepted, acked, enrolledInAccount, noticed } from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const queued = [enrolledInAccount(bob, 'acme'), accepted(alice, 'm1', [[bob, NOON_MS, 'xyz']])];

test('a rotation begins the epoch it was given, for the reason it was given', () => {
  const rotated = given().when(rotateEpochOf(epochNumbered(7), { reason: 'restore' }));
  expect(rotated.events).toEqual([{ type: 'EpochRotated', epoch: epochNumbered(7), reason: 'restore', atMs: NOON_MS }]);
  expect(rotated.outcome).toEqual({ type: 'EpochBegun', epoch: epochNumbered(7) });
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
