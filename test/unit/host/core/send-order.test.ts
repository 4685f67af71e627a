/** Messages to one host leave in the order in which they were sent, whatever each of them has to wait for. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { OutboxRow } from '../../../../src/host/core/rows.ts';
import { sendOrder } from '../../../../src/host/core/transport-choice.ts';

const row = (rowId: number, changes: Partial<OutboxRow> = {}): OutboxRow =>
  ({ rowId, kind: 'envelope', state: 'pending', lastError: null, firstPushAtMs: null, ...changes }) as OutboxRow;

const UNANSWERED = { lastError: 'the host did not answer (ECONNREFUSED)', nextAtMs: 50 };
const REFUSED = { lastError: 'rejected:quota:queue_items', firstPushAtMs: 1, nextAtMs: 70 };

function orderOf(due: OutboxRow[], waiting: OutboxRow[]): { sooner: number[]; later: [number, number][] } {
  const { sooner, later } = sendOrder(due, waiting);
  return {
    sooner: sooner.map(({ rowId }) => rowId),
    later: later.map(({ row: { rowId }, untilMs }) => [rowId, untilMs]),
  };
}

describe('the order in which messages leave', () => {
  test('earlier ones that had no answer go with a later one that is due', () => {
    const waiting = [row(3, UNANSWERED), row(1, UNANSWERED), row(9, UNANSWERED)];
    expect(orderOf([row(5)], waiting)).toEqual({ sooner: [3, 1], later: [] });
  });

  test('one that found no way goes with it too; one that a v1 relay has, a receipt and an accepted one do not', () => {
    const waiting = [
      row(1, { nextAtMs: 9 }),
      row(2, { firstPushAtMs: 1 }),
      row(3, { ...UNANSWERED, kind: 'receipt' }),
      row(4, { ...UNANSWERED, state: 'relay-accepted' }),
    ];
    expect(orderOf([row(5)], waiting)).toEqual({ sooner: [1], later: [] });
  });

  test('behind one that was refused for want of room later ones wait, and earlier ones do not', () => {
    const waiting = [row(2, REFUSED), row(4, { ...REFUSED, nextAtMs: 80 })];
    expect(orderOf([row(5), row(3), row(1)], waiting)).toEqual({
      sooner: [],
      later: [
        [3, 70],
        [5, 80],
      ],
    });
  });

  test.each(['too large', 'conflict', 'malformed', 'quarantine full'])(
    'one that was refused as %s holds up no other',
    (code) => {
      const waiting = [row(1, { ...REFUSED, lastError: `rejected:${code}` })];
      expect(orderOf([row(2)], waiting)).toEqual({ sooner: [], later: [] });
    },
  );

  test('a receipt that is due brings nothing forward and waits behind nothing', () => {
    const receipt = row(5, { kind: 'receipt' });
    expect(orderOf([receipt], [row(1, UNANSWERED), row(2, REFUSED)])).toEqual({ sooner: [], later: [] });
  });

  test('of what is sent then, no message stands before an earlier one that waits for another try', () => {
    const some = fc.uniqueArray(
      fc.record({ id: fc.integer({ min: 1, max: 30 }), kind: fc.constantFrom('due', 'unanswered', 'refused') }),
      { selector: ({ id }) => id, maxLength: 20 },
    );
    fc.assert(
      fc.property(some, (rows) => {
        const of = (kind: string, changes = {}): OutboxRow[] =>
          rows.filter((one) => one.kind === kind).map(({ id }) => row(id, changes));
        const waiting = [...of('unanswered', UNANSWERED), ...of('refused', REFUSED)];
        const { sooner, later } = orderOf(of('due'), waiting);
        const held = new Set(later.map(([id]) => id));
        const sent = [...of('due').map(({ rowId }) => rowId), ...sooner].filter((id) => !held.has(id));
        const left = waiting.map(({ rowId }) => rowId).filter((id) => !sooner.includes(id));
        const last = Math.max(0, ...sent);
        expect(left.filter((id) => id < last)).toEqual([]);
      }),
    );
  });
});
