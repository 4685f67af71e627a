/**
 * Bundles `poste` into `dist/cli`. Every command is a process of its own, and a start that looks up and reads a file for
 * each of a thousand modules takes a second; from the bundle it takes a fifth of one. A command is still loaded only
 * when it is called: what `import()` names is a file of its own.
 */
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const SOURCES = fileURLToPath(new URL('../src/', import.meta.url));
const DIST = fileURLToPath(new URL('../dist/', import.meta.url));

/** These find native parts or workers beside themselves, so they stay where npm put them. */
const BESIDE = ['classic-level', 'level', 'msgpackr', 'pino', 'prom-client', 'uws-compat', 'uws-current'];

// Whole: what an earlier build left beside it would be packed with it.
await rm(DIST, { recursive: true, force: true });
await build({
  entryPoints: [`${SOURCES}cli/main.ts`],
  outbase: SOURCES,
  outdir: DIST,
  // Beside main.js: what a module finds by its own place is found from every file.
  chunkNames: 'cli/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: BESIDE,
  // Libraries that are CommonJS ask for the parts of Node.js in their way.
  banner: {
    js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
  },
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
  logLevel: 'warning',
});
