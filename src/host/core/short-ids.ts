/**
 * How people and agents shorten an id: by its beginning or its end. Ids that a host makes one after another begin
 * alike, so an end is shorter.
 */

/** Fewer characters begin more than a few minutes of mail. */
export const ID_START_CHARACTERS_MIN = 6;
/** So many random characters are of one in a million. */
export const ID_END_CHARACTERS_MIN = 4;

export function isIdEnd(text: string, id: string): boolean {
  return text.length >= ID_END_CHARACTERS_MIN && id.endsWith(text);
}

/**
 * The ids that a text may mean: the one that it is, else those that begin with it, else those that end with it. The
 * caller says whether the text is long enough to be a beginning.
 */
export function idsLike(text: string, ids: readonly string[]): string[] {
  const different = [...new Set(ids)];
  if (different.includes(text)) return [text];
  const begun = different.filter((id) => id.startsWith(text));
  return begun.length > 0 ? begun : different.filter((id) => isIdEnd(text, id));
}

/** The refusal of a text that begins, or else ends, all of these ids; `shown` says which each is. */
export function severalIdsText(text: string, ids: readonly string[], shown: readonly string[]): string {
  const side = ids.every((id) => id.startsWith(text)) ? 'begin' : 'end';
  return `several ids ${side} with ${text}: ${shown.join(', ')}; give more of the one that you mean`;
}
