import { expect, test } from 'vitest';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { ackOf, extendOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { accepted, acked, enrolledInAccount, moved, noticed, rotated } from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

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
});

test('an ack that releases nothing is no record short of the head, and one at the head', () => {
  const sparse = given(accepted(alice, 'm1', [[bob, 100, 'a']]), accepted(alice, 'm2', [[bob, 200, 'b']]));
  for (const through of [1, 50, 99]) {
    const ack = sparse.when(ackOf(bob, through));
    expect(ack.events).toEqual([]);
    // What is recorded, as a pull and `info` show it.
    expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: 0, deleted: 0, headSeq: 200 });
  }
  expect(sparse.when(ackOf(bob, 100)).events).toHaveLength(1);
  const emptied = given({ type: 'SeqFloorsRaised', floors: [{ targetPubkey: bob.key, headSeq: 200 }], atMs: NOON_MS });
  expect(emptied.when(ackOf(bob, 199)).events).toEqual([]);
  expect(emptied.when(ackOf(bob, 200)).events).toEqual([acked(bob, 200, [])]);
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

test('an ack of as many notices as items, short of the head, releases both', () => {
  const first = accepted(alice, 'm1', [[bob, NOON_MS, 'a']]);
  const last = accepted(alice, 'm2', [[bob, NOON_MS + 2, 'a']]);
  const world = given(first, noticed(bob, NOON_MS + 1), last);
  const released = world.when(ackOf(bob, NOON_MS + 1));
  expect(released.events).toEqual([acked(bob, NOON_MS + 1, [[alice, 1, 1]], { notices: 1 })]);
  expect(released.outcome).toMatchObject({ ackedThrough: NOON_MS + 1, deleted: 2 });
});

test('dedup record: an ack after the deadline keeps what waits, by the key that its sender pushed to, and no notice', () => {
  const late = NOON_MS + 20 * DAY_MS;
  const [first, second] = [NOON_MS + 5, NOON_MS + 6];
  const world = given(
    enrolledInAccount(bob, 'acme'),
    accepted(alice, 'm1', [[bob, NOON_MS, 'a']]),
    rotated(bob, dave, { moved: 1, items: 1, bytes: 1, firstSeq: first }),
    moved(bob, dave, [NOON_MS], first),
    noticed(dave, second),
  );
  const extended = world.when(extendOf(dave, [first, second], late));
  expect(extended.outcome).toEqual({ type: 'Done' });
  expect(extended.events).toEqual([
    {
      type: 'DedupExtended',
      targetPubkey: dave.key,
      items: [{ itemId: 'm1', senderPubkey: alice.key, pushedTo: bob.key }],
      dedupUntilMs: late + 21 * DAY_MS,
      atMs: late,
    },
  ]);
  expect(extended.after().get('dedup', `${alice.key}${bob.key}m1`)).toMatchObject({ dedupUntilMs: late + 21 * DAY_MS });
});

test('dedup record: where nothing waits any more, or notices alone, nothing is kept for longer', () => {
  const late = NOON_MS + 20 * DAY_MS;
  const world = given(
    accepted(alice, 'm1', [[bob, NOON_MS, 'a']]),
    acked(bob, NOON_MS, [[alice, 1, 1]]),
    noticed(bob, NOON_MS + 1),
  );
  for (const seqs of [[], [NOON_MS], [NOON_MS + 1], [NOON_MS + 9]]) {
    const extended = world.when(extendOf(bob, seqs, late));
    expect(extended.outcome).toEqual({ type: 'Done' });
    expect(extended.events).toEqual([]);
  }
});
