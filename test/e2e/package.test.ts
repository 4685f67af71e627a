/** The package that npm would publish: packed, put into an empty folder as an installed one lies there, and used. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocksOf, commandsOf, docPage } from '../support/doc-pages.ts';
import { localRegistry } from '../support/local-registry.ts';
import { posteHome } from '../support/poste-home.ts';
import { relayProcess } from '../support/poste-process.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

interface Packed {
  filename: string;
  version: string;
  unpackedSize: number;
  files: { path: string }[];
}

let packed: Packed;
let home: Awaited<ReturnType<typeof disposableFolder>>;

/** Its dependencies are those of this checkout. */
beforeAll(async () => {
  home = await disposableFolder();
  // Without its scripts: they would build anew what other tests are running.
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', home.folder], {
    cwd: ROOT,
  });
  [packed] = JSON.parse(stdout) as [Packed];
  const modules = join(home.folder, 'node_modules');
  mkdirSync(join(modules, '.bin'), { recursive: true });
  await run('tar', ['-xzf', packed.filename, '-C', modules], { cwd: home.folder });
  await run('mv', ['package', 'poste'], { cwd: modules });
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  symlinkSync('../poste/dist/cli/main.js', join(modules, '.bin/poste'));
  writeFileSync(join(home.folder, 'package.json'), '{"private":true,"type":"module"}');
});
afterAll(() => home.remove());

test('holds what it runs and what people read, and no tests, sources or maps', () => {
  const paths = packed.files.map(({ path }) => path);
  for (const path of [
    'dist/cli/main.js',
    'dist/cli/mcp.json',
    'dist/program/client.cjs',
    'dist/program/mcp.cjs',
    'dist/program/run.js',
    'dist/library/core.js',
    'docs/openapi.json',
    'man/poste.1',
    'README.md',
    'LICENSE',
  ])
    expect(paths).toContain(path);
  expect(paths.filter((path) => /^(?:test|src|bench|scripts)\/|\.map$|\.test\./.test(path))).toEqual([]);
  expect(packed.unpackedSize).toBeLessThan(6_000_000);
});

/** PATH has no `poste` of the checkout. */
const OUTSIDE = [dirname(process.execPath), '/usr/bin', '/bin'].join(':');

async function poste(bin: string, ...args: string[]): Promise<string> {
  const { stdout } = await run('poste', args, { cwd: home.folder, env: { PATH: `${bin}:${OUTSIDE}` } });
  return stdout;
}

/** A command of each of the three files of the program. */
test('poste runs from it', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const bin = join(home.folder, 'node_modules/.bin');
  expect((await poste(bin, '--version')).trim()).toBe(version);
  expect(await poste(bin, 'inbox', '--help')).toContain('Usage: poste inbox');
  expect(await poste(bin, 'relay', 'serve', '--help')).toContain('Usage: poste relay serve');
});

test.runIf(IS_THOROUGH)('npm puts it into an empty prefix as the README says, and takes it out again', async () => {
  const lines = blocksOf(docPage('README.md')).filter(({ heading }) => heading === 'Get the command');
  const [, , install = '', version = ''] = lines.flatMap(commandsOf).map(({ text }) => text);
  const prefix = join(home.folder, 'prefix');
  const env = {
    PATH: `${prefix}/bin:${OUTSIDE}`,
    HOME: home.folder,
    npm_config_prefix: prefix,
    npm_config_registry: await localRegistry(),
    npm_config_cache: join(home.folder, 'cache'),
  };
  const type = (line: string) => run('/bin/sh', ['-c', line], { cwd: home.folder, env });
  expect(install).toContain(packed.filename);
  await type(install);
  expect((await type(version)).stdout).toBe(`${packed.version}\n`);
  expect((await type('poste --help')).stdout).toContain('Usage: poste');
  expect((await type('poste init && poste inbox --as owner --start && poste daemon stop')).stdout).toContain('stopped');
  await type('npm uninstall --global poste');
  expect(readdirSync(join(prefix, 'bin'))).toEqual([]);
  expect(readdirSync(join(prefix, 'lib/node_modules')).filter((name) => !name.startsWith('.'))).toEqual([]);
});

/** The output of an example. */
async function printed(name: string, ...args: string[]): Promise<string> {
  const file = join(home.folder, `${name}.mjs`);
  writeFileSync(file, readFileSync(join(ROOT, 'docs/examples', `${name}.mjs`)));
  const { stdout } = await run(process.execPath, [file, ...args], { cwd: home.folder });
  return stdout;
}

/** The one that stands in the page of the library itself. */
function daemonExample(): string {
  return blocksOf(docPage('docs/library.md')).find(({ language }) => language === 'js')?.text ?? '';
}

describe('the examples of the docs run against it', () => {
  test('protocol', async () => {
    expect(await printed('protocol')).toContain('The hop is signed');
  });

  test('core', async () => {
    expect(await printed('core')).toMatch(/^[1-9][0-9]* items were accepted/);
  });

  test('client', async () => {
    const { start } = await relayProcess(join(home.folder, 'relay'));
    const said = await printed('client', start.url);
    expect(said.trim().split('\n').length).toBeGreaterThan(2);
  });

  test('the daemon, in the page of the library', async () => {
    const file = join(home.folder, 'daemon.mjs');
    writeFileSync(file, daemonExample());
    const host = await posteHome('server');
    await host.daemon();
    for (const name of ['builder', 'tester']) await host.json('agent', 'add', name);
    await host.json('send', '--as', 'tester', '--to', 'builder', '--subject', 'Tested', '--body', 'It works.');
    const env = { ...process.env, ...host.environment };
    const { stdout } = await run(process.execPath, [file], { cwd: home.folder, env });
    expect(stdout).toBe('tester@server: Tested\n');
    expect(await host.json('inbox', '--as', 'tester')).toMatchObject({ summaries: [{ subject: 'Ready' }] });
  });

  test.runIf(IS_THOROUGH)('their types are those of the package', async () => {
    for (const name of readdirSync(join(ROOT, 'docs/examples'))) {
      writeFileSync(join(home.folder, `typed-${name}`), readFileSync(join(ROOT, 'docs/examples', name)));
    }
    writeFileSync(join(home.folder, 'typed-daemon.mjs'), daemonExample());
    const options = [
      '--allowJs',
      '--checkJs',
      '--noEmit',
      '--strict',
      'false',
      '--module',
      'nodenext',
      '--target',
      'es2023',
    ];
    const files = readdirSync(home.folder).filter((name) => name.startsWith('typed-'));
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    const checked = await run(tsc, [...options, '--types', 'node', ...files], { cwd: home.folder }).catch(
      (error: { stdout: string }) => error,
    );
    expect(checked.stdout).toBe('');
  });
});
