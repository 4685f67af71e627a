/**
 * Bundles what programs import from the package (`src/library`) into `dist/library`, and its types into `dist/types`.
 * Libraries stay outside: npm installs them with Poste.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const ENTRIES = ['client', 'protocol', 'core', 'core-testing'];

const types = spawn('tsc -p tsconfig.library.json', { cwd: ROOT, shell: true, stdio: 'inherit' });
const [[code]] = await Promise.all([
  once(types, 'exit') as Promise<[number | null]>,
  build({
    entryPoints: ENTRIES.map((name) => `${ROOT}src/library/${name}.ts`),
    outdir: `${ROOT}dist/library`,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    packages: 'external',
    logLevel: 'warning',
  }),
]);
process.exitCode = code ?? 1;
