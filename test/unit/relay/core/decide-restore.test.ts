import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { hostFingerprint, type PublicKey } from '../../../../src/protocol/public-key.ts';
import { Admissions } from '../../../../src/relay/core/directory.ts';
import {
  type ReplacedStore,
  decidePreservedDenials,
  decidePreservedLapses,
  decidePreservedRevocations,
  decidePreservedRotation,
  decidePreservedStatements,
  decideDeniedHosts,
  decideRestore,
  decideSeqFloors,
  decideSpentInvites,
  rotationsInOrder,
} from '../../../../src/relay/core/decide-restore.ts';
import type { ExpireItems } from '../../../../src/relay/core/command.ts';
import { decideEnrol } from '../../../../src/relay/core/decide-enrolment.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { type HostFacts, lineageOf, presentKey } from '../../../../src/relay/core/decision.ts';
import { type EnrolmentRow, type RestoreRow, rowKey } from '../../../../src/relay/core/rows.ts';
import { accountEnrolOf, enrolOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import {
  accepted,
  denied,
  enrolled,
  enrolledInAccount,
  initialised,
  revoked,
  rotated,
} from '../../../support/events.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { signedRotation } from '../../../support/rotations.ts';
import { settingsWith } from '../../../support/settings.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { decideExpire } from '../../../../src/relay/core/decide-queue.ts';

const LATER_MS = NOON_MS + 3_600_000;
const SETTINGS = settingsWith();

/** A store after these events, as a restore reads it. */
function replacedBy(events: readonly RelayEvent[], changes: Partial<ReplacedStore> = {}): ReplacedStore {
  const rows = new MapRows(initialised, ...events);
  const enrolments = new Map<PublicKey, EnrolmentRow>();
  const replaced = {
    epoch: epochNumbered(2),
    lastLsn: 1 + events.length,
    continuesBackup: true,
    enrolments,
    senders: new Map(),
    encKeys: new Map(),
    rotations: new Map(),
    denied: [] as ReplacedStore['denied'][number][],
    openInvites: new Set<string>(),
    heads: new Map<PublicKey, number>(),
    restores: [] as RestoreRow[],
  };
  for (const { table, key, row } of rows.all()) {
    if (!row) continue;
    if (table === 'enrolment') enrolments.set(key as PublicKey, row);
    else if (table === 'senders') replaced.senders.set(key, row);
    else if (table === 'encKey') replaced.encKeys.set(key, row);
    else if (table === 'rotation') replaced.rotations.set(key, row);
    else if (table === 'deny') replaced.denied.push(row);
    else if (table === 'invite') replaced.openInvites.add(key);
    else if (table === 'target') replaced.heads.set(key as PublicKey, row.headSeq);
    else if (table === 'restore') replaced.restores.push(row);
  }
  return { ...replaced, ...changes };
}

function backupOf(...events: readonly RelayEvent[]): MapRows {
  return new MapRows(initialised, ...events);
}

function applied(rows: MapRows, events: readonly RelayEvent[]): MapRows {
  for (const event of events) rows.apply(event);
  return rows;
}

function factsOf(rows: MapRows): HostFacts {
  return { rows, directory: rows.directory, admissions: rows.admissions, settings: SETTINGS };
}

/** Every rotation of the replaced store, over the restored rows. */
function carryRotations(replaced: ReplacedStore, rows: MapRows): RelayEvent[] {
  const events: RelayEvent[] = [];
  for (const gone of rotationsInOrder(replaced)) {
    const { hostPubkey: oldPubkey } = gone;
    const signed = replaced.rotations.get(oldPubkey) ?? null;
    const facts = { ...factsOf(rows), admissions: new Admissions() };
    const waiting = rows.released(oldPubkey, Infinity);
    const decided = decidePreservedRotation(gone, signed, facts, waiting, LATER_MS);
    applied(rows, decided);
    events.push(...decided);
  }
  return events;
}

function isLive(rows: MapRows, host: TestHost): boolean {
  return rows.get('enrolment', host.key)?.revokedAtMs === null;
}

function enrolAgain(rows: MapRows, host: TestHost): string {
  const command = enrolOf(host, { nowMs: LATER_MS });
  const decision = decideEnrol(command, factsOf(rows));
  if (decision.type === 'Refusal') return decision.code;
  applied(rows, decision.events);
  return decision.outcome.type;
}

const row = (epoch: number, atMs: number): RestoreRow => ({
  atMs,
  epoch: epochNumbered(epoch),
  backupEpoch: epochNumbered(1),
  backupLsn: 1,
  backupCreatedAtMs: 1,
  replacedEpoch: null,
  replacedLsn: null,
});

const published = (host: TestHost, iatMs: number): RelayEvent => ({
  type: 'SendersPublished',
  hostPubkey: host.key,
  senders: [bob.key],
  iatMs,
  atMs: iatMs,
});

const advertised = (host: TestHost, advertisedAtMs: number): RelayEvent => ({
  type: 'EncKeyPublished',
  hostPubkey: host.key,
  encPub: `key of ${advertisedAtMs}`,
  advertisedAtMs,
  sig: '',
  atMs: advertisedAtMs,
});

describe('the log of restores', () => {
  const command = {
    epoch: epochNumbered(9),
    backupEpoch: epochNumbered(1),
    backupLsn: 5,
    backupCreatedAtMs: NOON_MS,
    nowMs: LATER_MS,
  };

  test('begins with the epoch, says both stores, and keeps what only the replaced one knew', () => {
    const rows = backupOf();
    rows.put({ table: 'restore', key: rowKey.restore(row(3, 1)), row: row(3, 1) });
    const replaced = replacedBy([], { restores: [row(5, 3), row(3, 1), row(4, 2)] });
    const events = decideRestore(command, replaced, rows);
    expect(events.map(({ type }) => type)).toEqual(['EpochRotated', 'RelayRestored']);
    expect(events[1]).toMatchObject({ replacedEpoch: epochNumbered(2), replacedLsn: 1, backupLsn: 5 });
    expect(events[1]).toMatchObject({ earlier: [row(4, 2), row(5, 3)] });
    applied(rows, events);
    const kept = rows.all().flatMap(({ table, row: kept }) => (table === 'restore' && kept ? [kept] : []));
    expect(kept.map(({ epoch }) => epoch).toSorted()).toEqual([3, 4, 5, 9].map(epochNumbered).toSorted());
    expect(rows.get('relay', '')?.epoch).toBe(epochNumbered(9));
  });

  test('says when there was no store', () => {
    expect(decideRestore(command, undefined, backupOf())[1]).toMatchObject({
      replacedEpoch: null,
      replacedLsn: null,
      earlier: [],
    });
  });

  test('takes over the newest thousand', () => {
    const restores = Array.from({ length: 1001 }, (_none, at) => row(1, at));
    expect(decideRestore(command, replacedBy([], { restores }), backupOf())[1]).toMatchObject({
      earlier: restores.slice(1),
    });
  });
});

describe('sequence numbers', () => {
  test('of every target go on above what the replaced store gave', () => {
    const rows = backupOf(enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, 'x']]));
    const replaced = replacedBy([
      enrolled(bob),
      accepted(alice, 'm2', [[bob, NOON_MS + 7, 'x']]),
      accepted(alice, 'm3', [[carol, 9, 'x']]),
    ]);
    applied(rows, decideSeqFloors(replaced, rows, LATER_MS));
    expect(rows.get('target', bob.key)).toMatchObject({ headSeq: NOON_MS + 7, queueItems: 1 });
    expect(rows.get('target', carol.key)).toMatchObject({ headSeq: 9, queueItems: 0 });
    expect(decideSeqFloors(replaced, rows, LATER_MS)).toEqual([]);
  });

  test('of many targets are raised in slices', () => {
    const heads = new Map(Array.from({ length: 1001 }, (_none, at) => [`host ${at}` as PublicKey, at + 1]));
    const events = decideSeqFloors(replacedBy([], { heads }), backupOf(), LATER_MS);
    expect(events.map((event) => event.type === 'SeqFloorsRaised' && event.floors.length)).toEqual([500, 500, 1]);
  });
});

describe('a rotation', () => {
  test('of a host that the backup knows takes its queue and its authority along', () => {
    const rows = backupOf(enrolledInAccount(alice, 'acme'), accepted(bob, 'm1', [[alice, NOON_MS, 'xy']]));
    const events = carryRotations(replacedBy([enrolled(alice), rotated(alice, carol)]), rows);
    expect(events.map(({ type }) => type)).toEqual(['KeyRotated']);
    expect(events[0]).toMatchObject({ moved: 1, items: 1, bytes: 2, account: 'acme', iatMs: NOON_MS, atMs: LATER_MS });
    expect(rows.get('enrolment', alice.key)).toMatchObject({ rotatedTo: carol.key, revokedAtMs: LATER_MS });
    expect(rows.get('move', alice.key)).toMatchObject({ newPubkey: carol.key, left: 1 });
    expect(isLive(rows, carol)).toBe(true);
  });

  test('keeps the record that both keys signed', () => {
    const replaced = replacedBy([enrolled(alice), rotated(alice, carol)]);
    const rows = backupOf(enrolled(alice));
    carryRotations(replaced, rows);
    expect(rows.get('rotation', alice.key)).toEqual(signedRotation(alice, carol));
  });

  test('over several keys is done again from the first to the last, whatever their times say', () => {
    const hosts = [alice, bob, carol, dave];
    const events = [
      enrolled(alice),
      rotated(alice, bob, { atMs: NOON_MS + 30 }),
      rotated(bob, carol, { atMs: NOON_MS + 20 }),
      rotated(carol, dave, { atMs: NOON_MS + 10 }),
    ];
    const rows = backupOf(enrolled(alice));
    carryRotations(replacedBy(events), rows);
    expect(presentKey(rows, alice.key)).toBe(dave.key);
    expect(lineageOf(rows, dave.key)).toEqual(hosts.map(({ key }) => key));
    expect(hosts.map((host) => isLive(rows, host))).toEqual([false, false, false, true]);
  });

  test('comes once and after those before it, and of others the earlier first', () => {
    const erin = hostNamed('erin');
    const replaced = replacedBy([
      enrolled(alice),
      enrolled(dave),
      enrolled(erin),
      rotated(alice, bob, { atMs: NOON_MS + 2 }),
      rotated(dave, bob, { atMs: NOON_MS + 1 }),
      rotated(erin, hostNamed('erin anew'), { atMs: NOON_MS + 3 }),
      rotated(bob, carol, { atMs: NOON_MS }),
    ]);
    const order = rotationsInOrder(replaced).map(({ hostPubkey }) => hostPubkey);
    expect(order).toEqual([dave.key, alice.key, erin.key, bob.key]);
  });

  test('into a key whose enrolment lapsed is followed no further', () => {
    const replaced = replacedBy([enrolled(alice), rotated(alice, bob)]);
    const enrolments = new Map([...replaced.enrolments].filter(([key]) => key !== bob.key));
    expect(rotationsInOrder({ ...replaced, enrolments }).map(({ hostPubkey }) => hostPubkey)).toEqual([alice.key]);
  });

  test('that the backup has is not done twice', () => {
    const history = [enrolled(alice), rotated(alice, bob)];
    const rows = backupOf(...history);
    expect(carryRotations(replacedBy(history), rows)).toEqual([]);
    expect(decidePreservedRevocations(replacedBy(history), rows, LATER_MS)).toEqual([]);
  });

  test('of a host that enrolled after the backup joins its keys and lets nobody in', () => {
    const rows = backupOf();
    const replaced = replacedBy([enrolledInAccount(alice, 'acme'), rotated(alice, bob, { account: 'acme' })]);
    carryRotations(replaced, rows);
    applied(rows, decidePreservedRevocations(replaced, rows, LATER_MS));
    expect(rows.directory.liveCount).toBe(0);
    expect(rows.get('enrolment', bob.key)).toBeUndefined();
    expect(enrolAgain(rows, alice)).toBe('ENROL_REFUSED');
    expect(enrolAgain(rows, bob)).toBe('Enrolled');
    expect(lineageOf(rows, bob.key)).toEqual([alice.key, bob.key]);
    expect(rows.get('enrolment', bob.key)?.account).toBeNull();
  });

  test('of such a host over several keys joins all of them', () => {
    const rows = backupOf();
    carryRotations(replacedBy([enrolled(alice), rotated(alice, bob), rotated(bob, carol)]), rows);
    expect(rows.directory.liveCount).toBe(0);
    expect(enrolAgain(rows, carol)).toBe('Enrolled');
    expect(lineageOf(rows, carol.key)).toEqual([alice.key, bob.key, carol.key]);
  });

  test('of such a host into one that the backup knows gives that one no account', () => {
    const rows = backupOf(enrolled(bob));
    carryRotations(
      replacedBy([
        enrolled(bob),
        enrolledInAccount(alice, 'acme'),
        { type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS },
        rotated(alice, bob, { account: 'acme', seen: true }),
      ]),
      rows,
    );
    // Nor the use that the other made of it: never used here, it may lapse.
    expect(rows.get('enrolment', bob.key)?.seen).toBe(false);
    expect(rows.get('enrolment', bob.key)).toMatchObject({ account: null, authorizedBy: 'host-key' });
    expect(isLive(rows, bob)).toBe(true);
    expect(isLive(rows, alice)).toBe(false);
    expect(lineageOf(rows, alice.key)).toEqual([alice.key, bob.key]);
  });

  test('of a key that is not in the backup brings its name along, unless another host of the account has it', () => {
    const rotations = replacedBy([enrolled(alice), enrolled(bob), rotated(alice, bob)]);
    const namesake = enrolledInAccount(carol, 'acme', { hostName: alice.name });
    for (const others of [[], [namesake]]) {
      const rows = backupOf(enrolledInAccount(bob, 'acme'), ...others);
      carryRotations(rotations, rows);
      expect(rows.get('enrolment', bob.key)?.hostName).toBe(others.length > 0 ? bob.name : alice.name);
    }
  });

  test('into a key that enrolled after the backup takes over what the old key had, and nothing else', () => {
    const rows = backupOf(enrolled(alice));
    const replaced = replacedBy([
      enrolled(alice),
      enrolledInAccount(bob, 'acme'),
      rotated(alice, bob, { account: 'acme', authorizedBy: 'account-token' }),
    ]);
    carryRotations(replaced, rows);
    expect(rows.get('enrolment', bob.key)).toMatchObject({
      account: null,
      authorizedBy: 'host-key',
      revokedAtMs: null,
    });
  });

  test('between keys of other accounts than the replaced store knew is done all the same', () => {
    const rows = backupOf(
      enrolledInAccount(alice, 'acme'),
      enrolledInAccount(bob, 'umbrella'),
      accepted(carol, 'm1', [[alice, NOON_MS, 'x']]),
    );
    carryRotations(replacedBy([enrolled(alice), enrolled(bob), rotated(alice, bob)]), rows);
    expect(rows.get('move', alice.key)).toMatchObject({ newPubkey: bob.key, left: 1 });
    expect([rows.get('account', 'acme'), rows.get('account', 'umbrella')]).toEqual([undefined, { items: 1, bytes: 1 }]);
  });

  test('between keys of two accounts brings both queues into the one whose proof lasts longer', () => {
    const rows = backupOf(
      enrolledInAccount(alice, 'acme'),
      enrolledInAccount(bob, 'umbrella', { validUntilMs: NOON_MS }),
      accepted(carol, 'm1', [
        [alice, NOON_MS, 'x'],
        [bob, NOON_MS, 'yyy'],
      ]),
    );
    carryRotations(replacedBy([enrolled(alice), enrolled(bob), rotated(alice, bob)]), rows);
    expect([rows.get('account', 'acme'), rows.get('account', 'umbrella')]).toEqual([{ items: 2, bytes: 4 }, undefined]);
  });

  test.each([
    ['is live, of one that is revoked here,', [enrolled(alice), revoked(alice), enrolled(bob)], [bob]],
    ['is revoked here', [enrolled(alice), enrolled(bob), revoked(bob)], []],
    ['went the other way here', [enrolled(bob), rotated(bob, alice)], []],
  ])('into a key that %s cannot be done: the old key is revoked instead', (_why, history, live) => {
    const rows = backupOf(...history);
    const replaced = replacedBy([enrolled(alice), rotated(alice, bob)]);
    expect(carryRotations(replaced, rows)).toEqual([]);
    applied(rows, decidePreservedRevocations(replaced, rows, LATER_MS));
    expect([alice, bob].filter((host) => isLive(rows, host))).toEqual(live);
  });
});

const until = (untilMs: number): RelayEvent => denied({ account: 'acme', untilMs });

describe('what was taken away stays away', () => {
  test('a key that was revoked, whether the backup knows it or not', () => {
    const rows = backupOf(enrolled(alice));
    const replaced = replacedBy([
      enrolled(alice),
      revoked(alice),
      enrolledInAccount(bob, 'acme'),
      revoked(bob),
      enrolled(carol),
    ]);
    const events = decidePreservedRevocations(replaced, rows, LATER_MS);
    expect(events.map(({ type }) => type)).toEqual(['HostRevoked', 'HostEnrolled', 'HostRevoked']);
    applied(rows, events);
    expect([alice, bob].map((host) => enrolAgain(rows, host))).toEqual(['ENROL_REFUSED', 'ENROL_REFUSED']);
    expect(rows.get('enrolment', carol.key)).toBeUndefined();
    expect(decidePreservedRevocations(replaced, rows, LATER_MS)).toEqual([]);
  });

  test('a revoked key that the backup does not know has no account, and what is in its queue can expire', () => {
    const rows = backupOf(enrolledInAccount(bob, 'acme'), accepted(alice, 'm1', [[bob, NOON_MS, 'xy']]), {
      type: 'EnrolmentLapsed',
      hostPubkey: bob.key,
      account: 'acme',
      releasedItems: 1,
      releasedBytes: 2,
      atMs: NOON_MS,
    });
    const replaced = replacedBy([enrolledInAccount(bob, 'acme'), revoked(bob)]);
    applied(rows, decidePreservedRevocations(replaced, rows, LATER_MS));
    expect(rows.get('enrolment', bob.key)).toMatchObject({ account: null, revokedAtMs: LATER_MS });
    const nowMs = NOON_MS + 15 * 86_400_000;
    const command: ExpireItems = { type: 'ExpireItems', targetPubkey: bob.key, seqs: [NOON_MS], nowMs };
    const expired = decideExpire(command, rows, SETTINGS);
    applied(rows, expired ? [{ ...expired, notices: [] }] : []);
    expect(rows.get('target', bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  });

  test('a host that rotated and was revoked then, under every key', () => {
    const rows = backupOf(enrolled(alice));
    const replaced = replacedBy([enrolled(alice), rotated(alice, bob), revoked(bob)]);
    carryRotations(replaced, rows);
    applied(rows, decidePreservedRevocations(replaced, rows, LATER_MS));
    expect([alice, bob].map((host) => enrolAgain(rows, host))).toEqual(['ENROL_REFUSED', 'ENROL_REFUSED']);
  });

  test('every host that a deny entry means, and the entry also when its time has passed by this clock', () => {
    const rows = backupOf(enrolled(alice), enrolledInAccount(bob, 'acme'));
    const replaced = replacedBy([
      denied({ hostFp: hostFingerprint(alice.key), untilMs: LATER_MS + 1 }),
      denied({ account: 'acme', untilMs: LATER_MS }),
    ]);
    applied(rows, decidePreservedDenials(replaced, rows, LATER_MS));
    expect(rows.admissions.deniedCount).toBe(2);
    expect(decidePreservedDenials(replaced, rows, LATER_MS)).toEqual([]);
    const events = decideDeniedHosts(replaced, { rows, directory: rows.directory }, LATER_MS);
    expect(events).toEqual([revoked(alice, { cause: 'denied', atMs: LATER_MS })]);
    applied(rows, events);
    expect([isLive(rows, alice), isLive(rows, bob)]).toEqual([false, true]);
  });

  test('a deny entry for as long as either store says', () => {
    const carried = (here: number, there: number): RelayEvent[] =>
      decidePreservedDenials(replacedBy([until(there)]), backupOf(until(here)), LATER_MS);
    expect(carried(LATER_MS, LATER_MS + 1)).toEqual([
      denied({ account: 'acme', untilMs: LATER_MS + 1, atMs: LATER_MS }),
    ]);
    expect(carried(LATER_MS, LATER_MS)).toEqual([]);
    expect(carried(LATER_MS + 1, LATER_MS)).toEqual([]);
  });

  test('an invite that was used, and every one when nothing tells which', () => {
    const [used, open] = [sha256Hex('used'), sha256Hex('open')];
    const replaced = replacedBy([], { openInvites: new Set([open]) });
    expect(decideSpentInvites(replaced, [used, open], LATER_MS)).toEqual([
      { type: 'AdmissionsLapsed', denied: [], invites: [used], atMs: LATER_MS },
    ]);
    expect(decideSpentInvites(undefined, [used, open], LATER_MS)).toMatchObject([{ invites: [used, open] }]);
    expect(decideSpentInvites(replaced, [open], LATER_MS)).toEqual([]);
  });

  test('an enrolment that gave way, where the replaced store came of the backup', () => {
    const rows = backupOf(
      enrolledInAccount(alice, 'acme'),
      accepted(bob, 'm1', [[alice, NOON_MS, 'xy']]),
      enrolled(carol),
      { type: 'HostSeen', hostPubkey: carol.key, atMs: NOON_MS },
      enrolled(dave),
      revoked(dave),
    );
    const restored = { rows, directory: rows.directory };
    expect(decidePreservedLapses(replacedBy([], { continuesBackup: false }), restored, LATER_MS)).toEqual([]);
    const events = decidePreservedLapses(replacedBy([]), restored, LATER_MS);
    expect(events).toMatchObject([{ type: 'EnrolmentLapsed', hostPubkey: alice.key, releasedItems: 1 }]);
    applied(rows, events);
    expect(rows.get('account', 'acme')).toBeUndefined();
  });
});

describe('what a host said last', () => {
  test('is what the restored store says, also of hosts that have yet to enrol again', () => {
    const rows = backupOf(enrolled(alice), published(alice, 5), advertised(alice, 5), published(carol, 9));
    const replaced = replacedBy([
      published(alice, 6),
      advertised(alice, 6),
      published(carol, 8),
      published(dave, 1),
      advertised(dave, 1),
    ]);
    applied(rows, decidePreservedStatements(replaced, rows, LATER_MS));
    expect([alice, carol, dave].map(({ key }) => rows.get('senders', key)?.iatMs)).toEqual([6, 9, 1]);
    expect([alice, dave].map(({ key }) => rows.get('encKey', key)?.atMs)).toEqual([6, 1]);
    expect(decidePreservedStatements(replaced, rows, LATER_MS)).toEqual([]);
  });

  test('an account is never taken over', () => {
    const rows = backupOf(enrolled(alice));
    const command = accountEnrolOf(alice, 'acme');
    const replaced = replacedBy([enrolledInAccount(alice, 'acme')]);
    applied(rows, [
      ...carryRotations(replaced, rows),
      ...decidePreservedRevocations(replaced, rows, LATER_MS),
      ...decidePreservedStatements(replaced, rows, LATER_MS),
    ]);
    expect(rows.get('enrolment', command.hostPubkey)?.account).toBeNull();
  });
});
