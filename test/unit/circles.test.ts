/**
 * Imports of src make no circle, of files nor of folders. The linter finds a circle of files alone, and does not follow
 * an import that runs later (`import()`); here those count too.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';

const SRC = join(import.meta.dirname, '../../src');
const IMPORTED = /(?:from|import)\s*\(?\s*['"](?<path>\.[^'"]+)['"]/g;

type Graph = Map<string, Set<string>>;

function addArrow(graph: Graph, from: string, to: string): void {
  if (from !== to) graph.set(from, (graph.get(from) ?? new Set()).add(to));
}

/** Maps each file of src to those that it imports. */
function importsOf(sources: ReadonlyMap<string, string>): Graph {
  const graph: Graph = new Map();
  for (const [file, source] of sources)
    for (const { groups } of source.matchAll(IMPORTED))
      addArrow(graph, file, normalize(join(dirname(file), groups?.['path'] ?? '')));
  return graph;
}

function foldersOf(files: Graph): Graph {
  const graph: Graph = new Map();
  for (const [from, all] of files) for (const to of all) addArrow(graph, dirname(from), dirname(to));
  return graph;
}

function reachedFrom(graph: Graph, start: string): Set<string> {
  const reached = new Set<string>();
  for (const open = [start]; ; ) {
    const node = open.pop();
    if (node === undefined) return reached;
    for (const next of graph.get(node) ?? []) if (!reached.has(next)) open.push(reached.add(next) && next);
  }
}

/** Each circle as the sorted names of what takes part in it. */
function circlesOf(graph: Graph): string[][] {
  const reached = new Map([...graph.keys()].map((node) => [node, reachedFrom(graph, node)]));
  const circles = [...reached]
    .filter(([node, all]) => all.has(node))
    .map(([node, all]) =>
      [...all]
        .filter((other) => reached.get(other)?.has(node))
        .toSorted()
        .join(' '),
    );
  return [...new Set(circles)].map((names) => names.split(' '));
}

function sourcesOfSrc(): Map<string, string> {
  const entries = readdirSync(SRC, { recursive: true, withFileTypes: true }).filter(({ name }) => name.endsWith('.ts'));
  const paths = entries.map(({ parentPath, name }) => join(parentPath, name));
  return new Map(paths.map((path) => [relative(SRC, path), readFileSync(path, 'utf8')]));
}

test('no files of src import each other in a circle', () => {
  expect(circlesOf(importsOf(sourcesOfSrc()))).toEqual([]);
});

test('no folders of src import each other in a circle', () => {
  expect(circlesOf(foldersOf(importsOf(sourcesOfSrc())))).toEqual([]);
});

test('a circle of folders without a circle of files is found, and one that closes when the program runs', () => {
  const files = importsOf(
    new Map([
      ['a/one.ts', "import { x } from '../b/x.ts';"],
      ['a/two.ts', 'export const two = 2;'],
      ['b/x.ts', "export const x = import('./y.ts');"],
      ['b/y.ts', "import type { x } from './x.ts';\nimport { two } from '../a/two.ts';"],
    ]),
  );
  expect(circlesOf(files)).toEqual([['b/x.ts', 'b/y.ts']]);
  expect(circlesOf(foldersOf(files))).toEqual([['a', 'b']]);
});
