/** The package that npm would publish: packed, put into an empty folder as an installed one lies there, and used. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { posteHome } from '../support/poste-home.ts';
import { relayProcess } from '../support/poste-process.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

interface Packed {
  filename: string;
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

async function poste(...args: string[]): Promise<string> {
  const { stdout } = await run('npx', ['--no-install', 'poste', ...args], { cwd: home.folder });
  return stdout;
}

/** A command of each of the three files of the program. */
test('npx poste runs from it', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  expect((await poste('--version')).trim()).toBe(version);
  expect(await poste('inbox', '--help')).toContain('Usage: poste inbox');
  expect(await poste('relay', 'serve', '--help')).toContain('Usage: poste relay serve');
});

/** The output of an example. */
async function printed(name: string, ...args: string[]): Promise<string> {
  const file = join(home.folder, `${name}.mjs`);
  writeFileSync(file, readFileSync(join(ROOT, 'docs/examples', `${name}.mjs`)));
  const { stdout } = await run(process.execPath, [file, ...args], { cwd: home.folder });
  return stdout;
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
    const page = readFileSync(join(ROOT, 'docs/library.md'), 'utf8');
    const [, example = ''] = /^```js\n(.*?)^```$/ms.exec(page) ?? [];
    const file = join(home.folder, 'daemon.mjs');
    writeFileSync(file, example);
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
