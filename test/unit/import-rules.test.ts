import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Rule, checkImports } from '../support/import-rules.ts';
import { LostInSource, scanModule } from '../support/module-scanner.ts';

const ROOT = join(import.meta.dirname, '../..');

function sourcesOf(folder: string): Map<string, string> {
  const paths = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
    .filter((path) => /\.[cm]?tsx?$/.test(path))
    .toSorted();
  return new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));
}

/** A tree that keeps every rule. */
const KEPT: Readonly<Record<string, string>> = {
  'src/protocol/digest.ts': "import { hash } from 'node:crypto';\nexport const digest = hash;",
  'src/system/address.ts': "import { digest } from '../protocol/digest.ts';\nexport const address = digest;",
  'src/relay/core/event.ts': "import { digest } from '../../protocol/digest.ts';\nexport const event = digest;",
  'src/relay/store/level.ts': "import { ClassicLevel } from 'classic-level';\nexport const level = ClassicLevel;",
  'src/relay/engine/engine.ts':
    "import { level } from '../store/level.ts';\nimport { event } from '../core/event.ts';\nexport const engine = [level, event];",
  'src/relay/auth/hop.ts': "import { event } from '../core/event.ts';\nexport const hop = event;",
  'src/relay/http/server-uws.ts': "import uws from 'uws-current';\nexport const server = uws;",
  'src/relay/http/v2.ts':
    "import type { event } from '../core/event.ts';\nimport { hop } from '../auth/hop.ts';\nimport { engine } from '../engine/engine.ts';\nexport const v2 = [hop, engine] as [typeof event, unknown];",
  'src/relay/control/hosts.ts':
    "import type { event } from '../core/event.ts';\nimport { v2 } from '../http/v2.ts';\nimport { engine } from '../engine/engine.ts';\nexport const hosts = [v2, engine] as [unknown, typeof event];",
  'src/relay/serve.ts':
    "import { v2 } from './http/v2.ts';\nimport { level } from './store/level.ts';\nexport const serve = [v2, level];",
  'src/relay/admin/health.ts': "import { level } from '../store/level.ts';\nexport const health = level;",
  'src/host/core/outbox.ts': "import { digest } from '../../protocol/digest.ts';\nexport const outbox = digest;",
  'src/host/daemon.ts': "import { outbox } from './core/outbox.ts';\nexport const daemon = outbox;",
  'src/console/main.ts':
    "import type { event } from '../relay/core/event.ts';\nimport { digest } from '../protocol/digest.ts';\nexport const page = digest as typeof event;",
  'src/cli/main.ts':
    "import { serve } from '../relay/serve.ts';\nimport { daemon } from '../host/daemon.ts';\nexport const main = [serve, daemon];",
};

/** What is reported of `KEPT` with these files added or replaced. */
function broken(changes: Readonly<Record<string, string>>): { rule: Rule; path: string }[] {
  const found = checkImports(new Map(Object.entries({ ...KEPT, ...changes })));
  return found.map(({ rule, path }) => ({ rule, path }));
}

describe('import rules of architecture.md', () => {
  it('hold for every file of src', () => {
    const sources = sourcesOf('src');
    expect(sources.size).toBeGreaterThan(40);
    expect(checkImports(sources)).toEqual([]);
  });

  it('hold for a tree that uses every allowed arrow', () => {
    expect(broken({})).toEqual([]);
  });

  it('see the imports of the real files, so that an empty answer means something', () => {
    const sources = sourcesOf('src');
    const imports = scanModule(sources.get('src/protocol/ed25519.ts') ?? '').imports;
    expect(imports).toEqual([
      { specifier: 'node:crypto', form: 'import' },
      { specifier: './base64.ts', form: 'import' },
      { specifier: './public-key.ts', form: 'import' },
    ]);
    // As many as a search by line finds: no file is lost half way.
    const byLine = /^(?:import |export |\}).*from ['"][^'"]+['"];?$|^import ['"][^'"]+['"];?$/gm;
    const counted = [...sources.values()].map((source) => source.match(byLine)?.length ?? 0);
    const scanned = [...sources.values()].map((source) => scanModule(source).imports);
    const statements = scanned.flat().filter(({ form }) => !form.endsWith('()'));
    expect(statements).toHaveLength(counted.reduce((sum, count) => sum + count, 0));
  });
});

describe('import rules: every violation is caught', () => {
  const cases: [why: string, rule: Rule, path: string, source: string][] = [
    ['1: protocol imports the relay', 'arrow', 'src/protocol/a.ts', "import { level } from '../relay/store/level.ts';"],
    [
      '1: protocol imports a type of the host',
      'arrow',
      'src/protocol/a.ts',
      "import type { o } from '../host/core/outbox.ts';",
    ],
    ['console runs the core', 'types only', 'src/console/a.ts', "import { event } from '../relay/core/event.ts';"],
    ['console imports the engine', 'arrow', 'src/console/a.ts', "import { engine } from '../relay/engine/engine.ts';"],
    ['the relay imports the page', 'arrow', 'src/relay/admin/a.ts', "import { page } from '../../console/main.ts';"],
    ['system imports a half', 'arrow', 'src/system/a.ts', "import { serve } from '../relay/serve.ts';"],
    ['2: core imports system', 'arrow', 'src/relay/core/a.ts', "import { address } from '../../system/address.ts';"],
    ['2: core imports store', 'arrow', 'src/relay/core/a.ts', "import { level } from '../store/level.ts';"],
    [
      '2: core imports a type of store',
      'arrow',
      'src/relay/core/a.ts',
      "import type { level } from '../store/level.ts';",
    ],
    [
      '2: core re-exports store',
      'arrow',
      'src/relay/core/a.ts',
      "export { level } from '../store/level.ts'; const a = 1;",
    ],
    ['2: core imports store when run', 'arrow', 'src/relay/core/a.ts', "const a = await import('../store/level.ts');"],
    ['2: core names a type of store', 'arrow', 'src/relay/core/a.ts', "type A = import('../store/level.ts').Level;"],
    ['2: core imports a builtin', 'pure', 'src/relay/core/a.ts', "import { hash } from 'node:crypto';"],
    ['2: core imports a package', 'pure', 'src/host/core/a.ts', "import { pack } from 'msgpackr';"],
    [
      '2: core imports a subpath of a package',
      'pure',
      'src/host/core/a.ts',
      "import { Compile } from 'typebox/compile';",
    ],
    ['2: core imports for side effects', 'pure', 'src/host/core/a.ts', "import 'pino';"],
    ['2: core reads the clock', 'pure', 'src/relay/core/a.ts', 'export const now = Date.now();'],
    ['2: core makes a date', 'pure', 'src/relay/core/a.ts', 'export const now = new Date();'],
    ['2: core reads a timer', 'pure', 'src/relay/core/a.ts', 'export const now = performance.now();'],
    ['2: core throws dice', 'pure', 'src/host/core/a.ts', 'export const id = Math.random();'],
    ['2: core uses web crypto', 'pure', 'src/host/core/a.ts', 'export const id = crypto.randomUUID();'],
    ['2: core reaches around', 'pure', 'src/host/core/a.ts', "export const id = globalThis['crypto'];"],
    ['2: core reads the environment', 'pure', 'src/relay/core/a.ts', 'export const home = process.env.HOME;'],
    ['2: core sets a timer', 'pure', 'src/relay/core/a.ts', 'setTimeout(() => {}, 1);'],
    ['2: core in a template', 'pure', 'src/relay/core/a.ts', 'export const text = `at ${Date.now()}`;'],
    ['2: core behind a ternary', 'pure', 'src/relay/core/a.ts', 'export const c = (x: boolean) => x ? crypto : 1;'],
    ['2: core spread', 'pure', 'src/relay/core/a.ts', 'export const c = { ...process };'],
    ['3: store imports engine', 'arrow', 'src/relay/store/a.ts', "import { engine } from '../engine/engine.ts';"],
    ['4: auth imports store', 'arrow', 'src/relay/auth/a.ts', "import { level } from '../store/level.ts';"],
    ['4: auth imports engine', 'arrow', 'src/relay/auth/a.ts', "import { engine } from '../engine/engine.ts';"],
    ['5: engine imports auth', 'arrow', 'src/relay/engine/a.ts', "import { hop } from '../auth/hop.ts';"],
    ['5: engine imports http', 'arrow', 'src/relay/engine/a.ts', "import { v2 } from '../http/v2.ts';"],
    ['6: http imports store', 'arrow', 'src/relay/http/a.ts', "import { level } from '../store/level.ts';"],
    [
      '6: http imports a type of store',
      'arrow',
      'src/relay/http/a.ts',
      "import type { level } from '../store/level.ts';",
    ],
    [
      '6: http imports a value of core',
      'types only',
      'src/relay/http/a.ts',
      "import { event } from '../core/event.ts';",
    ],
    [
      '6: http imports core for an inline type',
      'types only',
      'src/relay/http/a.ts',
      "import { type event } from '../core/event.ts';",
    ],
    ['6: control imports store', 'arrow', 'src/relay/control/a.ts', "import { level } from '../store/level.ts';"],
    ['6: http imports control', 'arrow', 'src/relay/http/a.ts', "import { hosts } from '../control/hosts.ts';"],
    ['7: a folder imports a composition root', 'arrow', 'src/relay/http/a.ts', "import { serve } from '../serve.ts';"],
    ['7: a folder imports admin', 'arrow', 'src/relay/engine/a.ts', "import { health } from '../admin/health.ts';"],
    ['8: relay imports host', 'arrow', 'src/relay/a.ts', "import { outbox } from '../host/core/outbox.ts';"],
    ['8: host imports relay', 'arrow', 'src/host/transport/a.ts', "import { event } from '../../relay/core/event.ts';"],
    [
      '8: host imports a type of relay',
      'arrow',
      'src/host/a.ts',
      "import type { event } from '../relay/core/event.ts';",
    ],
    ['9: relay imports cli', 'arrow', 'src/relay/a.ts', "import { main } from '../cli/main.ts';"],
    ['9: host imports cli', 'arrow', 'src/host/mcp/a.ts', "import { main } from '../../cli/main.ts';"],
    ['LevelDB in the engine', 'level', 'src/relay/engine/a.ts', "import type { Snapshot } from 'classic-level';"],
    ['LevelDB in a composition root', 'level', 'src/host/a.ts', "import { Level } from 'level';"],
    ['LevelDB by its name', 'level', 'src/relay/a.ts', "const name = 'classic-level';"],
    ['uWebSockets in a composition root', 'uws', 'src/relay/a.ts', "import uws from 'uws-current';"],
    ['uWebSockets when run', 'uws', 'src/relay/auth/a.ts', "const uws = await import('uws-compat');"],
    ['uWebSockets by its name', 'uws', 'src/relay/engine/a.ts', "const names = ['uws-compat'];"],
    ['a barrel by its name', 'barrel', 'src/relay/core/index.ts', 'export const a = 1;'],
    ['a barrel of lists', 'barrel', 'src/relay/core/a.ts', "export { event } from './event.ts';"],
    ['a barrel of everything', 'barrel', 'src/relay/core/a.ts', "/** All. */\nexport * from './event.ts';"],
    ['a barrel of types', 'barrel', 'src/relay/core/a.ts', "export type * from './event.ts';"],
    [
      'a barrel that imports first',
      'barrel',
      'src/relay/core/a.ts',
      "import { event } from './event.ts';\nexport { event };\nexport type { event as e } from './event.ts';",
    ],
    ['a file in camel case', 'name', 'src/relay/core/decidePush.ts', 'export const a = 1;'],
    ['a folder with an underscore', 'name', 'src/relay/core/decide_push/a.ts', 'export const a = 1;'],
    ['a builtin without node:', 'name', 'src/relay/store/a.ts', "import { readFile } from 'fs/promises';"],
    ['a path without an ending', 'path', 'src/relay/core/a.ts', "import { event } from './event';"],
    ['a path to what the compiler writes', 'path', 'src/relay/core/a.ts', "import { event } from './event.js';"],
    ['a path to nothing', 'path', 'src/relay/core/a.ts', "import { event } from './missing.ts';"],
    ['a path out of src', 'path', 'src/relay/core/a.ts', "import { a } from '../../../test/support/a.ts';"],
    ['a computed path', 'path', 'src/relay/store/a.ts', 'const a = (name: string) => import(name);'],
    ['a computed template', 'path', 'src/relay/store/a.ts', 'const a = (name: string) => import(`./${name}.ts`);'],
    ['a computed require', 'path', 'src/relay/store/a.ts', 'const a = (name: string) => require(name);'],
    ['a folder without a rule', 'place', 'src/relay/tools/a.ts', 'export const a = 1;'],
    ['a file in no folder', 'place', 'src/a.ts', 'export const a = 1;'],
  ];

  it.each(cases)('%s', (_why, rule, path, source) => {
    expect(broken({ [path]: source })).toEqual([{ rule, path }]);
  });

  it('purity is that of everything a core reaches', () => {
    const clock = { 'src/protocol/clock.ts': 'export const now = () => Date.now();' };
    expect(broken(clock)).toEqual([]);
    const reached = { ...clock, 'src/relay/core/a.ts': "import { now } from '../../protocol/clock.ts';" };
    expect(broken(reached)).toEqual([{ rule: 'pure', path: 'src/protocol/clock.ts' }]);
    const files = {
      'src/protocol/b.ts': "import { readFile } from 'node:fs/promises';\nexport const b = readFile;",
      'src/protocol/a.ts': "import { b } from './b.ts';\nexport const a = b;",
      'src/host/core/a.ts': "import { a } from '../../protocol/a.ts';",
    };
    expect(broken(files)).toEqual([{ rule: 'pure', path: 'src/protocol/b.ts' }]);
  });

  it('uWebSockets is known to one file of relay/http', () => {
    const both = broken({ 'src/relay/http/a.ts': "import type { HttpResponse } from 'uws-compat';" });
    expect(both).toEqual([
      { rule: 'uws', path: 'src/relay/http/server-uws.ts' },
      { rule: 'uws', path: 'src/relay/http/a.ts' },
    ]);
    const computed = "const load = ['uws-current', 'uws-compat'].map((name) => require(name));";
    expect(broken({ 'src/relay/http/server-uws.ts': computed })).toEqual([]);
  });

  it('a cycle is reported once, type imports and one file alone counted', () => {
    const cycle = {
      'src/relay/core/a.ts': "import type { b } from './b.ts';\nexport const a = 1;",
      'src/relay/core/b.ts': "import { c } from './c.ts';\nexport const b = c;",
      'src/relay/core/c.ts': "import { a } from './a.ts';\nexport const c = a;",
    };
    const found = checkImports(new Map(Object.entries({ ...KEPT, ...cycle })));
    expect(found).toEqual([
      {
        rule: 'cycle',
        path: 'src/relay/core/a.ts',
        detail: 'src/relay/core/a.ts -> src/relay/core/b.ts -> src/relay/core/c.ts -> src/relay/core/a.ts',
      },
    ]);
    const alone = { 'src/relay/core/a.ts': "import { a } from './a.ts';\nexport const b = a;" };
    expect(broken(alone)).toEqual([{ rule: 'cycle', path: 'src/relay/core/a.ts' }]);
  });

  it('what only looks like a violation is none', () => {
    const harmless = [
      "// import { level } from '../store/level.ts';",
      "/* export * from '../store/level.ts'; Date.now() */",
      `const text = "import { level } from '../store/level.ts'; Date.now()";`,
      'const template = `import x from "../store/level.ts" ${text} Math.random()`;',
      "const pattern = /['\"`]|[/'] import(x)/g;",
      'const half = text.length / 2 / 3;',
      'interface Dice { process: string; crypto?: string; readonly Date: string }',
      'const dice = { process: text, crypto: text };',
      'export const sum = (facts: typeof dice) => facts.process + facts.crypto + facts?.process + Math.round(half);',
      "export type { Dice }; export { template }; export const from = 'x'; export default pattern;",
    ];
    expect(broken({ 'src/relay/core/a.ts': harmless.join('\n') })).toEqual([]);
    expect(scanModule(harmless.join('\n')).imports).toEqual([]);
  });
});

describe('module scanner', () => {
  const forms: [source: string, form: string, specifier: string | undefined][] = [
    ["import a from 'a';", 'import', 'a'],
    ["import a, { b as from } from 'a'", 'import', 'a'],
    ["import * as a from 'a'", 'import', 'a'],
    ["import {\n  a, // from 'x'\n  type b,\n} from\n  'a';", 'import', 'a'],
    ["import 'a';", 'import', 'a'],
    ["import type from 'a';", 'import', 'a'],
    ["import type, { b } from 'a';", 'import', 'a'],
    ["import type { from } from 'a';", 'import type', 'a'],
    ["import type * as a from 'a';", 'import type', 'a'],
    ["import a from 'a' with { type: 'json' };", 'import', 'a'],
    ["export { a as default } from 'a';", 're-export', 'a'],
    ["export * as a from 'a';", 're-export', 'a'],
    ["export type { a } from 'a';", 're-export type', 'a'],
    ["const a = await import('a');", 'import()', 'a'],
    ["const a = await import('a', { with: { type: 'json' } });", 'import()', 'a'],
    ['const a = await import(`a`);', 'import()', 'a'],
    ["const a = await import('a' + b);", 'import()', undefined],
    ["const a = `${await import('a')}`;", 'import()', 'a'],
    ["const a = require('a');", 'require()', 'a'],
  ];

  it.each(forms)('reads %s', (source, form, specifier) => {
    expect(scanModule(source).imports).toEqual([{ specifier, form }]);
  });

  it.each([
    ['import.meta.dirname'],
    ['key.export({ format: "der" }); a.import("x"); a?.require("x")'],
    ['const a = { import: 1, export: 2, require: 3 };'],
    ["const a = b ? 'import' : /\\/ from 'x'/u.exec(`\\``);"],
    ["const a = (b) / 2; const c = 'from'; const d = e / 2;"],
  ])('finds no import in %s', (source) => {
    expect(scanModule(source).imports).toEqual([]);
  });

  it.each([
    ["const a = 'open;\n import b from 'b';"],
    ['const a = /open;\n'],
    ['const a = `open ${b'],
    ['/* open'],
    ['import a = b.c; const d = 1;'],
    ['export { a'],
  ])('refuses to guess at %s', (source) => {
    expect(() => scanModule(source)).toThrow(LostInSource);
  });
});
