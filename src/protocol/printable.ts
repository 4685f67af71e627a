/**
 * Makes untrusted text safe to show: terminals obey control characters, format characters reorder text, and a line
 * break can forge a line.
 */

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;
const EVERY_UNPRINTABLE = new RegExp(UNPRINTABLE, 'gu');

/** Whether the text has none of these characters. */
export function isPrintable(text: string): boolean {
  return !UNPRINTABLE.test(text);
}

/** The text with each such character escaped: by `escape`, or in the form `\u{1b}`. */
export function printable(text: string, escape: (character: string) => string = escapeOf): string {
  return text.replace(EVERY_UNPRINTABLE, (character) => escape(character));
}

/** As `printable`, and cut to this length: untrusted text may have any length. */
export function printableWithin(text: string, charactersMax: number): string {
  const written = printable(text.slice(0, charactersMax));
  const isWhole = text.length <= charactersMax && written.length <= charactersMax;
  // The cut must not leave half of a surrogate pair.
  return isWhole ? written : `${written.slice(0, charactersMax - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

/** The escape of JSON: `\u001b`. */
export function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`;
}
