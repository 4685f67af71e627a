import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { movesRecipient, nextReceipt, repeatedReceipt } from '../../../src/host/core/receipts.ts';
import type { ReceiptRow, RecipientState } from '../../../src/host/core/rows.ts';
import { DELIVERY_STATES, type DeliveryState } from '../../../src/protocol/documents.ts';
import { NOON_MS } from '../../support/test-clock.ts';

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

/** What is known of a recipient after all of these, in this order. */
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
