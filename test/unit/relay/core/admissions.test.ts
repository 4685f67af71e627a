import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { DENY_KEPT_MS } from '../../../../src/protocol/limits.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { type DeniableHost, isMatch } from '../../../../src/relay/core/directory.ts';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import { denied, enrolled, invited } from '../../../support/events.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const TOKEN = sha256Hex('token');
const aliceFp = hostFingerprint(alice.key);

const host: DeniableHost = {
  fingerprints: new Set([aliceFp, hostFingerprint(bob.key)]),
  clientId: 'client-1',
  account: 'acme',
  org: 'org-1',
};
const nobody = { hostFp: null, clientId: null, account: null, org: null };

describe('a deny entry means a host', () => {
  test.each<[string, Partial<typeof host & { hostFp: string }>, boolean]>([
    ['by the fingerprint of its present key', { hostFp: aliceFp }, true],
    ['by the fingerprint of a retired key', { hostFp: hostFingerprint(bob.key) }, true],
    ['not by another fingerprint', { hostFp: hostFingerprint(carol.key) }, false],
    ['by its client', { clientId: 'client-1' }, true],
    ['not by another client', { clientId: 'client-2' }, false],
    ['by its account', { account: 'acme' }, true],
    ['not by an account that only begins so', { account: 'acm' }, false],
    ['by its organization', { org: 'org-1' }, true],
    [
      'when every selector is true of it',
      { hostFp: aliceFp, clientId: 'client-1', account: 'acme', org: 'org-1' },
      true,
    ],
    ['not when one of several is not', { hostFp: aliceFp, clientId: 'client-1', account: 'acme', org: 'org-2' }, false],
  ])('%s', (_what, selectors, expected) => {
    const { fingerprints: _fingerprints, ...given } = selectors;
    expect(isMatch({ ...nobody, ...given } as never, host)).toBe(expected);
  });

  test('not for lack of a proof: what a host does not have matches no selector', () => {
    const bare: DeniableHost = { ...host, clientId: null, account: null, org: null };
    expect(isMatch({ ...nobody, account: 'acme' }, bare)).toBe(false);
    expect(isMatch({ ...nobody, hostFp: aliceFp, org: 'org-1' }, bare)).toBe(false);
  });
});

describe('admissions', () => {
  test('deny until the millisecond at which the entry ends, and then not', () => {
    const { admissions } = new MapRows(denied({ hostFp: aliceFp }));
    expect(admissions.isDenied(host, NOON_MS + DENY_KEPT_MS - 1)).toBe(true);
    expect(admissions.isDenied(host, NOON_MS + DENY_KEPT_MS)).toBe(false);
  });

  test('keep one entry for one set of selectors, the one that stands longest', () => {
    const short = denied({ account: 'acme', untilMs: NOON_MS + 5 });
    const long = denied({ account: 'acme', untilMs: NOON_MS + 9 });
    for (const entries of [
      [short, long],
      [long, short],
    ]) {
      const { admissions } = new MapRows(...entries);
      expect(admissions.deniedCount).toBe(1);
      expect([5, 9].map((later) => admissions.isDenied(host, NOON_MS + later))).toEqual([true, false]);
    }
  });

  test('keep entries apart whose selectors hold the same words in other places', () => {
    const { admissions } = new MapRows(denied({ account: 'x' }), denied({ org: 'x' }), denied({ clientId: 'x' }));
    expect(admissions.deniedCount).toBe(3);
  });

  test('property: deny exactly whom an entry means that stands, whatever came and went before', () => {
    const name = fc.constantFrom(null, 'a', 'b');
    const hostFp = fc.constantFrom(null, aliceFp, hostFingerprint(carol.key));
    const selectors = fc
      .record({ hostFp, clientId: name, account: name, org: name })
      .filter((entry) => Object.values(entry).some((selector) => selector !== null));
    const hosts = fc.record({ clientId: name, account: name, org: name });
    fc.assert(
      fc.property(
        fc.array(selectors),
        fc.uniqueArray(selectors, { selector: rowKey.deny }),
        hosts,
        (added, removed, proven) => {
          const rows = new MapRows(...added.map((entry) => denied(entry)));
          rows.apply({ type: 'AdmissionsLapsed', denied: removed, invites: [], atMs: NOON_MS });
          const gone = new Set(removed.map((entry) => rowKey.deny(entry)));
          const asked = { ...proven, fingerprints: host.fingerprints };
          const isMeant = added.some((entry) => !gone.has(rowKey.deny(entry)) && isMatch(entry, asked));
          expect(rows.admissions.isDenied(asked, NOON_MS)).toBe(isMeant);
        },
      ),
    );
  });

  test('know an entry by its selectors alone, and count entries and invites', () => {
    const rows = new MapRows(enrolled(alice), denied({ account: 'acme' }), invited(TOKEN, NOON_MS + 1));
    expect(rows.admissions.hasEntry({ ...nobody, account: 'acme' })).toBe(true);
    expect(rows.admissions.hasEntry({ ...nobody, account: 'acme', org: 'org-1' })).toBe(false);
    expect([rows.admissions.deniedCount, rows.admissions.inviteCount]).toEqual([1, 1]);
  });

  test('show an invite until the millisecond at which it ends', () => {
    const rows = new MapRows(invited(TOKEN, NOON_MS + 5), invited(sha256Hex('later'), NOON_MS + 9));
    const endsOf = (nowMs: number) =>
      rows.admissions.openInvites(nowMs).map(({ expiresAtMs }) => expiresAtMs - NOON_MS);
    expect([4, 5, 8, 9].map((later) => endsOf(NOON_MS + later))).toEqual([[5, 9], [9], [9], []]);
  });

  test('say what lapsed, and forget it when the rows are gone', () => {
    const rows = new MapRows(denied({ account: 'acme' }), denied({ org: 'org-1', untilMs: NOON_MS }));
    rows.apply(invited(TOKEN, NOON_MS));
    rows.apply(invited(sha256Hex('later'), NOON_MS + 1));
    const lapsed = rows.admissions.lapsed(NOON_MS, 9);
    expect(lapsed).toEqual({ denied: [{ ...nobody, org: 'org-1' }], invites: [TOKEN] });
    rows.apply({ type: 'AdmissionsLapsed', ...lapsed, atMs: NOON_MS });
    expect([rows.admissions.deniedCount, rows.admissions.inviteCount]).toEqual([1, 1]);
    expect(rows.admissions.lapsed(NOON_MS, 9)).toEqual({ denied: [], invites: [] });
  });

  test('say no more at once than they are asked for', () => {
    const entries = ['a', 'b', 'c'].map((account) => denied({ account, untilMs: NOON_MS }));
    const rows = new MapRows(...entries, invited(TOKEN, NOON_MS), invited(sha256Hex('other'), NOON_MS));
    const counts = [1, 3, 4, 9].map((max) => {
      const lapsed = rows.admissions.lapsed(NOON_MS, max);
      return [lapsed.denied.length, lapsed.invites.length];
    });
    expect(counts).toEqual([
      [1, 0],
      [3, 0],
      [3, 1],
      [3, 2],
    ]);
  });

  test('equal what is told of the rows again', () => {
    const rows = new MapRows(denied({ account: 'acme' }), invited(TOKEN, NOON_MS + 1), denied({ org: 'org-2' }));
    const again = rows.copy().admissions;
    for (const nowMs of [NOON_MS, NOON_MS + 1, NOON_MS + DENY_KEPT_MS]) {
      expect(again.lapsed(nowMs, 9)).toEqual(rows.admissions.lapsed(nowMs, 9));
      expect(again.isDenied(host, nowMs)).toBe(rows.admissions.isDenied(host, nowMs));
    }
  });
});
