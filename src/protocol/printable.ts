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

/** As `printable`, and no longer than that: what others say may be of any length. */
export function printableWithin(text: string, charactersMax: number): string {
  const written = printable(text.slice(0, charactersMax));
  const isWhole = text.length <= charactersMax && written.length <= charactersMax;
  // No half of a character is left at the cut.
  return isWhole ? written : `${written.slice(0, charactersMax - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

/** In a text of JSON: `\u001b`. */
export function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`;
}
