import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SenderRow, TableName, Tables } from '../../../../src/relay/core/rows.ts';
import { RecentRows } from '../../../../src/relay/engine/open-batch.ts';

const KEPT_AT_MOST = 10_000;

/** Rows of the sender table behind `RecentRows`, and how often they were read. */
class Stored {
  readonly rows = new Map<string, SenderRow>();
  reads = 0;
  readonly recent = new RecentRows({
    get: <T extends TableName>(_table: T, key: string) => {
      this.reads++;
      return this.rows.get(key) as Tables[T] | undefined;
    },
  });

  get(key: string): SenderRow | undefined {
    return this.recent.get('sender', key);
  }

  change(key: string, row: SenderRow | null): void {
    this.recent.changed({ table: 'sender', key, row });
    if (row) this.rows.set(key, row);
    else this.rows.delete(key);
  }
}

test('a row is read once, and so is its absence', () => {
  const stored = new Stored();
  stored.rows.set('a', { dedupRows: 1 });
  for (let time = 0; time < 3; time++) {
    expect(stored.get('a')).toEqual({ dedupRows: 1 });
    expect(stored.get('b')).toBeUndefined();
  }
  expect(stored.reads).toBe(2);
});

test('a change is what is read from then on, a deletion too', () => {
  const stored = new Stored();
  expect(stored.get('a')).toBeUndefined();
  stored.change('a', { dedupRows: 1 });
  expect(stored.get('a')).toEqual({ dedupRows: 1 });
  stored.change('a', null);
  expect(stored.get('a')).toBeUndefined();
  expect(stored.reads).toBe(1);
});

test('rows of queues and dedup are not kept', () => {
  const stored = new Stored();
  for (let time = 0; time < 2; time++) {
    for (const table of ['queue', 'dedup', 'heartbeat'] as const) stored.recent.get(table, 'a');
  }
  expect(stored.reads).toBe(6);
});

test('tables do not see each other', () => {
  const { recent } = new Stored();
  recent.changed({ table: 'sender', key: 'a', row: { dedupRows: 1 } });
  recent.changed({ table: 'share', key: 'a', row: { items: 2, bytes: 3 } });
  expect(recent.get('sender', 'a')).toEqual({ dedupRows: 1 });
  expect(recent.get('share', 'a')).toEqual({ items: 2, bytes: 3 });
  expect(recent.get('account', 'a')).toBeUndefined();
});

describe('beyond 10,000 rows', () => {
  test('the one that is longest here gives way and is read again', () => {
    const stored = new Stored();
    for (let key = 0; key < KEPT_AT_MOST; key++) stored.change(`k${key}`, { dedupRows: key + 1 });
    stored.change('one more', { dedupRows: 1 });
    expect(stored.get('k1')).toEqual({ dedupRows: 2 });
    expect(stored.reads).toBe(0);
    expect(stored.get('k0')).toEqual({ dedupRows: 1 });
    expect(stored.reads).toBe(1);
  });

  test('any changes and reads show what is stored', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(KEPT_AT_MOST + 20), fc.option(fc.nat(9), { freq: 4 })), {
          maxLength: 60,
          size: 'max',
        }),
        (steps) => {
          const stored = new Stored();
          for (let key = 0; key < KEPT_AT_MOST + 10; key++) stored.change(`k${key}`, { dedupRows: key + 1 });
          for (const [key, count] of steps) {
            stored.change(`k${key}`, count === null ? null : { dedupRows: count + 1 });
            const other = `k${(key * 7919) % (KEPT_AT_MOST + 20)}`;
            expect(stored.get(other)).toEqual(stored.rows.get(other));
            expect(stored.get(`k${key}`)).toEqual(stored.rows.get(`k${key}`));
          }
        },
      ),
      { numRuns: 20 },
    );
  });
});
