import { describe, expect, test } from 'vitest';
import { displayFingerprint, hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice } from '../../../support/hosts.ts';
import { parseHostReference } from '../../../../src/relay/operator/host-reference.ts';

const fingerprint = hostFingerprint(alice.key);

describe('parseHostReference', () => {
  test.each<[string, ReturnType<typeof parseHostReference>]>([
    [displayFingerprint(alice.key), { type: 'Fingerprint', fingerprint }],
    [fingerprint, { type: 'Fingerprint', fingerprint }],
    [fingerprint.toUpperCase(), { type: 'Fingerprint', fingerprint }],
    [alice.key, { type: 'Key', hostPubkey: alice.key }],
    ['alice', { type: 'Name', name: alice.name }],
    ['deadbeef', { type: 'Name', name: 'deadbeef' as typeof alice.name }],
    [fingerprint.slice(1), { type: 'Name', name: fingerprint.slice(1) as typeof alice.name }],
  ])('%s', (text, reference) => {
    expect(parseHostReference(text)).toEqual(reference);
  });

  test.each(['', 'a b', '-a', 'SHA256:', `${displayFingerprint(alice.key)}=`, 'x'.repeat(65), 'ä', 'a\n', 'a@b', '*'])(
    '%j names no host',
    (text) => {
      expect(parseHostReference(text)).toBeUndefined();
    },
  );
});
