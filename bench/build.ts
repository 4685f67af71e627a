/**
 * The build that is measured: this checkout's, or another's of `--beside`. A relay runs from its `dist`, a host of the
 * mail cells from its `bench/mail-host.ts` and `src`. The client that pushes and pulls is this checkout's in any case.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { byTurns } from './figures.ts';
import { type Figure, joined } from './report.ts';

const HERE = join(import.meta.dirname, '..');

let measured = HERE;
let asked = 0;

/** A file of the build that is measured. */
export function ofBuild(path: string): string {
  asked++;
  return join(measured, path);
}

/** Measures each figure of a cell on this build and on that of another checkout, by turns. */
export async function besideBuild(
  folder: string,
  rounds: number,
  run: (rounds: number) => Promise<Figure[]>,
): Promise<Figure[]> {
  const turns = await byTurns(rounds, ['here', 'beside'], (build) =>
    build === 'here' ? run(1) : onBuild(folder, () => run(1)),
  );
  return joined(turns.get('here') ?? [], turns.get('beside'));
}

async function onBuild<T>(folder: string, measure: () => Promise<T>): Promise<T> {
  measured = resolve(folder);
  if (!existsSync(ofBuild('dist/cli/main.js'))) throw new Error(`${measured} has no dist: run npm run build there`);
  asked = 0;
  try {
    const value = await measure();
    if (asked === 0) throw new Error('this cell runs in the process of the bench, so --beside has no use');
    return value;
  } finally {
    measured = HERE;
  }
}
