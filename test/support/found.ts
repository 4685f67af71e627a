/** What is there, as the test knows; `missing` says what it means that it is not. */
export function found<T>(value: T | undefined | null, missing: string): T {
  if (value === undefined || value === null) throw new Error(missing);
  return value;
}
