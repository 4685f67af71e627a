import { describe, expect, test } from 'vitest';
import type { PeerId, PeerRow } from '../../../../src/host/core/rows.ts';
import { type Bringing, RETIRED_KEY_MS, doubtOfSignature, retiredAt } from '../../../../src/host/core/peer-keys.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const [FIRST, SECOND, NOW, STRANGE] = ['first', 'second', 'now', 'strange'] as PublicKey[] as [
  PublicKey,
  PublicKey,
  PublicKey,
  PublicKey,
];
/** Gave up its first key at noon and its second an hour later. */
const peer = {
  peerId: 'alice' as PeerId,
  hostName: 'alice',
  keys: [
    { publicKey: FIRST, pinnedAtMs: 0, retiredAtMs: NOON_MS },
    { publicKey: SECOND, pinnedAtMs: NOON_MS, retiredAtMs: NOON_MS + 3_600_000 },
    { publicKey: NOW, pinnedAtMs: NOON_MS + 3_600_000, retiredAtMs: null },
  ],
} as PeerRow;
const other = { ...peer, peerId: 'carol' as PeerId };

/** Signed by the first key before it was given up, and brought by the host itself a day later. */
const honest: Bringing = {
  via: 'lan',
  signingKey: FIRST,
  bringingKey: NOW,
  bringer: peer,
  writtenAtMs: NOON_MS - 1,
  nowMs: NOON_MS + 86_400_000,
  momentMs: (atMs) => atMs,
};
const reasonOf = (changes: Partial<Bringing>): string | undefined =>
  doubtOfSignature(peer, { ...honest, ...changes })?.reason;

describe.each(['lan', 'relay'] as const)('over %s', (via) => {
  test('what the host brings under the key that it has counts, signed by any of its keys', () => {
    for (const signingKey of [FIRST, SECOND, NOW]) expect(reasonOf({ via, signingKey })).toBeUndefined();
    // Its own clock may have been anything: the key that it has now vouches for it.
    expect(reasonOf({ via, writtenAtMs: NOON_MS + 3_600_000 })).toBeUndefined();
  });

  test('for 60 days after the rotation was learned', () => {
    expect(RETIRED_KEY_MS).toBe(60 * 86_400_000);
    expect(reasonOf({ via, nowMs: NOON_MS + RETIRED_KEY_MS - 1 })).toBeUndefined();
    expect(reasonOf({ via, nowMs: NOON_MS + RETIRED_KEY_MS })).toBe('retired-key');
    expect(reasonOf({ via, signingKey: NOW, nowMs: NOON_MS + 9 * RETIRED_KEY_MS })).toBeUndefined();
  });

  test('not when another paired host brings it, and not yet under a key that is nobody’s', () => {
    for (const signingKey of [FIRST, NOW]) {
      expect(reasonOf({ via, signingKey, bringingKey: STRANGE, bringer: other })).toBe('sender-mismatch');
    }
    expect(reasonOf({ via, bringingKey: STRANGE, bringer: undefined })).toBe('unknown-sender');
    // A new key of the peer may be seen before it is learned, and the key that signed is one that it has.
    expect(reasonOf({ via, signingKey: NOW, bringingKey: STRANGE, bringer: undefined })).toBeUndefined();
  });
});

test('over the LAN nothing under a hop of a key that was given up', () => {
  for (const bringingKey of [FIRST, SECOND]) expect(reasonOf({ bringingKey })).toBe('retired-key');
});

test('over a relay what was pushed before the rotation, unless it says itself that it is younger', () => {
  for (const bringingKey of [FIRST, SECOND]) {
    const pushed = { via: 'relay', bringingKey } as const;
    expect(reasonOf(pushed)).toBeUndefined();
    expect(reasonOf({ ...pushed, nowMs: NOON_MS + RETIRED_KEY_MS - 1 })).toBeUndefined();
    expect(reasonOf({ ...pushed, nowMs: NOON_MS + RETIRED_KEY_MS })).toBe('retired-key');
    // Two clocks that a relay takes hops of are ten minutes apart at most.
    expect(reasonOf({ ...pushed, writtenAtMs: NOON_MS + 600_000 })).toBeUndefined();
    expect(reasonOf({ ...pushed, writtenAtMs: NOON_MS + 600_001 })).toBe('retired-key');
  }
});

test('a key that was never the host’s was never given up by it', () => {
  expect([FIRST, NOW, STRANGE].map((key) => retiredAt(peer, key))).toEqual([NOON_MS, null, null]);
});
