/** The words of a command line whose words `shellWord` quoted. */
export function shellWords(line: string): string[] {
  return [...line.matchAll(/(?:'[^']*'|\\.|[^\s'\\])+/g)].map(([word]) => word.replaceAll(/'([^']*)'|\\(.)/g, '$1$2'));
}

/** Quotes `word` for a POSIX shell, where it needs quotes: for command lines that people copy or a shell runs. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9@%+=:,./_-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
