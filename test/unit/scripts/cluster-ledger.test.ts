/** The account of `npm run cluster`: it finds what is lost, doubled or contradicts itself, and nothing else. */
import { expect, test } from 'vitest';
import { Ledger, STOP_MS } from '../../../scripts/cluster/ledger.ts';

const first = { epoch: 'one', seq: 1 };
const second = { epoch: 'one', seq: 2 };

function ledgerWith(...items: string[]): Ledger {
  const ledger = new Ledger();
  for (const [index, item] of items.entries()) ledger.accept(item, 'lab', { epoch: 'one', seq: index + 1 }, 0);
  return ledger;
}

test('what was accepted waits until it arrives, and is then neither lost nor doubled', () => {
  const ledger = ledgerWith('a', 'b');
  expect(ledger.counts).toMatchObject({ accepted: 2, arrived: 0, waiting: 2, lost: 0 });
  expect(ledger.isClean).toBe(false);
  expect(ledger.arrive('a', 'lab', first)).toBe(true);
  ledger.arrive('b', 'lab', second);
  ledger.pass('lab', second);
  expect(ledger.counts).toMatchObject({ arrived: 2, waiting: 0, lost: 0, doubled: 0 });
  expect(ledger.isClean).toBe(true);
});

test('an item is lost when its target has everything behind it', () => {
  const ledger = ledgerWith('a', 'b');
  ledger.arrive('b', 'lab', second);
  ledger.pass('lab', second);
  expect(ledger.counts).toMatchObject({ lost: 1, waiting: 0 });
  expect(ledger.isClean).toBe(false);
});

test('also when the receipt comes after its target went past the place', () => {
  const ledger = new Ledger();
  ledger.pass('lab', second);
  ledger.accept('a', 'lab', first, 0);
  expect(ledger.counts.lost).toBe(1);
});

test('what another host, or another epoch, went past is not lost', () => {
  const ledger = ledgerWith('a');
  ledger.pass('desktop', second);
  ledger.pass('lab', { epoch: 'two', seq: 9 });
  expect(ledger.counts).toMatchObject({ lost: 0, waiting: 1 });
});

test('an item is doubled when it comes at two places of one epoch, and only known when it comes again', () => {
  const ledger = ledgerWith('a');
  ledger.arrive('a', 'lab', first);
  expect(ledger.arrive('a', 'lab', first)).toBe(false);
  ledger.arrive('a', 'lab', { epoch: 'two', seq: 7 });
  expect(ledger.counts).toMatchObject({ arrived: 1, doubled: 0, cameAgain: 2 });
  ledger.arrive('a', 'lab', second);
  expect(ledger.counts.doubled).toBe(1);
});

test('two items at one place, and an item that comes to another host, are faults', () => {
  const ledger = ledgerWith('a');
  ledger.accept('a', 'lab', first, 0);
  expect(ledger.faults).toEqual([]);
  ledger.accept('b', 'lab', first, 0);
  expect(ledger.faults).toHaveLength(1);
  ledger.arrive('b', 'desktop', first);
  expect(ledger.faults).toHaveLength(2);
});

test('an outage is the time between two acceptances, when that is long', () => {
  const ledger = ledgerWith('a');
  expect(ledger.accept('b', 'lab', second, STOP_MS - 1)).toBeUndefined();
  expect(ledger.lastStopMs).toBeUndefined();
  expect(ledger.accept('c', 'lab', { epoch: 'one', seq: 3 }, 3 * STOP_MS)).toBe(2 * STOP_MS + 1);
  expect(ledger.lastStopMs).toBe(2 * STOP_MS + 1);
});

test('an epoch counts once, also when an answer of an old one comes late', () => {
  const ledger = new Ledger();
  expect(['one', 'two', 'one', 'two'].map((epoch) => ledger.sawEpoch(epoch))).toEqual([true, true, false, false]);
  expect([ledger.epoch, ledger.counts.epochChanges]).toEqual(['two', 1]);
});
