/** The scripts of `poste completion` in the shells that they are for, with the built program. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test, type TestContext } from 'vitest';
import type { Shell } from '../../src/cli/lib/complete.ts';
import { runHere } from '../support/command-run.ts';
import { BASH, FISH, neededProgram, type Program, ZSH } from '../support/programs.ts';
import { posteHome } from '../support/poste-home.ts';
import type { Environment } from '../support/poste-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PROGRAM = join(import.meta.dirname, '../../dist/cli/main.js');

/** A line of a shell, behind the script, with `poste` on its path. Resolves with the lines that it prints. */
async function inShell(
  context: TestContext,
  [name, program]: [Shell, Program],
  line: string,
  here: Environment = {},
): Promise<string[]> {
  const shell = neededProgram(context, program);
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'poste'), `#!/bin/sh\nexec '${process.execPath}' '${PROGRAM}' "$@"\n`, { mode: 0o755 });
  const script = join(folder, 'script');
  await writeFile(script, (await runHere(['completion', name])).stdout);
  const environment = { PATH: `${folder}:${dirname(shell)}:/usr/bin:/bin`, HOME: folder, POSTE_HOME: folder, ...here };
  const options = { env: environment, cwd: folder };
  const { stdout, stderr } = await promisify(execFile)(shell, ['-c', line.replaceAll('SCRIPT', script)], options);
  expect(stderr).toBe('');
  return stdout.trimEnd().split('\n');
}

/** Completes these words in bash. */
async function inBash(context: TestContext, here: Environment, ...words: string[]): Promise<string[]> {
  const line = `source SCRIPT
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
    _poste; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return inShell(context, ['bash', BASH], line, here);
}

test('bash completes commands, flags and choices', { timeout: 60_000 }, async (context) => {
  expect(await inBash(context, {}, 'poste', 'inbox', '--st')).toEqual(['--state']);
  expect(await inBash(context, {}, 'poste', 'relay', 'log', 'ver')).toEqual(['verify']);
  expect(await inBash(context, {}, 'poste', 'inbox', '--state', '')).toEqual(['unread', 'unacked', 'all']);
  expect(await inBash(context, {}, 'poste', '')).toContain('setup');
});

test('bash completes words with a colon, which it splits there', { timeout: 60_000 }, async (context) => {
  const home = await posteHome();
  await home.daemon();
  await home.json('agent', 'add', 'ben', '--role', 'review', 'release');
  const typed = ['poste', 'send', '--to', 'role', ':', 're'];
  expect(await inBash(context, home.environment, ...typed)).toEqual(['review', 'release']);
  expect(await inBash(context, home.environment, ...typed.slice(0, 4))).toEqual(['role:review', 'role:release']);
});

test('zsh gets the same words with what they stand for', { timeout: 60_000 }, async (context) => {
  const line = `compdef() { }; _describe() { print -rl -- "\${(@P)2}"; }
    source SCRIPT
    words=(poste inbox --st) CURRENT=3; _poste`;
  expect(await inShell(context, ['zsh', ZSH], line)).toEqual(['--state:which messages (default: unread)']);
});

test('fish gets the same words with what they stand for', { timeout: 60_000 }, async (context) => {
  // It sorts them.
  expect(await inShell(context, ['fish', FISH], `source SCRIPT; complete -C 'poste inbox --st'`)).toEqual([
    '--state\twhich messages (default: unread)',
  ]);
});
