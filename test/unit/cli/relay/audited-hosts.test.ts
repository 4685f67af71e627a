import { describe, expect, test } from 'vitest';
import { hostFormatter, knownKeysOf, requireKeysOf } from '../../../../src/cli/relay/audited-store.ts';
import type { HostName } from '../../../../src/protocol/names.ts';
import { displayFingerprint, hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { type EnrolmentRow, NEW_ENROLMENT } from '../../../../src/relay/core/rows.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

function enrolment(host: TestHost, name: string, rotatedTo: TestHost | null = null): EnrolmentRow {
  return {
    hostPubkey: host.key,
    hostName: name as HostName,
    ownerFp: '',
    account: null,
    org: null,
    clientId: null,
    authorizedBy: 'host-key',
    enrolledAtMs: NOON_MS,
    validUntilMs: null,
    ...NEW_ENROLMENT,
    revokedAtMs: rotatedTo ? NOON_MS : null,
    rotatedTo: rotatedTo?.key ?? null,
    seen: true,
  };
}

const rows = [
  enrolment(alice, 'laptop', bob),
  enrolment(bob, 'Laptop', carol),
  enrolment(carol, 'desk'),
  enrolment(dave, 'desk'),
];

describe('the keys that are meant', () => {
  test('are all keys that rotations joined, when the host is named by any of them', () => {
    const joined = new Set([alice.key, bob.key, carol.key]);
    const start = displayFingerprint(alice.key).slice(0, 15);
    for (const text of [
      alice.key,
      displayFingerprint(carol.key),
      hostFingerprint(bob.key),
      start,
      'laptop',
      'LAPTOP',
    ]) {
      expect(requireKeysOf(text, rows)).toEqual(joined);
    }
  });

  test('are those of every host that has the name', () => {
    expect(requireKeysOf('desk', rows)).toEqual(new Set([alice.key, bob.key, carol.key, dave.key]));
  });

  test('are the key itself, enrolled or not, and none for a name or fingerprint that nobody has', () => {
    const stranger = hostNamed('stranger');
    expect(requireKeysOf(stranger.key, rows)).toEqual(new Set([stranger.key]));
    for (const text of ['nobody', displayFingerprint(stranger.key)]) {
      expect(knownKeysOf(text, rows)).toEqual(new Set());
      expect(() => requireKeysOf(text, rows)).toThrow('no host is known as');
    }
  });
});

test('a host is called by its name and the beginning of its fingerprint, or by all of that', () => {
  const called = hostFormatter([enrolment(alice, 'lap\u001btop')]);
  expect(called(alice.key)).toBe(`lap\\u{1b}top/${displayFingerprint(alice.key).slice(7, 15)}`);
  expect(called(bob.key)).toBe(displayFingerprint(bob.key));
});
