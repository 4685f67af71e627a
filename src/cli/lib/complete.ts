/** The words that may come next on a command line, from the tree of commands and from the daemon. */
import type { Argument, Command, Option } from 'commander';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';
import { childrenOf, defaultChildOf, optionsOf } from './command-tree.ts';
import type { CompletionSources, CompletionWord, SourceName } from './completion-sources.ts';
import { FILES } from './completion-scripts.ts';

/** Builds `poste` with the command loaded that `argv` names. */
export type CommandTree = (argv: readonly string[] | undefined, context: CommandContext) => Promise<Command>;

/** What values of an option come from, by its long name; at commands of the relay they name other things. */
const OPTION_SOURCES: Readonly<Record<string, SourceName>> = {
  '--as': 'actors',
  '--agent': 'agents',
  '--to': 'addresses',
  '--host': 'hosts',
  '--reply-to': 'messagesAndSent',
};

/** The same of arguments, by command and name. */
const ARGUMENT_SOURCES: Readonly<Record<string, SourceName>> = {
  'agent rename name': 'agents',
  'agent roles name': 'agents',
  'agent remove name': 'agents',
  'peer address host': 'hosts',
  'peer remove host': 'hosts',
  'inbox read message': 'messages',
  'inbox ack message': 'messages',
  'inbox thread thread': 'messagesAndSent',
  'reply message': 'messages',
  'sent message': 'sent',
  'trace message-id': 'messagesAndSent',
  'outbox cancel row': 'outboxRows',
  'quarantine show number': 'quarantined',
  'quarantine retry number': 'quarantined',
  'quarantine discard number': 'quarantined',
  'session heartbeat session': 'sessions',
  'session wait session': 'sessions',
  'session end session': 'sessions',
};

/** What a value is called that names a file or a folder. */
const FILE_VALUE = /^(?:file|dir|folder|path|program)$/;

/** Where the words lead. */
interface Place {
  command: Command;
  /** Its name, with those of its parents below `poste`. */
  path: string;
  /** How many arguments came already. */
  arguments: number;
  /** The option whose value comes next. */
  option: Option | undefined;
  given: Set<string>;
  /** The value of `--as`. */
  as: string | undefined;
  /** Whether `--` came: no flag follows. */
  isOver: boolean;
}

/**
 * Lines for the shell: a word, a tab and what it stands for; or `:files`. `root` is `poste`, with the command loaded that
 * the words name.
 *
 * @param words - what follows `poste`; the last one is being typed.
 */
export async function completionLines(
  root: Command,
  words: readonly string[],
  sourcesFor: (as: string | undefined) => CompletionSources,
): Promise<string[]> {
  const current = words.at(-1) ?? '';
  const place = placeOf(root, words.slice(0, -1));
  const candidates = await candidatesAt(place, current, sourcesFor);
  if (candidates === FILES) return [FILES];
  const fitting = candidates.filter(({ word }) => word.startsWith(current));
  return fitting.map(({ word, about }) => `${printable(word)}\t${printable(about)}`);
}

function placeOf(root: Command, words: readonly string[]): Place {
  const place: Place = {
    command: root,
    path: '',
    arguments: 0,
    option: undefined,
    given: new Set(),
    as: undefined,
    isOver: false,
  };
  for (const word of words) step(place, word);
  return place;
}

function step(place: Place, word: string): void {
  const { option } = place;
  if (option && !(option.variadic && isFlag(place, word))) {
    if (option.long === '--as') place.as = word;
    // One that takes several goes on until the next flag.
    if (!option.variadic) place.option = undefined;
    return;
  }
  place.option = undefined;
  if (word === '--' && !place.isOver) {
    place.isOver = true;
  } else if (isFlag(place, word)) {
    takeFlag(place, word);
  } else {
    const child = place.arguments === 0 ? place.command.commands.find((one) => one.name() === word) : undefined;
    if (child) enter(place, child);
    else place.arguments++;
  }
}

function isFlag({ isOver }: Place, word: string): boolean {
  return !isOver && word.startsWith('-') && word !== '-';
}

function takeFlag(place: Place, word: string): void {
  const [name = ''] = word.split('=', 1);
  const option = optionsOf(place.command).find(({ long, short }) => name === long || name === short);
  if (!option) return;
  place.given.add(option.long ?? name);
  if (option.required && word === name) place.option = option;
}

function enter(place: Place, command: Command): void {
  place.path = place.path === '' ? command.name() : `${place.path} ${command.name()}`;
  place.command = command;
}

async function candidatesAt(
  place: Place,
  current: string,
  sourcesFor: (as: string | undefined) => CompletionSources,
): Promise<CompletionWord[] | typeof FILES> {
  const { option, command } = place;
  const sources = sourcesFor(place.as);
  if (option && !(option.variadic && isFlag(place, current))) return valuesOf(place, option, sources);
  if (isFlag(place, current)) return flagsOf(place);
  const children = place.arguments === 0 ? childrenOf(command) : [];
  const words = children.map((child) => ({ word: child.name(), about: child.description() }));
  const argument = argumentAt(place);
  const values = argument ? await argumentsOf(place, argument, sources) : [];
  return values === FILES ? FILES : [...words, ...values];
}

/** Those that may still be given. */
function flagsOf({ command, given }: Place): CompletionWord[] {
  const left = optionsOf(command).filter(({ long, variadic }) => variadic || !given.has(long ?? ''));
  return left.flatMap(({ long, description }) => (long === undefined ? [] : [{ word: long, about: description }]));
}

/** The argument that comes next; one that takes several is the last. */
function argumentAt({ command, arguments: count }: Place): Argument | undefined {
  const taken = (defaultChildOf(command) ?? command).registeredArguments;
  const last = taken.at(-1);
  return taken[count] ?? (last?.variadic ? last : undefined);
}

async function valuesOf(
  { path }: Place,
  option: Option,
  sources: CompletionSources,
): Promise<CompletionWord[] | typeof FILES> {
  if (option.argChoices) return option.argChoices.map((word) => ({ word, about: '' }));
  if (FILE_VALUE.test(valueName(option.flags))) return FILES;
  const isOfRelay = path.startsWith('relay ') && !path.startsWith('relay quarantine');
  const source = isOfRelay ? undefined : OPTION_SOURCES[option.long ?? ''];
  return source === undefined ? [] : fromDaemon(sources, source);
}

/** `file` of `--key-file <file>`. */
function valueName(flags: string): string {
  return /[<[](?<name>[^\]>.]*)/.exec(flags)?.groups?.['name'] ?? '';
}

async function argumentsOf(
  { path }: Place,
  argument: Argument,
  sources: CompletionSources,
): Promise<CompletionWord[] | typeof FILES> {
  if (argument.argChoices) return argument.argChoices.map((word) => ({ word, about: '' }));
  if (FILE_VALUE.test(argument.name())) return FILES;
  const source = ARGUMENT_SOURCES[`${path} ${argument.name()}`];
  return source === undefined ? [] : fromDaemon(sources, source);
}

/** Nothing where no daemon answers: a shell is no place for its error. */
async function fromDaemon(sources: CompletionSources, source: SourceName): Promise<CompletionWord[]> {
  try {
    return await sources[source]();
  } catch {
    return [];
  }
}

/** For the test that every source is of something that is there. */
export const COMPLETED = { options: OPTION_SOURCES, arguments: ARGUMENT_SOURCES };
