/** "Enrolment record", rules 1 to 6, as far as the core decides them. Rules 7 and 8 are about v1 and routes. */
import { describe, expect, test } from 'vitest';
import type { HostName } from '../../src/protocol/names.ts';
import type { EnrolHost } from '../../src/relay/core/command.ts';
import { accountEnrolOf, enrolOf, pushOf } from '../support/commands.ts';
import { enrolled, enrolledInAccount } from '../support/events.ts';
import { given } from '../support/given.ts';
import { alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { openTestRelay } from '../support/test-relay.ts';

const SAME = 'same' as HostName;
const LATER_MS = NOON_MS + 60_000;

const claim = (account: string): EnrolHost => accountEnrolOf(bob, account, { hostName: 'ALICE' as HostName });

test('enrolment record rule 1: hosts are identified by key; a name is a label', async () => {
  const relay = await openTestRelay();
  await relay.enrol(enrolOf(alice, { hostName: SAME }));
  await relay.enrol(enrolOf(bob, { hostName: SAME }));
  await relay.pushOne(pushOf(carol, 'm1', [[alice, 'for alice']]));
  await relay.pushOne(pushOf(carol, 'm1', [[bob, 'for bob']]));
  // A new name is the same host: queue and enrolment stay with the key.
  await relay.enrol(enrolOf(alice, { hostName: 'renamed' as HostName }));
  expect(await relay.wires(alice)).toEqual(['for alice']);
  expect(await relay.wires(bob)).toEqual(['for bob']);
  expect(relay.engine.directory.get(alice.key)).toMatchObject({ hostName: 'renamed', enrolledAtMs: NOON_MS });
  expect(relay.engine.directory.liveCount).toBe(2);
});

describe('enrolment record rule 2: a name is unique only inside a proven account, for live rows', () => {
  test('enrolment record rule 2: the same name in the same account is refused, whatever its case', () => {
    expect(given(enrolledInAccount(alice, 'acme')).when(claim('acme')).verdict).toBe('NAME_TAKEN');
  });

  test('enrolment record rule 2: two owners can use the same name on one relay', () => {
    expect(given(enrolledInAccount(alice, 'acme')).when(claim('umbrella')).verdict).toBe('Enrolled');
    const unproven = given(enrolled(alice)).when(enrolOf(bob, { hostName: alice.name }));
    expect(unproven.verdict).toBe('Enrolled');
  });

  test('enrolment record rule 2: the name of a revoked row is free', () => {
    const world = given(enrolledInAccount(alice, 'acme')).revoked(alice, LATER_MS);
    expect(world.when(claim('acme')).verdict).toBe('Enrolled');
  });
});

test('enrolment record rule 3: re-enrolling the same host key is idempotent', async () => {
  const relay = await openTestRelay();
  const first = await relay.enrol(accountEnrolOf(alice, 'acme'));
  const logEnd = relay.store.lastLsn;
  relay.clock.move(60_000);
  expect(await relay.enrol(accountEnrolOf(alice, 'acme'))).toEqual(first);
  expect(relay.store.lastLsn).toBe(logEnd);
  expect(relay.engine.directory.liveCount).toBe(1);
});

test('enrolment record rule 4: re-enrolment does not clear revoked_at: a revoked key stays revoked', () => {
  const world = given(enrolled(alice)).revoked(alice, LATER_MS);
  for (const again of [enrolOf(alice), accountEnrolOf(alice, 'acme'), enrolOf(alice, { hostName: SAME })]) {
    const refused = world.when(again);
    expect(refused.verdict).toBe('ENROL_REFUSED');
    expect(refused.after().get('enrolment', alice.key)).toMatchObject({ revokedAtMs: LATER_MS });
  }
});

test('enrolment record rule 5: a weaker authority leaves account and authorized_by of a stronger one', () => {
  const proven = enrolledInAccount(alice, 'acme', { org: 'org-1', clientId: 'client-1' });
  const kept = { account: 'acme', org: 'org-1', clientId: 'client-1', authorizedBy: 'account-token' };
  for (const answer of [{ ok: true }, { ok: true, account: 'mallory', org: 'org-2', clientId: 'client-2' }]) {
    const weaker = given(proven).when(enrolOf(alice, { hostName: SAME, answer }));
    expect(weaker.outcome).toMatchObject({ account: 'acme', authorizedBy: 'account-token' });
    expect(weaker.after().get('enrolment', alice.key)).toMatchObject({ ...kept, hostName: SAME });
  }
  const stronger = given(enrolled(alice)).when(accountEnrolOf(alice, 'acme')).after();
  expect(stronger.get('enrolment', alice.key)).toMatchObject({ account: 'acme', authorizedBy: 'account-token' });
});

test('enrolment record rule 6: more than 16 live enrolments of a name are crowded, and none is refused', async () => {
  const relay = await openTestRelay();
  const answers = [];
  for (let number = 0; number < 20; number++) {
    const hostName = (number % 2 === 0 ? 'Crowd' : 'crowd') as HostName;
    answers.push(await relay.enrol(enrolOf(hostNamed(`host ${number}`), { hostName })));
  }
  const crowded = answers.map((answer) => answer.type === 'Enrolled' && answer.crowded);
  expect(crowded).toEqual(Array.from({ length: 20 }, (_none, at) => at >= 16));
  expect(relay.engine.directory.liveCount).toBe(20);
});
