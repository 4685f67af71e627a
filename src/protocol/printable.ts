/**
 * Words that others chose, shown to people: a terminal obeys control characters, format characters turn text around,
 * and a line break forges a line.
 */

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;
const EVERY_UNPRINTABLE = new RegExp(UNPRINTABLE, 'gu');

/** Whether every character of the text is only what it looks like. */
export function isPrintable(text: string): boolean {
  return !UNPRINTABLE.test(text);
}

/** With every other character written out by `escape`; as `\u{1b}` without one. */
export function printable(text: string, escape: (character: string) => string = escapeOf): string {
  return text.replace(EVERY_UNPRINTABLE, (character) => escape(character));
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`;
}
