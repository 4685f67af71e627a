/**
 * Suggestions for a name that does not exist: the nearest known names by edit distance.
 *
 * The distance counts insertions, deletions, changes and swaps of neighbours (optimal string alignment), without case.
 * A name without a host is also compared with the names of agents at paired hosts.
 */
const SUGGESTIONS_MAX = 3;
const DISTANCE_MAX = 3;
/** One mistake is allowed for each such number of characters. */
const CHARACTERS_PER_MISTAKE = 3;

/** At most three of `known`, nearest first, then alphabetically. */
export function suggestions(written: string, known: Iterable<string>): string[] {
  const text = written.toLowerCase();
  const limit = Math.min(DISTANCE_MAX, Math.max(1, Math.floor(text.length / CHARACTERS_PER_MISTAKE)));
  const found: { candidate: string; distance: number }[] = [];
  for (const candidate of new Set(known)) {
    const distance = Math.min(...formsOf(candidate, text).map((form) => distanceOf(text, form, limit)));
    if (distance <= limit) found.push({ candidate, distance });
  }
  return found
    .toSorted((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, SUGGESTIONS_MAX)
    .map(({ candidate }) => candidate);
}

function formsOf(candidate: string, text: string): string[] {
  const folded = candidate.toLowerCase();
  if (folded.startsWith('role:')) return [folded, folded.slice('role:'.length)];
  return text.includes('@') ? [folded] : [folded, folded.split('@', 1)[0] ?? folded];
}

/** The edit distance, or a number above `limit` as soon as it must be above. */
function distanceOf(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let row = 1; row <= a.length; row++) {
    const here = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(above[column]! + 1, here[column - 1]! + 1, above[column - 1]! + (isSame ? 0 : 1));
      // Before the first characters stands nothing: it is the same as none of the other's.
      if (a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        least = Math.min(least, before[column - 2]! + 1);
      }
      here.push(least);
    }
    if (Math.min(...here) > limit) return limit + 1;
    [before, above] = [above, here];
  }
  return above[b.length]!;
}
