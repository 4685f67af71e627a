/** Tests what each event means to a person, and which hosts and items it is about. */
import { expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { byFingerprint, describeEvent, hostsOf } from '../../../../src/relay/core/describe-event.ts';
import type { ExpiredItem, QueuedNotice, RelayEvent, RelayRestored } from '../../../../src/relay/core/event.ts';
import { FIRST_EPOCH } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import {
  accepted,
  acked,
  denied,
  enrolled,
  initialised,
  invited,
  moved,
  revoked,
  rotated,
} from '../../../support/events.ts';
import { type TestHost, alice, bob, carol, hostNamed, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const NAMES = new Map([alice, bob, carol, relay].map(({ key, name }) => [key, name]));
const NOON = '2025-11-20T21:48:23.000Z';
const HASH = sha256Hex('x');
const atMs = NOON_MS;

const [second, third] = [epochNumbered(2), epochNumbered(3)];
const restored: RelayRestored = {
  type: 'RelayRestored',
  epoch: third,
  backupEpoch: FIRST_EPOCH,
  backupLsn: 40,
  backupCreatedAtMs: NOON_MS,
  replacedEpoch: second,
  replacedLsn: 90,
  earlier: [],
  atMs,
};
const expiredItem = (itemId: string, seq: number): ExpiredItem =>
  ({ seq, kind: 'envelope', itemId, senderPubkey: alice.key, pushedTo: carol.key, bytes: 3 }) as ExpiredItem;
const notice = { targetPubkey: alice.key, seq: 9, itemId: 'n1', wire: '{}', wireHash: HASH, expiresAtMs: 1 };
const lapsed = { hostFp: null, clientId: 'c', account: null, org: null };

/** An event, its sentence, `role name` of its hosts, its items, and `name=value` of its facts. */
type Described = readonly [
  event: RelayEvent,
  sentence: string,
  about?: { hosts?: string[]; itemIds?: string[]; facts?: string[] },
];

const described: Described[] = [
  [initialised, `relay relay was created, epoch ${FIRST_EPOCH}, schema 1`, { facts: [`epoch=${FIRST_EPOCH}`] }],
  [
    { type: 'EpochRotated', epoch: second, reason: 'reset', atMs },
    `epoch ${second} began (reset)`,
    { facts: [`epoch=${second}`, 'reason=reset'] },
  ],
  [
    restored,
    `restored from the backup of ${NOON} (record 40 of epoch ${FIRST_EPOCH}), replacing record 90 of epoch ${second}`,
    {
      facts: [
        `epoch=${third}`,
        `backup of=${NOON}`,
        `epoch of the backup=${FIRST_EPOCH}`,
        'last record of the backup=40',
        `epoch that was replaced=${second}`,
        'last record that was replaced=90',
      ],
    },
  ],
  [
    { ...restored, replacedEpoch: null, replacedLsn: null },
    `restored from the backup of ${NOON} (record 40 of epoch ${FIRST_EPOCH})`,
    {
      facts: [
        `epoch=${third}`,
        `backup of=${NOON}`,
        `epoch of the backup=${FIRST_EPOCH}`,
        'last record of the backup=40',
      ],
    },
  ],
  [
    {
      type: 'SeqFloorsRaised',
      floors: [
        { targetPubkey: alice.key, headSeq: 7 },
        { targetPubkey: bob.key, headSeq: 8 },
      ],
      atMs,
    },
    'no seq is given twice: alice continues after 7, bob continues after 8',
    { hosts: ['host alice', 'host bob'], facts: ['queues=2'] },
  ],
  [{ type: 'SchemaMigrated', schemaVersion: 3, atMs }, 'the rows were migrated to schema 3', { facts: ['schema=3'] }],
  [
    { type: 'CheckpointTaken', throughLsn: 12, rows: 5, rowsHash: HASH, dueHash: HASH, atMs },
    'the 5 rows after record 12 were saved: a replay may begin there',
    { facts: ['after record=12', 'rows=5'] },
  ],
  [
    enrolled(alice),
    'alice enrolled as alice by host-key',
    { hosts: ['host alice'], facts: ['name=alice', 'authority=host-key'] },
  ],
  [
    enrolled(alice, { account: 'acme', org: 'o', clientId: 'c', ownerFp: 'fp', authorizedBy: 'account-token' }),
    'alice enrolled as alice by account-token, account acme',
    {
      hosts: ['host alice'],
      facts: ['name=alice', 'account=acme', 'org=o', 'client=c', 'owner=fp', 'authority=account-token'],
    },
  ],
  [{ type: 'HostSeen', hostPubkey: bob.key, atMs }, 'bob made its first request', { hosts: ['host bob'] }],
  [
    { type: 'EnrolmentLapsed', hostPubkey: bob.key, account: 'acme', releasedItems: 1, releasedBytes: 2, atMs },
    'the unused enrolment of bob lapsed to make room',
    { hosts: ['host bob'] },
  ],
  [revoked(bob), 'bob was revoked (operator)', { hosts: ['host bob'], facts: ['cause=operator'] }],
  [
    rotated(alice, bob),
    'alice changed its key to bob',
    { hosts: ['old key alice', 'new key bob'], facts: ['items to move=0'] },
  ],
  [
    rotated(alice, bob, { moved: 2, firstSeq: 50 }),
    'alice changed its key to bob; 2 items will move, from seq 50 on',
    { hosts: ['old key alice', 'new key bob'], facts: ['items to move=2'] },
  ],
  [
    moved(alice, bob, [3, 5], 50, { left: 1 }),
    '2 items moved from alice to bob, from seq 50 on; 1 left',
    { hosts: ['old key alice', 'new key bob'], facts: ['items=2', 'left=1'] },
  ],
  [
    denied({ clientId: 'c', org: 'o', untilMs: NOON_MS }),
    `denied until ${NOON}: client c, org o (credential revoked)`,
    { facts: ['client=c', 'org=o', 'reason=credential revoked'] },
  ],
  [
    denied({ hostFp: HASH, account: 'acme', untilMs: NOON_MS }),
    `denied until ${NOON}: host ${HASH}, account acme (credential revoked)`,
    { facts: [`host=${HASH}`, 'account=acme', 'reason=credential revoked'] },
  ],
  [invited(HASH, NOON_MS), `an invite was issued, valid until ${NOON}`],
  [
    { ...invited(HASH, NOON_MS), label: 'the laptop' },
    `an invite was issued for the laptop, valid until ${NOON}`,
    { facts: ['label=the laptop'] },
  ],
  [
    { type: 'InviteSpent', inviteHash: HASH, hostPubkey: alice.key, atMs },
    'alice used an invite',
    { hosts: ['host alice'] },
  ],
  [
    { type: 'AdmissionsLapsed', denied: [lapsed, lapsed], invites: [HASH], atMs },
    '2 deny entries and 1 invite ended',
    { facts: ['deny entries=2', 'invites=1'] },
  ],
  [
    { type: 'SendersPublished', hostPubkey: alice.key, senders: [bob.key, carol.key], iatMs: 1, atMs },
    'alice accepts mail from 2 senders',
    { hosts: ['host alice'], facts: ['senders=2'] },
  ],
  [
    { type: 'SendersRenewed', hostPubkey: alice.key, iatMs: 1, atMs },
    'alice accepts mail from the same senders as before',
    { hosts: ['host alice'] },
  ],
  [
    { type: 'EncKeyPublished', hostPubkey: alice.key, encPub: 'e', advertisedAtMs: 1, sig: 's', atMs },
    'alice published an encryption key',
    { hosts: ['host alice'] },
  ],
  [
    accepted(alice, 'm1', [
      [bob, 7, 'four'],
      [carol, 8, 'three'],
    ]),
    'envelope m1 of alice accepted for bob at 7 (4 B), carol at 8 (5 B)',
    { hosts: ['from alice', 'to bob', 'to carol'], itemIds: ['m1'], facts: ['kind=envelope', 'bytes=9'] },
  ],
  [
    acked(bob, 70, [[alice, 3, 30]], { notices: 2 }),
    'bob acked through 70: 5 items, 30 B',
    { hosts: ['host bob'], facts: ['items=5', 'through=70'] },
  ],
  [
    expired([expiredItem('m1', 7), expiredItem('m2', 8)], [notice as QueuedNotice]),
    'expired at bob: m1 at 7, m2 at 8; 1 notice to senders',
    { hosts: ['host bob'], itemIds: ['m1', 'm2', 'n1'], facts: ['items=2', 'notices=1', 'item=m1', 'item=m2'] },
  ],
  [
    expired([expiredItem('m1', 7)], []),
    'expired at bob: m1 at 7',
    { hosts: ['host bob'], itemIds: ['m1'], facts: ['items=1', 'notices=0', 'item=m1'] },
  ],
  [
    {
      type: 'DedupExtended',
      targetPubkey: bob.key,
      items: [expiredItem('m1', 7), expiredItem('m2', 8)],
      dedupUntilMs: NOON_MS,
      atMs,
    },
    `acked late by bob, known until ${NOON}: m1, m2`,
    { hosts: ['host bob'], itemIds: ['m1', 'm2'], facts: ['items=2', 'item=m1', 'item=m2'] },
  ],
  [
    {
      type: 'DedupPurged',
      beforeMs: NOON_MS,
      senders: [
        { senderPubkey: alice.key, rows: 2 },
        { senderPubkey: bob.key, rows: 5 },
      ],
      atMs,
    },
    `forgot the items that were known until ${NOON}`,
    { facts: ['rows=7'] },
  ],
  [
    { type: 'ItemLost', ...expiredItem('m1', 7), targetPubkey: bob.key, account: null, reason: 'corrupt', atMs },
    'envelope m1 of alice was lost for bob at 7 (corrupt)',
    { hosts: ['from alice', 'host bob'], itemIds: ['m1'], facts: ['reason=corrupt'] },
  ],
];

function expired(items: ExpiredItem[], notices: QueuedNotice[]): RelayEvent {
  const [targetPubkey, relayPubkey] = [bob.key, relay.key];
  return { type: 'ItemsExpired', targetPubkey, relayPubkey, items, account: null, dedupUntilMs: 1, notices, atMs };
}

const names = (event: RelayEvent): string[] => [...hostsOf(event)].map((key) => NAMES.get(key) ?? key).toSorted();

test.each(described.map(([event, sentence, about]) => ({ event, sentence, about })))(
  '$event.type: $sentence',
  ({ event, sentence, about: { hosts = [], itemIds = [], facts = [] } = {} }) => {
    const shown = describeEvent(event);
    expect(shown.sentence((key) => NAMES.get(key) ?? key)).toBe(sentence);
    expect(shown.hosts.map(({ role, key }) => `${role} ${NAMES.get(key)}`)).toEqual(hosts);
    expect(shown.itemIds).toEqual(itemIds);
    expect(shown.facts.map(({ name, value }) => `${name}=${value}`)).toEqual(facts);
  },
);

test('of the items that one event names, the first twenty are facts and all are found', () => {
  const items = Array.from({ length: 25 }, (_none, at) => expiredItem(`m${at}`, at));
  const { itemIds, facts } = describeEvent(expired(items, []));
  expect(itemIds).toHaveLength(25);
  const named = facts.filter(({ name }) => name === 'item').map(({ value }) => value);
  expect(named).toEqual(items.slice(0, 20).map(({ itemId }) => itemId));
});

test('a host whose name nobody knows is called by its fingerprint', () => {
  const { sentence } = describeEvent({ type: 'HostSeen', hostPubkey: alice.key, atMs });
  expect(sentence(byFingerprint)).toBe(`${displayFingerprint(alice.key)} made its first request`);
});

test('an event is about every host key that is in it, however deep, and about nothing else', () => {
  const others: TestHost[] = Array.from({ length: 3 }, (_none, at) => hostNamed(`h${at}`));
  const senders = others.map(({ key }) => key);
  expect(names({ type: 'SendersPublished', hostPubkey: alice.key, senders, iatMs: 1, atMs })).toEqual(
    ['alice', ...senders].toSorted(),
  );
  // Under the key that an item was pushed to, dedup knows it.
  expect(names(expired([expiredItem('m1', 7)], []))).toEqual(['alice', 'bob', 'carol', 'relay']);
  expect(names(rotated(alice, bob, { signed: null }))).toEqual(['alice', 'bob']);
  expect(names(denied({ account: 'acme' }))).toEqual([]);
});
