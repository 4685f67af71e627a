/** "Enrolment record", rule 4; "Enrolment", rule 9; "Enrolment states", the row of revocation. */
import { expect, test } from 'vitest';
import { DENY_KEPT_MS } from '../../src/protocol/limits.ts';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import type { EnrolHost } from '../../src/relay/core/command.ts';
import { AppendGate } from '../support/append-gate.ts';
import { accountEnrolOf, denyOf, enrolOf, pushOf, revokeOf, rotateOf } from '../support/commands.ts';
import { type TestHost, alice, bob, carol, dave } from '../support/hosts.ts';
import { expectReplayed } from '../support/replay.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../support/test-relay.ts';
import { lookedAtLater } from '../support/deferred.ts';

const RETENTION_MS = 14 * 86_400_000;

const enrolIn = (host: TestHost, account: string, org: string, clientId: string): EnrolHost =>
  accountEnrolOf(host, account, { answer: { ok: true, account, org, clientId } });

/** Alice and bob are of one account and organization, carol of another, dave of none. */
async function open(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await relay.enrol(enrolIn(alice, 'acme', 'org-1', 'client-a'));
  await relay.enrol(enrolIn(bob, 'acme', 'org-1', 'client-b'));
  await relay.enrol(enrolIn(carol, 'umbrella', 'org-2', 'client-b'));
  await relay.enrolAll(dave);
  return relay;
}

function liveOf(relay: TestRelay): string[] {
  return [alice, bob, carol, dave]
    .filter(({ key }) => relay.engine.directory.get(key)?.revokedAtMs === null)
    .map(({ name }) => name);
}

test('enrolment record rule 4: a revoked key stays revoked, whatever authority speaks for it', async () => {
  const relay = await open();
  expect(await relay.engine.admissions.revokeHost(revokeOf(dave))).toEqual({ type: 'Revoked', isNew: true });
  for (const again of [enrolOf(dave), accountEnrolOf(dave, 'acme')])
    expect(await relay.enrol(again)).toMatchObject({ code: 'ENROL_REFUSED' });
  await relay.reopen();
  relay.clock.move(DENY_KEPT_MS * 100);
  expect(await relay.enrol(enrolOf(dave))).toMatchObject({ code: 'ENROL_REFUSED' });
  expect(relay.engine.directory.get(dave.key)?.revokedAtMs).toBe(NOON_MS);
});

test('enrolment record rule 4: a revoked host is no target, and cannot rotate away', async () => {
  const relay = await open();
  await relay.engine.admissions.revokeHost(revokeOf(bob));
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('rejected:target revoked');
  expect(await relay.rotate(rotateOf(bob, carol))).toMatchObject({ code: 'ENROL_REFUSED' });
  expect(await relay.rotate(rotateOf(carol, bob))).toMatchObject({ code: 'ENROL_REFUSED' });
});

test('enrolment record rule 4: mail for a revoked host expires; its sender is told, unless revoked', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(bob, 'm2', [[alice, 'x']]));
  await relay.engine.admissions.revokeHost(revokeOf(bob));
  await relay.sweepAfter(RETENTION_MS);
  expect((await relay.queue(alice)).map(({ itemId }) => itemId)).toEqual([`expired:m1:${bob.key}`]);
  expect(await relay.queue(bob)).toEqual([]);
  expect(relay.store.get('account', 'acme')).toBeUndefined();
});

test('enrolment rule 9: an entry revokes its hosts at once: by key, client, account or organization', async () => {
  for (const [selectors, left] of [
    [{ hostFp: hostFingerprint(dave.key) }, ['alice', 'bob', 'carol']],
    [{ clientId: 'client-b' }, ['alice', 'dave']],
    [{ account: 'acme' }, ['carol', 'dave']],
    [{ org: 'org-2' }, ['alice', 'bob', 'dave']],
    [{ clientId: 'client-b', account: 'acme' }, ['alice', 'carol', 'dave']],
    [{ hostFp: hostFingerprint(alice.key), clientId: 'client-b' }, ['alice', 'bob', 'carol', 'dave']],
  ] as const) {
    const relay = await open();
    await relay.deny(denyOf(selectors));
    expect(liveOf(relay)).toEqual(left);
  }
});

test('enrolment rule 9: an entry that names a retired key revokes the present one', async () => {
  const relay = await enrolledTestRelay(alice);
  await relay.rotate(rotateOf(alice, bob));
  await relay.rotate(rotateOf(bob, carol));
  await relay.deny(denyOf({ hostFp: hostFingerprint(alice.key) }));
  expect(liveOf(relay)).toEqual([]);
});

test('enrolment rule 9: an entry stops what comes later, for a day and over a restart', async () => {
  const relay = await enrolledTestRelay(alice);
  await relay.deny(denyOf({ account: 'acme' }));
  await relay.deny(denyOf({ hostFp: hostFingerprint(carol.key) }));
  await relay.reopen();
  relay.clock.move(DENY_KEPT_MS - 1);
  expect(await relay.enrol(accountEnrolOf(bob, 'acme'))).toMatchObject({ code: 'ENROL_REFUSED' });
  expect(await relay.enrol(accountEnrolOf(alice, 'acme'))).toMatchObject({ code: 'ENROL_REFUSED' });
  expect(await relay.rotate(rotateOf(alice, carol))).toMatchObject({ code: 'ENROL_REFUSED' });
  relay.clock.move(1);
  expect(await relay.enrol(accountEnrolOf(bob, 'acme'))).toMatchObject({ type: 'Enrolled' });
  expect(await relay.rotate(rotateOf(alice, carol))).toMatchObject({ type: 'KeyRotated' });
  await relay.engine.admissions.lapse(relay.clock.nowMs);
  await expectReplayed(relay.store);
});

test('enrolment rule 9: a crash between the entry and the revocations leaves nobody in', async () => {
  const relay = await open();
  const gate = new AppendGate(relay.store);
  // The entry alone is written.
  await relay.deny(denyOf({ account: 'nobody' }));
  gate.close();
  const denied = lookedAtLater(relay.deny(denyOf({ account: 'acme' })));
  await gate.arrived(2);
  const [entry] = gate.batches[1]!.entries;
  const changes = [...gate.batches[1]!.changes].filter(({ table }) => table === 'deny');
  gate.failOne(new Error('EIO'));
  await expect(denied).rejects.toThrow('the store failed');
  gate.open();
  await relay.reopen();
  await relay.store.append({ entries: [entry!], changes, payloads: [] });
  await relay.reopen();
  await relay.engine.durable();
  expect(liveOf(relay)).toEqual(['carol', 'dave']);
});

test('enrolment rule 9: a pull that waits for mail of a denied host ends, so that the host looks again', async () => {
  const relay = await open();
  const ended = new Promise<number | null | undefined>((resolve) => {
    relay.engine.onArrival(alice.key, () => resolve(relay.engine.directory.get(alice.key)?.revokedAtMs));
  });
  await relay.deny(denyOf({ hostFp: hostFingerprint(alice.key) }));
  expect(await ended).toBe(NOON_MS);
});
