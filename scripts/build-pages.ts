/** Bundles the pages, the operator's console and the owner's mail, each into a folder of `dist`. */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, build } from 'esbuild';
import MarkdownIt from 'markdown-it';

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

/**
 * The characters that mail may name, as `&rarr;`: those of HTML 4. Any other name is shown as it was written. The table
 * of all 2,125 names would be a fifth of the page.
 */
const CHARACTER_NAMES = `
nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute
micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig
Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash
Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute
ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc
uuml yacute thorn yuml quot amp lt gt apos OElig oelig Scaron scaron Yuml circ tilde ensp emsp thinsp zwnj zwj
lrm rlm ndash mdash lsquo rsquo sbquo ldquo rdquo bdquo dagger Dagger permil lsaquo rsaquo euro fnof Alpha Beta
Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho Sigma Tau Upsilon Phi Chi Psi Omega
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon
phi chi psi omega thetasym upsih piv bull hellip prime Prime oline frasl weierp image real trade alefsym larr
uarr rarr darr harr crarr lArr uArr rArr dArr hArr forall part exist empty nabla isin notin ni prod sum minus
lowast radic prop infin ang and or cap cup int there4 sim cong asymp ne equiv le ge sub sup nsub sube supe oplus
otimes perp sdot lceil rceil lfloor rfloor lang rang loz spades clubs hearts diams
`;

/** Stands for the package by which the reader of Markdown looks names up. */
const FEW_CHARACTER_NAMES: Plugin = {
  name: 'few character names',
  setup: (bundler) => {
    const { utils } = new MarkdownIt();
    const named = CHARACTER_NAMES.trim().split(/\s+/u);
    const characters = named.map((name) => [`&${name};`, utils.unescapeAll(`&${name};`)]);
    const contents = `const characters = new Map(${JSON.stringify(characters)});
      export const decodeHTMLStrict = (text) => characters.get(text) ?? text;`;
    bundler.onResolve({ filter: /^entities$/ }, () => ({ path: 'entities', namespace: 'few' }));
    bundler.onLoad({ filter: /^entities$/, namespace: 'few' }, () => ({ contents }));
  },
};

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
    plugins: [FEW_CHARACTER_NAMES],
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
