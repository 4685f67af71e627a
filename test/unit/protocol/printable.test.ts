import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isPrintable, jsonEscape, printable, printableWithin } from '../../../src/protocol/printable.ts';

describe('printable', () => {
  test.each([
    ['a terminal command', 'a\u001b[2Jb', 'a\\u{1b}[2Jb'],
    ['a C1 control', '\u009b', '\\u{9b}'],
    ['a line break', 'a\r\nb', 'a\\u{d}\\u{a}b'],
    ['a Unicode line break', 'a\u2028b\u2029', 'a\\u{2028}b\\u{2029}'],
    ['text turned around', 'a\u202eb\u2066', 'a\\u{202e}b\\u{2066}'],
    ['an invisible character', 'a\u200bb\ufeff', 'a\\u{200b}b\\u{feff}'],
    ['a tag', '\u{e0041}', '\\u{e0041}'],
    ['half a character', '\ud800', '\\u{d800}'],
    ['a delete', '\u007f', '\\u{7f}'],
  ])('writes out %s', (_what, text, shown) => {
    expect(isPrintable(text)).toBe(false);
    expect(printable(text)).toBe(shown);
  });

  test.each(['', 'laptop', 'Grüße 你好 😀', 'a b', '\\u{1b}', 'org/team:user@example'])('leaves %j alone', (text) => {
    expect(isPrintable(text)).toBe(true);
    expect(printable(text)).toBe(text);
  });

  test('property: what was written out is printable', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(isPrintable(printable(text))).toBe(true);
      }),
    );
  });
});

describe('printable and bounded', () => {
  test.each([
    ['ab', 4, 'ab'],
    ['abcd', 4, 'abcd'],
    ['abcde', 4, 'abc…'],
    ['a\u202e', 20, 'a\\u{202e}'],
    ['\u202e\u202e', 10, '\\u{202e}\\…'],
  ])('of %j within %i', (text, max, shown) => {
    expect(printableWithin(text, max)).toBe(shown);
  });

  test('property: printable, never longer, and the text itself where that is both', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 12 }), (text, max) => {
        const shown = printableWithin(text, max);
        expect(shown.length).toBeLessThanOrEqual(max);
        expect(isPrintable(shown)).toBe(true);
        expect(shown === text).toBe(isPrintable(text) && text.length <= max);
      }),
    );
  });

  test('property: a JSON text with every other character escaped is the same JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const escaped = printable(JSON.stringify(text), jsonEscape);
        expect(isPrintable(escaped)).toBe(true);
        expect(JSON.parse(escaped)).toBe(text);
      }),
    );
  });
});
