/** Times: whole milliseconds since the Unix epoch on the wire, ISO 8601 in UTC where people and agents read them. */

/** The last time that a `Date` can represent (ECMA-262, 21.4.1.1). A document with a later time is malformed. */
export const TIME_MS_MAX = 8_640_000_000_000_000;

export function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= TIME_MS_MAX;
}

/** The time in UTC, to the millisecond; a number that is not a time is returned as it is. Never throws. */
export function isoTime(timeMs: number): string {
  // oxlint-disable-next-line no-restricted-globals -- uses only its argument, and reads no clock
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}

/** The time in UTC, to the second: how answers to people and agents say it. */
export function isoSecond(timeMs: number): string {
  return isoTime(timeMs).replace(/\.\d{3}Z$/, 'Z');
}

/** `isoTime` of a time that may not have come. */
export function isoTimeOrNull(timeMs: number | null): string | null {
  return timeMs === null ? null : isoTime(timeMs);
}

/** `isoSecond` of a time that may not have come. */
export function isoSecondOrNull(timeMs: number | null): string | null {
  return timeMs === null ? null : isoSecond(timeMs);
}

/** The milliseconds of a time in ISO 8601; NaN for another text. */
export function timeMsOf(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- uses only its argument, and reads no clock
  return Date.parse(text);
}
