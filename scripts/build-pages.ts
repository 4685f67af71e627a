/** Bundles the pages, the operator's console and the owner's mail, each into a folder of `dist`. */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const SOURCES = fileURLToPath(new URL('../src/web/', import.meta.url));
const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
/** The texts of `shared/page.html`, by the page's folder in `src/web`. */
const PAGES = {
  console: {
    title: 'Poste relay',
    noscript: 'The console needs JavaScript; poste relay hosts and /metrics do not.',
  },
  mail: {
    title: 'Poste mail',
    noscript: 'This page needs JavaScript; poste inbox --as owner does not.',
  },
} as const;
type PageName = keyof typeof PAGES;

export async function buildPage(name: PageName, folder: string): Promise<void> {
  const source = join(SOURCES, name);
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
  const template = await readFile(join(SOURCES, 'shared/page.html'), 'utf8');
  const { title, noscript } = PAGES[name];
  const page = template.replaceAll('{name}', name).replace('{title}', title).replace('{noscript}', noscript);
  await writeFile(join(folder, 'page.html'), page);
  await copyFile(join(SOURCES, 'shared/icon.svg'), join(folder, 'icon.svg'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const name of Object.keys(PAGES) as PageName[]) await buildPage(name, join(DIST, name));
}
