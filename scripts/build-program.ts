/** Bundles `poste` into `dist`, with its help. */
import { rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readyHelp } from './program-help.ts';
import { buildProgram } from './program-options.ts';
import { readyAnswers } from './ready-answers.ts';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));

// Whole: what an earlier build left beside it would be packed with it.
await rm(DIST, { recursive: true, force: true });
await buildProgram(DIST);
await writeFile(`${DIST}cli/help.json`, JSON.stringify(await readyHelp()));
await writeFile(`${DIST}cli/mcp.json`, JSON.stringify(await readyAnswers()));
