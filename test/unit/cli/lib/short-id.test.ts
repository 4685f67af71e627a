import { expect, test } from 'vitest';
import { CommandFailed } from '../../../../src/cli/lib/exit.ts';
import { fingerprintMeant, idMeant, isFingerprintStart } from '../../../../src/cli/lib/short-id.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice, bob } from '../../../support/hosts.ts';

function candidates(...ids: string[]): { id: string; about: string }[] {
  return ids.map((id) => ({ id, about: 'x' }));
}

test('an id is meant by all of it, whatever else begins with it, or by its first characters', () => {
  expect(idMeant('m1', candidates('m1', 'm10', 'm11'))).toBe('m1');
  expect(idMeant('m10', candidates('m1', 'm10', 'm11'))).toBe('m10');
  expect(idMeant('m', candidates('m1', 'm1', 'n1'))).toBe('m1');
  expect(idMeant('x', candidates('m1'))).toBeUndefined();
});

test('or by its last characters, from four on, where it is no beginning', () => {
  const ids = candidates('06AAAA1111', '06AAAA2111', '2111XX');
  expect(idMeant('1111', ids)).toBe('06AAAA1111');
  expect(idMeant('2111', ids)).toBe('2111XX');
  expect(idMeant('A2111', ids)).toBe('06AAAA2111');
  expect(idMeant('111', ids)).toBeUndefined();
  expect(() => idMeant('A1', [...ids, { id: 'A1A1', about: 'x' }, { id: 'A1A2', about: 'x' }])).toThrow(
    'ids begin with',
  );
  expect(() => idMeant('Z111', candidates('0Z111', '1Z111'))).toThrow(
    'several ids end with Z111: 0Z111 (x), 1Z111 (x);',
  );
});

test('several are refused with each of them, and what tells them apart', () => {
  const meant = [...candidates('m1'), { id: 'm2', about: 'from bob: Hi' }];
  const refusal = (): unknown => idMeant('m', meant);
  expect(refusal).toThrow(CommandFailed);
  expect(refusal).toThrow('several ids begin with m: m1 (x), m2 (from bob: Hi); give more of the one that you mean');
});

test('a fingerprint may be cut, and names and whole fingerprints stay as they are', () => {
  const hosts = [alice, bob].map(({ name, key }) => ({ host: name, fingerprint: displayFingerprint(key) }));
  const [whole = ''] = hosts.map(({ fingerprint }) => fingerprint);
  expect(fingerprintMeant(whole.slice(0, 15), hosts)).toBe(whole);
  for (const text of [whole, 'alice', 'SHA256:', 'SHA256:abc']) {
    expect(fingerprintMeant(text, hosts)).toBe(text);
  }
  expect(() => fingerprintMeant('SHA256:nosuchhost', hosts)).toThrow('no host is known whose fingerprint begins with');
  expect(isFingerprintStart('SHA256:abcd')).toBe(true);
  expect(isFingerprintStart('SHA256:ab-d')).toBe(false);
});
