import { describe, expect, test } from 'vitest';
import { ISSUED_AHEAD_MAX_MS } from '../../../../src/protocol/limits.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { LINEAGE_KEYS_MAX } from '../../../../src/relay/core/decide-rotation.ts';
import type { HostEnrolled, KeyRotated, RelayEvent } from '../../../../src/relay/core/event.ts';
import { KNOWN_ROWS_ASKED_MAX } from '../../../../src/relay/core/decide-push.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { accepted, denied, enrolled, enrolledInAccount, moved, revoked, rotated } from '../../../support/events.ts';
import { type Given, given } from '../../../support/given.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const DAY_MS = 86_400_000;
/** Retention and the dedup horizon after it: how long something may be known. */
const KNOWN_FOR_MS = 35 * DAY_MS;

const toBob = (itemId: string, seq: number): RelayEvent => accepted(alice, itemId, [[bob, seq, 'four']]);
const toCarol = (itemId: string, seq: number): RelayEvent => accepted(alice, itemId, [[carol, seq, 'fourteen bytes']]);

function decidedRotation(world: Given, changes: Parameters<typeof rotateOf>[2] = {}): KeyRotated {
  const [event] = world.when(rotateOf(bob, carol, changes)).events;
  if (event?.type !== 'KeyRotated') throw new Error('the rotation was refused');
  return event;
}

describe('a rotation into a fresh key', () => {
  test('takes over everything that is recorded of the old one', () => {
    const proven = { org: 'org-1', clientId: 'client-1', validUntilMs: NOON_MS + 1, ownerFp: 'fp' };
    const world = given(enrolledInAccount(bob, 'acme', proven));
    const decision = world.when(rotateOf(bob, carol, { nowMs: NOON_MS + 9 }));
    expect(decision.events).toEqual([
      rotated(bob, carol, { account: 'acme', authorizedBy: 'account-token', ...proven, atMs: NOON_MS + 9 }),
    ]);
    expect(decision.outcome).toEqual({ type: 'KeyRotated', hostPubkey: carol.key, movedItems: 0, headSeq: 0 });
    expect(decision.after().get('enrolment', bob.key)).toMatchObject({
      revokedAtMs: NOON_MS + 9,
      rotatedTo: carol.key,
    });
    expect(decision.after().directory.liveByName('bob')).toEqual([carol.key]);
  });

  test('promises the items their places at now, when the old head lies in the past', () => {
    const world = given(enrolled(bob), toBob('m1', NOON_MS), toBob('m2', NOON_MS + 1));
    expect(decidedRotation(world, { nowMs: NOON_MS + 500 })).toMatchObject({
      firstSeq: NOON_MS + 500,
      moved: 2,
      items: 2,
      bytes: 8,
    });
  });

  test('counts a notice among the moved and charges nobody for it', () => {
    const notice = {
      targetPubkey: bob.key,
      seq: NOON_MS + 2,
      itemId: 'expired:m0:x' as never,
      wire: 'notice',
      wireHash: 'h' as never,
      expiresAtMs: NOON_MS + DAY_MS,
    };
    const expired: RelayEvent = {
      type: 'ItemsExpired',
      targetPubkey: dave.key,
      relayPubkey: alice.key,
      items: [],
      account: null,
      dedupUntilMs: 0,
      notices: [notice],
      atMs: NOON_MS,
    };
    const world = given(enrolled(bob), toBob('m1', NOON_MS), expired);
    expect(decidedRotation(world)).toMatchObject({ moved: 2, items: 1, bytes: 4, firstSeq: NOON_MS + 3 });
  });
});

const proofs = (old: number | null, own: number | null): Given =>
  given(
    enrolledInAccount(bob, 'acme', { clientId: 'old', validUntilMs: old }),
    enrolledInAccount(carol, 'acme', { clientId: 'own', validUntilMs: own }),
  );

const list = (host: TestHost, iatMs: number): RelayEvent => {
  return { type: 'SendersPublished', hostPubkey: host.key, senders: [alice.key], iatMs, atMs: NOON_MS };
};

const moves = (...lists: RelayEvent[]): boolean =>
  decidedRotation(given(enrolled(bob), enrolled(carol), ...lists)).movesSenders;

describe('a rotation into a key that is enrolled', () => {
  test.each([
    ['the old head', NOON_MS + 9, NOON_MS + 5, NOON_MS, NOON_MS + 10],
    ['the new head', NOON_MS + 5, NOON_MS + 9, NOON_MS, NOON_MS + 10],
    ['now', NOON_MS + 5, NOON_MS + 9, NOON_MS + 60, NOON_MS + 60],
  ])('begins behind %s', (_what, oldSeq, newSeq, nowMs, firstSeq) => {
    const world = given(enrolled(bob), enrolled(carol), toBob('m1', oldSeq), toCarol('m2', newSeq));
    const decision = world.when(rotateOf(bob, carol, { nowMs }));
    expect(decision.events).toMatchObject([{ firstSeq, moved: 1 }]);
    expect(decision.outcome).toMatchObject({ movedItems: 1, headSeq: firstSeq });
  });

  test('with nothing to move leaves its head where it is', () => {
    const world = given(enrolled(bob), enrolled(carol), toCarol('m2', NOON_MS + 3));
    expect(world.when(rotateOf(bob, carol)).outcome).toMatchObject({ movedItems: 0, headSeq: NOON_MS + 3 });
  });

  test.each<[string, HostEnrolled, HostEnrolled, object[]]>([
    [
      'the old account is charged for the new queue',
      enrolledInAccount(bob, 'acme'),
      enrolled(carol),
      [{ account: 'acme', items: 1, bytes: 14 }],
    ],
    [
      'the new account is charged for the old queue',
      enrolled(bob),
      enrolledInAccount(carol, 'acme'),
      [{ account: 'acme', items: 1, bytes: 4 }],
    ],
    ['one account is charged for both already', enrolledInAccount(bob, 'acme'), enrolledInAccount(carol, 'acme'), []],
    ['nobody is charged', enrolled(bob), enrolled(carol), []],
  ])('%s', (_what, old, own, charges) => {
    const world = given(old, own);
    world.rows.apply(toBob('m1', NOON_MS));
    world.rows.apply(toCarol('m2', NOON_MS));
    const event = decidedRotation(world);
    expect(event.charges).toEqual(charges);
    expect(event.account).toBe(old.account ?? own.account);
  });

  test('charges the account for as much as is queued', () => {
    const world = given(
      enrolled(bob),
      enrolledInAccount(carol, 'acme'),
      toBob('m1', NOON_MS),
      toBob('m2', NOON_MS + 1),
    );
    expect(decidedRotation(world).charges).toEqual([{ account: 'acme', items: 2, bytes: 8 }]);
  });

  test('goes by the proof of the new key, where the old one has no account', () => {
    const bothWithout = given(enrolled(bob, { validUntilMs: NOON_MS + 9 }), enrolled(carol, { validUntilMs: NOON_MS }));
    expect(decidedRotation(bothWithout)).toMatchObject({ account: null, validUntilMs: NOON_MS });
    const proven = enrolledInAccount(carol, 'acme', { validUntilMs: NOON_MS });
    expect(decidedRotation(given(enrolled(bob), proven))).toMatchObject({ account: 'acme', validUntilMs: NOON_MS });
  });

  test('of two proofs of one account keeps the one that lasts longer', () => {
    expect(decidedRotation(proofs(NOON_MS + 2, NOON_MS + 1))).toMatchObject({
      clientId: 'old',
      validUntilMs: NOON_MS + 2,
    });
    expect(decidedRotation(proofs(NOON_MS + 1, NOON_MS + 2))).toMatchObject({
      clientId: 'own',
      validUntilMs: NOON_MS + 2,
    });
    expect(decidedRotation(proofs(null, NOON_MS + 2))).toMatchObject({ clientId: 'old', validUntilMs: null });
    expect(decidedRotation(proofs(NOON_MS + 1, NOON_MS + 1))).toMatchObject({ clientId: 'own' });
  });

  test('brings the name along, unless another host of the account has it', () => {
    const old = enrolled(bob);
    const own = enrolledInAccount(carol, 'acme');
    expect(decidedRotation(given(old, own)).hostName).toBe('bob');
    const namesake = enrolledInAccount(dave, 'acme', { hostName: 'BOB' as never });
    expect(decidedRotation(given(old, own, namesake)).hostName).toBe('carol');
    // Of another account, or of none, it does not matter; nor does a revoked one.
    expect(decidedRotation(given(old, own, { ...namesake, account: 'umbrella' })).hostName).toBe('bob');
    expect(decidedRotation(given(old, own, enrolled(dave, { hostName: bob.name }))).hostName).toBe('bob');
    expect(decidedRotation(given(old, own, namesake, revoked(dave))).hostName).toBe('bob');
  });

  test('brings the name along outside an account and inside its own, also when other hosts have it', () => {
    const namesake = enrolled(dave, { hostName: bob.name });
    expect(decidedRotation(given(enrolled(bob), enrolled(carol), namesake)).hostName).toBe('bob');
    const inAcme = [enrolledInAccount(bob, 'acme'), enrolledInAccount(dave, 'acme', { hostName: bob.name })];
    expect(decidedRotation(given(...inAcme, enrolled(carol))).hostName).toBe('bob');
  });

  test('brings the name along as the old key spelt it, where the new one has it in its account', () => {
    const own = enrolledInAccount(carol, 'acme', { hostName: 'BOB' as never });
    expect(decidedRotation(given(enrolled(bob), own))).toMatchObject({ hostName: 'bob', account: 'acme' });
  });

  test('keeps when it was enrolled and that either was used', () => {
    const seen: RelayEvent = { type: 'HostSeen', hostPubkey: bob.key, atMs: NOON_MS };
    const world = given(enrolled(bob), seen, enrolled(carol, { enrolledAtMs: NOON_MS - 5 }));
    expect(decidedRotation(world)).toMatchObject({ enrolledAtMs: NOON_MS - 5, seen: true });
    const newSeen: RelayEvent = { ...seen, hostPubkey: carol.key };
    expect(decidedRotation(given(enrolled(bob), enrolled(carol), newSeen)).seen).toBe(true);
    expect(decidedRotation(given(enrolled(bob), enrolled(carol))).seen).toBe(false);
  });

  test('brings the sender list along only when it is the newer one', () => {
    expect(moves()).toBe(false);
    expect(moves(list(bob, 0))).toBe(true);
    expect(moves(list(carol, 0))).toBe(false);
    expect(moves(list(bob, 2), list(carol, 1))).toBe(true);
    expect(moves(list(bob, 2), list(carol, 2))).toBe(false);
    expect(moves(list(bob, 2), list(carol, 3))).toBe(false);
  });
});

const refusedBy = (entry: RelayEvent): boolean => {
  const keys = [enrolled(alice), rotated(alice, bob), enrolled(dave), rotated(dave, carol)];
  const proofs = [enrolledInAccount(carol, 'acme', { clientId: 'client-1', org: 'org-1' })];
  return given(...keys, ...proofs, entry).when(rotateOf(bob, carol)).verdict === 'ENROL_REFUSED';
};

/** The refusals in their order; each world fails its own check and every later one that it can. */
describe('a refusal', () => {
  const ahead = { iatMs: NOON_MS + ISSUED_AHEAD_MAX_MS + 1 };
  const denyBob = denied({ hostFp: hostFingerprint(bob.key) });

  test('of a key that is not enrolled comes first', () => {
    expect(given(revoked(carol), denyBob).when(rotateOf(bob, carol, ahead)).refusal?.code).toBe('NOT_ENROLLED');
  });

  test('is none for the same rotation again, whatever became of either key since', () => {
    const world = given(enrolled(bob), rotated(bob, carol), revoked(carol), denyBob);
    const again = world.when(rotateOf(bob, carol, ahead));
    expect(again.events).toEqual([]);
    expect(again.outcome).toEqual({ type: 'KeyRotated', hostPubkey: carol.key, movedItems: 0, headSeq: 0 });
    const onwards = given(enrolled(bob), rotated(bob, carol), rotated(carol, dave));
    expect(onwards.when(rotateOf(bob, carol)).events).toEqual([]);
  });

  test('of a revoked old key comes before the time of the record', () => {
    const world = given(enrolled(bob), revoked(bob), denyBob);
    expect(world.when(rotateOf(bob, carol, ahead)).refusal).toMatchObject({
      code: 'ENROL_REFUSED',
      members: { reason: 'the old key is revoked' },
    });
    const elsewhere = given(enrolled(bob), rotated(bob, dave));
    expect(elsewhere.when(rotateOf(bob, carol)).refusal?.members).toEqual({ reason: 'the old key is revoked' });
  });

  test('of a record issued more than 5 minutes ahead comes before what the new key is', () => {
    const world = given(enrolled(bob), enrolled(carol), revoked(carol), denyBob);
    expect(world.when(rotateOf(bob, carol, ahead)).refusal?.code).toBe('IAT_IN_FUTURE');
    const justInTime = { iatMs: NOON_MS + ISSUED_AHEAD_MAX_MS };
    expect(given(enrolled(bob)).when(rotateOf(bob, carol, justInTime)).verdict).toBe('KeyRotated');
  });

  test.each<[string, RelayEvent[]]>([
    ['the host had this key before', [enrolled(carol), rotated(carol, bob), denyBob]],
    ['the new key is revoked', [enrolled(bob), enrolledInAccount(carol, 'acme'), revoked(carol), denyBob]],
    [
      'the keys belong to different accounts',
      [enrolledInAccount(bob, 'acme'), enrolledInAccount(carol, 'umbrella'), denyBob],
    ],
    ['the host is on the deny-list', [enrolled(bob), denyBob]],
  ])('says that %s', (reason, events) => {
    expect(given(...events).when(rotateOf(bob, carol)).refusal).toMatchObject({
      code: 'ENROL_REFUSED',
      members: { reason },
    });
  });

  test('by the deny-list concerns every key of either host, and either proof', () => {
    for (const { key } of [alice, bob, carol, dave])
      expect(refusedBy(denied({ hostFp: hostFingerprint(key) }))).toBe(true);
    expect(refusedBy(denied({ hostFp: hostFingerprint(hostNamed('other').key) }))).toBe(false);
    expect(refusedBy(denied({ account: 'acme' }))).toBe(true);
    expect(refusedBy(denied({ account: 'acme', org: 'org-2' }))).toBe(false);
    expect(refusedBy(denied({ clientId: 'client-1', hostFp: hostFingerprint(alice.key) }))).toBe(true);
    expect(refusedBy(denied({ account: 'acme', untilMs: NOON_MS }))).toBe(false);
  });

  test('changes nothing and repeats no byte of the request', () => {
    const refused = given(enrolled(bob), denyBob).when(rotateOf(bob, carol));
    expect(refused.events).toEqual([]);
    expect(JSON.stringify(refused.refusal)).not.toContain(bob.key);
  });
});

const keyOf = (number: number): TestHost => hostNamed(`key ${number}`);

/** A host that has rotated `count` times, once every `everyMs`, and has its key `count` now. */
const rotatedOften = (count: number, everyMs: number): Given => {
  const world = given(enrolled(keyOf(0)));
  for (let number = 0; number < count; number++) {
    const nowMs = NOON_MS + number * everyMs;
    const [event] = world.when(rotateOf(keyOf(number), keyOf(number + 1), { nowMs })).events;
    if (!event) throw new Error(`rotation ${number} was refused`);
    world.rows.apply(event);
  }
  return world;
};

describe('a lineage', () => {
  test('joins both hosts, in the order in which their keys retired', () => {
    const world = given(
      enrolled(alice),
      enrolled(dave),
      rotated(alice, bob, { atMs: NOON_MS + 2 }),
      rotated(dave, carol, { atMs: NOON_MS + 1 }),
    );
    expect(decidedRotation(world, { nowMs: NOON_MS + 3 }).lineage).toEqual([
      { hostPubkey: dave.key, retiredAtMs: NOON_MS + 1 },
      { hostPubkey: alice.key, retiredAtMs: NOON_MS + 2 },
      { hostPubkey: bob.key, retiredAtMs: NOON_MS + 3 },
      { hostPubkey: carol.key, retiredAtMs: null },
    ]);
  });

  test('takes 64 keys and refuses one more while the oldest may still be known', () => {
    const last = LINEAGE_KEYS_MAX - 1;
    const world = rotatedOften(last, 1000);
    expect(world.rows.get('lineage', keyOf(last).key)?.members).toHaveLength(LINEAGE_KEYS_MAX);
    const onwards = rotateOf(keyOf(last), keyOf(last + 1), { nowMs: NOON_MS + KNOWN_FOR_MS - 1 });
    expect(world.when(onwards).refusal).toMatchObject({ members: { reason: 'the host changed its key too often' } });
    const later = world.when({ ...onwards, nowMs: NOON_MS + KNOWN_FOR_MS });
    const members = later.after().get('lineage', keyOf(last + 1).key)?.members ?? [];
    expect(members).toHaveLength(LINEAGE_KEYS_MAX);
    expect(members.map(({ hostPubkey }) => hostPubkey)).not.toContain(keyOf(0).key);
    expect(members[0]?.hostPubkey).toBe(keyOf(1).key);
  });

  test('drops no key while there is room, however old it is', () => {
    const world = rotatedOften(3, 100 * DAY_MS);
    expect(world.rows.get('lineage', keyOf(3).key)?.members).toHaveLength(4);
    const full = rotatedOften(LINEAGE_KEYS_MAX - 1, 100 * DAY_MS);
    expect(full.rows.get('lineage', keyOf(LINEAGE_KEYS_MAX - 1).key)?.members).toHaveLength(LINEAGE_KEYS_MAX);
  });

  test('a key that was dropped is still revoked, and the host cannot come back to it', () => {
    const count = LINEAGE_KEYS_MAX + 1;
    const world = rotatedOften(count, DAY_MS);
    const back = rotateOf(keyOf(count), keyOf(0), { nowMs: NOON_MS + count * DAY_MS });
    expect(world.when(back).refusal).toMatchObject({ members: { reason: 'the new key is revoked' } });
  });

  test('a push that asks for more than 4,096 rows is decided after a search only, a smaller one without', () => {
    const sender = keyOf(LINEAGE_KEYS_MAX - 1);
    const targets = Array.from({ length: 64 }, (_none, at) => hostNamed(`target ${at}`));
    const world = rotatedOften(LINEAGE_KEYS_MAX - 1, 1000);
    for (const target of targets) world.rows.apply(enrolled(target));
    // Keys of the sender under which nothing is known are not asked for.
    const twoKeys = hostNamed('target with two keys');
    world.rows.apply(enrolled(hostNamed('its first key')));
    world.rows.apply(rotated(hostNamed('its first key'), twoKeys));
    const toTwoKeys = [twoKeys, ...targets.slice(1)].map((host) => [host, 'x'] as const);
    expect(world.when(pushOf(sender, 'm0', toTwoKeys)).verdict).toBe('accepted');
    // 64 keys of the sender, of which every one keeps rows, and one of each target.
    for (let number = 0; number < LINEAGE_KEYS_MAX; number++)
      world.rows.apply(accepted(keyOf(number), `own${number}`, [[targets[0]!, NOON_MS + number, 'x']]));
    const push = (count: number) =>
      pushOf(
        sender,
        'm1',
        targets.slice(0, count).map((target) => [target, 'x'] as const),
      );
    expect(64 * LINEAGE_KEYS_MAX).toBe(KNOWN_ROWS_ASKED_MAX);
    expect(world.when(push(64)).verdict).toBe('accepted');
    world.rows.apply(rotated(targets[0]!, hostNamed('target 0 anew')));
    const anew = pushOf(
      sender,
      'm2',
      [hostNamed('target 0 anew'), ...targets.slice(1)].map((host) => [host, 'x'] as const),
    );
    expect(world.when(anew).verdict).toBe('rejected:too many targets');
    expect(world.when({ ...push(64), item: { ...anew.item, targets: anew.item.targets.slice(1) } }).verdict).toBe(
      'accepted',
    );
  });
});

const onItsWay = (): Given => {
  const before = given(enrolled(bob), toBob('m1', NOON_MS), toBob('m2', NOON_MS + 4), toBob('m3', NOON_MS + 9));
  before.rows.apply(decidedRotation(before));
  return before;
};

describe('a slice of a move', () => {
  const FIRST_SEQ = NOON_MS + 10;

  test('takes the next places and says how many are left', () => {
    const slice = { type: 'MoveItems', oldPubkey: bob.key, fromSeqs: [NOON_MS, NOON_MS + 4], nowMs: NOON_MS } as const;
    const decision = onItsWay().when({ ...slice, fromSeqs: [...slice.fromSeqs] });
    expect(decision.events).toEqual([moved(bob, carol, [NOON_MS, NOON_MS + 4], FIRST_SEQ, { left: 1 })]);
    expect(decision.outcome).toEqual({ type: 'Done' });
    expect(decision.after().get('move', bob.key)).toEqual({ newPubkey: carol.key, nextSeq: FIRST_SEQ + 2, left: 1 });
    expect(
      decision
        .after()
        .queue(carol.key)
        .map(({ itemId, seq }) => [itemId, seq]),
    ).toEqual([
      ['m1', FIRST_SEQ],
      ['m2', FIRST_SEQ + 1],
    ]);
  });

  test('ends the move with the last item, or when nothing more is found', () => {
    for (const fromSeqs of [[NOON_MS, NOON_MS + 4, NOON_MS + 9], []]) {
      const decision = onItsWay().when({ type: 'MoveItems', oldPubkey: bob.key, fromSeqs, nowMs: NOON_MS });
      expect(decision.events).toMatchObject([{ left: 0 }]);
      expect(decision.after().get('move', bob.key)).toBeUndefined();
    }
  });
});

/** Bob had m1 of alice's waiting, and has become carol. */
const becameCarol = (): Given => {
  const before = given(enrolled(bob), toBob('m1', NOON_MS));
  before.rows.apply(decidedRotation(before));
  before.rows.apply(moved(bob, carol, [NOON_MS], NOON_MS + 1));
  return before;
};

describe('after a rotation', () => {
  test('the share of a sender is what all of its keys have queued', () => {
    const sender = becameCarol().under({ limits: { max_sender_items: 1 } });
    sender.rows.apply(enrolled(alice));
    sender.rows.apply(rotated(alice, dave));
    expect(sender.when(pushOf(dave, 'm2', [[carol, 'x']])).verdict).toBe('rejected:quota:sender_items');
    expect(sender.when(pushOf(bob, 'm2', [[carol, 'x']])).verdict).toBe('accepted');
    const bytes = sender.under({ limits: { max_sender_bytes: 5 } });
    expect(bytes.when(pushOf(dave, 'm2', [[carol, 'xx']])).verdict).toBe('rejected:quota:sender_bytes');
    expect(bytes.when(pushOf(dave, 'm2', [[carol, 'x']])).verdict).toBe('accepted');
  });

  test('the dedup rows of a sender are those of all its keys', () => {
    const sender = becameCarol().under({ dedupRowsMax: 1 });
    sender.rows.apply(enrolled(alice));
    sender.rows.apply(rotated(alice, dave));
    expect(sender.when(pushOf(dave, 'm2', [[carol, 'x']])).verdict).toBe('rejected:quota:dedup_rows');
  });

  test('a moved item whose payload is gone is lost where it is now, and accepted anew', () => {
    const lost = becameCarol();
    // The bytes stay where they were put when it was accepted.
    lost.withoutPayload(bob, NOON_MS);
    const again = lost.when(pushOf(alice, 'm1', [[carol, 'four']], { nowMs: NOON_MS + 9 }));
    expect(again.verdict).toBe('accepted');
    expect(again.events).toMatchObject([
      { type: 'ItemLost', targetPubkey: carol.key, seq: NOON_MS + 1, pushedTo: bob.key },
      { type: 'EpochRotated' },
      { type: 'ItemAccepted', targets: [{ hostPubkey: carol.key, seq: NOON_MS + 9 }] },
    ]);
    const after = again.after();
    expect(after.get('target', carol.key)).toMatchObject({ queueItems: 1, queueBytes: 4 });
    expect(after.get('share', carol.key + alice.key)).toEqual({ items: 1, bytes: 4 });
    expect(after.get('sender', alice.key)).toEqual({ dedupRows: 1 });
  });

  test('an item whose queue row was gone before it is repaired, and usage stays what the rows say', () => {
    const before = given(enrolled(bob), toBob('m1', NOON_MS), toBob('m2', NOON_MS + 1));
    before.withoutQueueRow(bob, NOON_MS);
    before.rows.apply(decidedRotation(before));
    before.rows.apply(moved(bob, carol, [NOON_MS + 1], NOON_MS + 2));
    const after = before.when(pushOf(alice, 'm1', [[carol, 'four']], { nowMs: NOON_MS + 9 })).after();
    expect(after.get('target', carol.key)).toMatchObject({ queueItems: 2, queueBytes: 8 });
    expect(after.get('target', bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
    expect(after.get('share', carol.key + alice.key)).toEqual({ items: 2, bytes: 8 });
    expect(after.get('share', bob.key + alice.key)).toBeUndefined();
  });
});
