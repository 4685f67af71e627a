/** Time spans and counts as text for people. Pure. */

const UNITS: readonly [ms: number, one: string][] = [
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1000, 'second'],
];

/** In the largest unit that fits at least twice: `90 minutes`, `3 days`. */
export function spanText(ms: number): string {
  const [unitMs, one] = UNITS.find(([atLeastMs]) => ms >= 2 * atLeastMs) ?? [1000, 'second'];
  return countText(Math.max(0, Math.floor(ms / unitMs)), one);
}

/** `1 message`, `2 messages`; `many` where that is no `s`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `a moment ago`, `3 hours ago`. */
export function agoText(ms: number): string {
  return ms < 2000 ? 'a moment ago' : `${spanText(ms)} ago`;
}
