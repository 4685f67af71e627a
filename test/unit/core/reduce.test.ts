import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../src/protocol/digest.ts';
import type { HostName, ItemId } from '../../../src/protocol/names.ts';
import type { ItemLost } from '../../../src/relay/core/event.ts';
import { reduceDedup } from '../../../src/relay/core/reduce-dedup.ts';
import { reduceEnrolments } from '../../../src/relay/core/reduce-enrolments.ts';
import { reduceQueues } from '../../../src/relay/core/reduce-queues.ts';
import { reduceRelay } from '../../../src/relay/core/reduce-relay.ts';
import { reduceUsage } from '../../../src/relay/core/reduce-usage.ts';
import { reduce } from '../../../src/relay/core/reduce.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { accepted, acked, enrolled, enrolledInAccount, initialised } from '../../support/events.ts';
import { alice, bob, carol, relay } from '../../support/hosts.ts';
import { MapRows } from '../../support/map-rows.ts';
import { NOON_MS } from '../../support/test-clock.ts';

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

  test('throws for a rotation before there is a relay', () => {
    const rotated = { type: 'EpochRotated', epoch: epochNumbered(2), reason: 'reset', atMs: NOON_MS } as const;
    expect(() => reduceRelay(rotated, new MapRows())).toThrow('not initialised');
  });
});

describe('reduceEnrolments', () => {
  test('never clears a revocation and never forgets a use', () => {
    const rows = new MapRows(initialised, enrolled(alice));
    const row = rows.get('enrolment', alice.key);
    if (!row) throw new Error('alice is enrolled');
    rows.put({ table: 'enrolment', key: alice.key, row: { ...row, revokedAtMs: NOON_MS, seen: true } });
    const [change] = reduceEnrolments(enrolled(alice, { hostName: 'a2' as HostName }), rows);
    expect(change?.row).toEqual({ ...row, hostName: 'a2', revokedAtMs: NOON_MS, seen: true });
  });

  test('a hop of a key that is gone leaves no row', () => {
    expect(reduceEnrolments({ type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS }, new MapRows())).toEqual([]);
  });
});

describe('reduceQueues', () => {
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

  test('throws where usage would fall below zero', () => {
    const released = acked(bob, NOON_MS, [[alice, 1, 7]]);
    expect(() => reduceUsage(released, new MapRows())).toThrow('never falls below zero');
  });
});

test('no event changes one row twice', () => {
  const rows = new MapRows(initialised);
  // MapRows.apply throws when a reducer does.
  for (const event of [enrolled(alice), enrolledInAccount(bob, 'acme'), sent, lostAtBob]) rows.apply(event);
  expect(reduce({ lsn: 9, event: sent }, rows)).toHaveLength(10);
});
