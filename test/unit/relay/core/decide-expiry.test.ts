/** "Item at the relay", the expiry row, beyond `spec/expiry.test.ts`: what is due, who is told, and where. */
import { describe, expect, test } from 'vitest';
import { DAY_MS, DEFAULT_LIMITS, dedupHorizonMs } from '../../../../src/protocol/limits.ts';
import { expireOf } from '../../../support/commands.ts';
import {
  accepted,
  acked,
  enrolled,
  enrolledInAccount,
  moved,
  noticed,
  revoked,
  rotated,
} from '../../../support/events.ts';
import { given } from '../../../support/given.ts';
import { alice, bob, carol, dave, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const RETENTION_MS = 14 * DAY_MS;
const DUE_MS = NOON_MS + RETENTION_MS;

const three = [
  accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
  accepted(alice, 'm2', [[bob, NOON_MS + 1, 'yy']]),
  accepted(carol, 'm3', [[bob, NOON_MS + 2, 'zzz']], { acceptedAtMs: NOON_MS + 1 }),
];
const allSeqs = [NOON_MS, NOON_MS + 1, NOON_MS + 2];

describe('a sweep', () => {
  test('gives up what is due to the millisecond, and nothing that is acked, gone or younger', () => {
    const world = given(enrolled(alice), enrolledInAccount(bob, 'acme'), ...three);
    const due = (nowMs: number): string[] =>
      (world.whenExpiring(expireOf(bob, [...allSeqs, NOON_MS + 9], nowMs))?.items ?? []).map(({ itemId }) => itemId);
    expect(due(DUE_MS - 1)).toEqual([]);
    expect(due(DUE_MS)).toEqual(['m1', 'm2']);
    expect(due(DUE_MS + 1)).toEqual(['m1', 'm2', 'm3']);
    world.rows.apply(acked(bob, NOON_MS, [[alice, 1, 1]], { account: 'acme' }));
    expect(due(DUE_MS + 1)).toEqual(['m2', 'm3']);
  });

  test('says of each item what the rows say, for which account, and how long it is known from here on', () => {
    const nowMs = DUE_MS + 9;
    const world = given(enrolledInAccount(bob, 'acme'), ...three);
    expect(world.whenExpiring(expireOf(bob, [NOON_MS + 1], nowMs))).toEqual({
      type: 'ItemsExpired',
      targetPubkey: bob.key,
      relayPubkey: relay.key,
      items: [
        { seq: NOON_MS + 1, kind: 'envelope', itemId: 'm2', senderPubkey: alice.key, pushedTo: bob.key, bytes: 2 },
      ],
      account: 'acme',
      dedupUntilMs: nowMs + dedupHorizonMs(DEFAULT_LIMITS),
      notices: [],
      atMs: nowMs,
    });
    const ofNobody = given(...three).whenExpiring(expireOf(bob, [NOON_MS], DUE_MS));
    expect(ofNobody).toMatchObject({ account: null, items: [{ itemId: 'm1' }] });
  });
});

describe('a notice', () => {
  test('goes to the end of each sender’s queue, one after the other', () => {
    const far = DUE_MS + 100;
    const world = given(
      enrolled(alice),
      enrolled(carol),
      ...three,
      // The head of alice lies ahead of the clock.
      accepted(bob, 'm9', [[alice, far, 'x']], { acceptedAtMs: DUE_MS }),
    );
    const notices = world.whenExpiring(expireOf(bob, allSeqs, DUE_MS + 1))?.notices ?? [];
    expect(notices.map(({ targetPubkey, seq, itemId }) => [targetPubkey, seq, itemId])).toEqual([
      [alice.key, far + 1, `expired:m1:${bob.key}`],
      [alice.key, far + 2, `expired:m2:${bob.key}`],
      [carol.key, DUE_MS + 1, `expired:m3:${bob.key}`],
    ]);
    expect(notices.map(({ expiresAtMs }) => expiresAtMs - DUE_MS - 1)).toEqual(Array(3).fill(RETENTION_MS));
    expect(notices[2]?.rec).toMatchObject({ item_id: 'm3', accepted_at: NOON_MS + 1, expired_at: DUE_MS + 1 });
  });

  test('goes to the key that the sender has now, about the key that it pushed to', () => {
    const first = NOON_MS + 5;
    const world = given(
      enrolled(alice),
      enrolled(bob),
      accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
      rotated(alice, carol),
      rotated(bob, dave, { moved: 1, items: 1, bytes: 1, firstSeq: first }),
      moved(bob, dave, [NOON_MS], first),
    );
    const expiry = world.whenExpiring(expireOf(dave, [first], DUE_MS));
    expect(expiry?.items).toMatchObject([{ seq: first, senderPubkey: alice.key, pushedTo: bob.key }]);
    expect(expiry?.notices).toMatchObject([
      { targetPubkey: carol.key, itemId: `expired:m1:${bob.key}`, rec: { target_pubkey: bob.key } },
    ]);
  });

  test('goes to nobody for a receipt, a notice, or a sender that is revoked or unknown', () => {
    const world = given(
      enrolled(alice),
      enrolled(carol),
      revoked(carol),
      accepted(alice, 'receipt', [[bob, NOON_MS, 'x']], { kind: 'receipt' }),
      noticed(bob, NOON_MS + 1),
      accepted(carol, 'm3', [[bob, NOON_MS + 2, 'x']]),
      accepted(dave, 'm4', [[bob, NOON_MS + 3, 'x']]),
    );
    const expiry = world.whenExpiring(expireOf(bob, [...allSeqs, NOON_MS + 3], DUE_MS));
    expect(expiry?.items.map(({ kind }) => kind)).toEqual(['receipt', 'expired', 'envelope', 'envelope']);
    expect(expiry?.notices).toEqual([]);
  });
});
