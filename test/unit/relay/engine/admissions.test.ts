import { expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { DENY_KEPT_MS } from '../../../../src/protocol/limits.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { accountEnrolOf, denyOf, enrolOf, inviteOf, rotateOf } from '../../../support/commands.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { settled } from '../../../support/settled.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

const TOKEN = sha256Hex('token');

test('an invite lets one of two in that come at the same moment', async () => {
  const relay = await openTestRelay({ admission: 'invite' });
  await relay.engine.admissions.issueInvite(inviteOf(TOKEN));
  const enrolments = [alice, bob].map((host) => relay.enrol(enrolOf(host, { inviteHash: TOKEN })));
  expect((await Promise.all(enrolments)).map(({ type }) => type)).toEqual(['Enrolled', 'Refusal']);
  expect(relay.store.get('invite', TOKEN)).toBeUndefined();
});

test('invites and entries are known after a restart, and the same host enrols again without an invite', async () => {
  const relay = await openTestRelay({ admission: 'invite' });
  await relay.engine.admissions.issueInvite(inviteOf(TOKEN));
  await relay.deny(denyOf({ org: 'org-1' }));
  await relay.reopen();
  const token = { ok: true, org: 'org-1' };
  expect(await relay.enrol(enrolOf(alice, { inviteHash: TOKEN, answer: token }))).toMatchObject({
    code: 'ENROL_REFUSED',
  });
  expect(await relay.enrol(enrolOf(alice, { inviteHash: TOKEN }))).toMatchObject({ type: 'Enrolled' });
  await relay.reopen();
  expect(await relay.enrol(enrolOf(alice))).toMatchObject({ type: 'Enrolled' });
  expect(await relay.enrol(enrolOf(carol, { inviteHash: TOKEN }))).toMatchObject({ code: 'ENROL_REFUSED' });
});

test('what lapses in one moment is forgotten in slices', async () => {
  const relay = await openTestRelay();
  const commands = Array.from({ length: 600 }, (_none, at) =>
    inviteOf(sha256Hex(`${at}`), { expiresAtMs: NOON_MS + 1 }),
  );
  await Promise.all(commands.map((command) => relay.engine.admissions.issueInvite(command)));
  await relay.deny(denyOf({ account: 'acme' }));
  const gate = new AppendGate(relay.store);
  await relay.engine.admissions.lapse(NOON_MS + 1);
  const events = gate.batches.flatMap(({ entries }) => entries.map(({ event }) => event));
  const sizes = events.map((event) => event.type === 'AdmissionsLapsed' && event.invites.length + event.denied.length);
  expect(sizes).toEqual([250, 250, 100]);
  await relay.engine.admissions.lapse(NOON_MS + DENY_KEPT_MS);
  await relay.engine.admissions.lapse(NOON_MS + DENY_KEPT_MS);
  const last = gate.batches.flatMap(({ entries }) => entries).slice(3);
  expect(last).toMatchObject([{ event: { denied: [{ account: 'acme' }], invites: [] } }]);
  await expectReplayed(relay.store);
});

test('a deny entry is answered when the last revocation is durable', async () => {
  const relay = await openTestRelay();
  for (const host of [alice, bob])
    await relay.enrol(enrolOf(host, { answer: { ok: true, org: 'org-1' }, authorizedBy: 'account-token' }));
  const gate = AppendGate.closed(relay.store);
  const denied = relay.deny(denyOf({ org: 'org-1' }));
  await gate.arrived(1);
  // Nobody is let in any more from the moment it is known, and nobody is told before it is durable.
  expect(relay.engine.directory.get(alice.key)?.revokedAtMs).toBe(NOON_MS);
  expect(await settled({ denied })).toEqual([]);
  gate.open();
  await denied;
  expect(relay.store.get('enrolment', bob.key)?.revokedAtMs).toBe(NOON_MS);
  expect(relay.engine.directory.liveCount).toBe(0);
});

test('a start holds every live host against the entries that stand: by each of its keys and by its proof', async () => {
  const relay = await enrolledTestRelay(alice, dave);
  await relay.enrol(accountEnrolOf(bob, 'acme'));
  await relay.rotate(rotateOf(alice, carol));
  const entries = [denyOf({ hostFp: hostFingerprint(alice.key) }), denyOf({ account: 'acme' })];
  for (const [at, { type: _type, nowMs: atMs, ...entry }] of entries.entries()) {
    // As a crash leaves it: the entry alone is in the log.
    const event = { type: 'DenyEntryAdded', ...entry, untilMs: NOON_MS + DENY_KEPT_MS, atMs } as const;
    const logged = { lsn: relay.store.lastLsn + 1, event };
    const changes = reduce(logged, relay.store);
    await relay.store.append({ entries: [logged], changes, payloads: [] });
    await relay.reopen();
    await relay.engine.durable();
    expect(relay.engine.directory.liveCount).toBe(2 - at);
  }
  expect(relay.engine.directory.get(dave.key)?.revokedAtMs).toBeNull();
  await expectReplayed(relay.store);
});
