import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatBytes, jsonLine, table, formatTime } from '../../../../src/cli/lib/format.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';

test.each([
  [0, '0 bytes'],
  [999, '999 bytes'],
  [1000, '1.0 KB'],
  [12_345_678, '12.3 MB'],
  [5e15, '5000.0 TB'],
])('formatBytes of %i is %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

describe('jsonLine', () => {
  test('is one line that no terminal obeys, and the same document', () => {
    const document = { account: '\u001b]0;x\u0007\u009b31m\u202e\u{e0041}\u2028', name: 'Grüße' };
    const line = jsonLine(document);
    expect(line).toContain('\\u001b]0;x\\u0007\\u009b31m\\u202e\\udb40\\udc41\\u2028');
    expect(line).toContain('Grüße');
    expect(line.endsWith('}\n')).toBe(true);
    expect(JSON.parse(line)).toEqual(document);
  });

  test('property: any text comes back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const line = jsonLine({ text });
        expect(JSON.parse(line)).toEqual({ text });
        expect(isPrintable(line.slice(0, -1))).toBe(true);
      }),
    );
  });
});

describe('formatTime', () => {
  test('is to the minute, in UTC', () => {
    expect(formatTime(1_763_675_303_000)).toBe('2025-11-20 21:48Z');
    expect(formatTime(0)).toBe('1970-01-01 00:00Z');
    // A time that an authority made up.
    expect(formatTime(253_402_300_800_000)).toBe('+010000-01-01 00:00Z');
    expect(formatTime(Number.MAX_SAFE_INTEGER)).toBe('never');
  });
});

describe('table', () => {
  test('aligns text to the left and numbers to the right, and leaves nothing behind a line', () => {
    const columns = [
      { title: 'NAME', cell: ({ name }: { name: string }) => name },
      { title: 'N', cell: ({ name }: { name: string }) => String(name.length), isNumber: true },
      { title: 'LAST', cell: () => 'x' },
    ];
    expect(table(columns, [{ name: 'a' }, { name: 'a longer one' }])).toBe(
      ['NAME           N  LAST', 'a              1  x', 'a longer one  12  x', ''].join('\n'),
    );
  });

  test('cuts a cell that would push the others away', () => {
    const columns = [{ title: 'A', cell: (text: string) => text }];
    expect(table(columns, ['x'.repeat(70), 'y'.repeat(71)])).toBe(`A\n${'x'.repeat(70)}\n${'y'.repeat(69)}…\n`);
  });
});

test('a table of more rows than a call may have arguments is written too', () => {
  const rows = Array.from({ length: 200_000 }, (_none, at) => at);
  const text = table<number>([{ title: 'N', cell: String, isNumber: true }], rows);
  expect(text.slice(0, 14)).toBe('     N\n     0\n');
});
