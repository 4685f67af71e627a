/** Tests what leaves a queue: the page of a pull, acks, and what expires. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import {
  accepted,
  acked,
  enrolled,
  enrolledInAccount,
  moved,
  noticed,
  revoked,
  rotated,
} from '../../../support/events.ts';
import { alice, bob, carol, dave, relay } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { pageRows } from '../../../../src/relay/core/decide-queue.ts';
import { DAY_MS, DEFAULT_LIMITS, dedupHorizonMs } from '../../../../src/protocol/limits.ts';
import { ackOf, expireOf, extendOf } from '../../../support/commands.ts';
import { given } from '../../../support/given.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const rows = (sizes: readonly number[]): QueueRow[] => {
  const map = new MapRows();
  for (const [at, size] of sizes.entries()) map.apply(accepted(alice, `m${at}`, [[bob, at + 1, Buffer.alloc(size)]]));
  return map.queue(bob.key);
};
const sizesOf = (page: { rows: QueueRow[] }): number[] => page.rows.map(({ bytes }) => bytes);

test.each([
  { sizes: [], limit: 2, bytesMax: 10, shown: [], more: false },
  { sizes: [5, 5], limit: 2, bytesMax: 10, shown: [5, 5], more: false },
  { sizes: [5, 5, 1], limit: 2, bytesMax: 10, shown: [5, 5], more: true },
  { sizes: [5, 6], limit: 2, bytesMax: 10, shown: [5], more: true },
  { sizes: [11, 1], limit: 2, bytesMax: 10, shown: [11], more: true },
  { sizes: [11], limit: 2, bytesMax: 10, shown: [11], more: false },
  { sizes: [10, 0, 0], limit: 3, bytesMax: 10, shown: [10, 0, 0], more: false },
  { sizes: [1, 1], limit: 1, bytesMax: 10, shown: [1], more: true },
])(
  '$sizes under $limit items and $bytesMax bytes shows $shown, more: $more',
  ({ sizes, limit, bytesMax, shown, more }) => {
    const page = pageRows(rows(sizes), limit, bytesMax);
    expect(sizesOf(page)).toEqual(shown);
    expect(page.more).toBe(more);
  },
);

test('a page is the longest prefix that fits, and never empty while something waits', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(20), { maxLength: 8 }),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(40),
      (sizes, limit, bytesMax) => {
        const shown = sizesOf(pageRows(rows(sizes), limit, bytesMax));
        const fits = (count: number): boolean =>
          count <= 1 || (count <= limit && sizes.slice(0, count).reduce((sum, size) => sum + size, 0) <= bytesMax);
        const counts = [...sizes.keys()].map((at) => at + 1).filter(fits);
        expect(shown).toEqual(sizes.slice(0, counts.at(-1) ?? 0));
      },
    ),
  );
});

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

test('an ack of nothing from an empty queue is fine', () => {
  const ack = given().when(ackOf(bob, 0));
  expect(ack.events).toEqual([]);
  expect(ack.outcome).toEqual({ type: 'Acked', ackedThrough: 0, deleted: 0, headSeq: 0 });
});

test('an ack of as many notices as items, short of the head, releases both', () => {
  const first = accepted(alice, 'm1', [[bob, NOON_MS, 'a']]);
  const last = accepted(alice, 'm2', [[bob, NOON_MS + 2, 'a']]);
  const world = given(first, noticed(bob, NOON_MS + 1), last);
  const released = world.when(ackOf(bob, NOON_MS + 1));
  expect(released.events).toEqual([acked(bob, NOON_MS + 1, [[alice, 1, 1]], { notices: 1 })]);
  expect(released.outcome).toMatchObject({ ackedThrough: NOON_MS + 1, deleted: 2 });
});

test('dedup record: an ack after the deadline keeps what waits, by the key pushed to, and no notice', () => {
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

const RETENTION_MS = 14 * DAY_MS;
const DUE_MS = NOON_MS + RETENTION_MS;

const three = [
  accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
  accepted(alice, 'm2', [[bob, NOON_MS + 1, 'yy']]),
  accepted(carol, 'm3', [[bob, NOON_MS + 2, 'zzz']], { acceptedAtMs: NOON_MS + 1 }),
];
const allSeqs = [NOON_MS, NOON_MS + 1, NOON_MS + 2];

describe('a sweep', () => {
  test('says of each item what the rows say, for which account, and how long it is known from here on', () => {
    const nowMs = DUE_MS + 9;
    const world = given(enrolledInAccount(bob, 'acme'), ...three);
    expect(world.whenExpiring(expireOf(bob, [NOON_MS + 1], nowMs))).toEqual({
      type: 'ItemsExpired',
      targetPubkey: bob.key,
      relayPubkey: relay.key,
      items: [
        { seq: NOON_MS + 1, kind: 'envelope', itemId: 'm2', senderPubkey: alice.key, pushedTo: bob.key, bytes: 2 },
      ],
      account: 'acme',
      dedupUntilMs: nowMs + dedupHorizonMs(DEFAULT_LIMITS),
      notices: [],
      atMs: nowMs,
    });
    const ofNobody = given(...three).whenExpiring(expireOf(bob, [NOON_MS], DUE_MS));
    expect(ofNobody).toMatchObject({ account: null, items: [{ itemId: 'm1' }] });
  });
});

describe('a notice', () => {
  test('goes to the end of each sender’s queue, one after the other', () => {
    const far = DUE_MS + 100;
    const world = given(
      enrolled(alice),
      enrolled(carol),
      ...three,
      // The head of alice lies ahead of the clock.
      accepted(bob, 'm9', [[alice, far, 'x']], { acceptedAtMs: DUE_MS }),
    );
    const notices = world.whenExpiring(expireOf(bob, allSeqs, DUE_MS + 1))?.notices ?? [];
    expect(notices.map(({ targetPubkey, seq, itemId }) => [targetPubkey, seq, itemId])).toEqual([
      [alice.key, far + 1, `expired:m1:${bob.key}`],
      [alice.key, far + 2, `expired:m2:${bob.key}`],
      [carol.key, DUE_MS + 1, `expired:m3:${bob.key}`],
    ]);
    expect(notices.map(({ expiresAtMs }) => expiresAtMs - DUE_MS - 1)).toEqual(Array(3).fill(RETENTION_MS));
    expect(notices[2]?.rec).toMatchObject({ item_id: 'm3', accepted_at: NOON_MS + 1, expired_at: DUE_MS + 1 });
  });

  test('goes to nobody for a receipt, a notice, or a sender that is revoked or unknown', () => {
    const world = given(
      enrolled(alice),
      enrolled(carol),
      revoked(carol),
      accepted(alice, 'receipt', [[bob, NOON_MS, 'x']], { kind: 'receipt' }),
      noticed(bob, NOON_MS + 1),
      accepted(carol, 'm3', [[bob, NOON_MS + 2, 'x']]),
      accepted(dave, 'm4', [[bob, NOON_MS + 3, 'x']]),
    );
    const expiry = world.whenExpiring(expireOf(bob, [...allSeqs, NOON_MS + 3], DUE_MS));
    expect(expiry?.items.map(({ kind }) => kind)).toEqual(['receipt', 'expired', 'envelope', 'envelope']);
    expect(expiry?.notices).toEqual([]);
  });
});
