/** A wrong value of any flag or argument is a usage error in plain words, which name the flag or the argument. */
import type { Command, Option } from 'commander';
import { afterEach, expect, test, vi } from 'vitest';
import { COMMANDS, type CommandTable } from '../../../src/cli/commands.ts';
import { commandsBelow, defaultChildOf, type NamedCommand } from '../../../src/cli/lib/command-tree.ts';
import { CommandFailed, EXIT } from '../../../src/cli/lib/exit.ts';
import { posteCommand } from '../../../src/cli/run.ts';
import { CallFailed, DaemonClient } from '../../../src/host/api/client.ts';
import { parseOperationInput } from '../../../src/host/api/handlers.ts';
import { OPERATIONS } from '../../../src/host/api/operations.ts';
import { PATTERN_TEXTS, badInput } from '../../../src/host/contract/parse-input.ts';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import { noSuchMessage } from '../../../src/host/mailbox/mailbox.ts';
import { commandContext, runHere } from '../../support/command-run.ts';

/** The words of schemas and their paths, which no person types, and members of inputs in the place of flags. */
const OF_SCHEMAS = new RegExp(
  String.raw`must (?:match|not have|NOT|be (?:[<>=]|integer|string|array|object|boolean|equal))|pattern|schema` +
    String.raw`|propert|undefined|NaN|poste: (?:\/[a-z_]+ |[a-z]+_|[a-z_]+\[)`,
);

/** Values that most flags and arguments refuse, and one for commands that ask no daemon: no schema is theirs. */
const WRONG = ['', 'ü ?', '9'.repeat(201)];
const WRONG_HERE = ['ü ?'];

/** Values that their flags and arguments take, by name; any other takes `x1`. */
const RIGHT: Readonly<Record<string, string>> = {
  address: '127.0.0.1:8789',
  url: 'https://relay.example',
  row: '1',
  number: '1',
  shell: 'bash',
  '--log': 'postgres://a@127.0.0.1/b',
  '--node': 'a-0c1d2e3f',
};

const STOPPED = 'the command would have begun';

afterEach(() => {
  vi.restoreAllMocks();
});

/** Ends each command that asks no daemon before it does anything. */
function stopCommands(table: CommandTable): void {
  for (const entry of Object.values(table)) {
    if ('commands' in entry) {
      stopCommands(entry.commands);
      continue;
    }
    const { load } = entry;
    vi.spyOn(entry, 'load').mockImplementation(async (context) => {
      const loaded = await load(context);
      for (const { command } of commandsBelow(loaded)) if (!asksDaemon(command)) command.hook('preAction', stop);
      return loaded;
    });
  }
}

function asksDaemon(command: Command): boolean {
  return command.options.some(({ long }) => long === '--start');
}

function stop(): never {
  throw new CommandFailed('failure', 'STOPPED', STOPPED);
}

/** Answers a call as the daemon does whose schemas refuse the input, and otherwise as one that is not there. */
function refuseCalls(): void {
  vi.spyOn(DaemonClient.prototype, 'call').mockImplementation((name, input) => {
    const parsed = parseOperationInput(name, Buffer.from(JSON.stringify(input)));
    const { code, message, details } = isRefusal(parsed) ? parsed : { code: 'NONE', message: STOPPED, details: {} };
    return Promise.reject(new CallFailed(code, isRefusal(parsed) ? 400 : 0, message, details));
  });
}

/** The words of the command, with what it needs but the one that is left out. */
function wordsOf({ name, command }: NamedCommand, without: string | undefined): string[] {
  const needed = command.options.filter(({ mandatory, long }) => mandatory && long !== without);
  const flags = needed.flatMap(({ long = '' }) => [long, RIGHT[long] ?? 'x1']);
  const body = /send|reply/.test(name) && without !== '--body' && without !== '--body-file' ? ['--body', 'b'] : [];
  return [...name.split(' ').slice(1), ...flags, ...body];
}

function argumentsOf(command: Command): string[] {
  const needed = (defaultChildOf(command) ?? command).registeredArguments.filter(({ required }) => required);
  return needed.map((argument) => RIGHT[argument.name()] ?? argument.argChoices?.[0] ?? 'x1');
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional;
}

/** Every command line with one wrong value. */
function* wrongLines(named: NamedCommand): Generator<{ about: string; args: string[] }> {
  const { command } = named;
  const wrong = asksDaemon(command) ? WRONG : WRONG_HERE;
  for (const { long = '', variadic } of command.options.filter(takesValue)) {
    for (const value of wrong) {
      yield { about: long, args: [...wordsOf(named, long), `${long}=${value}`, '--', ...argumentsOf(command)] };
    }
    if (variadic)
      yield { about: long, args: [...wordsOf(named, long), ...Array.from({ length: 501 }, () => [long, 'x']).flat()] };
  }
  for (const [at, argument] of command.registeredArguments.entries()) {
    for (const value of argument.variadic ? [...wrong, 'many'] : wrong) {
      const values = value === 'many' ? Array.from({ length: 501 }, () => 'x') : [value];
      const all = argumentsOf(command).toSpliced(at, 1, ...values);
      yield { about: argument.name(), args: [...wordsOf(named, undefined), '--', ...all] };
    }
  }
}

test('every wrong value of every flag and argument ends with 2, in words without schemas', {
  timeout: 60_000,
}, async () => {
  const commands = commandsBelow(await posteCommand(undefined, commandContext()));
  stopCommands(COMMANDS);
  refuseCalls();
  const environment = { POSTE_HOME: '/nowhere/poste', HOME: '/nowhere', POSTE_AGENT: '' };
  const refused = new Set<string>();
  const wrong: object[] = [];
  for (const named of commands) {
    for (const { about, args } of wrongLines(named)) {
      const { code, stderr } = await runHere(args, { environment });
      const isTaken = stderr.includes(STOPPED) || code === EXIT.notFound;
      if (!isTaken) refused.add(`${named.name} ${about}`);
      const shown = { args: args.map((word) => word.slice(0, 40)).slice(0, 12), code, stderr: stderr.slice(0, 300) };
      if (OF_SCHEMAS.test(stderr) || (!isTaken && code !== EXIT.usage)) wrong.push(shown);
    }
  }
  expect(wrong).toEqual([]);
  expect(refused.size).toBeGreaterThan(120);
});

test.each([
  [['inbox', '--limit', '101'], 'It must be a whole number from 1 to 100.'],
  [['outbox', '--limit', '0'], 'It must be a whole number from 1 to 200.'],
  [
    ['inbox', 'read', 'a b'],
    'poste: <message> must be letters, digits, dots, hyphens and underscores, at most 128 characters.\n',
  ],
  [
    ['send', '--to', 'bob', '--subject', '', '--body', 'b'],
    'poste: --subject must be a text of 1 to 200 characters.\n',
  ],
  [['agent', 'rename', 'bob', '-', '--json'], '"message":"<new-name> must be letters, digits, dots, hyphens'],
  [['relay', 'set', 'https://a.example', '--witness', 'x'.repeat(201)], 'poste: --witness must be a text of 1 to 200 '],
  [['session', 'register', 'a', '--pid', '1'], 'poste: --pid must be a whole number from 2 to 2147483647.\n'],
  [['session', 'register', 'a', '--', 'sh', 'x'.repeat(5000)], 'at most 64 arguments, of 4096 characters each.\n'],
])('%j says what the value may be', async (args, said) => {
  refuseCalls();
  const { code, stderr } = await runHere(args, { environment: { POSTE_HOME: '/nowhere/poste' } });
  expect({ code, stderr }).toEqual({ code: EXIT.usage, stderr: expect.stringContaining(said) as string });
});

test.each([
  [['inbox', 'search', 'a:b'], badInput('text', 'has a:, which is no filter'), '<text> has a:, which is no filter.'],
  [['reply', '9', '--body', 'b'], noSuchMessage('message_id', '9'), '<message>: there is no message 9 in this mailbox'],
  [
    ['inbox', '--reply-to', '9x'],
    noSuchMessage('reply_to', '9x'),
    '--reply-to: there is no message 9x in this mailbox',
  ],
])('what the daemon says of %j names the flag or the argument', async (args, { code, message, details }, said) => {
  vi.spyOn(DaemonClient.prototype, 'call').mockImplementation((name) =>
    name === 'message-numbers'
      ? Promise.resolve({ messages: [] } as never)
      : Promise.reject(new CallFailed(code, 404, message, details)),
  );
  const { stderr } = await runHere([...args, '--as', 'alice'], { environment: { POSTE_HOME: '/nowhere/poste' } });
  expect(stderr.startsWith(`poste: ${said}`)).toBe(true);
});

test('every pattern of an input has words', () => {
  const patterns = new Set<string>();
  const walk = (schema: object): void => {
    for (const [name, value] of Object.entries(schema)) {
      if (name === 'pattern' && typeof value === 'string') patterns.add(value);
      if (typeof value === 'object' && value !== null) walk(value as object);
    }
  };
  for (const { input } of Object.values(OPERATIONS)) walk(input);
  expect(Object.keys(PATTERN_TEXTS).toSorted()).toEqual([...patterns].toSorted());
});
