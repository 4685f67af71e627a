import { describe, expect, test } from 'vitest';
import { chosenHosts, type HostFilter, hostState, hostTable } from '../../../../src/cli/relay/hosts.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import type { HostDocument } from '../../../../src/relay/operator/documents.ts';
import { hostDocumentOf } from '../../../support/host-documents.ts';
import { alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { PIPE } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const EVERY: HostFilter = { name: undefined, account: undefined, which: 'all' };

describe('chosenHosts', () => {
  const live = hostDocumentOf(alice, { account: 'acme' });
  const expired = hostDocumentOf(bob, { state: 'expired', valid_until: NOON_MS });
  const revoked = hostDocumentOf(carol, { state: 'revoked', revoked_at: NOON_MS });
  const rotated = hostDocumentOf(dave, { state: 'rotated', revoked_at: NOON_MS, rotated_to: alice.key });
  const all = [rotated, revoked, expired, live];

  test.each<[HostFilter['which'], string[]]>([
    ['live', ['alice', 'bob']],
    ['revoked', ['carol', 'dave']],
    ['all', ['alice', 'bob', 'carol', 'dave']],
  ])('%s', (which, names) => {
    expect(chosenHosts(all, { ...EVERY, which }).map(({ host }) => host)).toEqual(names);
  });

  test('an account is meant exactly, and hosts without one are of none', () => {
    expect(chosenHosts(all, { ...EVERY, account: 'acme' })).toEqual([live]);
    for (const account of ['', 'acm', 'ACME', 'null']) {
      expect(chosenHosts(all, { ...EVERY, account })).toEqual([]);
    }
  });

  test.each<[string, string[]]>([
    ['*', ['Build-1', 'build-22', 'web.b-1']],
    ['build-*', ['Build-1', 'build-22']],
    ['BUILD-?', ['Build-1']],
    ['build-1', ['Build-1']],
    ['*-1', ['Build-1', 'web.b-1']],
    ['*b*1', ['Build-1', 'web.b-1']],
    ['**2?', ['build-22']],
    ['????????*', ['build-22']],
    ['web?b-1', ['web.b-1']],
    ['webxb-1', []],
    ['build', []],
    ['', []],
    ['[a-z]*', []],
  ])('the pattern %j means %j', (name, names) => {
    const hosts = ['Build-1', 'build-22', 'web.b-1'].map((text) => hostDocumentOf(hostNamed(text)));
    expect(chosenHosts(hosts, { ...EVERY, name }).map(({ host }) => host)).toEqual(names);
  });

  test('a pattern of many stars costs no more than a long one', () => {
    const hosts = [hostDocumentOf(hostNamed('a'.repeat(63)))];
    expect(chosenHosts(hosts, { ...EVERY, name: `${'*a'.repeat(2000)}*b` })).toEqual([]);
    expect(chosenHosts(hosts, { ...EVERY, name: '*a'.repeat(63) })).toEqual(hosts);
  });

  test('the order is by name, then by age, then by key, whatever order they came in', () => {
    const twins = [named('x', 'twin'), named('y', 'twin')].toSorted((a, b) => (a.host_pubkey < b.host_pubkey ? -1 : 1));
    const sorted = [named('1', 'A'), named('2', 'a', NOON_MS + 1), named('3', 'B'), ...twins];
    expect(chosenHosts(sorted.toReversed(), EVERY)).toEqual(sorted);
    expect(chosenHosts(sorted, EVERY)).toEqual(sorted);
  });
});

describe('hostState', () => {
  test('says in which state a host is, and since when or until when', () => {
    const states = [
      hostDocumentOf(alice),
      hostDocumentOf(alice, { state: 'expired', valid_until: NOON_MS }),
      hostDocumentOf(alice, { state: 'revoked', revoked_at: NOON_MS }),
      hostDocumentOf(alice, { state: 'rotated', revoked_at: NOON_MS, rotated_to: bob.key }),
    ];
    expect(states.map((host) => hostState(PIPE, host))).toEqual([
      'live',
      'expired token 2025-11-20T21:48:23.000Z',
      'revoked 2025-11-20T21:48:23.000Z',
      `rotated to ${displayFingerprint(bob.key)}`,
    ]);
  });
});

describe('hostTable', () => {
  test('has a line for each host, and no account breaks out of its cell', () => {
    const account = '\u001b[2Jacme\nevil  live';
    const text = hostTable(PIPE, [
      hostDocumentOf(alice, { account, queue_items: 3, queue_bytes: 1200, acked_through: 17 }),
      hostDocumentOf(bob),
    ]);
    const lines = text.split('\n');
    expect(lines).toHaveLength(4);
    expect(lines[0]?.split(/ {2,}/)).toEqual([
      'NAME',
      'FINGERPRINT',
      'ACCOUNT',
      'AUTHORITY',
      'ENROLLED',
      'STATE',
      'ITEMS',
      'BYTES',
      'ACKED',
    ]);
    expect(lines[1]).toContain(`alice  ${displayFingerprint(alice.key)}  \\u{1b}[2Jacme\\u{a}evil  live  host-key`);
    expect(lines[1]).toMatch(/ {2}live {7}3 {3}1200 {5}17$/);
    expect(lines[2]).toMatch(/ {2}- +host-key {3}2025-11-20T21:48:23.000Z {2}live /);
  });
});

function named(seed: string, host: string, enrolled_at = NOON_MS): HostDocument {
  return hostDocumentOf(hostNamed(seed), { host, enrolled_at });
}
