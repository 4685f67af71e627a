/** Query parameters as routes read them. */

/** The value of a parameter that is there exactly once. */
export function onlyParameter(query: string | undefined, name: string): string | undefined {
  const values = new URLSearchParams(query ?? '').getAll(name);
  return values.length === 1 ? values[0] : undefined;
}

export function isRepeated(query: string | undefined, name: string): boolean {
  return new URLSearchParams(query ?? '').getAll(name).length > 1;
}

/** A whole number of at most 16 digits, sign and fraction left out. */
export function wholeNumber(text: string): number | undefined {
  if (!/^[0-9]{1,16}$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}
