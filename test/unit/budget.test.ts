/**
 * Every folder has a budget of lines. A change that needs more raises the budget in the same commit and says why; a
 * change that needs fewer lowers it, so that what was won stays won.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { BUDGETS, TOTALS } from '../support/line-budgets.ts';

const ROOT = join(import.meta.dirname, '../..');

/** So far may a budget lie above what its folder has; one that lies farther above is lowered. */
const SLACK_LINES = 150;

const isCode = (path: string): boolean => /\.(ts|mjs)$/.test(path);

/** Maps each budget to the lines below its folder, without those of a longer path that has a budget of its own. */
function linesByBudget(budgets: readonly string[], lines: ReadonlyMap<string, number>): Record<string, number> {
  const counted: Record<string, number> = Object.fromEntries(budgets.map((budget) => [budget, 0]));
  const longestFirst = budgets.toSorted((a, b) => b.length - a.length);
  for (const [path, count] of lines) {
    const owner = longestFirst.find((budget) => path.startsWith(`${budget}/`)) ?? `${path} has no budget`;
    counted[owner] = (counted[owner] ?? 0) + count;
  }
  return counted;
}

/** Says of each budget that does not fit what is wrong with it. */
function misfits(budgets: Readonly<Record<string, number>>, counted: Readonly<Record<string, number>>): string[] {
  return Object.entries(counted).flatMap(([folder, lines]) => {
    const budget = budgets[folder];
    if (budget === undefined) return [folder];
    if (lines > budget) return [`${folder} has ${lines} lines, and its budget is ${budget}`];
    return lines < budget - SLACK_LINES ? [`${folder} has only ${lines} lines: lower its budget of ${budget}`] : [];
  });
}

function linesOfTheProject(): Map<string, number> {
  const files = ['src', 'test', 'bench', 'scripts'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }).filter(({ name }) => isCode(name)),
  );
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return new Map(paths.map((path) => [relative(ROOT, path), readFileSync(path, 'utf8').split('\n').length - 1]));
}

test('each folder of src, test, bench and scripts keeps its budget of lines', () => {
  const counted = linesByBudget(Object.keys(BUDGETS), linesOfTheProject());
  expect(misfits(BUDGETS, counted)).toEqual([]);
});

test('src, test, and bench with scripts keep their budgets as a whole', () => {
  const sums = Object.fromEntries(Object.keys(TOTALS).map((folders) => [folders, 0]));
  for (const [path, lines] of linesOfTheProject()) {
    const folders = Object.keys(TOTALS).find((names) => names.split(' ').some((name) => path.startsWith(`${name}/`)));
    if (folders !== undefined) sums[folders] = (sums[folders] ?? 0) + lines;
  }
  expect(misfits(TOTALS, sums)).toEqual([]);
});

test('a folder over its budget, one far below it, and a file without a budget are found', () => {
  const lines = new Map([
    ['src/a/x.ts', 101],
    ['src/a/b/y.ts', 10],
    ['src/c/z.ts', 20],
  ]);
  const budgets = { 'src/a': 100, 'src/a/b': 10 + SLACK_LINES + 1 };
  expect(misfits(budgets, linesByBudget(Object.keys(budgets), lines))).toEqual([
    'src/a has 101 lines, and its budget is 100',
    `src/a/b has only 10 lines: lower its budget of ${11 + SLACK_LINES}`,
    'src/c/z.ts has no budget',
  ]);
});
