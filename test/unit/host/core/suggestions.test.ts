import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { suggestions } from '../../../../src/host/core/suggestions.ts';

describe('suggestions for a name that does not exist', () => {
  test.each([
    ['reviwer', ['reviewer', 'builder'], ['reviewer']],
    ['REVIEWER2', ['reviewer', 'builder'], ['reviewer']],
    ['bulider', ['reviewer', 'builder'], ['builder']],
    ['bob', ['bob@laptop', 'alice@laptop'], ['bob@laptop']],
    ['bob@latpop', ['bob@laptop', 'bob@desktop', 'bob'], ['bob@laptop']],
    ['tester', ['role:tester', 'best'], ['role:tester']],
    ['role:testr', ['role:tester'], ['role:tester']],
    ['xyz', ['reviewer', 'builder'], []],
    ['a', ['b', 'c', 'd', 'e'], ['b', 'c', 'd']],
  ])('%s', (written, known, expected) => {
    expect(suggestions(written, known)).toEqual(expected);
  });

  test.each([
    ['tset', 'test'],
    ['etst', 'test'],
    ['tets', 'test'],
  ])('%s: two neighbours that changed places are one mistake', (written, known) => {
    expect(suggestions(written, [known])).toEqual([known]);
  });

  test('every pair of short words is as far apart as a table without shortcuts says', () => {
    const words = ['a', 'b'];
    for (const word of words) if (word.length < 5) words.push(`${word}a`, `${word}b`);
    const wrong = words.flatMap((written) =>
      words.filter((known) => (suggestions(written, [known]).length === 1) !== naiveDistance(written, known) <= 1),
    );
    expect(wrong).toEqual([]);
  });

  test('nearer ones come first', () => {
    expect(suggestions('tester', ['texter2', 'testers', 'tasters'])).toEqual(['testers', 'tasters', 'texter2']);
  });

  test('the distance is that of a table without shortcuts', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(word, word, (written, known) => {
        const limit = Math.min(3, Math.max(1, Math.floor(written.length / 3)));
        expect(suggestions(written, [known]).length === 1).toBe(naiveDistance(written, known) <= limit);
      }),
    );
  });
});

/** Optimal string alignment, by its definition. */
function naiveDistance(a: string, b: string): number {
  const known = new Map<string, number>();
  const of = (i: number, j: number): number => {
    if (Math.min(i, j) === 0) return Math.max(i, j);
    const key = `${i} ${j}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const ways = [of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)];
    if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) ways.push(of(i - 2, j - 2) + 1);
    known.set(key, Math.min(...ways));
    return Math.min(...ways);
  };
  return of(a.length, b.length);
}
