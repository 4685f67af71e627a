/**
 * Tests what only the enrolment row can say of a hop, and no request of this issue can bring about: revoked, and
 * expired.
 */
import { describe, expect, test } from 'vitest';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { readHop } from '../../../../src/relay/auth/hop.ts';
import { type EnrolmentRow, NEW_ENROLMENT } from '../../../../src/relay/core/rows.ts';
import { alice } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const HEADERS: Readonly<Record<string, string>> = {
  'x-mail-key': alice.key,
  'x-mail-ts': String(NOON_MS),
  'x-mail-sig': 'unread',
};

function read(row: Partial<EnrolmentRow>, headers: Readonly<Record<string, string>> = HEADERS): string {
  const enrolment: EnrolmentRow = {
    hostPubkey: alice.key,
    hostName: alice.name,
    ownerFp: '',
    account: null,
    org: null,
    clientId: null,
    authorizedBy: 'host-key',
    enrolledAtMs: 0,
    validUntilMs: null,
    ...NEW_ENROLMENT,
    seen: true,
    ...row,
  };
  const byKey = (key: PublicKey): EnrolmentRow | undefined => (key === alice.key ? enrolment : undefined);
  const hop = readHop((name) => headers[name], { byKey, byName: () => [enrolment] }, NOON_MS);
  return hop.type === 'HopClaim' ? 'claim' : hop.code;
}

describe('a hop', () => {
  test('of v1 is none of a key that made a v2 hop here, which names no relay', () => {
    const byName = { 'x-mail-host': alice.name, 'x-mail-ts': String(NOON_MS), 'x-mail-sig': 'unread' };
    expect([read({}, byName), read({ madeV2Hop: true }, byName)]).toEqual(['claim', 'NOT_ENROLLED']);
    expect(read({ madeV2Hop: true })).toBe('claim');
  });

  test('of an enrolled key in its time is a claim', () => {
    expect(read({})).toBe('claim');
  });

  test('of a revoked key is NOT_ENROLLED, whenever it was revoked', () => {
    for (const revokedAtMs of [0, NOON_MS - 1, NOON_MS, NOON_MS + 1])
      expect(read({ revokedAtMs })).toBe('NOT_ENROLLED');
  });

  test('of an enrolment that has ended is NOT_ENROLLED, from its last millisecond on', () => {
    expect(read({ validUntilMs: NOON_MS + 1 })).toBe('claim');
    expect(read({ validUntilMs: NOON_MS })).toBe('NOT_ENROLLED');
    expect(read({ validUntilMs: NOON_MS - 1 })).toBe('NOT_ENROLLED');
  });

  test('of a revoked key is NOT_ENROLLED before anything is said of its time or its signature', () => {
    expect(read({ revokedAtMs: 1 }, { 'x-mail-key': alice.key, 'x-mail-ts': '1' })).toBe('NOT_ENROLLED');
    expect(read({ revokedAtMs: 1 }, { 'x-mail-key': alice.key })).toBe('NOT_ENROLLED');
  });
});
