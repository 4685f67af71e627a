import * as fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { type Column, cutTo, shortIds, table } from '../../../../src/cli/lib/table.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';
import { anyText } from '../../../support/any-text.ts';
import { PIPE, terminal } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

interface Named {
  name: string;
}

const TEXT: Column<string> = { title: 'A', cell: (text) => text };

describe('table', () => {
  test('aligns text to the left and numbers to the right, and leaves nothing behind a line', () => {
    const columns: Column<Named>[] = [
      { title: 'NAME', cell: ({ name }) => name },
      { title: 'N', cell: ({ name }) => String(name.length), isNumber: true },
      { title: 'LAST', cell: () => 'x' },
    ];
    expect(table(PIPE, [{ name: 'a' }, { name: 'a longer one' }], columns)).toBe(
      ['NAME           N  LAST', 'a              1  x', 'a longer one  12  x', ''].join('\n'),
    );
  });

  test('is whole in a pipe', () => {
    const long = 'x'.repeat(500);
    expect(table(PIPE, [long], [TEXT])).toBe(`A\n${long}\n`);
  });

  test('cuts the widest text to the width of the terminal, and leaves numbers, times and ids whole', () => {
    const columns: Column<string>[] = [
      { title: 'ID', id: () => '06EXAMPLE0000000000000000' },
      { title: 'FROM', cell: () => 'builder@laptop' },
      { title: 'SINCE', time: () => NOON_MS - 86_400_000 },
      { title: 'BYTES', cell: () => '123456789', isNumber: true },
      { title: 'SUBJECT', cell: (text) => text },
    ];
    const subject = 'Please look at the branch before noon';
    const [head, row] = table(terminal(80), [subject], columns).split('\n');
    expect(head).toBe('ID            FROM            SINCE                 BYTES  SUBJECT');
    expect(row).toBe('06EXAMPLE000  builder@laptop  2025-11-19 21:48  123456789  Please look at the b…');
    expect(stringWidth(row ?? '')).toBe(80);
    // Both texts give way, the wider one first.
    const narrow = table(terminal(66), [subject], columns).split('\n');
    expect(narrow[1]).toBe('06EXAMPLE000  builder@l…  2025-11-19 21:48  123456789  Please loo…');
  });

  test('counts wide characters and emoji as a terminal shows them', () => {
    const columns: Column<string>[] = [TEXT, { title: 'B', cell: () => '|' }];
    const texts = ['日本語', 'e\u0301', '👍🏽', '🇩🇪', 'plain'];
    const lines = table(PIPE, texts, columns).trimEnd().split('\n');
    expect(new Set(lines.map((line) => stringWidth(line)))).toEqual(new Set([9]));
  });

  test('shows a time that is none as a dash', () => {
    expect(table(PIPE, [''], [{ title: 'T', time: () => null }])).toBe('T\n-\n');
  });

  test('has colours where the screen has them, and the same widths', () => {
    const columns: Column<string>[] = [
      { ...TEXT, style: () => 'green' },
      { title: 'B', cell: () => 'x' },
    ];
    const plain = table(terminal(80), ['yes', 'no'], columns);
    const colored = table(terminal(80, { hasColor: true }), ['yes', 'no'], columns);
    expect(colored).toContain('\u001b[32mno\u001b[39m   x\n');
    // oxlint-disable-next-line no-control-regex -- the escape sequences of colours
    expect(colored.replaceAll(/\u001b\[[0-9]+m/g, '')).toBe(plain);
  });

  test('property: no text of others reaches the terminal raw, or makes a line too wide', () => {
    const columns: Column<string>[] = [TEXT, { title: 'B', id: (text) => text || null }, { ...TEXT, title: 'C' }];
    fc.assert(
      fc.property(fc.array(anyText({ maxLength: 60 }), { minLength: 1, maxLength: 4 }), (texts) => {
        const lines = table(terminal(120), texts, columns).slice(0, -1).split('\n');
        expect(lines).toHaveLength(texts.length + 1);
        for (const line of lines) expect(isPrintable(line)).toBe(true);
      }),
    );
  });

  test('of more rows than a call may have arguments is written too', () => {
    const rows = Array.from({ length: 200_000 }, (_none, at) => at);
    const text = table<number>(PIPE, rows, [{ title: 'N', cell: String, isNumber: true }]);
    expect(text.slice(0, 14)).toBe('     N\n     0\n');
  });
});

describe('cutTo', () => {
  test.each([
    ['whole', 5, 'whole'],
    ['longer', 5, 'long…'],
    ['日本語', 5, '日本…'],
    ['日本語', 4, '日…'],
    ['👩‍👩‍👧👩‍👩‍👧', 3, '👩‍👩‍👧…'],
    ['می\u200cخواهم', 3, 'می…'],
    ['', 1, ''],
  ])('%j in %i columns is %j', (text, columns, cut) => {
    expect(cutTo(text, columns)).toBe(cut);
  });

  test('property: fits, and holds no half of a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 40 }), (text, columns) => {
        const cut = cutTo(text, columns);
        expect(stringWidth(cut)).toBeLessThanOrEqual(columns);
        expect(cut.isWellFormed()).toBe(text.isWellFormed());
      }),
    );
  });
});

describe('shortIds', () => {
  test('keeps twelve characters, and eight of a fingerprint', () => {
    const ids = ['06EXAMPLE0000000000000000', 'SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y', 'm1'];
    expect(shortIds(ids)).toEqual(['06EXAMPLE000', 'SHA256:YGR2P3Va', 'm1']);
  });

  test('keeps more where ids of the table begin alike', () => {
    expect(shortIds(['06EXAMPLE000A1xx', '06EXAMPLE000A2xx', '06EXAMPLE000A1xx'])).toEqual([
      '06EXAMPLE000A1',
      '06EXAMPLE000A2',
      '06EXAMPLE000A1',
    ]);
  });
});
