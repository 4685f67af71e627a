/** The table of commands: a command is loaded only when it is named, so that the rest starts fast. */
import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { afterEach, expect, test, vi } from 'vitest';
import { CLIENT_OPTIONS } from '../../../scripts/program-options.ts';
import { COMMANDS, type CommandTable } from '../../../src/cli/commands.ts';
import { commandsBelow, optionsOf } from '../../../src/cli/lib/command-tree.ts';
import { MEANT_COMMANDS } from '../../../src/cli/lib/meant-commands.ts';
import { LARGE_COMMANDS } from '../../../src/cli/large-commands.ts';
import { EXIT } from '../../../src/cli/lib/exit.ts';
import { posteCommand } from '../../../src/cli/run.ts';
import { commandContext, runHere } from '../../support/command-run.ts';

const SOURCES = join(import.meta.dirname, '../../../src');
const STATIC_IMPORT = /^(?:import|export) (?!type )(?<names>[^;]*?)from '(?<from>\.[^']+)';$/gm;

afterEach(() => {
  vi.restoreAllMocks();
});

/** Notes in `loaded` each command that is loaded from now on. */
function watchLoads(table: CommandTable, loaded: string[], parent = ''): void {
  for (const [name, entry] of Object.entries(table)) {
    if ('commands' in entry) {
      watchLoads(entry.commands, loaded, `${parent}${name} `);
      continue;
    }
    const { load } = entry;
    vi.spyOn(entry, 'load').mockImplementation((context) => {
      loaded.push(parent + name);
      return load(context);
    });
  }
}

async function loadedBy(...args: string[]): Promise<string[]> {
  const loaded: string[] = [];
  watchLoads(COMMANDS, loaded);
  await runHere(args);
  vi.restoreAllMocks();
  return loaded;
}

test.each([
  [[]],
  [['--help']],
  [['help']],
  [['--version']],
  [['sned']],
  [['relay']],
  [['relay', '--help']],
  [['help', 'relay']],
  [['relay', 'log', '--help']],
])('poste %s loads no command', async (args) => {
  expect(await loadedBy(...args)).toEqual([]);
});

test.each([
  [['status', '--help'], 'status'],
  [['help', 'status'], 'status'],
  [['agent', 'list', '--as', 'poste', '--no-such-flag'], 'agent'],
  [['relay', 'revoke', '--no-such-flag', 'relay'], 'relay revoke'],
  [['relay', 'help', 'keygen'], 'relay keygen'],
  [['relay', 'log', 'archive', '--help'], 'relay log archive'],
])('poste %s loads %s alone', async (args, name) => {
  expect(await loadedBy(...args)).toEqual([name]);
});

test('nothing that starting the program imports is part of a command', () => {
  // A hook runs main.ts at every prompt: nothing comes with it but names.
  expect(staticImports(join(SOURCES, 'cli/main.ts'))).toEqual(['cli/main.ts', 'cli/large-commands.ts']);
  const files = staticImports(join(SOURCES, 'cli/run.ts'));
  expect(files).toContain('cli/commands.ts');
  expect(files.filter((file) => !/^cli\/(?:[a-z]+|lib\/[a-z-]+)\.ts$|^lib\/|^protocol\//.test(file))).toEqual([]);
  expect(files.length).toBeLessThan(15);
});

test('the commands that ask the daemon are one file, with no package but commander and widths', async () => {
  const { metafile } = await build({ ...CLIENT_OPTIONS, outfile: '/nowhere/client.cjs', write: false, metafile: true });
  const output = Object.values(metafile.outputs).find(({ entryPoint }) => entryPoint !== undefined);
  const held = Object.entries(output?.inputs ?? {}).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  const packages = held.map(([path]) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  const widths = ['string-width', 'strip-ansi', 'ansi-regex', 'get-east-asian-width'];
  expect(new Set(packages)).toEqual(new Set([undefined, 'commander', ...widths]));
  expect(output?.bytes).toBeLessThan(220_000);
  // Not every Node.js that runs Poste can `require` an ES module.
  const required = output?.imports.filter(({ kind, external }) => external && kind === 'require-call') ?? [];
  expect(required.map(({ path }) => path).filter((path) => !path.startsWith('node:'))).toEqual(['./mcp.cjs']);
  const leftOut = output?.imports.filter(({ kind }) => kind === 'dynamic-import').map(({ path }) => path) ?? [];
  for (const [name, modules] of Object.entries(LARGE_COMMANDS)) {
    expect(Object.keys(COMMANDS)).toContain(name);
    for (const module of modules) expect(leftOut.some((path) => path.startsWith(module))).toBe(true);
  }
});

test('a hook loads neither the command line nor the schemas of the operations', () => {
  const files = staticImports(join(SOURCES, 'cli/mail/run-as-hook.ts'));
  expect(files).toContain('host/hooks/run-hook.ts');
  const shared = files.filter((file) => file.startsWith('host/contract/') || file === 'host/api/operations.ts');
  expect(shared).toEqual(['host/contract/socket-protocol.ts']);
  // The bundle leaves out what is not used of the others.
  for (const name of ['commander', 'typebox', 'smol-toml']) expect(packagesOf(files)).not.toContain(name);
});

/** The packages that these files import. */
function packagesOf(files: readonly string[]): string[] {
  const texts = files.map((file) => readFileSync(join(SOURCES, file), 'utf8'));
  const named = [...texts.join('\n').matchAll(/^import (?!type )[^;]*? from '([^'./][^']*)';/gm)];
  return named.map(([, name = '']) => name).filter((name) => !name.startsWith('node:'));
}

/** The file and all that it imports before it runs, below src. */
function staticImports(file: string, found = new Set<string>()): string[] {
  if (found.has(relative(SOURCES, file))) return [...found];
  found.add(relative(SOURCES, file));
  for (const { groups } of readFileSync(file, 'utf8').matchAll(STATIC_IMPORT)) {
    const names = (groups?.['names'] ?? '').split(/[{},]/).map((name) => name.trim());
    if (names.every((name) => name === '' || name.startsWith('type '))) continue;
    staticImports(join(dirname(file), groups?.['from'] ?? ''), found);
  }
  return [...found];
}

test('help lists every command with its summary, also beside one that is loaded', async () => {
  const { code, stdout } = await runHere(['--help']);
  expect(code).toBe(EXIT.ok);
  const listed = new Map(stdout.split('\n').map((line) => [line.trim().split(/\s{2,}/)[0], line] as const));
  for (const [name, entry] of Object.entries(COMMANDS))
    expect(listed.has(name)).toBe(!('isHidden' in entry && entry.isHidden));
  const beside = await posteCommand(['status'], commandContext());
  expect(beside.commands.map((command) => [command.name(), command.description()])).toEqual(
    Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary]),
  );
});

test('a mistyped command is a usage error, and names the one that was meant', async () => {
  for (const [args, meant] of [
    [['sned'], 'send'],
    [['relay', 'serv'], 'serve'],
    [['relay', 'log', 'verfy'], 'verify'],
  ] as const) {
    const { code, stdout, stderr } = await runHere(args);
    expect({ code, stdout }).toEqual({ code: EXIT.usage, stdout: '' });
    expect(stderr).toContain(`(Did you mean ${meant}?)`);
  }
});

test.each([
  [['read', '3'], "unknown command 'read'\n(Did you mean poste inbox read?)\n(see poste --help)\n"],
  [['whoami'], '(Did you mean poste agent or poste status?)'],
  [['relay', 'start'], "unknown command 'start'\n(Did you mean poste relay serve?)\n(see poste relay --help)\n"],
  [['daemon', 'start'], "unknown command 'start'\n(Did you mean poste daemon?)\n(see poste daemon --help)\n"],
  [['daemon', 'lgs'], "unknown command 'lgs'\n(Did you mean logs?)\n"],
  [['toString'], "unknown command 'toString'\n(see"],
  [['stop', '--json'], '"message":"unknown command \'stop\'\\n(Did you mean poste daemon stop?)"'],
])('%j names the command that does what its word means', async (args, said) => {
  const { code, stdout, stderr } = await runHere(args);
  expect({ code, stdout, stderr }).toEqual({
    code: EXIT.usage,
    stdout: '',
    stderr: expect.stringContaining(said) as string,
  });
});

test('every command that a word may mean is there, and no word is itself a command', async () => {
  const all = commandsBelow(await posteCommand(undefined, commandContext()));
  const commandOf = (words: string) => all.find(({ name }) => name === `poste ${words}`)?.command;
  for (const [word, meant] of Object.entries(MEANT_COMMANDS)) {
    expect({ word, command: commandOf(word) }).toEqual({ word, command: undefined });
    for (const words of meant) {
      const [name = '', flag] = words.split(/ (?=--)/);
      const command = commandOf(name);
      const flags = command && optionsOf(command).map(({ long }) => long);
      const isThere = flags !== undefined && (flag === undefined || flags.includes(flag));
      expect({ words, isThere }).toEqual({ words, isThere: true });
    }
  }
});

test('help lists commands under headings, each under one', async () => {
  for (const args of [['--help'], ['relay', '--help'], ['relay', 'log', '--help']]) {
    const { stdout } = await runHere(args);
    expect(stdout).not.toContain('\nCommands:\n');
    expect(stdout).toContain('\nHelp:\n');
  }
  const { stdout } = await runHere(['relay', '--help']);
  const headings = stdout.split('\n').filter((line) => /^[A-Z].*:$/.test(line));
  const isOfHost = (name: string) => stdout.indexOf(`\n  ${name} `) < stdout.indexOf('Run a relay for others:');
  expect(headings).toContain('The relays that carry the mail of this host:');
  expect(['set', 'unset', 'status', 'quarantine', 'serve', 'hosts', 'backup', 'log'].filter(isOfHost)).toEqual([
    'set',
    'unset',
    'status',
    'quarantine',
  ]);
});

/** The first words. */
function beginning({ text }: { text: string }): string {
  return text.split(' ').slice(0, 5).join(' ');
}

test('no two commands are described alike, and each in one sentence', async () => {
  const described = commandsBelow(await posteCommand(undefined, commandContext())).map(({ name, command }) => ({
    name,
    text: command.description(),
  }));
  const seen = new Set<string>();
  expect(described.filter((one) => seen.size === seen.add(beginning(one)).size)).toEqual([]);
  expect(described.filter(({ text }) => !/^[A-Z][^.]*\.$/.test(text))).toEqual([]);
});
