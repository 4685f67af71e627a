/**
 * Tests what `npm run mutants` changes, which tests it runs, and what its list of survivors names: files that are
 * there.
 */
import { expect, test } from 'vitest';
import { docPage, filesEnding, readText } from '../support/doc-pages.ts';

const FILES = filesEnding('.ts');
const { mutate } = JSON.parse(readText('stryker.config.json')) as { mutate: string[] };

/** Each pattern that a list in braces stands for. */
function unbraced(pattern: string): string[] {
  const [whole, before, list, after] = /^(.*?)\{([^}]*)\}(.*)$/.exec(pattern) ?? [];
  return whole === undefined
    ? [pattern]
    : (list ?? '').split(',').flatMap((one) => unbraced(`${before}${one}${after}`));
}

/** The files that a pattern without braces names. */
function filesOf(pattern: string): string[] {
  const text = pattern.replaceAll('.', '\\.').replaceAll('**/', '(?:.+/)?').replaceAll('*', '[^/]*');
  return FILES.filter((path) => new RegExp(`^${text}$`).test(path));
}

const nothing = (patterns: readonly string[]): string[] =>
  patterns.flatMap(unbraced).filter((pattern) => filesOf(pattern).length === 0);

test('every file that mutants are made of is there', () => {
  expect(mutate.length).toBeGreaterThan(5);
  expect(nothing(mutate)).toEqual([]);
  expect(nothing(['src/relay/core/{reduce,gone}.ts', 'src/nowhere/**/*.ts'])).toEqual([
    'src/relay/core/gone.ts',
    'src/nowhere/**/*.ts',
  ]);
});

test('every test that tries them is there', () => {
  const config = readText('scripts/mutants/vitest.config.ts');
  const patterns = Array.from(config.matchAll(/'(test\/[^']+)'/g), ([, pattern]) => pattern ?? '');
  expect(patterns.length).toBeGreaterThan(5);
  expect(nothing(patterns)).toEqual([]);
});

test('every file of the list of survivors is one that mutants are made of', () => {
  const mutated = new Set(mutate.flatMap(unbraced).flatMap(filesOf));
  const listed = docPage('test/mutants.md').headings.flatMap(({ title, body }) =>
    Array.from(body.matchAll(/^\| `([^`]+\.ts)` \|/gm), ([, file]) => `src/${title}/${file}`),
  );
  expect(listed.length).toBeGreaterThan(20);
  expect(listed.filter((path) => !mutated.has(path))).toEqual([]);
});
