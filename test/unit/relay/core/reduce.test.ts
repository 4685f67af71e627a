import { describe, expect, test, vi } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { HostName, ItemId } from '../../../../src/protocol/names.ts';
import { type ItemLost, type ItemsExpired, type RelayEvent, eventTimeMs } from '../../../../src/relay/core/event.ts';
import {
  reduce,
  reducePublications,
  reduceRelay,
  reduceDedup,
  reduceEnrolments,
  reduceUsage,
} from '../../../../src/relay/core/reduce.ts';
import { reduceQueues } from '../../../../src/relay/core/reduce-queues.ts';
import { type DedupRow, rowKey } from '../../../../src/relay/core/rows.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import {
  accepted,
  acked,
  denied,
  enrolled,
  enrolledInAccount,
  initialised,
  invited,
  moved,
  noticed,
  revoked,
  rotated,
} from '../../../support/events.ts';
import { alice, bob, carol, dave, relay } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { signedRotation } from '../../../support/rotations.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { BrokenQueue, queueOf } from '../../../../src/relay/core/decision.ts';
import { found } from '../../../support/found.ts';

const sent = accepted(alice, 'm1', [
  [bob, NOON_MS, 'for bob'],
  [carol, NOON_MS + 4, 'carol'],
]);
const lostAtBob: ItemLost = {
  type: 'ItemLost',
  targetPubkey: bob.key,
  seq: NOON_MS,
  kind: 'envelope',
  senderPubkey: alice.key,
  itemId: 'm1' as ItemId,
  pushedTo: bob.key,
  bytes: 7,
  account: 'acme',
  reason: 'missing',
  atMs: NOON_MS,
};

function thrownBy(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

describe('reduceRelay', () => {
  test('keeps identity and schema through a new epoch', () => {
    const rows = new MapRows(initialised);
    const epoch = epochNumbered(2);
    expect(reduceRelay({ type: 'EpochRotated', epoch, reason: 'reset', atMs: NOON_MS + 1 }, rows)).toEqual([
      {
        table: 'relay',
        key: '',
        row: { relayPubkey: relay.key, epoch, schemaVersion: 1, initialisedAtMs: NOON_MS, dedupPurgedMs: 0 },
      },
    ]);
  });

  test('keeps epoch and identity through a new schema', () => {
    const rows = new MapRows(initialised);
    const before = rows.get('relay', '');
    const migrated = reduceRelay({ type: 'SchemaMigrated', schemaVersion: 7, atMs: NOON_MS + 1 }, rows);
    expect(migrated).toEqual([{ table: 'relay', key: '', row: { ...before, schemaVersion: 7 } }]);
  });

  test('throws for a rotation before there is a relay', () => {
    const rotated = { type: 'EpochRotated', epoch: epochNumbered(2), reason: 'reset', atMs: NOON_MS } as const;
    expect(() => reduceRelay(rotated, new MapRows())).toThrow('not initialised');
  });
});

describe('reduceEnrolments', () => {
  test('never clears a revocation and never forgets a use', () => {
    const rows = new MapRows(initialised, enrolled(alice));
    const row = found(rows.get('enrolment', alice.key), 'alice is enrolled');
    rows.put({ table: 'enrolment', key: alice.key, row: { ...row, revokedAtMs: NOON_MS, seen: true } });
    const [change] = reduceEnrolments(enrolled(alice, { hostName: 'a2' as HostName }), rows);
    expect(change?.row).toEqual({ ...row, hostName: 'a2', revokedAtMs: NOON_MS, seen: true });
  });

  test('a key that is not enrolled is not rotated', () => {
    expect(() => reduceEnrolments(rotated(bob, dave), new MapRows())).toThrow('is enrolled');
  });

  test('a hop of a key that is gone leaves no row', () => {
    expect(reduceEnrolments({ type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS }, new MapRows())).toEqual([]);
  });
});

describe('reducePublications', () => {
  test('a list that is renewed keeps its senders, and one that nobody published is not renewed', () => {
    const renewed = { type: 'SendersRenewed', hostPubkey: bob.key, iatMs: 2, atMs: NOON_MS } as const;
    const rows = new MapRows();
    rows.put({ table: 'senders', key: bob.key, row: { senders: [alice.key], iatMs: 1 } });
    expect(reducePublications(renewed, rows)).toEqual([
      { table: 'senders', key: bob.key, row: { senders: [alice.key], iatMs: 2 } },
    ]);
    expect(() => reducePublications(renewed, new MapRows())).toThrow('was published');
  });

  test('a rotation that a log from before the records tells of leaves none', () => {
    expect(reducePublications(rotated(bob, dave, { signed: null }), new MapRows())).toEqual([
      { table: 'senders', key: bob.key, row: null },
      { table: 'encKey', key: bob.key, row: null },
    ]);
  });
});

/** A notice of bob's that expires in its turn, and an item beside it. */
const noticeExpired = (): { rows: MapRows; event: ItemsExpired } => {
  const rows = new MapRows(accepted(alice, 'm1', [[bob, NOON_MS, 'for bob']]), noticed(bob, NOON_MS + 1, 'told'));
  const items = rows.queue(bob.key).map(({ seq, kind, itemId, senderPubkey, payloadTarget: pushedTo, bytes }) => {
    return { seq, kind, itemId, senderPubkey, pushedTo, bytes };
  });
  return { rows, event: { ...noticed(bob, 0), targetPubkey: bob.key, items, notices: [] } };
};

describe('reduceQueues', () => {
  test('what expires is no longer counted, and a notice never was', () => {
    const { rows, event } = noticeExpired();
    expect(rows.get('target', bob.key)).toMatchObject({ queueItems: 1, queueBytes: 7 });
    expect(reduceQueues(event, rows)).toEqual([
      { table: 'queue', key: rowKey.queue(bob.key, NOON_MS), row: null },
      { table: 'queue', key: rowKey.queue(bob.key, NOON_MS + 1), row: null },
      {
        table: 'target',
        key: bob.key,
        row: { headSeq: NOON_MS + 1, ackedThrough: 0, queueItems: 0, queueBytes: 0 },
      },
    ]);
  });

  test('an empty queue is not on its way after a rotation', () => {
    expect(reduceQueues(rotated(alice, bob), new MapRows()).map(({ table }) => table)).toEqual(['target', 'target']);
  });

  test('gives every target its own row at its own seq', () => {
    const changes = reduceQueues(sent, new MapRows());
    expect(changes).toHaveLength(4);
    expect(changes[0]).toEqual({
      table: 'queue',
      key: bob.key + String(NOON_MS),
      row: {
        targetPubkey: bob.key,
        seq: NOON_MS,
        kind: 'envelope',
        itemId: 'm1',
        senderPubkey: alice.key,
        wireHash: sha256Hex('for bob'),
        bytes: 7,
        acceptedAtMs: NOON_MS,
        expiresAtMs: sent.expiresAtMs,
        payloadTarget: bob.key,
        payloadSeq: NOON_MS,
      },
    });
    expect(changes[3]).toEqual({
      table: 'target',
      key: carol.key,
      row: { headSeq: NOON_MS + 4, ackedThrough: 0, queueItems: 1, queueBytes: 5 },
    });
  });

  test('an ack writes one row whatever it releases', () => {
    const rows = new MapRows(sent);
    for (let number = 1; number <= 100; number++)
      rows.apply(accepted(alice, `n${number}`, [[bob, NOON_MS + number, 'x']]));
    expect(reduceQueues(acked(bob, NOON_MS + 100, [[alice, 101, 107]]), rows)).toEqual([
      {
        table: 'target',
        key: bob.key,
        row: { headSeq: NOON_MS + 100, ackedThrough: NOON_MS + 100, queueItems: 0, queueBytes: 0 },
      },
    ]);
  });
});

const purged = (rows: number): RelayEvent => {
  return { type: 'DedupPurged', beforeMs: 1, senders: [{ senderPubkey: alice.key, rows }], atMs: NOON_MS };
};

describe('reduceDedup', () => {
  test('counts one row a target, and a lost item as one less', () => {
    const rows = new MapRows();
    expect(reduceDedup(sent, 9, rows).at(-1)).toEqual({ table: 'sender', key: alice.key, row: { dedupRows: 2 } });
    for (const change of reduceDedup(sent, 9, rows)) rows.put(change);
    expect(reduceDedup(lostAtBob, 9, rows)).toEqual([
      { table: 'dedup', key: `${alice.key}${bob.key}m1`, row: null },
      { table: 'sender', key: alice.key, row: { dedupRows: 1 } },
    ]);
  });

  test('what is forgotten is counted no longer', () => {
    const rows = new MapRows(sent);
    expect(reduceDedup(purged(1), 9, rows)).toEqual([{ table: 'sender', key: alice.key, row: { dedupRows: 1 } }]);
    expect(reduceDedup(purged(2), 9, rows)).toEqual([{ table: 'sender', key: alice.key, row: null }]);
  });

  test('a notice that is lost was never known', () => {
    const lost: ItemLost = { ...lostAtBob, kind: 'expired', senderPubkey: relay.key, account: null };
    expect(reduceDedup(lost, 9, new MapRows(sent))).toEqual([]);
  });

  test('what expires, or is acked late, is known until then and no shorter than before', () => {
    const rows = new MapRows(sent);
    const key = `${alice.key}${bob.key}m1`;
    const row = rows.get('dedup', key);
    const items = [lostAtBob, { ...lostAtBob, itemId: 'unknown' as ItemId }];
    const about = { targetPubkey: bob.key, items, atMs: NOON_MS };
    for (const dedupUntilMs of [sent.dedupUntilMs - 1, sent.dedupUntilMs + 1]) {
      const kept = { ...row, dedupUntilMs: Math.max(sent.dedupUntilMs, dedupUntilMs) };
      const extended: RelayEvent = { type: 'DedupExtended', ...about, dedupUntilMs };
      expect(reduceDedup(extended, 9, rows)).toEqual([{ table: 'dedup', key, row: kept }]);
      const expired: RelayEvent = { ...noticeExpired().event, items, dedupUntilMs };
      expect(reduceDedup(expired, 9, rows)).toEqual([{ table: 'dedup', key, row: { ...kept, expired: true } }]);
    }
  });

  test('of items that move each row says where its item went, and a notice has none', () => {
    const rows = new MapRows(sent, accepted(alice, 'm2', [[bob, NOON_MS + 4, 'x']]), noticed(bob, NOON_MS + 5));
    const move = moved(bob, dave, [NOON_MS, NOON_MS + 4, NOON_MS + 5], NOON_MS + 20);
    expect(reduceDedup(move, 9, rows)).toMatchObject([
      { row: { itemId: 'm1', seq: NOON_MS, queuedTarget: dave.key, queuedSeq: NOON_MS + 20 } },
      { row: { itemId: 'm2', seq: NOON_MS + 4, queuedTarget: dave.key, queuedSeq: NOON_MS + 21 } },
    ]);
  });

  test.each<[string, Partial<DedupRow> | null]>([
    ['is gone', null],
    ['names another place of the queue', { queuedSeq: NOON_MS + 1 }],
    ['names another queue', { queuedTarget: carol.key }],
  ])('a row that %s stays as it is when the item moves', (_what, changes) => {
    const rows = new MapRows(sent);
    const key = `${alice.key}${bob.key}m1`;
    const row = rows.get('dedup', key);
    rows.put({ table: 'dedup', key, row: row && changes ? { ...row, ...changes } : null });
    expect(reduceDedup(moved(bob, dave, [NOON_MS], NOON_MS + 20), 9, rows)).toEqual([]);
  });

  test('an ack does not touch it', () => {
    expect(reduceDedup(acked(bob, NOON_MS, [[alice, 1, 7]]), 9, new MapRows(sent))).toEqual([]);
  });

  test('a sender without rows has no row', () => {
    const rows = new MapRows(accepted(alice, 'm1', [[bob, NOON_MS, 'for bob']]));
    expect(reduceDedup(lostAtBob, 9, rows).at(-1)).toEqual({ table: 'sender', key: alice.key, row: null });
  });
});

describe('reduceUsage', () => {
  const hosts = [enrolledInAccount(bob, 'acme'), enrolledInAccount(carol, 'acme')];

  test('sums one account over all targets of an item', () => {
    expect(reduceUsage(sent, new MapRows(...hosts))).toEqual([
      { table: 'share', key: bob.key + alice.key, row: { items: 1, bytes: 7 } },
      { table: 'account', key: 'acme', row: { items: 2, bytes: 12 } },
      { table: 'share', key: carol.key + alice.key, row: { items: 1, bytes: 5 } },
    ]);
  });

  test('counts an item of no bytes', () => {
    const empty = accepted(alice, 'm1', [[bob, NOON_MS, '']]);
    expect(reduceUsage(empty, new MapRows())).toEqual([
      { table: 'share', key: bob.key + alice.key, row: { items: 1, bytes: 0 } },
    ]);
  });

  test('deletes a row that would say zero', () => {
    const rows = new MapRows(...hosts, sent);
    const released = acked(bob, NOON_MS, [[alice, 1, 7]], { account: 'acme' });
    expect(reduceUsage(released, rows)).toEqual([
      { table: 'share', key: bob.key + alice.key, row: null },
      { table: 'account', key: 'acme', row: { items: 1, bytes: 5 } },
    ]);
  });

  test('moves a charge between accounts, and within one leaves it', () => {
    const rows = new MapRows(...hosts, sent);
    const moved = enrolledInAccount(bob, 'umbrella', { formerAccount: 'acme', chargedItems: 1, chargedBytes: 7 });
    expect(reduceUsage(moved, rows)).toEqual([
      { table: 'account', key: 'acme', row: { items: 1, bytes: 5 } },
      { table: 'account', key: 'umbrella', row: { items: 1, bytes: 7 } },
    ]);
    expect(reduceUsage(enrolledInAccount(bob, 'acme'), rows)).toEqual([]);
  });

  test('keeps a row while it says anything', () => {
    const kept = [{ table: 'account', key: 'acme', row: { items: 0, bytes: 2 } }];
    const added = rotated(bob, dave, { charges: [{ account: 'acme', items: 0, bytes: 2 }] });
    expect(reduceUsage(added, new MapRows())).toEqual(kept);
    const rows = new MapRows(...hosts, accepted(alice, 'm1', [[bob, NOON_MS, 'for bob']]));
    const taken = rotated(bob, dave, { charges: [{ account: 'acme', items: -1, bytes: -5 }] });
    expect(reduceUsage(taken, rows)).toEqual(kept);
  });

  test('a notice that moves or expires is nobody’s', () => {
    const rows = new MapRows(noticed(bob, NOON_MS));
    expect(reduceUsage(moved(bob, dave, [NOON_MS], NOON_MS + 20), rows)).toEqual([]);
    const { rows: both, event } = noticeExpired();
    both.put({ table: 'account', key: 'acme', row: { items: 2, bytes: 9 } });
    expect(reduceUsage({ ...event, account: 'acme' }, both)).toEqual([
      { table: 'share', key: bob.key + alice.key, row: null },
      { table: 'account', key: 'acme', row: { items: 1, bytes: 2 } },
    ]);
  });

  test.each([
    ['items', 2, 7],
    ['bytes', 1, 8],
  ])('throws where %s would fall below zero, and names the queue', (_what, items, bytes) => {
    const released = acked(bob, NOON_MS, [[alice, items, bytes]]);
    const thrown = thrownBy(() => reduceUsage(released, new MapRows(sent)));
    expect(thrown).toBeInstanceOf(BrokenQueue);
    expect(thrown).toMatchObject({ targetPubkey: bob.key, message: 'invariant: usage never falls below zero' });
  });

  test('blames no queue for an item of less than no bytes, which may have many targets', () => {
    const targets = sent.targets.map((target) => ({ ...target, bytes: -8 }));
    const thrown = thrownBy(() => reduceUsage({ ...sent, targets }, new MapRows()));
    expect(thrown).not.toBeInstanceOf(BrokenQueue);
    expect(thrown).toMatchObject({ message: 'invariant: usage never falls below zero' });
  });
});

describe('a rotation, event by event', () => {
  /** Bob, with an item of alice's, goes on as dave. */
  const ROTATED_MS = NOON_MS + 9;
  const became = rotated(bob, dave, { moved: 1, items: 1, bytes: 7, firstSeq: ROTATED_MS, atMs: ROTATED_MS });
  const list: RelayEvent = {
    type: 'SendersPublished',
    hostPubkey: bob.key,
    senders: [alice.key],
    iatMs: 1,
    atMs: NOON_MS,
  } as const;
  const before = (): MapRows =>
    new MapRows(
      initialised,
      enrolledInAccount(bob, 'acme'),
      enrolledInAccount(carol, 'acme'),
      enrolled(dave),
      list,
      sent,
    );

  test('KeyRotated revokes the old key, keeps its sequence numbers, and takes the places of the items', () => {
    const rows = before();
    rows.apply(became);
    expect(rows.get('enrolment', bob.key)).toMatchObject({ revokedAtMs: ROTATED_MS, rotatedTo: dave.key });
    expect(rows.get('enrolment', dave.key)).toMatchObject({ hostName: 'bob', revokedAtMs: null, rotatedTo: null });
    expect(rows.get('lineage', dave.key)).toEqual({ members: became.lineage });
    const emptied = { headSeq: NOON_MS, ackedThrough: 0, queueItems: 0, queueBytes: 0 };
    expect(rows.get('target', bob.key)).toEqual(emptied);
    expect(rows.get('target', dave.key)).toEqual({ ...emptied, headSeq: ROTATED_MS, queueItems: 1, queueBytes: 7 });
    expect(rows.get('move', bob.key)).toEqual({ newPubkey: dave.key, nextSeq: ROTATED_MS, left: 1 });
    // The items themselves are where they were.
    expect(rows.queue(bob.key)).toHaveLength(1);
    expect(rows.get('share', bob.key + alice.key)).toEqual({ items: 1, bytes: 7 });
  });

  test('KeyRotated keeps one lineage row, and none for an empty queue is on its way', () => {
    const rows = new MapRows(initialised, enrolled(alice), rotated(alice, bob), rotated(bob, carol));
    expect(rows.get('lineage', bob.key)).toBeUndefined();
    expect(rows.get('lineage', carol.key)?.members).toHaveLength(2);
    expect(rows.get('move', bob.key)).toBeUndefined();
  });

  test('KeyRotated keeps the record that both keys signed, and none where the log has none', () => {
    const rows = before();
    rows.apply({ ...became, signed: null });
    expect(rows.get('rotation', bob.key)).toBeUndefined();
    rows.apply(rotated(dave, carol));
    expect(rows.get('rotation', dave.key)).toEqual(signedRotation(dave, carol));
  });

  test('ItemsMoved brings row, share and whereabouts along, and leaves bytes and dedup key where they are', () => {
    const rows = before();
    const row = rows.queue(bob.key)[0]!;
    rows.apply(became);
    const changes = reduce({ lsn: 9, event: moved(bob, dave, [NOON_MS], ROTATED_MS) }, rows);
    expect(changes).toContainEqual({
      table: 'queue',
      key: bob.key + String(NOON_MS),
      row: null,
      leavesPayload: true,
    });
    for (const change of changes) rows.put(change);
    expect(rows.queue(dave.key)).toEqual([{ ...row, targetPubkey: dave.key, seq: ROTATED_MS }]);
    expect(rows.get('dedup', `${alice.key}${bob.key}m1`)).toMatchObject({
      targetPubkey: bob.key,
      seq: NOON_MS,
      queuedTarget: dave.key,
      queuedSeq: ROTATED_MS,
    });
    expect(rows.get('share', bob.key + alice.key)).toBeUndefined();
    expect(rows.get('share', dave.key + alice.key)).toEqual({ items: 1, bytes: 7 });
    expect(rows.get('move', bob.key)).toBeUndefined();
    expect(rows.get('sender', alice.key)).toEqual({ dedupRows: 2 });
  });

  test('ItemsMoved reads each queue row once, which takes longer than all else of it', () => {
    const rows = before();
    rows.apply(became);
    const asked = vi.spyOn(rows, 'get');
    reduce({ lsn: 9, event: moved(bob, dave, [NOON_MS], ROTATED_MS) }, rows);
    expect(asked.mock.calls.filter(([table]) => table === 'queue')).toHaveLength(1);
  });

  test('ItemsMoved of an item that is not queued is a broken invariant', () => {
    const rows = before();
    rows.apply(became);
    expect(() => rows.apply(moved(bob, dave, [NOON_MS + 1], ROTATED_MS))).toThrow('is queued');
  });
});

describe('reduceAdmissions', () => {
  const TOKEN = sha256Hex('token');
  const org = { hostFp: null, clientId: null, account: null, org: 'org-1' };

  test('keeps entries and invites until they are spent or lapse', () => {
    const rows = new MapRows(initialised, denied({ org: 'org-1' }), invited(TOKEN, NOON_MS + 1));
    expect(rows.get('deny', rowKey.deny(org))).toMatchObject({ org: 'org-1', reason: 'credential revoked' });
    rows.apply({ type: 'InviteSpent', inviteHash: TOKEN, hostPubkey: alice.key, atMs: NOON_MS });
    expect(rows.get('invite', TOKEN)).toBeUndefined();
    rows.apply({ type: 'AdmissionsLapsed', denied: [org], invites: [TOKEN], atMs: NOON_MS });
    expect(rows.get('deny', rowKey.deny(org))).toBeUndefined();
  });

  test('a revocation touches the enrolment alone', () => {
    const rows = new MapRows(initialised, enrolled(alice));
    expect(reduce({ lsn: 9, event: revoked(alice) }, rows)).toMatchObject([
      { table: 'enrolment', row: { revokedAtMs: NOON_MS } },
    ]);
    expect(reduce({ lsn: 9, event: revoked(bob) }, rows)).toEqual([]);
  });
});

test('an event is about one queue or charge at most, and a push about none', () => {
  expect(queueOf(acked(bob, NOON_MS, []))).toBe(bob.key);
  expect(queueOf(rotated(bob, dave))).toBe(bob.key);
  expect(queueOf(moved(bob, dave, [], 1))).toBe(bob.key);
  expect(queueOf(enrolled(alice))).toBe(alice.key);
  expect(queueOf(sent)).toBeUndefined();
});

test('an event happened when it was accepted or when it says', () => {
  expect(eventTimeMs({ ...sent, acceptedAtMs: 5 })).toBe(5);
  expect(eventTimeMs(acked(bob, NOON_MS, [], { atMs: 6 }))).toBe(6);
});

test('no event changes one row twice', () => {
  const rows = new MapRows(initialised);
  // MapRows.apply throws when a reducer does.
  for (const event of [enrolled(alice), enrolledInAccount(bob, 'acme'), sent, lostAtBob]) rows.apply(event);
  expect(reduce({ lsn: 9, event: sent }, rows)).toHaveLength(10);
});
