import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HostName } from '../../../../src/protocol/names.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { Directory, UNUSED_LAPSES_AFTER_MS } from '../../../../src/relay/core/directory.ts';
import type { EnrolmentRow } from '../../../../src/relay/core/rows.ts';
import { enrolled } from '../../../support/events.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { found } from '../../../support/found.ts';

const rowOf = (host: TestHost, changes: Partial<EnrolmentRow> = {}): EnrolmentRow => {
  const row = found(new MapRows(enrolled(host)).get('enrolment', host.key), 'an enrolled host has a row');
  return { ...row, ...changes };
};
const lapsesFrom = (row: EnrolmentRow): number => row.enrolledAtMs + UNUSED_LAPSES_AFTER_MS;

describe('names', () => {
  test('that several carry mean the one enrolment of the caller’s own account, and nobody when there are two', () => {
    const directory = new Directory();
    const rows: [TestHost, string | null][] = [
      [alice, 'acme'],
      [bob, 'other'],
      [carol, null],
    ];
    const hostName = 'laptop' as HostName;
    for (const [host, account] of rows) directory.apply(host.key, rowOf(host, { hostName, account }));
    expect(directory.findByName(hostName, 'acme')).toMatchObject({ hostPubkey: alice.key });
    expect(directory.findByName(hostName, 'other')).toMatchObject({ hostPubkey: bob.key });
    expect(directory.findByName(hostName, 'third')).toBe('ambiguous');
    // No account is not an account: the one host that has none is not the one that is meant.
    expect(directory.findByName(hostName, null)).toBe('ambiguous');
    directory.apply(dave.key, rowOf(dave, { hostName, account: 'acme' }));
    expect(directory.findByName(hostName, 'acme')).toBe('ambiguous');
  });

  test('are found folded, and follow renames, revocations and lapses', () => {
    const directory = new Directory();
    directory.apply(alice.key, rowOf(alice, { hostName: 'Laptop' as HostName }));
    directory.apply(bob.key, rowOf(bob, { hostName: 'LAPTOP' as HostName }));
    expect(directory.liveByName('laptop')).toEqual([alice.key, bob.key]);
    directory.apply(alice.key, rowOf(alice, { hostName: 'desk' as HostName }));
    expect(directory.liveByName('laptop')).toEqual([bob.key]);
    expect(directory.liveByName('desk')).toEqual([alice.key]);
    directory.apply(bob.key, rowOf(bob, { hostName: 'LAPTOP' as HostName, revokedAtMs: NOON_MS }));
    expect(directory.liveByName('laptop')).toEqual([]);
    expect(directory.get(bob.key)?.revokedAtMs).toBe(NOON_MS);
    directory.apply(alice.key, null);
    expect(directory.liveByName('desk')).toEqual([]);
    expect(directory.get(alice.key)).toBeUndefined();
    expect(directory.liveCount).toBe(0);
  });
});

const LAPTOP = 'laptop' as HostName;

/** So many live hosts of one account that carry one name. */
const crowdOf = (count: number): Directory => {
  const directory = new Directory();
  for (let number = 0; number < count; number++) {
    const host = hostNamed(`crowd ${number}`);
    directory.apply(host.key, rowOf(host, { hostName: LAPTOP, account: number === 0 ? 'acme' : null }));
  }
  return directory;
};

describe('a name', () => {
  test('that no live host carries is unknown', () => {
    const directory = new Directory();
    expect(directory.findByName(LAPTOP, null)).toBe('unknown');
    directory.apply(alice.key, rowOf(alice, { hostName: LAPTOP, revokedAtMs: NOON_MS }));
    expect(directory.findByName(LAPTOP, null)).toBe('unknown');
  });

  test('that one live host carries means that one, for every caller', () => {
    const directory = new Directory();
    const row = rowOf(alice, { hostName: LAPTOP, account: 'acme' });
    directory.apply(alice.key, row);
    for (const account of ['acme', 'umbrella', null]) expect(directory.findByName(LAPTOP, account)).toEqual(row);
  });

  test('means nobody from the 17th live host on, not even the one of the caller’s account', () => {
    expect(crowdOf(16).namesakes(LAPTOP)).toHaveLength(16);
    expect(crowdOf(16).findByName(LAPTOP, 'acme')).toMatchObject({ account: 'acme' });
    expect(crowdOf(17).namesakes(LAPTOP)).toEqual([]);
    expect(crowdOf(17).findByName(LAPTOP, 'acme')).toBe('ambiguous');
  });
});

const into = (host: TestHost, rotatedTo: TestHost): EnrolmentRow =>
  rowOf(host, { revokedAtMs: NOON_MS, rotatedTo: rotatedTo.key });

describe('the keys of a host', () => {
  test('are those that it had and has, asked for by any of them', () => {
    const directory = new Directory();
    // Two hosts that became one: alice and dave went on as bob, and bob as carol.
    for (const row of [into(alice, bob), into(dave, bob), into(bob, carol), rowOf(carol)])
      directory.apply(row.hostPubkey, row);
    const all = [alice, bob, carol, dave].map(({ key }) => key);
    for (const key of all) expect(directory.keysOf(key)).toEqual(new Set(all));
    expect(directory.keysOf(hostNamed('stranger').key)).toEqual(new Set([hostNamed('stranger').key]));
  });

  test('are found by fingerprint, revoked or not, until the enrolment lapses', () => {
    const directory = new Directory();
    const found = () => directory.byFingerprint(hostFingerprint(alice.key));
    directory.apply(alice.key, null);
    expect(found()).toBeUndefined();
    for (const row of [rowOf(alice), rowOf(alice, { revokedAtMs: NOON_MS })]) {
      directory.apply(alice.key, row);
      expect(found()).toBe(alice.key);
    }
    directory.apply(alice.key, null);
    expect(found()).toBeUndefined();
  });
});

describe('the oldest unused', () => {
  test('is a day old to the millisecond, and none before', () => {
    const directory = new Directory();
    const row = rowOf(alice);
    directory.apply(alice.key, row);
    expect(directory.oldestUnused(lapsesFrom(row) - 1)).toBeUndefined();
    expect(directory.oldestUnused(lapsesFrom(row))).toEqual(row);
  });

  test('passes over used and revoked ones, and keeps its place through a rename', () => {
    const directory = new Directory();
    for (const host of [alice, bob, carol]) directory.apply(host.key, rowOf(host));
    directory.apply(alice.key, rowOf(alice, { seen: true }));
    directory.apply(bob.key, rowOf(bob, { hostName: 'b2' as HostName }));
    expect(directory.oldestUnused(lapsesFrom(rowOf(bob)))?.hostName).toBe('b2');
    directory.apply(bob.key, rowOf(bob, { revokedAtMs: NOON_MS }));
    expect(directory.oldestUnused(lapsesFrom(rowOf(carol)))?.hostPubkey).toBe(carol.key);
  });

  test('is the oldest also when the clock was set back between two enrolments', () => {
    const directory = new Directory();
    directory.apply(alice.key, rowOf(alice, { enrolledAtMs: NOON_MS }));
    directory.apply(bob.key, rowOf(bob, { enrolledAtMs: NOON_MS - UNUSED_LAPSES_AFTER_MS }));
    expect(directory.oldestUnused(NOON_MS)?.hostPubkey).toBe(bob.key);
  });
});

test('equals a directory that is told every row again, whatever happened before', () => {
  const hosts = [alice, bob, carol, dave];
  const change = fc.record({
    host: fc.constantFrom(...hosts),
    gone: fc.boolean(),
    hostName: fc.constantFrom('x', 'X', 'y').map((name) => name as HostName),
    revokedAtMs: fc.option(fc.constant(NOON_MS), { freq: 4 }),
    seen: fc.boolean(),
    account: fc.constantFrom(null, 'acme', 'other'),
    // A clock may be set back, and an enrolment that lapsed may come again.
    enrolledAtMs: fc.nat(9).map((ms) => NOON_MS + ms),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
      const directory = new Directory();
      const rows = new Map<string, EnrolmentRow>();
      for (const { host, gone, ...changed } of changes) {
        const row = gone ? null : rowOf(host, changed);
        directory.apply(host.key, row);
        if (row) rows.set(host.key, row);
        else rows.delete(host.key);
      }
      const again = new Directory();
      for (const row of rows.values()) again.apply(row.hostPubkey, row);
      expect(directory.liveCount).toBe(again.liveCount);
      for (const name of ['x', 'y']) {
        expect(new Set(directory.liveByName(name))).toEqual(new Set(again.liveByName(name)));
      }
      for (const { key } of hosts) expect(directory.get(key)).toEqual(again.get(key));
      const live = [...rows.values()].filter(({ revokedAtMs }) => revokedAtMs === null);
      expect(directory.liveCount).toBe(live.length);
      const farAheadMs = NOON_MS + 2 * UNUSED_LAPSES_AFTER_MS;
      const unused = live.filter(({ seen }) => !seen).map(({ enrolledAtMs }) => enrolledAtMs);
      const oldest = directory.oldestUnused(farAheadMs);
      expect(oldest?.enrolledAtMs).toBe(unused.length > 0 ? Math.min(...unused) : undefined);
      expect(oldest).toEqual(oldest && rows.get(oldest.hostPubkey));
      for (const except of hosts)
        for (const name of ['x', 'y']) {
          const others = live.filter((row) => row.hostName.toLowerCase() === name && row.hostPubkey !== except.key);
          const { count, accounts } = directory.namesakesOf(name as HostName, except.key);
          expect(count).toBe(others.length);
          for (const account of [null, 'acme', 'other'])
            expect(accounts.has(account)).toBe(others.some((row) => row.account === account));
        }
    }),
  );
});
