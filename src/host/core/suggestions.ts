/**
 * What somebody may have meant who wrote a name that does not exist: the nearest known ones by edit distance.
 *
 * The distance counts insertions, deletions, changes and swaps of neighbours (optimal string alignment), without case.
 * A name that was written without a host is also compared with the names of agents elsewhere.
 */
const SUGGESTIONS_MAX = 3;
const DISTANCE_MAX = 3;
/** So many characters may have one mistake. */
const CHARACTERS_PER_MISTAKE = 3;

/** At most three of `known`, nearest first, then in the order of the alphabet. */
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

/** The edit distance, or something above `limit` as soon as it is clear that it is above. */
function distanceOf(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let row = 1; row <= a.length; row++) {
    const here = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(above[column]! + 1, here[column - 1]! + 1, above[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        least = Math.min(least, before[column - 2]! + 1);
      }
      here.push(least);
    }
    if (Math.min(...here) > limit) return limit + 1;
    [before, above] = [above, here];
  }
  return above[b.length]!;
}
