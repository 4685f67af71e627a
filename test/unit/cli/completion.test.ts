/** Tests what a shell offers: every command and flag, from the tree, and what the daemon knows. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { childrenOf, commandsBelow, type NamedCommand, optionsOf } from '../../../src/cli/lib/command-tree.ts';
import { COMPLETED, completionLines, SCRIPTS } from '../../../src/cli/lib/complete.ts';
import { EXIT } from '../../../src/cli/lib/exit.ts';
import { posteCommand } from '../../../src/cli/run.ts';
import { commandContext, runHere } from '../../support/command-run.ts';
import { DaemonClient } from '../../../src/host/api/client.ts';
import { atTestEnd } from '../../support/test-end.ts';
import { posteHome } from '../../support/poste-home.ts';
import type { Environment } from '../../support/poste-process.ts';

const NO_DAEMON = { POSTE_HOME: '/nowhere/poste' };

let root: Command;
let commands: NamedCommand[];

beforeAll(async () => {
  root = await posteCommand(undefined, commandContext());
  commands = commandsBelow(root);
});

/** The words that are offered after these, by the tree alone. */
async function offered(...words: string[]): Promise<string[]> {
  const context = commandContext({ environment: NO_DAEMON });
  const lines = await completionLines(root, words, context);
  return lines.map((line) => line.split('\t', 1)[0] ?? '');
}

/** The words that the command offers after these. */
async function printed(environment: Environment, ...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await runHere(['completion', 'candidates', '--', ...words], { environment });
  expect({ code, stderr }).toEqual({ code: EXIT.ok, stderr: '' });
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t', 1)[0] ?? '']));
}

describe('the tree', () => {
  test('offers every command and every flag of each', async () => {
    expect(commands.length).toBeGreaterThan(50);
    for (const { name, command } of commands) {
      const words = name.split(' ').slice(1);
      const children = childrenOf(command).map((child) => child.name());
      expect({ name, words: await offered(...words, '') }).toMatchObject({
        name,
        words: expect.arrayContaining(children) as string[],
      });
      const flags = optionsOf(command).map(({ long }) => long);
      expect({ name, flags: await offered(...words, '--') }).toEqual({ name, flags });
    }
  });

  test('offers what begins with what was typed, and a flag once', async () => {
    expect(await offered('sen')).toEqual(['send', 'sent'].filter((word) => word.startsWith('sen')));
    expect(await offered('relay', 'log', 'ver')).toEqual(['verify']);
    expect(await offered('inbox', '--st')).toEqual(['--state']);
    expect(await offered('inbox', '--state', 'all', '--st')).toEqual([]);
    expect(await offered('send', '--ref', 'a', '--ref')).toContain('--ref');
    expect(await offered('no-such', 'thing', '')).toEqual([]);
  });

  test('offers the choices of a flag and of an argument, and files where a file is meant', async () => {
    expect(await offered('inbox', '--state', '')).toEqual(['unread', 'unacked', 'all']);
    expect(await offered('inbox', 'list', '--state', 'un')).toEqual(['unread', 'unacked']);
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(await offered('backup', '')).toEqual([':files']);
    expect(await offered('send', '--body-file', '')).toEqual([':files']);
    expect(await offered('relay', 'serve', '--store-dir', '')).toEqual([':files']);
    expect(await offered('outbox', 'cancel', '--', '--')).toEqual([]);
  });

  test('has a command for all that the daemon is asked for', () => {
    const known = new Set(
      commands.flatMap(({ name, command }) =>
        command.registeredArguments.map((argument) => `${name.replace('poste ', '')} ${argument.name()}`),
      ),
    );
    expect(Object.keys(COMPLETED.arguments).filter((name) => !known.has(name))).toEqual([]);
    const flags = new Set(commands.flatMap(({ command }) => optionsOf(command).map(({ long }) => long)));
    expect(Object.keys(COMPLETED.options).filter((name) => !flags.has(name))).toEqual([]);
  });
});

test('without a daemon nothing of it is offered, and nothing is said', async () => {
  for (const words of [
    ['inbox', 'read', ''],
    ['send', '--to', ''],
    ['peer', 'remove', ''],
    ['quarantine', 'show', ''],
  ]) {
    expect(await printed(NO_DAEMON, ...words)).toEqual([]);
  }
  expect(await printed(NO_DAEMON, 'pe')).toEqual(['peer']);
});

test('the daemon knows agents, messages and sessions; asking it changes nothing', { timeout: 60_000 }, async () => {
  const home = await posteHome();
  await home.daemon();
  await home.json('agent', 'add', 'ann');
  await home.json('agent', 'add', 'ben', '--role', 'review');
  const message = ['send', '--as', 'ann', '--to', 'ben', '--subject', 'One\ttwo\nthree', '--body', 'b'];
  const { message_id: id } = await home.json<{ message_id: string }>(...message);
  const [, , , , , ...text] = message;
  const { message_id: toOwner } = await home.json<{ message_id: string }>(
    'send',
    '--as',
    'ann',
    '--to',
    'owner',
    ...text,
  );
  await home.json('session', 'register', 'build-7', '--as', 'ben');
  const here = (...words: string[]): Promise<string[]> => printed(home.environment, ...words);

  expect(await here('agent', 'remove', '')).toEqual(['ann', 'ben']);
  expect(await here('inbox', '--as', '')).toEqual(['ann', 'ben', 'owner']);
  expect(await here('send', '--to', 'ann', '')).toEqual(['ann', 'ben', 'owner', '*', 'role:review']);
  expect(await here('send', '--to', 'role:')).toEqual(['role:review']);
  expect(await here('inbox', 'read', '--as', 'ben', id.slice(0, 4))).toEqual([id]);
  expect(await here('inbox', 'ack', '--as', 'ben', id, '')).toEqual([id]);
  expect(await here('inbox', 'read', '--as', 'ann', '')).toEqual([]);
  expect(await here('sent', '--as', 'ann', '')).toEqual([toOwner, id]);
  expect(await printed({ ...home.environment, POSTE_AGENT: 'ben' }, 'reply', '')).toEqual([id]);
  // Where nobody is named, the messages are the owner's, and the sessions those of all.
  expect(await here('inbox', 'read', '')).toEqual([toOwner]);
  expect(await here('session', 'end', '')).toEqual(['build-7']);
  expect(await here('peer', 'remove', '')).toEqual([]);
  // What a subject says stays in one line.
  const { stdout } = await runHere(['completion', 'candidates', '--', 'inbox', 'read', '--as', 'ben', ''], {
    environment: home.environment,
  });
  expect(stdout).toBe(`${id}\tann@here: One\\u{9}two\\u{a}three\n`);
  // No sender is told that anybody was notified.
  expect(await home.json('sent', '--as', 'ann', id)).toMatchObject({
    messages: [{ recipients: [{ state: 'delivered' }] }],
  });
});

test('an address may be of a paired host, whatever agent writes', async () => {
  const call = vi.spyOn(DaemonClient.prototype, 'call').mockResolvedValue({
    you: null,
    agents: [
      { address: 'ann@here', name: 'ann', host: 'here', roles: ['qa'], presence: 'live', directory_age_seconds: null },
      { address: 'tester@server', name: 'tester', host: 'server', roles: ['qa', 'dev'], presence: 'remote' },
    ],
  });
  atTestEnd(() => call.mockRestore());
  const { stdout } = await runHere(['completion', 'candidates', '--', 'send', '--to', ''], { environment: NO_DAEMON });
  expect(stdout.split('\n').map((line) => line.split('\t', 1)[0])).toEqual([
    'ann',
    'tester@server',
    'owner',
    '*',
    'role:qa',
    'role:dev',
    '',
  ]);
  // No other host is asked, whose answer could take a while.
  expect(call.mock.calls.map(([name]) => name)).toEqual(['known-agents']);
  expect(await printed(NO_DAEMON, 'send', '--to', 'te')).toEqual(['tester@server']);
});

test.skipIf(!existsSync('/bin/bash'))('bash quotes what it would expand', () => {
  const poste = `poste() { printf '*\\teveryone\\nrole:qa\\tall\\n'; }`;
  const line = 'COMP_WORDS=(poste send --to ""); COMP_CWORD=3; _poste; printf "%s|" "${COMPREPLY[@]}"';
  const stdout = execFileSync('/bin/bash', ['-c', `${SCRIPTS.bash}\n${poste}\n${line}`], { encoding: 'utf8' });
  expect(stdout).toBe('\\*|role:qa|');
});

test('a shell that is none is a usage error, which names those that are', async () => {
  for (const args of [['completion'], ['completion', 'ksh']]) {
    const { code, stdout, stderr } = await runHere(args);
    expect({ code, stdout }).toEqual({ code: EXIT.usage, stdout: '' });
    expect(stderr).toMatch(/'shell'/);
  }
  expect((await runHere(['completion', 'ksh'])).stderr).toContain('Allowed choices are bash, zsh, fish.');
});
