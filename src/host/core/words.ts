/**
 * The words of a text, as the index of a mailbox holds them and as a search compares them. Pure.
 *
 * A text is folded first: NFC, lower case, one form of sigma. Accents stay, for in many languages another accent is
 * another letter. A word is a run of letters, marks and digits. Scripts that set no space between words (Chinese,
 * Japanese, Thai …) have each two neighbours instead, so that any part of a run is found. Intl.Segmenter would know
 * their words, but takes eighteen times as long, and another version of ICU may cut a text elsewhere than the index has
 * it.
 */
const UNSPACED = String.raw`[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]`;
const WORD = String.raw`[\p{L}\p{M}\p{N}]`;
const SPACED_WORD = `[${WORD}--${UNSPACED}]`;

const RUNS = new RegExp(`${SPACED_WORD}+|[${WORD}&&${UNSPACED}]+`, 'gv');
const HAS_UNSPACED = new RegExp(UNSPACED, 'v');
const BEGINS_SPACED = new RegExp(`^${SPACED_WORD}`, 'v');
const ENDS_SPACED = new RegExp(`${SPACED_WORD}$`, 'v');
/** Characters that mean something in a pattern. */
const SPECIAL = /[\\^$.*+?()[\]{}|/]/g;

/** The index has so many characters of a word: a longer one is found by them, and compared whole in the text. */
export const TERM_CHARACTERS_MAX = 40;

/** What the index is asked for: a term, or all terms that begin with the text. */
export interface Term {
  text: string;
  isPrefix: boolean;
}

/**
 * The index of a block of positions in a mailbox: the terms of its messages, sorted, in chunks. A block without this
 * row is not in the index, and is read.
 */
export interface WordBlockRow {
  /** By which its terms were made. */
  rules: string;
  /** The first term of each chunk. */
  firsts: string[];
  /** The messages whose terms are not here, as they are too many: their places in the block. */
  cut: Buffer;
  /** When its first and last message were stored, by the clock at that time. */
  sinceMs: number;
  untilMs: number;
}

export interface WordChunkRow {
  terms: string[];
  /** Of each term the number of its messages less one, and then their places in the block: a byte each. */
  places: Buffer;
}

export function foldText(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ');
}

/** The terms of a folded text, some more than once. */
export function termsOf(folded: string): string[] {
  const runs: string[] = folded.match(RUNS) ?? [];
  // Most texts: a look at each of their words would double what they take.
  if (!HAS_UNSPACED.test(folded)) return runs.map(cut);
  return runs.flatMap((run) => {
    if (BEGINS_SPACED.test(run)) return cut(run);
    const characters = Array.from(run);
    return characters.map((character, at) => character + (characters[at + 1] ?? ''));
  });
}

/**
 * The terms of which a text has one each where it has these folded characters; `isWhole`: none of its words goes on
 * behind them.
 */
export function termsIn(folded: string, isWhole: boolean): Term[] {
  const runs = folded.match(RUNS) ?? [];
  return runs.flatMap((run, place): Term[] => {
    const isOpen = place === runs.length - 1 && !isWhole && folded.endsWith(run);
    if (BEGINS_SPACED.test(run)) return [{ text: cut(run), isPrefix: isOpen }];
    const characters = Array.from(run);
    if (characters.length === 1) return [{ text: run, isPrefix: true }];
    return characters.slice(1).map((character, at) => ({ text: `${characters[at]}${character}`, isPrefix: false }));
  });
}

/** Finds these folded characters in a folded text, from the beginning of a word on; `isWhole` as in `termsIn`. */
export function patternOf(folded: string, isWhole: boolean): RegExp {
  const begin = BEGINS_SPACED.test(folded) ? `(?<!${SPACED_WORD})` : '';
  const end = isWhole && ENDS_SPACED.test(folded) ? `(?!${SPACED_WORD})` : '';
  const parts = folded.split(/\s+/u).map((part) => part.replaceAll(SPECIAL, String.raw`\$&`));
  return new RegExp(`${begin}${parts.join(String.raw`\s+`)}${end}`, 'v');
}

/** The beginning of a word: the cut must not leave half of a surrogate pair. */
function cut(word: string): string {
  return word.length <= TERM_CHARACTERS_MAX ? word : word.slice(0, TERM_CHARACTERS_MAX).replace(/[\uD800-\uDBFF]$/, '');
}
