/** Bundles `poste` into `dist/cli`, and its help beside it. */
import { rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { readyHelp } from './program-help.ts';
import { programOptions } from './program-options.ts';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));

// Whole: what an earlier build left beside it would be packed with it.
await rm(DIST, { recursive: true, force: true });
for (const options of programOptions(DIST)) await build(options);
await writeFile(`${DIST}cli/help.json`, JSON.stringify(await readyHelp()));
