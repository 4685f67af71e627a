import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { DENY_KEPT_MS } from '../../../../src/protocol/limits.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import {
  DENY_ENTRIES_MAX,
  INVITES_MAX,
  decideDeny,
  decideInvite,
  deniedHosts,
} from '../../../../src/relay/core/decide-admission.ts';
import { UNUSED_LAPSES_AFTER_MS } from '../../../../src/relay/core/directory.ts';
import type { DenySelectors } from '../../../../src/relay/core/rows.ts';
import { accountEnrolOf, denyOf, enrolOf, inviteOf, revokeOf } from '../../../support/commands.ts';
import { denied, enrolled, enrolledInAccount, invited, revoked, rotated } from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const TOKEN = sha256Hex('token');
const LATER_MS = NOON_MS + 1000;

describe('a revocation', () => {
  test('of a live key is recorded with its cause', () => {
    const decision = given(enrolled(alice)).when(revokeOf(alice, { cause: 'denied', nowMs: LATER_MS }));
    expect(decision.events).toEqual([revoked(alice, { cause: 'denied', atMs: LATER_MS })]);
    expect(decision.outcome).toEqual({ type: 'Revoked', isNew: true });
    expect(decision.after().get('enrolment', alice.key)).toMatchObject({ revokedAtMs: LATER_MS, rotatedTo: null });
    expect(decision.after().directory.liveCount).toBe(0);
  });

  test('of a revoked or rotated key changes nothing', () => {
    for (const world of [given(enrolled(alice), revoked(alice)), given(enrolled(alice), rotated(alice, bob))]) {
      const again = world.when(revokeOf(alice, { nowMs: LATER_MS }));
      expect(again.events).toEqual([]);
      expect(again.outcome).toEqual({ type: 'Revoked', isNew: false });
    }
  });

  test('of a key that nobody enrolled is NOT_ENROLLED', () => {
    expect(given().when(revokeOf(alice)).refusal?.code).toBe('NOT_ENROLLED');
  });
});

describe('a deny entry', () => {
  test('is kept a day, with its selectors and reason', () => {
    const hostFp = hostFingerprint(alice.key);
    const entry = given().when(denyOf({ hostFp, account: 'acme', reason: 'left', nowMs: LATER_MS }));
    expect(entry.outcome).toEqual({ type: 'Done' });
    expect(entry.events).toEqual([
      denied({ hostFp, account: 'acme', reason: 'left', untilMs: LATER_MS + DENY_KEPT_MS, atMs: LATER_MS }),
    ]);
  });

  test('is refused when too many stand', () => {
    const command = denyOf({ account: 'acme' });
    expect(decideDeny(command, false, DENY_ENTRIES_MAX - 1).type).toBe('Decided');
    expect(decideDeny(command, true, DENY_ENTRIES_MAX).type).toBe('Decided');
    expect(decideDeny(command, false, DENY_ENTRIES_MAX)).toMatchObject({ type: 'Refusal', code: 'UNAVAILABLE' });
  });

  test('refuses an enrolment by what the token says or by what is recorded already', () => {
    const claims = { ok: true, account: 'acme', org: 'org-1', clientId: 'client-1' };
    const enrol = accountEnrolOf(alice, 'acme', { answer: claims });
    for (const selectors of [{ account: 'acme' }, { org: 'org-1' }, { clientId: 'client-1', account: 'acme' }]) {
      const refused = given(denied(selectors)).when(enrol);
      expect(refused.refusal).toMatchObject({
        code: 'ENROL_REFUSED',
        members: { reason: 'the host is on the deny-list' },
      });
      const recorded = enrolledInAccount(alice, 'acme', { org: 'org-1', clientId: 'client-1' });
      expect(given(recorded, denied(selectors)).when(enrolOf(alice)).verdict).toBe('ENROL_REFUSED');
    }
    expect(given(denied({ clientId: 'client-1', account: 'umbrella' })).when(enrol).verdict).toBe('Enrolled');
  });

  test('refuses an enrolment by any key of the lineage, until it ends', () => {
    const world = given(enrolled(bob), rotated(bob, alice), denied({ hostFp: hostFingerprint(bob.key) }));
    const renamed = enrolOf(alice, { hostName: carol.name });
    expect(world.when(renamed).verdict).toBe('ENROL_REFUSED');
    expect(world.when({ ...renamed, nowMs: NOON_MS + DENY_KEPT_MS }).verdict).toBe('Enrolled');
  });
});

describe('the hosts that a deny entry means', () => {
  const nobody = { hostFp: null, clientId: null, account: null, org: null };
  const { rows } = given(
    enrolledInAccount(alice, 'acme'),
    enrolled(bob),
    rotated(bob, carol, { account: 'acme' }),
    enrolledInAccount(dave, 'acme'),
    revoked(dave),
  );
  const meant = (selectors: Partial<DenySelectors>): string[] =>
    deniedHosts({ ...nobody, ...selectors }, rows, rows.directory).map(({ hostPubkey }) => hostPubkey);

  test('are live: a key that is revoked or was rotated is not revoked again', () => {
    expect(meant({ account: 'acme' })).toEqual([alice.key, carol.key]);
    expect(meant({ hostFp: hostFingerprint(dave.key) })).toEqual([]);
  });

  test('are one where it names a key: the host that has it or had it, if the rest is true of that', () => {
    for (const host of [bob, carol]) expect(meant({ hostFp: hostFingerprint(host.key) })).toEqual([carol.key]);
    expect(meant({ hostFp: hostFingerprint(bob.key), account: 'acme' })).toEqual([carol.key]);
    expect(meant({ hostFp: hostFingerprint(bob.key), account: 'umbrella' })).toEqual([]);
    expect(meant({ hostFp: hostFingerprint(hostNamed('stranger').key), account: 'acme' })).toEqual([]);
  });
});

describe('an invite', () => {
  test('is known by the hash of its token', () => {
    const decision = given().when(inviteOf(TOKEN, { label: 'laptop', expiresAtMs: LATER_MS }));
    expect(decision.events).toEqual([{ ...invited(TOKEN, LATER_MS), label: 'laptop' }]);
    expect(decision.outcome).toEqual({ type: 'Invited', expiresAtMs: LATER_MS });
    expect(decision.after().get('invite', TOKEN)).toEqual({
      label: 'laptop',
      issuedAtMs: NOON_MS,
      expiresAtMs: LATER_MS,
    });
  });

  test('is refused when too many are open', () => {
    expect(decideInvite(inviteOf(TOKEN), INVITES_MAX - 1).type).toBe('Decided');
    expect(decideInvite(inviteOf(TOKEN), INVITES_MAX)).toMatchObject({ type: 'Refusal', code: 'UNAVAILABLE' });
  });

  const invitesOnly = { admission: 'invite' } as const;

  test('lets one host in and is spent', () => {
    const world = given(invited(TOKEN, LATER_MS)).under(invitesOnly);
    const decision = world.when(enrolOf(alice, { inviteHash: TOKEN }));
    expect(decision.events.map(({ type }) => type)).toEqual(['HostEnrolled', 'InviteSpent']);
    expect(decision.after().get('enrolment', alice.key)?.invited).toBe(true);
    // As a log holds it that relays of an older version follow.
    const older = world.asOfFormat(1).when(enrolOf(alice, { inviteHash: TOKEN }));
    expect(older.events.map(({ type }) => type)).toEqual(['InviteSpent', 'HostEnrolled']);
    expect(older.after().get('enrolment', alice.key)?.invited).toBe(false);
    const after = given(...decision.events).under(invitesOnly);
    expect(after.when(enrolOf(bob, { inviteHash: TOKEN })).verdict).toBe('ENROL_REFUSED');
  });

  test('that is missing, unknown or expired lets nobody in, and none is spent', () => {
    const world = given(invited(TOKEN, LATER_MS)).under(invitesOnly);
    for (const command of [
      enrolOf(alice),
      enrolOf(alice, { inviteHash: sha256Hex('another') }),
      enrolOf(alice, { inviteHash: TOKEN, nowMs: LATER_MS }),
    ]) {
      const refused = world.when(command);
      expect([refused.verdict, refused.events]).toEqual(['ENROL_REFUSED', []]);
    }
  });

  test('is not needed by a key that is enrolled, and vouches for a host once where everybody may enrol', () => {
    const known = given(enrolled(alice), invited(TOKEN, LATER_MS)).under(invitesOnly);
    const renamed = known.when(enrolOf(alice, { hostName: carol.name, inviteHash: TOKEN }));
    expect(renamed.events.map(({ type }) => type)).toEqual(['HostEnrolled']);
    const open = given(invited(TOKEN, LATER_MS)).when(enrolOf(alice, { inviteHash: TOKEN }));
    expect(open.events.map(({ type }) => type)).toEqual(['HostEnrolled', 'InviteSpent']);
    const later = given(enrolled(alice), enrolledInAccount(bob, 'acme'), invited(TOKEN, LATER_MS));
    const vouched = later.when(enrolOf(alice, { inviteHash: TOKEN }));
    expect(vouched.after().get('enrolment', alice.key)?.invited).toBe(true);
    const rotatedTo = given(enrolled(alice), ...vouched.events, rotated(alice, dave)).rows.get('enrolment', dave.key);
    expect(rotatedTo?.invited).toBe(true);
    for (const needless of [enrolOf(bob, { inviteHash: TOKEN }), enrolOf(alice, { inviteHash: sha256Hex('another') })])
      expect(later.when(needless).events.map(({ type }) => type)).not.toContain('InviteSpent');
  });

  test('is not spent on a host that is refused for want of room', () => {
    const world = given(enrolled(bob), invited(TOKEN, LATER_MS + UNUSED_LAPSES_AFTER_MS));
    const full = world.under({ ...invitesOnly, enrolmentsMax: 1 });
    const enrol = enrolOf(alice, { inviteHash: TOKEN });
    const refused = full.when(enrol);
    expect([refused.verdict, refused.events]).toEqual(['ENROLMENTS_FULL', []]);
    const later = full.when({ ...enrol, nowMs: NOON_MS + UNUSED_LAPSES_AFTER_MS });
    expect(later.events.map(({ type }) => type)).toEqual(['EnrolmentLapsed', 'HostEnrolled', 'InviteSpent']);
  });
});

test('nothing that lapsed is no event', () => {
  const nothing = given().when({ type: 'LapseAdmissions', denied: [], invites: [], nowMs: NOON_MS });
  expect([nothing.events, nothing.outcome]).toEqual([[], { type: 'Done' }]);
  const entry = { hostFp: null, clientId: null, account: 'acme', org: null };
  const denials = given().when({ type: 'LapseAdmissions', denied: [entry], invites: [], nowMs: NOON_MS });
  expect(denials.events).toEqual([{ type: 'AdmissionsLapsed', denied: [entry], invites: [], atMs: NOON_MS }]);
  const something = given().when({ type: 'LapseAdmissions', denied: [], invites: [TOKEN], nowMs: NOON_MS });
  expect(something.events).toEqual([{ type: 'AdmissionsLapsed', denied: [], invites: [TOKEN], atMs: NOON_MS }]);
});
