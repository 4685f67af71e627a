/**
 * The import rules of architecture.md ("Imports, cycles forbidden, type imports counted") as a pure function over
 * sources, so that the rules themselves can be tested with sources that break them.
 *
 * Paths are relative to the repository and begin with `src/`. `import()` and re-exports count like imports.
 */
import { isBuiltin } from 'node:module';
import { type ScannedModule, isFreeWord, resolveRelative, scanModule } from './module-scanner.ts';

export type Rule =
  | 'arrow' // a folder imports one it may not
  | 'types only' // a folder imports values where only types are allowed
  | 'pure' // a core imports a package or a builtin, or reads something that is not in its arguments
  | 'uws' // uWebSockets.js is known outside its one adapter file
  | 'level' // LevelDB is known outside the store folders
  | 'cycle'
  | 'barrel'
  | 'name' // file and folder names are kebab-case, builtins have `node:`
  | 'path' // a relative path without `.ts`, without a file, or computed
  | 'place'; // a folder that has no rule

export interface Violation {
  rule: Rule;
  path: string;
  detail: string;
}

interface FolderRule {
  /** Other folders that may be imported; the folder itself always may. */
  may: readonly string[];
  /** Folders of which only types may be imported (`import type`: an inline `type` leaves an import behind). */
  mayTypes?: readonly string[];
}

const RELAY = [
  'relay/core',
  'relay/store',
  'relay/auth',
  'relay/engine',
  'relay/http',
  'relay/control',
  'relay/audit',
  'relay',
];
const HOST = [
  'host/core',
  'host/store',
  'host/documents',
  'host/office',
  'host/wake',
  'host/transport',
  'host/local',
  'host/hooks',
  'host/mcp',
  'host/web',
  'host',
];

/** `relay` and `host` are the composition roots: what lies directly in them, and `relay/admin`. */
const FOLDERS: Readonly<Record<string, FolderRule>> = {
  protocol: { may: [] },
  http: { may: ['protocol'] },
  'page-access': { may: ['http', 'protocol'] },
  system: { may: ['protocol'] },
  'relay/core': { may: ['protocol'] },
  'relay/store': { may: ['relay/core', 'protocol', 'system'] },
  'relay/auth': { may: ['relay/core', 'protocol'] },
  'relay/engine': { may: ['relay/core', 'relay/store', 'protocol'] },
  'relay/http': { may: ['relay/engine', 'relay/auth', 'http', 'protocol', 'system'], mayTypes: ['relay/core'] },
  'relay/control': { may: ['relay/engine', 'relay/http', 'http', 'protocol', 'system'], mayTypes: ['relay/core'] },
  'relay/audit': { may: ['relay/core', 'relay/store', 'protocol', 'system'] },
  relay: { may: [...RELAY, 'page-access', 'http', 'protocol', 'system'] },
  'host/core': { may: ['protocol'] },
  'host/store': { may: ['host/core', 'protocol', 'system'] },
  'host/documents': { may: ['host/core', 'protocol'] },
  'host/office': { may: ['host/core', 'host/store', 'host/documents', 'protocol'] },
  'host/wake': { may: ['host/core', 'host/office', 'host/documents', 'protocol'] },
  'host/transport': { may: ['host/core', 'host/store', 'host/office', 'host/documents', 'protocol', 'system'] },
  'host/local': { may: ['host/core', 'host/office', 'host/documents', 'protocol', 'system'] },
  'host/hooks': { may: ['host/local', 'host/documents', 'protocol', 'system'] },
  'host/mcp': { may: ['host/local', 'host/documents', 'protocol'] },
  'host/web': {
    may: ['host/core', 'host/office', 'host/local', 'host/documents', 'page-access', 'http', 'protocol', 'system'],
  },
  host: { may: [...HOST, 'protocol', 'system'] },
  cli: { may: [...RELAY, ...HOST, 'http', 'protocol', 'system'] },
  // Bundled for a browser: of `protocol` it can take what needs no builtin, or the bundle fails.
  page: { may: ['protocol'] },
  console: { may: ['page', 'protocol'], mayTypes: ['relay/core'] },
  mailpage: { may: ['page', 'protocol'], mayTypes: ['host/documents', 'host/core'] },
};

const CORES: ReadonlySet<string> = new Set(['relay/core', 'host/core']);
const STORES: ReadonlySet<string> = new Set(['relay/store', 'host/store']);
/** What a core may reach, and only through `protocol`: hashing, signatures and UTF-8 checks compute, nothing else. */
const PURE_BUILTINS: ReadonlySet<string> = new Set(['node:crypto', 'node:buffer']);
const UWS_PACKAGES: ReadonlySet<string> = new Set(['uws-current', 'uws-compat', 'uWebSockets.js', '@uwsjs/core']);
const LEVEL_PACKAGES: ReadonlySet<string> = new Set(['classic-level', 'level', 'abstract-level']);
/** Names through which a function reads the world or acts on it. */
const AMBIENT: ReadonlySet<string> = new Set(
  [
    'Date performance Temporal process globalThis console fetch require crypto webcrypto Atomics',
    'setTimeout setInterval setImmediate queueMicrotask',
    'randomBytes randomInt randomUUID randomFill randomFillSync getRandomValues',
  ].flatMap((names) => names.split(' ')),
);

interface SourceFile {
  path: string;
  folder: string | undefined;
  scanned: ScannedModule;
  /** Paths of the files imported, and how. */
  files: { path: string; isType: boolean }[];
  /** npm packages, as installed. */
  packages: string[];
  builtins: string[];
}

export function checkImports(sources: ReadonlyMap<string, string>): Violation[] {
  const violations: Violation[] = [];
  const report = (rule: Rule, path: string, detail: string): void => {
    violations.push({ rule, path, detail });
  };
  const files = new Map<string, SourceFile>();
  for (const [path, source] of sources) files.set(path, readFile(path, source, sources, report));
  for (const file of files.values()) {
    checkName(file, report);
    checkArrows(file, report);
    checkPackages(file, report);
    if (file.scanned.isBarrel || file.path.endsWith('/index.ts')) report('barrel', file.path, 're-exports only');
  }
  checkPurity(files, report);
  checkUws(files, report);
  for (const cycle of cyclesOf(files)) report('cycle', cycle[0] ?? '', cycle.join(' -> '));
  return violations;
}

type Report = (rule: Rule, path: string, detail: string) => void;

function readFile(path: string, source: string, sources: ReadonlyMap<string, string>, report: Report): SourceFile {
  const scanned = scanModule(source);
  const file: SourceFile = { path, folder: folderOf(path), scanned, files: [], packages: [], builtins: [] };
  for (const { specifier, form } of scanned.imports) {
    if (specifier === undefined) {
      // The adapter tries several packages in turn; every other path is to be readable here.
      if (form !== 'require()' || !namesUws(file)) report('path', path, `a computed ${form}`);
    } else if (specifier.startsWith('.')) {
      const resolved = resolveRelative(path, specifier);
      if (!specifier.endsWith('.ts')) report('path', path, `${specifier} does not end in .ts`);
      else if (sources.has(resolved)) file.files.push({ path: resolved, isType: form.endsWith('type') });
      else report('path', path, `${specifier} is no file of src`);
    } else if (isBuiltin(specifier)) {
      if (!specifier.startsWith('node:')) report('name', path, `${specifier} is written node:${specifier}`);
      file.builtins.push(specifier.startsWith('node:') ? specifier : `node:${specifier}`);
    } else {
      const depth = specifier.startsWith('@') ? 2 : 1;
      file.packages.push(specifier.split('/').slice(0, depth).join('/'));
    }
  }
  return file;
}

/** The folder whose rule holds for `path`; `undefined` when none does. */
function folderOf(path: string): string | undefined {
  const [, ...parts] = path.split('/');
  const [half = '', folder = ''] = parts;
  const name = (half === 'relay' || half === 'host') && parts.length > 2 ? `${half}/${folder}` : half;
  if (name === 'relay/admin') return 'relay';
  return parts.length > 1 && Object.hasOwn(FOLDERS, name) ? name : undefined;
}

function checkName(file: SourceFile, report: Report): void {
  const parts = file.path.split('/');
  const isKebab = parts.every((part) => /^[a-z0-9]+(?:-[a-z0-9]+)*(?:(?:\.d)?\.ts)?$/.test(part));
  if (!isKebab) report('name', file.path, 'not kebab-case');
  if (file.folder === undefined) report('place', file.path, 'lies in a folder without a rule');
}

function checkArrows(file: SourceFile, report: Report): void {
  const rule = file.folder === undefined ? undefined : FOLDERS[file.folder];
  if (rule === undefined) return;
  for (const imported of file.files) {
    const folder = folderOf(imported.path);
    if (folder === undefined || folder === file.folder || rule.may.includes(folder)) continue;
    if (!rule.mayTypes?.includes(folder)) report('arrow', file.path, `${file.folder} imports ${imported.path}`);
    else if (!imported.isType) report('types only', file.path, `${file.folder} imports values of ${imported.path}`);
  }
}

function checkPackages(file: SourceFile, report: Report): void {
  const { folder = '', path, packages, builtins } = file;
  if (CORES.has(folder)) for (const name of [...packages, ...builtins]) report('pure', path, `imports ${name}`);
  if (STORES.has(folder)) return;
  for (const name of packages) if (LEVEL_PACKAGES.has(name)) report('level', path, `imports ${name}`);
  const named = file.scanned.tokens.some(({ kind, value }) => kind === 'text' && value === 'classic-level');
  if (named && !packages.includes('classic-level')) report('level', path, 'names classic-level');
}

/** A core is as pure as everything it reaches. */
function checkPurity(files: ReadonlyMap<string, SourceFile>, report: Report): void {
  const reached = new Set([...files.values()].filter(({ folder = '' }) => CORES.has(folder)));
  // A Set hands out what is added while it is walked.
  for (const file of reached) {
    for (const { path } of file.files) {
      const imported = files.get(path);
      if (imported) reached.add(imported);
    }
    if (!CORES.has(file.folder ?? '')) {
      for (const name of file.builtins) {
        const isPure = file.folder === 'protocol' && PURE_BUILTINS.has(name);
        if (!isPure) report('pure', file.path, `a core reaches ${name}`);
      }
    }
    for (const name of ambientNames(file.scanned)) report('pure', file.path, `uses ${name}`);
  }
}

function ambientNames({ tokens }: ScannedModule): string[] {
  const names = new Set<string>();
  tokens.forEach(({ value }, at) => {
    if (!isFreeWord(tokens, at)) return;
    if (AMBIENT.has(value)) names.add(value);
    if (value === 'Math' && tokens[at + 2]?.value === 'random') names.add('Math.random');
  });
  return [...names];
}

function checkUws(files: ReadonlyMap<string, SourceFile>, report: Report): void {
  const knowing = [...files.values()].filter(namesUws);
  const inHttp = knowing.filter(({ folder }) => folder === 'relay/http');
  for (const file of knowing) {
    if (file.folder !== 'relay/http') report('uws', file.path, 'only an adapter file in relay/http may know it');
  }
  if (inHttp.length > 1) {
    for (const file of inHttp) report('uws', file.path, `${inHttp.length} files know it, one may`);
  }
}

/** By a string, too: a package can be loaded through a variable. */
function namesUws(file: SourceFile): boolean {
  return file.scanned.tokens.some(({ kind, value }) => kind === 'text' && UWS_PACKAGES.has(value));
}

/** One cycle for every import that closes one, each from its first file around to itself. */
function cyclesOf(files: ReadonlyMap<string, SourceFile>): string[][] {
  const cycles: string[][] = [];
  const finished = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string): void => {
    const start = trail.indexOf(path);
    if (start !== -1) cycles.push([...trail.slice(start), path]);
    if (start !== -1 || finished.has(path)) return;
    trail.push(path);
    for (const imported of files.get(path)?.files ?? []) visit(imported.path);
    trail.pop();
    finished.add(path);
  };
  for (const path of files.keys()) visit(path);
  return cycles;
}
