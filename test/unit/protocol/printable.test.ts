import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isPrintable, jsonEscape, printable, printableText, printableWithin } from '../../../src/protocol/printable.ts';
import { anyText } from '../../support/any-text.ts';

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
    ['a joiner at the start', '\u200da', '\\u{200d}a'],
    ['a joiner at the end', 'क्\u200d', 'क्\\u{200d}'],
    ['a joiner before a space', 'می\u200c خ', 'می\\u{200c} خ'],
    ['joiners in a row', 'a\u200d\u200cb', 'a\\u{200d}\\u{200c}b'],
    ['a joiner between a letter and an emoji', 'a\u200d👩', 'a\\u{200d}👩'],
    ['a joiner beside a letter that is not seen', 'a\u200d\u3164', 'a\\u{200d}\\u{3164}'],
    ['letters that are not seen', '\u115f\u1160\uffa0', '\\u{115f}\\u{1160}\\u{ffa0}'],
    ['a grapheme joiner', 'a\u034fb', 'a\\u{34f}b'],
    ['a form of nothing', 'a\ufe0f', 'a\\u{fe0f}'],
    ['forms in a row, which carry bytes', '😀\ufe0f\ufe01\u{e0101}', '😀\ufe0f\\u{fe01}\\u{e0101}'],
    ['a form of a digit that is no key', '1\ufe0f', '1\\u{fe0f}'],
    ['tags behind an emoji', '😀\u{e0041}\u{e007f}', '😀\\u{e0041}\\u{e007f}'],
    ['a flag that is not in general use', '🏴\u{e0075}\u{e0073}\u{e007f}', '🏴\\u{e0075}\\u{e0073}\\u{e007f}'],
    ['a flag without its end', '🏴\u{e0067}\u{e0062}\u{e0065}', '🏴\\u{e0067}\\u{e0062}\\u{e0065}'],
    ['marks of direction', 'א\u200fb\u061c', 'א\\u{200f}b\\u{61c}'],
  ])('writes out %s', (_what, text, shown) => {
    expect(isPrintable(text)).toBe(false);
    expect(printable(text)).toBe(shown);
  });

  test.each([
    '',
    'laptop',
    'Grüße 你好 😀',
    'a b',
    '\\u{1b}',
    'org/team:user@example',
    'می\u200cخواهم کتاب\u200cها',
    'क्\u200dष श्री\u200cमान',
    'র\u200d্য',
    '👩\u200d👩\u200d👧\u200d👦',
    '👩🏽\u200d💻 🏳\ufe0f\u200d🌈 🏴\u200d☠\ufe0f ❤\ufe0f\u200d🔥',
    '1\ufe0f\u20e3 #\ufe0f\u20e3 ☎\ufe0e',
    '葛\u{e0100}飾',
    'ᠠ\u180b',
    '🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
    '🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}',
    '🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}',
  ])('leaves %j alone', (text) => {
    expect(isPrintable(text)).toBe(true);
    expect(printable(text)).toBe(text);
  });

  test('property: what was written out is printable', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        expect(isPrintable(printable(text))).toBe(true);
      }),
    );
  });
});

/** The invisible characters, and what they may stand beside. */
const INVISIBLE = [
  '\u200c',
  '\u200d',
  '\ufe0e',
  '\ufe0f',
  '\u200b',
  '\u202e',
  '\u3164',
  '\u00ad',
  '\u{e0067}',
  '\u{e007f}',
];
const VISIBLE = ['a', 'م', 'क', '्', '你', '1', ' ', '.', '👩', '🏽', '☠', '🏴', '\u20e3'];
const mixed = fc
  .array(fc.oneof(fc.constantFrom(...INVISIBLE), fc.constantFrom(...INVISIBLE, ...VISIBLE)), { maxLength: 12 })
  .map((pieces) => pieces.join(''));

describe('what is not seen', () => {
  test('property: alone, it is never shown', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...INVISIBLE)), (characters) => {
        expect(printable(characters.join(''))).toMatch(/^(?:\\u\{[0-9a-f]+\})*$/);
      }),
    );
  });

  test('property: what is shown of it stands between what is seen', () => {
    const letter = '(?:a|م|क|्|你|\u20e3)';
    const emoji = '(?:👩|☠|🏴)';
    const joined = `(?<=${letter})[\u200c\u200d](?=${letter})|(?<=${emoji}(?:🏽|\ufe0f)?)\u200d(?=${emoji})`;
    const formed = `(?<=${emoji})[\ufe0e\ufe0f]|(?<=1)\ufe0f(?=\u20e3)`;
    const spelled = [new RegExp(joined, 'gu'), new RegExp(formed, 'gu')];
    fc.assert(
      fc.property(mixed, (text) => {
        const left = spelled.reduce((rest, one) => rest.replace(one, ''), printable(text));
        expect(INVISIBLE.filter((character) => left.includes(character))).toEqual([]);
      }),
    );
  });

  test('property: a text with escapes reads back as what it was', () => {
    fc.assert(
      fc.property(fc.oneof(mixed, anyText()), (text) => {
        fc.pre(!text.includes('\\u{'));
        const read = printable(text).replaceAll(/\\u\{([0-9a-f]+)\}/g, (_escape, code: string) =>
          String.fromCodePoint(Number.parseInt(code, 16)),
        );
        expect(read).toBe(text);
      }),
    );
  });
});

test('of a text with lines, their ends and tabs stay', () => {
  expect(printableText('a\u202e\n\tb\u200d\r\n\nc\rd')).toBe('a\\u{202e}\n\tb\\u{200d}\n\nc\\u{d}d');
});

describe('printable and bounded', () => {
  test.each([
    ['ab', 4, 'ab'],
    ['abcd', 4, 'abcd'],
    ['abcde', 4, 'abc…'],
    ['a\u202e', 20, 'a\\u{202e}'],
    ['\u202e\u202e', 10, '\\u{202e}\\…'],
    ['👩\u200d👩\u200d👧 and more', 6, '👩\u200d👩…'],
    ['می\u200cخواهم', 4, 'می…'],
  ])('of %j within %i', (text, max, shown) => {
    expect(printableWithin(text, max)).toBe(shown);
  });

  test('property: printable, never longer, and the text itself where that is both', () => {
    fc.assert(
      fc.property(fc.oneof(anyText(), mixed), fc.integer({ min: 1, max: 12 }), (text, max) => {
        const shown = printableWithin(text, max);
        expect(shown.length).toBeLessThanOrEqual(max);
        expect(isPrintable(shown)).toBe(true);
        expect(shown === text).toBe(isPrintable(text) && text.length <= max);
      }),
    );
  });

  test('property: a JSON text with every other character escaped is the same JSON', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const escaped = printable(JSON.stringify(text), jsonEscape);
        expect(isPrintable(escaped)).toBe(true);
        expect(JSON.parse(escaped)).toBe(text);
      }),
    );
  });
});
