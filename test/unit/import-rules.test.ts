/**
 * The linter keeps the import rules of docs/architecture.md (.oxlintrc.json): each of them is broken here, and caught.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const CONFIG = '.oxlintrc.json';

/** Rules of the linter that keep the layout; what else it says of the sources below does not matter here. */
const LAYOUT_RULES = new Set([
  'eslint(no-restricted-imports)',
  'eslint(no-restricted-globals)',
  'eslint(no-restricted-properties)',
  'import(no-cycle)',
  'oxc(no-barrel-file)',
  'unicorn(filename-case)',
  'unicorn(prefer-node-protocol)',
  'typescript(consistent-type-imports)',
  'typescript(no-import-type-side-effects)',
]);

/** A tree that keeps every rule. */
const KEPT: Readonly<Record<string, string>> = {
  'src/protocol/encodings.ts': "import { hash } from 'node:crypto';\nexport const digest = hash;",
  'src/lib/address.ts': "import { digest } from '../protocol/encodings.ts';\nexport const address = digest;",
  'src/relay/core/event.ts': "import { digest } from '../../protocol/encodings.ts';\nexport const event = digest;",
  'src/relay/store/level.ts': "import { ClassicLevel } from 'classic-level';\nexport const level = ClassicLevel;",
  'src/relay/engine/engine.ts':
    "import { level } from '../store/level.ts';\nimport { event } from '../core/event.ts';\n" +
    'export const engine = [level, event];',
  'src/relay/auth/hop.ts': "import { event } from '../core/event.ts';\nexport const hop = event;",
  'src/relay/http/uws-binding.ts': "import type uws from 'uws-current';\nexport type Uws = typeof uws;",
  'src/relay/http/v2.ts':
    "import type { event } from '../core/event.ts';\nimport { hop } from '../auth/hop.ts';\n" +
    "import { engine } from '../engine/engine.ts';\nexport const v2 = [hop, engine] as [typeof event, unknown];",
  'src/relay/operator/hosts.ts':
    "import type { level } from '../store/level.ts';\nimport { v2 } from '../http/v2.ts';\n" +
    "import { engine } from '../engine/engine.ts';\n" +
    'export const hosts = [v2, engine] as [unknown, typeof level];',
  'src/relay/serve/host-api.ts': "import { v2 } from '../http/v2.ts';\nexport const api = v2;",
  'src/relay/standby/shared-lead.ts': "import { api } from '../serve/host-api.ts';\nexport const lead = api;",
  'src/relay/relay.ts':
    "import { lead } from './standby/shared-lead.ts';\nimport { level } from './store/level.ts';\n" +
    'export const serve = [lead, level];',
  'src/host/core/outbox.ts': "import { digest } from '../../protocol/encodings.ts';\nexport const outbox = digest;",
  'src/host/base/context.ts': "import { outbox } from '../core/outbox.ts';\nexport const context = outbox;",
  'src/host/mail/send.ts': "import { context } from '../base/context.ts';\nexport const send = context;",
  'src/host/api/handlers.ts': "import { send } from '../mail/send.ts';\nexport const handlers = send;",
  'src/host/lan/client.ts': "import { context } from '../base/context.ts';\nexport const client = context;",
  'src/host/daemon.ts': "import { client } from './lan/client.ts';\nexport const daemon = client;",
  'src/web/console/main.ts':
    "import type { event } from '../../relay/core/event.ts';\n" +
    "import { digest } from '../../protocol/encodings.ts';\nexport const page = digest as typeof event;",
  'src/cli/main.ts':
    "import { serve } from '../relay/relay.ts';\nimport { daemon } from '../host/daemon.ts';\n" +
    'export const main = [serve, daemon];',
};

type Broken = [why: string, rule: string, folder: string, source: string];

const IMPORTS = 'eslint(no-restricted-imports)';
const GLOBALS = 'eslint(no-restricted-globals)';
const BARREL = 'oxc(no-barrel-file)';

const BROKEN: readonly Broken[] = [
  ['protocol imports the relay', IMPORTS, 'protocol', "import { level } from '../relay/store/level.ts';"],
  ['protocol imports a type of the host', IMPORTS, 'protocol', "import type { o } from '../host/core/outbox.ts';"],
  ['protocol imports lib', IMPORTS, 'protocol', "import { address } from '../lib/address.ts';"],
  ['lib imports a half', IMPORTS, 'lib', "import { serve } from '../relay/relay.ts';"],
  ['http imports the relay', IMPORTS, 'http', "import { serve } from '../relay/relay.ts';"],
  ['the console runs the core', IMPORTS, 'web/console', "import { event } from '../../relay/core/event.ts';"],
  ['the console imports the engine', IMPORTS, 'web/console', "import { e } from '../../relay/engine/engine.ts';"],
  ['the relay imports a page', IMPORTS, 'relay/operator', "import { page } from '../../web/console/main.ts';"],
  ['a core imports lib', IMPORTS, 'relay/core', "import { address } from '../../lib/address.ts';"],
  ['a core imports store', IMPORTS, 'relay/core', "import { level } from '../store/level.ts';"],
  ['a core imports a type of store', IMPORTS, 'relay/core', "import type { level } from '../store/level.ts';"],
  ['a core re-exports store', IMPORTS, 'relay/core', "export { level } from '../store/level.ts'; const a = 1;"],
  ['a core imports store when run', IMPORTS, 'relay/core', "const a = await import('../store/level.ts');"],
  ['a core imports a builtin', IMPORTS, 'relay/core', "import { hash } from 'node:crypto';"],
  ['a core imports a package', IMPORTS, 'host/core', "import { pack } from 'msgpackr';"],
  ['a core imports a part of a package', IMPORTS, 'host/core', "import { Compile } from 'typebox/compile';"],
  ['a core imports for side effects', IMPORTS, 'host/core', "import 'pino';"],
  ['a core reads the clock', GLOBALS, 'relay/core', 'export const now = Date.now();'],
  ['a core makes a date', GLOBALS, 'relay/core', 'export const now = new Date();'],
  ['a core reads a timer', GLOBALS, 'relay/core', 'export const now = performance.now();'],
  ['a core throws dice', 'eslint(no-restricted-properties)', 'host/core', 'export const id = Math.random();'],
  ['a core uses web crypto', GLOBALS, 'host/core', 'export const id = crypto.randomUUID();'],
  ['a core reaches around', GLOBALS, 'host/core', "export const id = globalThis['crypto'];"],
  ['a core reads the environment', GLOBALS, 'relay/core', 'export const home = process.env.HOME;'],
  ['a core sets a timer', GLOBALS, 'relay/core', 'setTimeout(() => {}, 1);'],
  ['a core in a template', GLOBALS, 'relay/core', 'export const text = `at ${Date.now()}`;'],
  ['a core behind a ternary', GLOBALS, 'relay/core', 'export const c = (x: boolean) => x ? crypto : 1;'],
  ['a core spreads', GLOBALS, 'relay/core', 'export const c = { ...process };'],
  ['what a core reaches reads the clock', GLOBALS, 'protocol', 'export const now = () => Date.now();'],
  ['what a core reaches reads files', IMPORTS, 'protocol', "import { readFile } from 'node:fs/promises';"],
  ['what a core reaches throws dice', IMPORTS, 'protocol', "import { randomBytes } from 'node:crypto';"],
  ['store imports engine', IMPORTS, 'relay/store', "import { engine } from '../engine/engine.ts';"],
  ['auth imports store', IMPORTS, 'relay/auth', "import { level } from '../store/level.ts';"],
  ['auth imports engine', IMPORTS, 'relay/auth', "import { engine } from '../engine/engine.ts';"],
  ['engine imports auth', IMPORTS, 'relay/engine', "import { hop } from '../auth/hop.ts';"],
  ['engine imports http', IMPORTS, 'relay/engine', "import { v2 } from '../http/v2.ts';"],
  ['engine imports operator', IMPORTS, 'relay/engine', "import { hosts } from '../operator/hosts.ts';"],
  ['http imports store', IMPORTS, 'relay/http', "import { level } from '../store/level.ts';"],
  ['http imports a type of store', IMPORTS, 'relay/http', "import type { level } from '../store/level.ts';"],
  ['http imports a value of core', IMPORTS, 'relay/http', "import { event } from '../core/event.ts';"],
  ['http imports operator', IMPORTS, 'relay/http', "import { hosts } from '../operator/hosts.ts';"],
  ['http imports a composition root', IMPORTS, 'relay/http', "import { serve } from '../relay.ts';"],
  ['operator imports a value of store', IMPORTS, 'relay/operator', "import { level } from '../store/level.ts';"],
  ['operator imports the room above it', IMPORTS, 'relay/operator', "import { api } from '../serve/host-api.ts';"],
  ['serve imports standby', IMPORTS, 'relay/serve', "import { lead } from '../standby/shared-lead.ts';"],
  ["standby imports the hosts' side", IMPORTS, 'relay/standby', "import { v2 } from '../http/v2.ts';"],
  ['the relay imports the host', IMPORTS, 'relay', "import { outbox } from '../host/core/outbox.ts';"],
  ['the relay imports cli', IMPORTS, 'relay', "import { main } from '../cli/main.ts';"],
  ['the host imports the relay', IMPORTS, 'host/mail', "import { event } from '../../relay/core/event.ts';"],
  ['the host imports a type of the relay', IMPORTS, 'host', "import type { e } from '../relay/core/event.ts';"],
  ['a subject of the host imports a transport', IMPORTS, 'host/mail', "import { client } from '../lan/client.ts';"],
  ['a lower floor of the host imports a higher', IMPORTS, 'host/outbox', "import { p } from '../peers/peers.ts';"],
  ['a subject of the host imports the daemon', IMPORTS, 'host/mail', "import { daemon } from '../daemon.ts';"],
  ['mcp imports the store', IMPORTS, 'host/mcp', "import { open } from '../store/open.ts';"],
  ['mcp imports cli', IMPORTS, 'host/mcp', "import { main } from '../../cli/main.ts';"],
  ['LevelDB in the engine', IMPORTS, 'relay/engine', "import type { Snapshot } from 'classic-level';"],
  ['LevelDB in a composition root', IMPORTS, 'host', "import { Level } from 'level';"],
  ['uWebSockets.js in a composition root', IMPORTS, 'relay', "import uws from 'uws-current';"],
  ['uWebSockets.js when run', IMPORTS, 'relay/auth', "const uws = await import('uws-compat');"],
  ['uWebSockets.js in a second file', IMPORTS, 'relay/http', "import type { HttpResponse } from 'uws-compat';"],
  ['a barrel of everything', BARREL, 'relay/core', "/** All. */\nexport * from './event.ts';"],
  [
    'a builtin without node:',
    'unicorn(prefer-node-protocol)',
    'relay/store',
    "import { readFile } from 'fs/promises';",
  ],
  [
    'an import that leaves nothing but its side effects',
    'typescript(no-import-type-side-effects)',
    'relay/http',
    "import { type hop } from '../auth/hop.ts';\nexport type H = typeof hop;",
  ],
  [
    'a type named by a path',
    'typescript(consistent-type-imports)',
    'relay/core',
    "export type A = import('../store/level.ts').Level;",
  ],
];

const HARMLESS = [
  "// import { level } from '../store/level.ts';",
  "/* export * from '../store/level.ts'; Date.now() */",
  `const text = "import { level } from '../store/level.ts'; Date.now()";`,
  'const template = `import x from "../store/level.ts" ${text} Math.random()`;',
  'interface Dice { process: string; crypto?: string; readonly Date: string }',
  'const dice = { process: text, crypto: text };',
  'export const sum = (facts: typeof dice) => facts.process + facts.crypto + Math.round(template.length);',
  'export type { Dice };',
].join('\n');

interface Finding {
  code: string;
  filename: string;
}

/** Returns what the linter finds of the layout, by file. */
async function findingsOf(sources: Readonly<Record<string, string>>): Promise<Map<string, string[]>> {
  const folder = await temporaryFolder();
  copyFileSync(join(ROOT, CONFIG), join(folder, CONFIG));
  for (const [path, source] of Object.entries(sources)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), `${source}\n`);
  }
  const printed = await new Promise<string>((resolve) => {
    const program = join(ROOT, 'node_modules/oxlint/bin/oxlint');
    // It ends with 1 when it found something.
    execFile(process.execPath, [program, '-f', 'json'], { cwd: folder, maxBuffer: 1 << 24 }, (_, out) => resolve(out));
  });
  const { diagnostics } = JSON.parse(printed) as { diagnostics: Finding[] };
  const found = new Map<string, string[]>();
  for (const { code, filename } of diagnostics) {
    if (!LAYOUT_RULES.has(code)) continue;
    const codes = found.get(filename) ?? [];
    if (!codes.includes(code)) codes.push(code);
    found.set(filename, codes);
  }
  return found;
}

const pathOf = (folder: string, at: number): string => `src/${folder}/broken-${at}.ts`;

/** One run of the linter over all of it, for all tests. */
let findings: Promise<Map<string, string[]>> | undefined;

function found(): Promise<Map<string, string[]>> {
  const broken = BROKEN.map(([, , folder, source], at) => [pathOf(folder, at), source]);
  findings ??= findingsOf({
    ...KEPT,
    ...(Object.fromEntries(broken) as Record<string, string>),
    'src/relay/core/harmless.ts': HARMLESS,
    'src/relay/core/decidePush.ts': 'export const a = 1;',
    'src/relay/core/round-a.ts': "import type { b } from './round-b.ts';\nexport const a = 1 as typeof b;",
    'src/relay/core/round-b.ts': "import { c } from './round-c.ts';\nexport const b = c;",
    'src/relay/core/round-c.ts': "import { a } from './round-a.ts';\nexport const c = a;",
  });
  return findings;
}

describe('import rules', () => {
  it.each(BROKEN.map(([why, rule, folder], at) => [why, rule, pathOf(folder, at)]))(
    'catch: %s',
    async (_why, rule, path) => {
      expect((await found()).get(path) ?? []).toContain(rule);
    },
  );

  it('catch a circle, type imports counted, and a name in camel case', async () => {
    const all = await found();
    expect(all.get('src/relay/core/round-b.ts')).toEqual(['import(no-cycle)']);
    expect(all.get('src/relay/core/decidePush.ts')).toEqual(['unicorn(filename-case)']);
  });

  it('find nothing in a tree that uses every allowed arrow, nor in what only looks like an import', async () => {
    const all = await found();
    for (const path of [...Object.keys(KEPT), 'src/relay/core/harmless.ts'])
      expect([path, all.get(path)]).toEqual([path, undefined]);
  });

  it('name every folder of src but cli, which may import all of it', () => {
    const { overrides } = JSON.parse(readFileSync(join(ROOT, CONFIG), 'utf8')) as {
      overrides: { files: string[]; rules: Record<string, unknown> }[];
    };
    const ruled = new Set(
      overrides
        .filter(({ rules }) => rules['no-restricted-imports'])
        .flatMap(({ files }) => files.map((file) => dirname(file))),
    );
    const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
      .map((entry) => entry.parentPath.slice(ROOT.length + 1));
    const without = [...new Set(folders)].filter(
      (folder) => !ruled.has(folder) && !ruled.has(dirname(folder)) && !folder.startsWith('src/cli'),
    );
    expect(without).toEqual([]);
    expect(folders).not.toContain('src');
  });
});
