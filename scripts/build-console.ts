/** Bundles the operator's console into a folder: `dist/console` unless it is called for another one. */
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const SOURCE = fileURLToPath(new URL('../src/console/', import.meta.url));
const DIST = fileURLToPath(new URL('../dist/console/', import.meta.url));

export async function buildConsole(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await build({
    entryPoints: [
      { in: join(SOURCE, 'main.ts'), out: 'console' },
      { in: join(SOURCE, 'console.css'), out: 'console' },
    ],
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
  });
  for (const file of ['page.html', 'icon.svg']) await copyFile(join(SOURCE, file), join(folder, file));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole(DIST);
