/** Bundles the pages that are served to people, the operator's console and the mail page, each into a folder of `dist`. */
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const SOURCES = fileURLToPath(new URL('../src/', import.meta.url));
const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const PAGES = ['console', 'mail'] as const;

/** `name` is a folder of `src/web`, and its style has that name too. */
export async function buildPage(name: (typeof PAGES)[number], folder: string): Promise<void> {
  const source = join(SOURCES, 'web', name);
  await mkdir(folder, { recursive: true });
  await build({
    entryPoints: [
      { in: join(source, 'main.ts'), out: 'page' },
      { in: join(source, `${name}.css`), out: 'page' },
    ],
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
  });
  await copyFile(join(source, 'page.html'), join(folder, 'page.html'));
  await copyFile(join(SOURCES, 'web/shared/icon.svg'), join(folder, 'icon.svg'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const name of PAGES) await buildPage(name, join(DIST, name));
}
