/** A word of a command line that somebody is to copy, or that a shell is to run. */

/** As one word of a POSIX shell, whatever is in it. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9@%+=:,./_-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
