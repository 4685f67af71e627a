/**
 * `poste` with something changed: what a test leaves out on purpose, to see that it is missed. Built from the sources.
 */
import { readFile, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Plugin } from 'esbuild';
import { SOURCES, buildProgram } from '../../scripts/program-options.ts';

const ROOT = resolve(SOURCES, '..');

export interface Patch {
  /** From the folder `src`. */
  file: string;
  /** Stands there exactly once. */
  from: string;
  to: string;
}

/** The file to run, in an empty folder. */
export async function patchedProgram(folder: string, patches: readonly Patch[]): Promise<string> {
  // What a program looks for above its own file.
  for (const name of ['node_modules', 'package.json']) await symlink(join(ROOT, name), join(folder, name));
  const dist = join(folder, 'dist/');
  const unseen = new Set(patches.map(({ file }) => file));
  const patching: Plugin = {
    name: 'patching',
    setup(building) {
      building.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const file = path.startsWith(SOURCES) ? path.slice(SOURCES.length) : '';
        const own = patches.filter((patch) => patch.file === file);
        if (own.length === 0) return undefined;
        unseen.delete(file);
        return { contents: own.reduce(patched, await readFile(path, 'utf8')), loader: 'ts' };
      });
    },
  };
  await buildProgram(dist, patching);
  if (unseen.size > 0) throw new Error(`not in the program: ${[...unseen].join(', ')}`);
  return join(dist, 'cli/main.js');
}

function patched(text: string, { file, from, to }: Patch): string {
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`${file} holds ${parts.length - 1} times: ${from}`);
  return parts.join(to);
}
