import { expect, test } from 'vitest';
import { ackOf } from '../../support/commands.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { accepted, acked, enrolledInAccount } from '../../support/events.ts';
import { given } from '../../support/given.ts';
import { alice, bob, carol } from '../../support/hosts.ts';
import { NOON_MS } from '../../support/test-clock.ts';

/** Three items wait for bob: two of alice's, one of carol's between them. */
const waiting = [
  enrolledInAccount(bob, 'acme'),
  accepted(alice, 'm1', [[bob, NOON_MS, 'a']]),
  accepted(carol, 'm2', [[bob, NOON_MS + 1, 'bb']]),
  accepted(alice, 'm3', [[bob, NOON_MS + 2, 'ccc']]),
];

test('an ack says what it releases, of whom, and for which account', () => {
  const ack = given(...waiting).when(ackOf(bob, NOON_MS + 2, { nowMs: NOON_MS + 9 }));
  const shares = [
    [alice, 2, 4],
    [carol, 1, 2],
  ] as const;
  expect(ack.events).toEqual([acked(bob, NOON_MS + 2, shares, { account: 'acme', atMs: NOON_MS + 9 })]);
  expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: NOON_MS + 2, deleted: 3, headSeq: NOON_MS + 2 });
});

test('an ack inside the queue leaves the rest', () => {
  const ack = given(...waiting).when(ackOf(bob, NOON_MS + 1));
  expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: NOON_MS + 1, deleted: 2, headSeq: NOON_MS + 2 });
  const after = ack.after();
  expect(after.queue(bob.key).map(({ itemId }) => itemId)).toEqual(['m3']);
  expect(after.get('account', 'acme')).toEqual({ items: 1, bytes: 3 });
  expect(after.get('share', bob.key + carol.key)).toBeUndefined();
  expect(after.get('share', bob.key + alice.key)).toEqual({ items: 1, bytes: 3 });
});

test('an ack between two seqs moves acked_through there', () => {
  const sparse = given(accepted(alice, 'm1', [[bob, 100, 'a']]), accepted(alice, 'm2', [[bob, 200, 'b']]));
  expect(sparse.when(ackOf(bob, 150)).outcome).toMatchObject({ ackedThrough: 150, deleted: 1, headSeq: 200 });
  expect(sparse.when(ackOf(bob, 99)).outcome).toMatchObject({ ackedThrough: 99, deleted: 0 });
});

test('an ack at or below acked_through changes nothing and answers acked_through', () => {
  const world = given(
    ...waiting,
    acked(
      bob,
      NOON_MS + 1,
      [
        [alice, 1, 1],
        [carol, 1, 2],
      ],
      { account: 'acme' },
    ),
  );
  for (const through of [0, NOON_MS, NOON_MS + 1]) {
    const ack = world.when(ackOf(bob, through));
    expect(ack.events).toEqual([]);
    expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: NOON_MS + 1, deleted: 0, headSeq: NOON_MS + 2 });
  }
});

test('an ack beyond the head is BAD_ACK with the head', () => {
  const ack = given(...waiting).when(ackOf(bob, NOON_MS + 3));
  expect(ack.refusal).toMatchObject({ code: 'BAD_ACK', members: { head_seq: NOON_MS + 2 } });
  expect(given().when(ackOf(bob, 1)).refusal).toMatchObject({ code: 'BAD_ACK', members: { head_seq: 0 } });
});

test('an ack of nothing from an empty queue is fine', () => {
  const ack = given().when(ackOf(bob, 0));
  expect(ack.events).toEqual([]);
  expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: 0, deleted: 0, headSeq: 0 });
});

test('an ack in another epoch is refused before anything else, with the current epoch', () => {
  const world = given(...waiting);
  for (const through of [0, NOON_MS, NOON_MS + 3]) {
    const ack = world.when(ackOf(bob, through, { epoch: epochNumbered(2) }));
    expect(ack.refusal).toMatchObject({ code: 'EPOCH_CHANGED', members: { epoch: epochNumbered(1) } });
  }
});
