/** "Sender allowlist", rules 1 to 3, beyond `spec/sender-allowlist.test.ts`; "Encryption-key advertisement". */
import { describe, expect, test } from 'vitest';
import { ISSUED_AHEAD_MAX_MS } from '../../../../src/protocol/limits.ts';
import type { EncKeyPublished, SendersPublished } from '../../../../src/relay/core/event.ts';
import { encKeyOf, sendersOf } from '../../../support/commands.ts';
import { given } from '../../../support/given.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const LATER_MS = NOON_MS + 60_000;

const listed = (senders: readonly TestHost[], iatMs: number): SendersPublished => ({
  type: 'SendersPublished',
  hostPubkey: bob.key,
  senders: senders.map(({ key }) => key).toSorted(),
  iatMs,
  atMs: NOON_MS,
});

const shown = (encPub: string, advertisedAtMs: number): EncKeyPublished => {
  const { sig } = encKeyOf(bob, encPub);
  return { type: 'EncKeyPublished', hostPubkey: bob.key, encPub, advertisedAtMs, sig, atMs: NOON_MS };
};

describe('a sender list', () => {
  test('is recorded ascending and once each, with the time that the host signed', () => {
    const published = given().when(sendersOf(bob, [dave, alice, carol, alice], { nowMs: LATER_MS }));
    expect(published.events).toEqual([{ ...listed([alice, carol, dave], NOON_MS), atMs: LATER_MS }]);
    expect(published.outcome).toEqual({ type: 'SendersListed', senders: 3, iatMs: NOON_MS });
  });

  test.each([
    ['one sender more', [alice, carol, dave]],
    ['one sender less', [alice]],
    ['another sender instead', [alice, dave]],
  ])('with %s is a new list, and of the same time stale', (_what, senders) => {
    const world = given(listed([alice, carol], NOON_MS));
    const newer = sendersOf(bob, senders, { iatMs: NOON_MS + 1 });
    expect(world.when(newer).events).toEqual([listed(senders, NOON_MS + 1)]);
    expect(world.when({ ...newer, iatMs: NOON_MS }).verdict).toBe('STALE_LIST');
  });
});

describe('an encryption key', () => {
  test('is recorded with its advertisement, and answered with the time of that', () => {
    const published = given().when(encKeyOf(bob, 'first', { advertisedAtMs: NOON_MS - 5 }));
    expect(published.events).toEqual([shown('first', NOON_MS - 5)]);
    expect(published.outcome).toEqual({ type: 'EncKeyShown', atMs: NOON_MS - 5 });
  });

  test('advertised more than 5 minutes ahead is refused', () => {
    const justInTime = encKeyOf(bob, 'key', { advertisedAtMs: NOON_MS + ISSUED_AHEAD_MAX_MS });
    expect(given().when(justInTime).verdict).toBe('EncKeyShown');
    expect(given().when({ ...justInTime, advertisedAtMs: justInTime.advertisedAtMs + 1 }).verdict).toBe(
      'IAT_IN_FUTURE',
    );
  });
});
