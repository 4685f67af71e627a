/**
 * Makes untrusted text safe to show: terminals obey control characters, format characters reorder text or hide in it,
 * and a line break can forge a line.
 */

/**
 * Invisible characters that are spelling, each where it belongs: a joiner between two letters, as in Persian and Hindi,
 * or between two emoji; the form of an emoji, of a Han or of a Mongolian letter; and the tags of the flags of England,
 * Scotland and Wales, the only ones in general use (RGI_Emoji_Tag_Sequence, UTS #51).
 */
const SPELLING = [
  String.raw`[\u200C\u200D](?<=(?!\p{DI})[\p{L}\p{M}].)(?=(?!\p{DI})[\p{L}\p{M}])`,
  String.raw`\u200D(?<=(?!\p{C})\p{ExtPict}[\uFE0F\p{Emoji_Modifier}]?.)(?=(?!\p{C})\p{ExtPict})`,
  String.raw`[\uFE0E\uFE0F](?<=(?!\p{C})\p{ExtPict}.)`,
  String.raw`\uFE0F(?<=[0-9#*].)(?=\u20E3)`,
  String.raw`[\uFE00-\uFE02\u{E0100}-\u{E01EF}](?<=\p{Script=Han}.)`,
  String.raw`[\u180B-\u180D\u180F](?<=(?!\p{DI})\p{Script=Mongolian}.)`,
  String.raw`\u{1F3F4}\u{E0067}\u{E0062}` +
    String.raw`(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F}`,
];
/**
 * The characters of category C, or ignorable where they are shown (Default_Ignorable_Code_Point), or a line break of
 * Unicode.
 */
const UNPRINTABLE = String.raw`[\p{C}\p{DI}\p{Zl}\p{Zp}]`;
const SPELLED_OR_NOT = new RegExp(`(${SPELLING.join('|')})|${UNPRINTABLE}`, 'gu');
const UNPRINTABLE_END = new RegExp(`${UNPRINTABLE}+$`, 'u');

/** Says whether nothing in the text must be escaped. */
export function isPrintable(text: string): boolean {
  return printable(text) === text;
}

/** The text with each character that obeys, hides or deceives escaped: by `escape`, or in the form `\u{1b}`. */
export function printable(text: string, escape: (character: string) => string = escapeOf): string {
  return text.replace(SPELLED_OR_NOT, (found, spelled?: string) => spelled ?? escape(found));
}

/** Does as `printable` to a text of several lines: their ends and tabs stay. */
export function printableText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(/[^\t\n]+/g, (part) => printable(part));
}

/** Does as `printable`, and cuts the text to this length: untrusted text may have any length. */
export function printableWithin(text: string, charactersMax: number): string {
  const written = printable(text.slice(0, charactersMax));
  const isWhole = text.length <= charactersMax && written.length <= charactersMax;
  return isWhole ? written : `${withoutOpenEnd(written.slice(0, charactersMax - 1))}…`;
}

/** A printable text that was cut, without what may end it only inside: a joiner, or half of a surrogate pair. */
export function withoutOpenEnd(text: string): string {
  return text.replace(UNPRINTABLE_END, '');
}

/** The escape of JSON: `\u001b`. */
export function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`;
}
