import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RowChange } from '../../../../src/relay/core/rows.ts';
import { RowOverlay } from '../../../../src/relay/engine/open-batch.ts';

const change: fc.Arbitrary<RowChange> = fc.oneof(
  fc.record({
    table: fc.constant('sender' as const),
    key: fc.constantFrom('a', 'b', ''),
    row: fc.option(fc.record({ dedupRows: fc.nat(9) })),
  }),
  fc.record({
    table: fc.constantFrom('share' as const, 'account' as const),
    key: fc.constantFrom('a', 'b', ''),
    row: fc.option(fc.record({ items: fc.nat(9), bytes: fc.nat(9) })),
  }),
);

test('holds the last change of each row, deletions too, and counts each once', () => {
  fc.assert(
    fc.property(fc.array(change), (changes) => {
      const overlay = new RowOverlay();
      const last = new Map<string, RowChange>();
      for (const one of changes) {
        overlay.set(one);
        last.set(JSON.stringify([one.table, one.key]), one);
      }
      expect(overlay.size).toBe(last.size);
      expect(new Set(overlay.changes())).toEqual(new Set(last.values()));
      for (const table of ['sender', 'share', 'account', 'queue'] as const) {
        for (const key of ['a', 'b', '']) expect(overlay.get(table, key)).toBe(last.get(JSON.stringify([table, key])));
      }
    }),
  );
});
