import { describe, expect, test } from 'vitest';
import type { HostName } from '../../../../src/protocol/names.ts';
import type { EnrolHost } from '../../../../src/relay/core/command.ts';
import { UNUSED_LAPSES_AFTER_MS } from '../../../../src/relay/core/directory.ts';
import { accountEnrolOf, enrolOf, hostSeenOf } from '../../../support/commands.ts';
import { accepted, enrolled, enrolledInAccount } from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const LATER_MS = NOON_MS + 60_000;
const A_DAY_LATER_MS = NOON_MS + UNUSED_LAPSES_AFTER_MS;

describe('a new key', () => {
  test('is enrolled with exactly what it claims and what its authority proved', () => {
    const claim = enrolOf(alice, { ownerFp: 'SHA256:abc', nowMs: LATER_MS });
    expect(given().when(claim).events).toEqual([
      enrolled(alice, { ownerFp: 'SHA256:abc', enrolledAtMs: LATER_MS, atMs: LATER_MS }),
    ]);
    const answer = { ok: true, account: 'acme', org: 'org-1', clientId: 'client-1', validUntilMs: LATER_MS + 900_000 };
    const token = enrolOf(alice, { authorizedBy: 'account-token', answer });
    expect(given().when(token).events).toEqual([
      enrolledInAccount(alice, 'acme', { org: 'org-1', clientId: 'client-1', validUntilMs: LATER_MS + 900_000 }),
    ]);
  });

  test('is told what was recorded', () => {
    const answered = given().when(accountEnrolOf(alice, 'acme'));
    expect(answered.outcome).toEqual({
      type: 'Enrolled',
      hostPubkey: alice.key,
      host: 'alice',
      enrolledAtMs: NOON_MS,
      authorizedBy: 'account-token',
      account: 'acme',
      crowded: false,
    });
  });

  test('is refused with the reason of its authority, and nothing happens', () => {
    const refused = given().when(enrolOf(alice, { answer: { ok: false, reason: 'no seat' } }));
    expect(refused.refusal).toMatchObject({ code: 'ENROL_REFUSED', members: { reason: 'no seat' } });
    const silent = given().when(enrolOf(alice, { answer: { ok: false } }));
    expect(silent.refusal).toMatchObject({ code: 'ENROL_REFUSED', members: { reason: 'not admitted' } });
  });
});

describe('a known key', () => {
  test('that says the same again changes nothing and is answered the same', () => {
    const world = given(enrolledInAccount(alice, 'acme'));
    const again = world.when(accountEnrolOf(alice, 'acme', { nowMs: LATER_MS }));
    expect(again.events).toEqual([]);
    expect(again.outcome).toMatchObject({ type: 'Enrolled', enrolledAtMs: NOON_MS, account: 'acme' });
  });

  test('may take another name, and keeps the time it was first enrolled', () => {
    const renamed = given(enrolled(alice)).when(enrolOf(alice, { hostName: bob.name, nowMs: LATER_MS }));
    expect(renamed.events).toEqual([enrolled(alice, { hostName: bob.name, atMs: LATER_MS })]);
  });

  test('that takes another name inside its account is charged nothing', () => {
    const world = given(enrolledInAccount(alice, 'acme'), accepted(carol, 'm1', [[alice, NOON_MS, 'x']]));
    const renamed = world.when(accountEnrolOf(alice, 'acme', { hostName: bob.name }));
    expect(renamed.events).toEqual([enrolledInAccount(alice, 'acme', { hostName: bob.name })]);
  });

  test('stays seen when it enrols again under another name', () => {
    const world = given(enrolled(alice), { type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS });
    const after = world.when(enrolOf(alice, { hostName: bob.name })).after();
    expect(after.get('enrolment', alice.key)).toMatchObject({ hostName: bob.name, seen: true });
  });

  test('brings what it has queued into the account it proves, and out of the former one', () => {
    const queued = accepted(carol, 'm1', [[alice, NOON_MS, 'xxxx']]);
    const first = given(enrolled(alice), queued).when(accountEnrolOf(alice, 'acme'));
    expect(first.events).toMatchObject([{ formerAccount: null, account: 'acme', chargedItems: 1, chargedBytes: 4 }]);
    expect(first.after().get('account', 'acme')).toEqual({ items: 1, bytes: 4 });
    const moved = given(enrolledInAccount(alice, 'acme'), accepted(carol, 'm1', [[alice, NOON_MS, 'xxxx']]))
      .when(accountEnrolOf(alice, 'umbrella'))
      .after();
    expect(moved.get('account', 'acme')).toBeUndefined();
    expect(moved.get('account', 'umbrella')).toEqual({ items: 1, bytes: 4 });
  });

  test('keeps its account when the same authority proves none', () => {
    const world = given(enrolledInAccount(alice, 'acme', { org: 'org-1', clientId: 'client-1' }));
    const again = world.when(enrolOf(alice, { authorizedBy: 'account-token' }));
    expect(again.events).toEqual([]);
    expect(again.outcome).toMatchObject({ account: 'acme' });
  });

  test('that proves an account after the host-key challenge is recorded under the stronger authority', () => {
    const after = given(enrolled(alice)).when(accountEnrolOf(alice, 'acme')).after();
    expect(after.get('enrolment', alice.key)).toMatchObject({ account: 'acme', authorizedBy: 'account-token' });
  });

  test('that is revoked is refused before its authority is heard', () => {
    const world = given(enrolled(alice)).revoked(alice, LATER_MS);
    const refusedAnyway = enrolOf(alice, { answer: { ok: false, reason: 'no seat' } });
    expect(world.when(enrolOf(alice)).refusal).toMatchObject({ code: 'ENROL_REFUSED', members: {} });
    expect(world.when(refusedAnyway).refusal?.members).toEqual({});
    expect(world.when(accountEnrolOf(alice, 'acme')).verdict).toBe('ENROL_REFUSED');
  });
});

/** `host` enrols under `hostName`, in `account` when there is one. */
function named(host: TestHost, account: string | null, hostName: string): EnrolHost {
  const claim = account === null ? enrolOf(host) : accountEnrolOf(host, account);
  return { ...claim, hostName: hostName as HostName };
}

describe('a name', () => {
  test('is free again when its holder is revoked, and its holder may always say it again', () => {
    const world = given(enrolledInAccount(alice, 'acme'));
    expect(world.when(named(alice, 'acme', 'ALICE')).verdict).toBe('Enrolled');
    expect(world.revoked(alice, LATER_MS).when(named(bob, 'acme', 'alice')).verdict).toBe('Enrolled');
  });

  test('cannot be brought into an account where it is taken', () => {
    const world = given(enrolledInAccount(alice, 'acme'), enrolled(bob, { hostName: alice.name }));
    expect(world.when(named(bob, 'acme', 'alice')).verdict).toBe('NAME_TAKEN');
    expect(world.when(named(bob, 'acme', 'bob')).verdict).toBe('Enrolled');
  });

  test('is held against the account that will be recorded, not one that a weaker authority names', () => {
    const world = given(enrolledInAccount(alice, 'acme'), enrolledInAccount(bob, 'umbrella'));
    const weaker = enrolOf(bob, { hostName: alice.name, answer: { ok: true, account: 'acme' } });
    const answered = world.when(weaker);
    expect(answered.verdict).toBe('Enrolled');
    expect(answered.outcome).toMatchObject({ account: 'umbrella' });
    const intoOwn = enrolOf(carol, { hostName: bob.name, answer: { ok: true, account: 'acme' } });
    const strong = given(enrolledInAccount(bob, 'umbrella'), enrolledInAccount(carol, 'umbrella')).when(intoOwn);
    expect(strong.verdict).toBe('NAME_TAKEN');
  });
});

describe('at the cap of enrolments', () => {
  test('a new key is refused while none has been unused for a day', () => {
    const world = given(enrolled(alice)).under({ enrolmentsMax: 1 });
    expect(world.when(enrolOf(bob, { nowMs: A_DAY_LATER_MS - 1 })).verdict).toBe('ENROLMENTS_FULL');
    expect(world.when(enrolOf(bob, { nowMs: A_DAY_LATER_MS })).verdict).toBe('Enrolled');
  });

  test('the oldest that was never used gives way, and its account is charged no longer', () => {
    const world = given(
      enrolledInAccount(alice, 'acme'),
      { type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS },
      enrolledInAccount(bob, 'acme'),
      enrolled(carol),
      accepted(carol, 'm1', [
        [alice, NOON_MS, 'x'],
        [bob, NOON_MS, 'yyy'],
      ]),
    ).under({ enrolmentsMax: 3 });
    const dan = enrolOf(hostNamed('dan'), { nowMs: A_DAY_LATER_MS });
    const admitted = world.when(dan);
    expect(admitted.events).toEqual([
      {
        type: 'EnrolmentLapsed',
        hostPubkey: bob.key,
        account: 'acme',
        releasedItems: 1,
        releasedBytes: 3,
        atMs: A_DAY_LATER_MS,
      },
      enrolled(hostNamed('dan'), { enrolledAtMs: A_DAY_LATER_MS, atMs: A_DAY_LATER_MS }),
    ]);
    const after = admitted.after();
    expect(after.get('account', 'acme')).toEqual({ items: 1, bytes: 1 });
    expect(after.directory.liveCount).toBe(3);
    expect(after.get('target', bob.key)).toMatchObject({ headSeq: NOON_MS, queueItems: 1 });
  });

  test('one without an account gives way, and nobody is released of what it has queued', () => {
    const world = given(enrolled(alice), accepted(carol, 'm1', [[alice, NOON_MS, 'xxx']])).under({ enrolmentsMax: 1 });
    const [lapsed] = world.when(enrolOf(bob, { nowMs: A_DAY_LATER_MS })).events;
    expect(lapsed).toMatchObject({ type: 'EnrolmentLapsed', account: null, releasedItems: 0, releasedBytes: 0 });
  });

  test('a lapsed key that comes back finds its queue, and its account is charged for it again', () => {
    const lapsed = given(enrolledInAccount(bob, 'acme'), accepted(carol, 'm1', [[bob, NOON_MS, 'yyy']]), {
      type: 'EnrolmentLapsed',
      hostPubkey: bob.key,
      account: 'acme',
      releasedItems: 1,
      releasedBytes: 3,
      atMs: NOON_MS,
    });
    const after = lapsed.when(accountEnrolOf(bob, 'acme')).after();
    expect(after.get('account', 'acme')).toEqual({ items: 1, bytes: 3 });
    expect(after.queue(bob.key)).toHaveLength(1);
  });

  test('a known key always passes, and revoked ones do not count', () => {
    const full = given(enrolled(alice)).under({ enrolmentsMax: 1 });
    expect(full.when(enrolOf(alice, { hostName: bob.name })).verdict).toBe('Enrolled');
    expect(full.revoked(alice, LATER_MS).when(enrolOf(bob)).verdict).toBe('Enrolled');
  });
});

describe('the first hop', () => {
  test('is noted once', () => {
    const world = given(enrolled(alice));
    const first = world.when(hostSeenOf(alice, LATER_MS));
    expect(first.events).toEqual([{ type: 'HostSeen', hostPubkey: alice.key, atMs: LATER_MS }]);
    world.rows.apply({ type: 'HostSeen', hostPubkey: alice.key, atMs: LATER_MS });
    const again = world.when(hostSeenOf(alice, LATER_MS));
    expect([again.events, again.outcome]).toEqual([[], { type: 'Done' }]);
  });

  test('of a key that lapsed meanwhile is nothing', () => {
    expect(given().when(hostSeenOf(alice)).events).toEqual([]);
  });
});
