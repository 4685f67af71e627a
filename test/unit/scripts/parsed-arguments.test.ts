/** What scripts say of arguments that they cannot use: one line, and no stack. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

async function ran(script: string, args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const file = fileURLToPath(new URL(`../../../scripts/${script}.ts`, import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit') as Promise<[code: number]>;
  const [[code], stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}

test('--help prints the head of the script', { timeout: 60_000 }, async () => {
  const { code, stdout, stderr } = await ran('programs', ['--help']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^`npm run programs`: [^*]*\n {4}npm run programs -- --list {2,}only their names\n$/);
});

test.each([
  ['programs', ['--nosuch'], "Unknown option '--nosuch': --help shows what there is"],
  ['programs', ['--only', 'nosuch'], 'There is no scenario with nosuch in its name: --list shows all.'],
  ['programs', ['--version', 'claude'], '--version takes <program>=<version> of claude, codex, '],
  ['torture', ['--only', 'nosuch'], 'There is no kind nosuch: model, '],
])('%s %j ends with one line', { timeout: 60_000 }, async (script, args, said) => {
  const { code, stdout, stderr } = await ran(script, args);
  expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
  expect(stderr).toContain(said);
});
