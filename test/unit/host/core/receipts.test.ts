import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  answerToCopy,
  deliveryRank,
  movesRecipient,
  nextReceipt,
  repeatedReceipt,
  SENT_STEPS_MAX,
  shownSteps,
  withStep,
} from '../../../../src/host/core/receipts.ts';
import type { Address, ReceiptRow, RecipientState, SentRecipient } from '../../../../src/host/core/rows.ts';
import { DELIVERY_STATES, type DeliveryState } from '../../../../src/protocol/documents.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import { acceptance, outboxRow, relayAccepted } from '../../../support/outbox-rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const PENDING: SentRecipient = {
  address: 'bob@there' as Address,
  agentId: null,
  peerId: null,
  state: 'pending',
  atMs: 1,
  seq: 0,
  steps: [{ state: 'pending', atMs: 1 }],
};

test('what is learned comes behind what was known, and is the state', () => {
  const read = withStep(withStep(PENDING, { state: 'delivered', atMs: 2, seq: 5 }), { state: 'read', atMs: 4, seq: 6 });
  expect(read).toMatchObject({ state: 'read', atMs: 4, seq: 6 });
  expect(read.steps.map(({ state, atMs }) => [state, atMs])).toEqual([
    ['pending', 1],
    ['delivered', 2],
    ['read', 4],
  ]);
});

test('the same state again is no new step', () => {
  const twice = withStep(withStep(PENDING, { state: 'read', atMs: 2, seq: 5 }), { state: 'read', atMs: 3, seq: 6 });
  expect(twice.steps).toEqual([
    { state: 'pending', atMs: 1 },
    { state: 'read', atMs: 3 },
  ]);
});

test('the same state again takes the place of the last step alone, and a state of before is a new step', () => {
  const steps = (['pending', 'delivered', 'read'] as const).map((state, atMs) => ({ state, atMs }));
  const known: SentRecipient = { ...PENDING, state: 'read', steps };
  expect(withStep(known, { state: 'read', atMs: 9 }).steps).toEqual([steps[0], steps[1], { state: 'read', atMs: 9 }]);
  expect(withStep(known, { state: 'delivered', atMs: 9 }).steps).toEqual([...steps, { state: 'delivered', atMs: 9 }]);
  expect(withStep({ ...PENDING, steps: [] }, { state: 'read', atMs: 9 }).steps).toEqual([{ state: 'read', atMs: 9 }]);
});

test('what is said without a receipt keeps its seq', () => {
  const given = withStep({ ...PENDING, seq: 7 }, { state: 'undelivered', atMs: 2 });
  expect(given.seq).toBe(7);
});

const shown = (relayAtMs: number | null, ...steps: SentRecipient['steps']): string[] =>
  shownSteps({ steps }, relayAtMs).map(({ state, atMs }) => `${state} ${atMs}`);

test('what is pending is stored, or at the relay from then on; receipts come later, whatever their clock', () => {
  const pending = { state: 'pending', atMs: 10 } as const;
  expect(shown(null, pending)).toEqual(['stored 10']);
  expect(shown(20, pending)).toEqual(['stored 10', 'relay 20']);
  expect(shown(20, pending, { state: 'read', atMs: 5 })).toEqual(['stored 10', 'relay 20', 'read 5']);
  expect(shown(20, pending, { state: 'undelivered', atMs: 15 })).toEqual(['stored 10', 'undelivered 15', 'relay 20']);
  expect(shown(20, pending, { state: 'unconfirmed', atMs: 30 })).toEqual(['stored 10', 'relay 20', 'unconfirmed 30']);
});

test('the oldest steps make room', () => {
  let known = PENDING;
  for (let at = 0; at < 100; at++) known = withStep(known, { state: at % 2 ? 'pending' : 'undelivered', atMs: at });
  expect(known.steps.length).toBe(SENT_STEPS_MAX);
  expect(known.steps.at(-1)).toEqual({ state: known.state, atMs: 99 });
});

const clock = { nowMs: NOON_MS, floor: 0 };

test('the first receipt has the milliseconds as its seq, the next ones count up', () => {
  const first = nextReceipt(undefined, 'delivered', clock);
  expect(first).toEqual({ seq: NOON_MS, state: 'delivered', atMs: NOON_MS });
  expect(nextReceipt(first, 'read', { ...clock, nowMs: NOON_MS - 500 })).toMatchObject({ seq: NOON_MS + 1 });
});

test('a state that was said, or a lower one, is not said again', () => {
  const read: ReceiptRow = { seq: 5, state: 'read', atMs: 1 };
  for (const state of ['delivered', 'notified', 'read'] as const)
    expect(nextReceipt(read, state, clock)).toBeUndefined();
  expect(nextReceipt(read, 'acked', clock)).toMatchObject({ seq: 6, state: 'acked' });
  expect(repeatedReceipt(read, clock)).toEqual({ seq: 6, state: 'read', atMs: NOON_MS });
});

test('no seq is below the floor of a restore, so none is used twice', () => {
  const floor = NOON_MS + 1000;
  const copied: ReceiptRow = { seq: NOON_MS, state: 'delivered', atMs: NOON_MS };
  expect(nextReceipt(copied, 'read', { nowMs: NOON_MS, floor })).toMatchObject({ seq: floor });
  expect(nextReceipt(undefined, 'read', { nowMs: NOON_MS, floor })).toMatchObject({ seq: floor });
  expect(repeatedReceipt(copied, { nowMs: NOON_MS, floor })).toMatchObject({ seq: floor });
});

/** Returns what is known of a recipient after all of these, in this order. */
function apply(all: { state: DeliveryState; seq: number }[]): { state: RecipientState; seq: number } {
  const nothing: { state: RecipientState; seq: number } = { state: 'pending', seq: 0 };
  return all.reduce((known, receipt) => (movesRecipient(known, receipt) ? receipt : known), nothing);
}

test('receipts in any order and number end in the same state: the highest rank, then the highest seq', () => {
  const receipts = fc.array(
    fc.record({ state: fc.constantFrom(...DELIVERY_STATES), seq: fc.integer({ min: 1, max: 9 }) }),
    {
      minLength: 1,
    },
  );
  fc.assert(
    fc.property(receipts, fc.infiniteStream(fc.nat()), (all, dice) => {
      const shuffled = [...all, ...all]
        .map((receipt) => ({ receipt, at: dice.next().value as number }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ receipt }) => receipt);
      expect(apply(shuffled)).toEqual(apply(all));
      expect(apply([apply(all) as { state: DeliveryState; seq: number }, ...all])).toEqual(apply(all));
    }),
  );
});

test('whatever was said without a receipt is below every receipt', () => {
  for (const state of ['pending', 'quarantined', 'undelivered', 'unconfirmed', 'cancelled'] as const) {
    expect(movesRecipient({ state, seq: 99 }, { state: 'delivered', seq: 1 })).toBe(true);
  }
});

test('states rank from 1 on, and what was said without a receipt is 0', () => {
  expect(DELIVERY_STATES.map(deliveryRank)).toEqual([1, 2, 3, 4]);
  expect((['pending', 'undelivered', 'cancelled'] as RecipientState[]).map(deliveryRank)).toEqual([0, 0, 0]);
});

test('of two receipts of one state the later seq counts, and the same again changes nothing', () => {
  const known = { state: 'read', seq: 5 } as const;
  expect([4, 5, 6].map((seq) => movesRecipient(known, { state: 'read', seq }))).toEqual([false, false, true]);
  expect(movesRecipient(known, { state: 'acked', seq: 1 })).toBe(true);
  expect(movesRecipient(known, { state: 'notified', seq: 9 })).toBe(false);
});

describe('a copy of a message whose last receipt was issued at noon', () => {
  const FIRST = relay.key;
  const SECOND = hostNamed('second relay').key;
  const old = { relayPubkey: FIRST, storedAtMs: NOON_MS - 60_000 };
  const later = { relayPubkey: FIRST, storedAtMs: NOON_MS + 60_000 };
  const waiting = outboxRow({ kind: 'receipt', broughtBy: [FIRST] });
  const atFirst = { ...waiting, ...relayAccepted(), firstPushAtMs: NOON_MS };
  const lost = { ...atFirst, acceptance: { ...acceptance(NOON_MS), mayBeLost: true } as const };

  test.for([
    ['over the LAN, and it waits', waiting, null, 'nothing'],
    ['over the LAN, and a relay has it', atFirst, null, 'nothing'],
    ['over the LAN, and it was handed over', undefined, null, 'next'],
    ['over the same relay, from before, and it waits', waiting, old, 'nothing'],
    ['over the same relay, from after, and it waits', waiting, later, 'nothing'],
    ['over the same relay, from before, which has it', atFirst, old, 'nothing'],
    ['over the same relay, from after, which has it', atFirst, later, 'next'],
    ['over the same relay, from after, which lost it', lost, later, 'nothing'],
    ['over the same relay, from before, and it was handed over', undefined, old, 'nothing'],
    ['over the same relay, from after, and it was handed over', undefined, later, 'next'],
    ['over another relay, from before, and it waits', waiting, { ...old, relayPubkey: SECOND }, 'there-too'],
    ['over another relay, from after, and the first has it', atFirst, { ...later, relayPubkey: SECOND }, 'there-too'],
    ['over another relay, from before, and it was handed over', undefined, { ...old, relayPubkey: SECOND }, 'nothing'],
    ['over another relay, from after, and it was handed over', undefined, { ...later, relayPubkey: SECOND }, 'next'],
  ] as const)('%s', ([, row, copy, answer]) => {
    expect(answerToCopy({ atMs: NOON_MS, row, goesTo: [FIRST] }, copy)).toBe(answer);
  });

  test('is from after only when it was stored later than 5 seconds before: a measured clock is no better', () => {
    const last = { atMs: NOON_MS, row: undefined, goesTo: [] };
    const copies = [-5_000, -4_999, 0].map((ms) => ({ relayPubkey: FIRST, storedAtMs: NOON_MS + ms }));
    expect(copies.map((copy) => answerToCopy(last, copy))).toEqual(['nothing', 'next', 'next']);
  });
});
