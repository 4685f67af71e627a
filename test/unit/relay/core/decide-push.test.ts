import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { REMEMBERED_BYTES } from '../../../../src/relay/core/mail-use.ts';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import { knownKeys } from '../../../../src/relay/core/decide-push.ts';
import { settingsWith } from '../../../support/settings.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { type To, pushOf } from '../../../support/commands.ts';
import { accepted, acked, enrolled, enrolledInAccount, rotated } from '../../../support/events.ts';
import { type Given, given } from '../../../support/given.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { found } from '../../../support/found.ts';

const LATER_MS = NOON_MS + 60_000;

describe('a new item', () => {
  test('is accepted as one event that holds every place, hash, size and deadline', () => {
    const push = given(enrolled(bob), enrolledInAccount(carol, 'acme')).when(
      pushOf(alice, 'm1', [
        [bob, 'for bob'],
        [carol, 'for carol!'],
      ]),
    );
    expect(push.events).toEqual([
      {
        type: 'ItemAccepted',
        senderPubkey: alice.key,
        itemId: 'm1',
        kind: 'envelope',
        targets: [
          { hostPubkey: bob.key, seq: NOON_MS, wireHash: sha256Hex('for bob'), bytes: 7 },
          { hostPubkey: carol.key, seq: NOON_MS, wireHash: sha256Hex('for carol!'), bytes: 10 },
        ],
        acceptedAtMs: NOON_MS,
        expiresAtMs: NOON_MS + 14 * DAY_MS,
        dedupUntilMs: NOON_MS + 35 * DAY_MS,
      },
    ]);
    expect(push.outcome).toEqual({
      type: 'ItemStored',
      status: 'accepted',
      targets: [
        { hostPubkey: bob.key, seq: NOON_MS, wireHash: sha256Hex('for bob') },
        { hostPubkey: carol.key, seq: NOON_MS, wireHash: sha256Hex('for carol!') },
      ],
      atMs: NOON_MS,
    });
  });

  test('takes its deadlines from the retention that is set', () => {
    const push = given(enrolled(bob))
      .under({ limits: { retention_days: 0.5 } })
      .when(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(push.events).toMatchObject([{ expiresAtMs: NOON_MS + 0.5 * DAY_MS, dedupUntilMs: NOON_MS + 8 * DAY_MS }]);
  });

  test('may come from a host to itself', () => {
    expect(given(enrolled(bob)).when(pushOf(bob, 'm1', [[bob, 'x']])).verdict).toBe('accepted');
  });

  test('is told apart by sender, by target and by id', () => {
    const known = given(enrolled(bob), enrolled(carol), accepted(alice, 'm1', [[bob, NOON_MS, 'x']]));
    expect(known.when(pushOf(dave, 'm1', [[bob, 'other']])).verdict).toBe('accepted');
    expect(known.when(pushOf(alice, 'm1', [[carol, 'other']])).verdict).toBe('accepted');
    expect(known.when(pushOf(alice, 'm2', [[bob, 'other']])).verdict).toBe('accepted');
  });
});

describe('a known item', () => {
  test('on several targets is answered with the latest acceptance time', () => {
    const push = given(
      enrolled(bob),
      enrolled(carol),
      accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
      accepted(alice, 'm1', [[carol, NOON_MS + 7, 'y']], { acceptedAtMs: NOON_MS + 7 }),
    ).when(
      pushOf(
        alice,
        'm1',
        [
          [carol, 'y'],
          [bob, 'x'],
        ],
        { nowMs: LATER_MS },
      ),
    );
    expect(push.outcome).toMatchObject({ status: 'duplicate', atMs: NOON_MS + 7 });
    expect(push.seqs).toEqual([NOON_MS + 7, NOON_MS]);
  });

  test('with new targets beside known ones stores the new ones, and the known keep their seq', () => {
    const push = given(enrolled(bob), enrolled(carol), accepted(alice, 'm1', [[bob, NOON_MS, 'x']])).when(
      pushOf(
        alice,
        'm1',
        [
          [bob, 'x'],
          [carol, 'y'],
        ],
        { nowMs: LATER_MS },
      ),
    );
    expect(push.events).toEqual([accepted(alice, 'm1', [[carol, LATER_MS, 'y']], { acceptedAtMs: LATER_MS })]);
    expect(push.verdict).toBe('accepted');
    expect(push.seqs).toEqual([NOON_MS, LATER_MS]);
  });

  test('is still a duplicate after its ack, whatever became of its payload', () => {
    const push = given(
      enrolled(bob),
      accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
      acked(bob, NOON_MS, [[alice, 1, 1]]),
    )
      .withoutPayload(bob, NOON_MS)
      .withoutQueueRow(bob, NOON_MS)
      .when(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(push.verdict).toBe('duplicate');
    expect(push.seqs).toEqual([NOON_MS]);
  });

  test('that expired is a duplicate although nothing is queued', () => {
    const expiring = given(enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, 'x']])).withoutQueueRow(bob, NOON_MS);
    const row = expiring.rows.all().find(({ table }) => table === 'dedup');
    expiring.rows.put({ ...row, row: { ...row?.row, expired: true } } as NonNullable<typeof row>);
    expect(expiring.when(pushOf(alice, 'm1', [[bob, 'x']])).verdict).toBe('duplicate');
  });

  test('is forgotten once dedup is purged past its deadline, and not a moment before', () => {
    const event = accepted(alice, 'm1', [[bob, NOON_MS, 'x']]);
    const verdictAfterPurge = (dedupPurgedMs: number) => {
      const world = given(enrolled(bob), event, acked(bob, NOON_MS, [[alice, 1, 1]]));
      const relayRow = found(world.rows.get('relay', ''), 'there is a relay row');
      world.rows.put({ table: 'relay', key: '', row: { ...relayRow, dedupPurgedMs } });
      return world.when(pushOf(alice, 'm1', [[bob, 'x']])).verdict;
    };
    expect(verdictAfterPurge(event.dedupUntilMs - 1)).toBe('duplicate');
    expect(verdictAfterPurge(event.dedupUntilMs)).toBe('accepted');
  });

  test('is kept beyond what was purged already, when the clock went back since', () => {
    const world = given(enrolled(bob));
    const relayRow = found(world.rows.get('relay', ''), 'there is a relay row');
    const dedupPurgedMs = NOON_MS + 50 * DAY_MS;
    world.rows.put({ table: 'relay', key: '', row: { ...relayRow, dedupPurgedMs } });
    const push = world.when(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(push.verdict).toBe('accepted');
    expect(push.events.at(-1)).toMatchObject({ dedupUntilMs: dedupPurgedMs + 1 });
  });

  test('one conflict among the targets rejects the whole item', () => {
    const push = given(enrolled(bob), enrolled(carol), accepted(alice, 'm1', [[bob, NOON_MS, 'x']])).when(
      pushOf(alice, 'm1', [
        [carol, 'y'],
        [bob, 'other'],
      ]),
    );
    expect(push.verdict).toBe('rejected:conflict');
    expect(push.events).toEqual([]);
  });

  test('takes no quota: it is a duplicate where a new item would find no room', () => {
    const full = given(enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, 'x']])).under({
      limits: { max_queue_items: 1, max_queue_bytes: 1, max_sender_items: 1, max_sender_bytes: 1 },
      dedupRowsMax: 1,
    });
    expect(full.when(pushOf(alice, 'm1', [[bob, 'x']])).verdict).toBe('duplicate');
    expect(full.when(pushOf(alice, 'm2', [[bob, 'x']])).verdict).toBe('rejected:quota:queue_items');
  });
});

/** One item of alice's, waiting for bob and for carol. */
function stored(): Given {
  return given(
    enrolled(bob),
    enrolledInAccount(carol, 'acme'),
    accepted(alice, 'm1', [
      [bob, NOON_MS, 'x'],
      [carol, NOON_MS + 3, 'yy'],
    ]),
  );
}

/** Of two hosts that a rotation made one of, each had an m1, of these bytes; both are lost. */
function lostTwice(ofBob: string, ofDave: string): Given {
  return given(
    enrolled(bob),
    enrolled(dave),
    accepted(alice, 'm1', [[bob, NOON_MS, ofBob]]),
    accepted(alice, 'm1', [[dave, NOON_MS + 8, ofDave]], { acceptedAtMs: NOON_MS + 8 }),
    rotated(bob, dave),
  ).withoutQueueRow(bob, NOON_MS);
}

describe('a lost item', () => {
  const again = pushOf(
    alice,
    'm1',
    [
      [bob, 'x'],
      [carol, 'yy'],
    ],
    { nowMs: LATER_MS },
  );

  test.each([
    ['payload', () => stored().withoutPayload(carol, NOON_MS + 3)],
    ['queue row', () => stored().withoutQueueRow(carol, NOON_MS + 3)],
  ])('without its %s is said to be lost, ends the epoch and is accepted anew', (_what, world) => {
    const push = world().when(again);
    expect(push.events).toEqual([
      {
        type: 'ItemLost',
        targetPubkey: carol.key,
        seq: NOON_MS + 3,
        kind: 'envelope',
        senderPubkey: alice.key,
        itemId: 'm1',
        pushedTo: carol.key,
        bytes: 2,
        account: 'acme',
        reason: 'missing',
        atMs: LATER_MS,
      },
      { type: 'EpochRotated', epoch: epochNumbered(99), reason: 'item-lost', atMs: LATER_MS },
      accepted(alice, 'm1', [[carol, LATER_MS, 'yy']], { acceptedAtMs: LATER_MS }),
    ]);
    expect(push.verdict).toBe('accepted');
    expect(push.seqs).toEqual([NOON_MS, LATER_MS]);
  });

  test('leaves usage as it was, for it is counted once', () => {
    const before = stored();
    const after = before
      .withoutPayload(carol, NOON_MS + 3)
      .when(again)
      .after();
    expect(after.get('account', 'acme')).toEqual({ items: 1, bytes: 2 });
    expect(after.get('share', carol.key + alice.key)).toEqual({ items: 1, bytes: 2 });
    expect(after.get('target', carol.key)).toEqual({
      headSeq: LATER_MS,
      ackedThrough: 0,
      queueItems: 1,
      queueBytes: 2,
    });
    expect(after.get('sender', alice.key)).toEqual({ dedupRows: 2 });
    expect(after.queue(carol.key).map(({ seq }) => seq)).toEqual([LATER_MS]);
  });

  test('is repaired in a queue that is full', () => {
    const push = stored()
      .withoutPayload(carol, NOON_MS + 3)
      .under({
        limits: {
          max_queue_items: 1,
          max_queue_bytes: 2,
          max_sender_items: 1,
          max_sender_bytes: 2,
          max_owner_items: 1,
          max_owner_bytes: 2,
        },
        dedupRowsMax: 2,
      })
      .when(again);
    expect(push.verdict).toBe('accepted');
  });

  test('is repaired also where the limits were lowered below what is queued', () => {
    const push = stored()
      .withoutPayload(carol, NOON_MS + 3)
      .under({ limits: { max_queue_bytes: 1, max_sender_bytes: 1, max_owner_bytes: 1 }, dedupRowsMax: 1 })
      .when(again);
    expect(push.verdict).toBe('accepted');
  });

  test('under one key of its target, and kept under another, is a duplicate where it is kept', () => {
    // Two hosts had m1 when a rotation made one of them.
    const events = [
      enrolled(bob),
      enrolled(dave),
      accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
      accepted(alice, 'm1', [[dave, NOON_MS + 8, 'x']], { acceptedAtMs: NOON_MS + 8 }),
      rotated(bob, dave),
    ];
    const push = pushOf(alice, 'm1', [[dave, 'x']], { nowMs: LATER_MS });
    const kept = given(...events)
      .withoutPayload(bob, NOON_MS)
      .when(push);
    expect([kept.verdict, kept.seqs, kept.events]).toEqual(['duplicate', [NOON_MS + 8], []]);
    const other = given(...events)
      .withoutPayload(dave, NOON_MS + 8)
      .when(push);
    expect([other.verdict, other.seqs, other.events]).toEqual(['duplicate', [NOON_MS], []]);
  });

  test('that is lost under two keys of its target: the push says both losses, and its sender pays for one row', () => {
    const push = lostTwice('x', 'x')
      .withoutPayload(dave, NOON_MS + 8)
      .when(pushOf(alice, 'm1', [[dave, 'x']], { nowMs: LATER_MS }));
    expect(push.verdict).toBe('accepted');
    expect(push.events).toMatchObject([
      { type: 'ItemLost', targetPubkey: bob.key, seq: NOON_MS, pushedTo: bob.key },
      { type: 'ItemLost', targetPubkey: dave.key, seq: NOON_MS + 8, pushedTo: dave.key },
      { type: 'EpochRotated', reason: 'item-lost' },
      { type: 'ItemAccepted' },
    ]);
    const after = push.after();
    const keys = [bob, dave].map(({ key }) => rowKey.dedup(alice.key, key, 'm1' as ItemId));
    expect(keys.map((key) => after.get('dedup', key)?.seq)).toEqual([undefined, LATER_MS]);
    expect(after.get('sender', alice.key)).toEqual({ dedupRows: 1 });
    expect([bob, dave].map(({ key }) => after.get('target', key)?.queueItems)).toEqual([0, 1]);
    expect(after.get('share', bob.key + alice.key)).toBeUndefined();
  });

  test('is no more stored anew under a key where other bytes are known', () => {
    const push = lostTwice('x', 'other').when(pushOf(alice, 'm1', [[dave, 'x']], { nowMs: LATER_MS }));
    expect([push.verdict, push.events]).toEqual(['rejected:conflict', []]);
  });

  test('pushed with other bytes is a conflict: nothing is repaired', () => {
    const push = stored()
      .withoutPayload(bob, NOON_MS)
      .when(pushOf(alice, 'm1', [[bob, 'other']]));
    expect(push.verdict).toBe('rejected:conflict');
    expect(push.events).toEqual([]);
  });
});

describe('quotas', () => {
  const small = { max_queue_items: 3, max_queue_bytes: 30, max_sender_items: 2, max_sender_bytes: 20 };
  const twoOfAlice = [
    enrolled(bob),
    accepted(alice, 'm1', [[bob, NOON_MS, '12345']]),
    accepted(alice, 'm2', [[bob, NOON_MS + 1, '12345']]),
  ];

  test('are met exactly and never passed', () => {
    const world = given(enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, '12345']])).under({ limits: small });
    expect(world.when(pushOf(alice, 'm2', [[bob, 'x'.repeat(15)]])).verdict).toBe('accepted');
    expect(world.when(pushOf(alice, 'm2', [[bob, 'x'.repeat(16)]])).verdict).toBe('rejected:quota:sender_bytes');
    expect(world.when(pushOf(carol, 'm2', [[bob, 'x'.repeat(20)]])).verdict).toBe('accepted');
  });

  test('of one sender leave the queue to others', () => {
    const world = given(...twoOfAlice).under({ limits: small });
    expect(world.when(pushOf(alice, 'm3', [[bob, 'x']])).verdict).toBe('rejected:quota:sender_items');
    expect(world.when(pushOf(carol, 'm3', [[bob, 'x']])).verdict).toBe('accepted');
  });

  test('of an account are charged over all its targets of one item', () => {
    const world = given(enrolledInAccount(bob, 'acme'), enrolledInAccount(carol, 'acme'), enrolled(dave)).under({
      limits: { max_owner_items: 2, max_owner_bytes: 4 },
    });
    const push = (...targets: To[]) => world.when(pushOf(alice, 'm1', targets)).verdict;
    expect(push([bob, 'xx'], [carol, 'xx'])).toBe('accepted');
    expect(push([bob, 'xx'], [carol, 'xxx'])).toBe('rejected:quota:owner_bytes');
    expect(push([bob, 'xx'], [carol, 'xx'], [dave, 'xxxxx'])).toBe('accepted');
  });

  test('of the dedup table count every row the sender keeps, acked or not', () => {
    const world = given(...twoOfAlice, acked(bob, NOON_MS + 1, [[alice, 2, 10]])).under({ dedupRowsMax: 3 });
    expect(world.when(pushOf(alice, 'm3', [[bob, 'x']])).verdict).toBe('accepted');
    const two = pushOf(alice, 'm3', [
      [bob, 'x'],
      [alice, 'x'],
    ]);
    world.rows.apply(enrolled(alice));
    expect(world.when(two).verdict).toBe('rejected:quota:dedup_rows');
    expect(world.when({ ...two, senderPubkey: carol.key }).verdict).toBe('accepted');
  });
});

const listed = (senders: readonly TestHost[]): RelayEvent => {
  const keys = senders.map(({ key }) => key).toSorted();
  return { type: 'SendersPublished', hostPubkey: bob.key, senders: keys, iatMs: 1, atMs: NOON_MS };
};
const verdict = (world: Given, from: TestHost): string => world.when(pushOf(from, 'm1', [[bob, 'x']])).verdict;
const keyOf = (number: number): TestHost => hostNamed(`key ${number}`);

describe('a sender list', () => {
  test('lets in who is on it, wherever, and nobody else', () => {
    const senders = Array.from({ length: 9 }, (_none, number) => hostNamed(`sender ${number}`));
    for (let count = 0; count <= senders.length; count++) {
      const world = given(enrolled(bob), listed(senders.slice(0, count)));
      const accepts = senders.filter((sender) => verdict(world, sender) === 'accepted');
      expect(accepts).toEqual(senders.slice(0, count));
    }
    expect(verdict(given(enrolled(bob)), alice)).toBe('accepted');
  });

  test('that names any key of a host lets it in, however many it had', () => {
    const rotations = Array.from({ length: 20 }, (_none, number) => rotated(keyOf(number), keyOf(number + 1)));
    for (const count of [2, 20]) {
      const history = [enrolled(bob), enrolled(keyOf(0)), ...rotations.slice(0, count)];
      for (const number of [0, 1, count]) {
        const world = given(...history, listed([carol, keyOf(number), dave]));
        expect(verdict(world, keyOf(count))).toBe('accepted');
      }
      expect(verdict(given(...history, listed([carol, dave])), keyOf(count))).toBe(
        'rejected:sender not accepted by target',
      );
    }
  });
});

test('an item over max_targets is refused whatever its targets are', () => {
  const targets = Array.from({ length: 65 }, (_none, number): To => [hostNamed(`stranger${number}`), 'x']);
  const push = pushOf(alice, 'm1', targets);
  expect(given().when(push).verdict).toBe('rejected:too many targets');
  // Nor is anything looked for.
  expect(knownKeys(push, given().rows, settingsWith())).toMatchObject({ lineages: [], asked: 0 });
});

test('a seq is max(head + 1, now) at any clock', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 40), fc.nat(2 ** 40), (headSeq, nowMs) => {
      const world = given(enrolled(bob), accepted(alice, 'm0', [[bob, headSeq, 'x']]));
      expect(world.when(pushOf(alice, 'm1', [[bob, 'y']], { nowMs })).seqs).toEqual([Math.max(headSeq + 1, nowMs)]);
    }),
  );
});

const push = (from: TestHost) => pushOf(from, 'new', [[bob, 'x']]);
const itemsOf = (from: TestHost, count: number): RelayEvent[] =>
  Array.from({ length: count }, (_item, at) => accepted(from, `${from.name}-${at}`, [[bob, NOON_MS + at, 'x']]));

describe('the part of strangers', () => {
  /** An item of one byte is charged this. */
  const ITEM = REMEMBERED_BYTES + 1;
  const budget = (items: number) => ({ mailBudgetBytes: 2 * items * ITEM });
  test('leaves to others what each of them takes, so that the heaviest is refused first', () => {
    const world = given(enrolled(bob), ...itemsOf(alice, 3), ...itemsOf(carol, 1));
    expect(world.under(budget(8)).when(push(alice)).verdict).toBe('rejected:quota:relay_bytes');
    expect(world.under(budget(8)).when(push(carol)).verdict).toBe('accepted');
    expect(world.under(budget(8)).when(push(dave)).verdict).toBe('accepted');
    expect(world.under(budget(9)).when(push(alice)).verdict).toBe('accepted');
    expect(world.under(budget(4)).when(push(dave)).verdict).toBe('rejected:quota:relay_bytes');
    expect(world.under({}).when(push(alice)).verdict).toBe('accepted');
  });

  test('binds nobody who has an invite or an account, and none of a relay of invited hosts', () => {
    const spent = {
      type: 'InviteSpent',
      inviteHash: sha256Hex('token'),
      hostPubkey: carol.key,
      atMs: NOON_MS,
    } as const;
    const hosts = [enrolled(bob), enrolledInAccount(alice, 'acme'), enrolled(carol), spent, enrolled(dave)];
    const world = given(...hosts, ...itemsOf(alice, 9), ...itemsOf(carol, 9)).under(budget(2));
    expect([alice, carol, dave].map((from) => world.when(push(from)).verdict)).toEqual([
      'accepted',
      'accepted',
      'rejected:quota:relay_bytes',
    ]);
    expect(world.under({ ...budget(2), admission: 'invite' }).when(push(dave)).verdict).toBe('accepted');
  });

  test('is charged for all keys of a host, and for what was acked as long as it is remembered', () => {
    const many = [enrolled(bob), enrolled(alice), ...itemsOf(alice, 3)];
    const turned = given(...many, rotated(alice, carol)).under(budget(6));
    expect(turned.when(push(carol)).verdict).toBe('rejected:quota:relay_bytes');
    const released = given(...many, acked(bob, NOON_MS + 2, [[alice, 3, 3]])).under(budget(6));
    expect(released.when(push(alice)).verdict).toBe('rejected:quota:relay_bytes');
    const senders = [{ senderPubkey: alice.key, rows: 3 }];
    released.rows.apply({ type: 'DedupPurged', beforeMs: NOON_MS, senders, atMs: NOON_MS });
    expect(released.when(push(alice)).verdict).toBe('accepted');
  });

  test('is derived of the disk where the operator says nothing, with what mail takes already', () => {
    const world = given(enrolled(bob), ...itemsOf(alice, 2));
    const verdictWith = (free: number): string => {
      world.rows.mail.freeBytes = free;
      return world.when(push(alice)).verdict;
    };
    // Half of it for mail, and half of that for strangers: 6 items, of which 2 are there.
    expect(verdictWith(22 * ITEM)).toBe('accepted');
    expect(verdictWith(21 * ITEM)).toBe('rejected:quota:relay_bytes');
    expect(verdictWith(-ITEM)).toBe('rejected:quota:relay_bytes');
  });
});
