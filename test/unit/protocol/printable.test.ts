import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isPrintable, printable } from '../../../src/protocol/printable.ts';

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
