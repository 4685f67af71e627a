/**
 * Writes docs/cli.md, the reference of every command, and man/poste.1, the manual page, from the commands themselves:
 *
 *   npm run docs:cli
 *
 * test/e2e/commands.test.ts fails when these and what this script makes differ.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import type { Argument, Command, Option } from 'commander';
import { EXIT, type ExitName } from '../src/cli/lib/exit.ts';
import {
  childrenOf,
  commandsBelow,
  defaultChildOf,
  type NamedCommand,
  notesOf,
  optionsOf,
} from '../src/cli/lib/command-tree.ts';
import { posteCommand } from '../src/cli/run.ts';
import { EXIT_MEANINGS } from './exit-meanings.ts';
import { manText } from './man-page.ts';
import { contextOn } from './program-help.ts';

export const CLI_PAGE = join(import.meta.dirname, '../docs/cli.md');
export const MAN_PAGE = join(import.meta.dirname, '../man/poste.1');

const HEAD = `<!-- Made by npm run docs:cli from the commands. Do not edit. -->

# Commands

Every command of \`poste\`, as its \`--help\` shows it. Data goes to standard output, everything else to standard error. With \`--json\` the data is one JSON document, or one on each line where a command goes on printing, and an error is \`{code, message, details}\`. Every time in it is ISO 8601; what is signed stays as it was signed.

On a terminal, tables are cut to its width, ids are short, and times are local or relative. In a pipe nothing is cut, and times are ISO 8601. Where a command takes the id of a message, a thread or an item, or the fingerprint of a host, its first characters will do (six, and four behind \`SHA256:\`): several that begin so are listed, with exit code 4. There are colours on a terminal, unless \`NO_COLOR\` or \`--no-color\` says otherwise; \`FORCE_COLOR\` has them in a pipe too.

Every command ends with one of these exit codes:

| code | name | meaning |
|---|---|---|
`;

/** None of the commands runs. */
const CONTEXT = contextOn(new PassThrough());

/** The manual page. */
export async function manPage(): Promise<string> {
  return manText(await posteCommand(undefined, CONTEXT));
}

/** The whole page. */
export async function cliPage(): Promise<string> {
  const exits = Object.entries(EXIT) as [ExitName, number][];
  const rows = exits.map(([name, code]) => `| ${code} | ${name} | ${EXIT_MEANINGS[name]} |`);
  const commands = commandsBelow(await posteCommand(undefined, CONTEXT));
  const common = commonFlags(commands);
  const notes = new Map(commands.map(({ name, command }) => [name, notesOf(command).split('\n')]));
  const flagsOf = new Map(commands.map(({ name, command }) => [name, ownOptions(command)]));
  const sections = commands.map(({ name, command }, at) => {
    const shown = notes.get(name.slice(0, name.lastIndexOf(' '))) ?? [];
    const earlier = new Map([...flagsOf].slice(0, at));
    const flags = flagLines(flagsOf.get(name) ?? [], common, earlier);
    return section(name, command, flags, newNotes(notes.get(name) ?? [], shown));
  });
  const flags = [...common].map(([text]) => text).join('\n');
  return `${HEAD}${rows.join('\n')}\n\nMany commands take these flags, and name them as common flags:\n\n${flags}\n\n${sections.join('\n')}`;
}

/** A flag that so many commands take, in the same words, is explained once. */
const COMMON_FROM = 3;

/** The lines of the flags that many commands take, each with how a section names it. */
function commonFlags(commands: readonly NamedCommand[]): Map<string, string> {
  const counts = new Map<string, { count: number; long: string }>();
  for (const { command } of commands) {
    for (const option of ownOptions(command)) {
      const line = optionLine(option);
      counts.set(line, { count: (counts.get(line)?.count ?? 0) + 1, long: `\`${option.long}\`` });
    }
  }
  const common = [...counts].filter(([, { count }]) => count >= COMMON_FROM);
  return new Map(common.map(([line, { long }]) => [line, long]));
}

/** The flags of a command; those of a child that runs by default stand there. */
function ownOptions(command: Command): readonly Option[] {
  if (defaultChildOf(command)) return [];
  return optionsOf(command).filter(({ long }) => long !== '--help');
}

/** The notes without what the group above shows already, and without a lone example, which is the usage with names in it. */
function newNotes(notes: readonly string[], shown: readonly string[]): string {
  const lone = notes.indexOf('Example:');
  const kept = lone === -1 ? notes : notes.slice(0, lone);
  const left = kept.filter((line) => line === '' || !shown.includes(line) || /^\S.*:$/.test(line));
  const isIdle = (line: string, at: number): boolean => line === 'Examples:' && !(left[at + 1] ?? '').startsWith('  ');
  return left
    .filter((line, at) => !isIdle(line, at))
    .join('\n')
    .trim();
}

/** So many flags that another command has in the same words are only named, with that command. */
const SHARED_FROM = 5;

function flagLines(
  options: readonly Option[],
  common: ReadonlyMap<string, string>,
  earlier: ReadonlyMap<string, readonly Option[]>,
): string[] {
  const lines = options.map(optionLine);
  const left = lines.filter((line) => !common.has(line));
  const named = lines.flatMap((line) => common.get(line) ?? []);
  const more = named.length > 0 ? [`- Common flags: ${named.join(', ')}.`] : [];
  for (const [name, theirs] of earlier) {
    const same = theirs.filter((option) => left.includes(optionLine(option)));
    if (same.length < SHARED_FROM) continue;
    const names = same.map(({ long }) => `\`${long}\``).join(', ');
    const others = left.filter((line) => !same.some((option) => optionLine(option) === line));
    return [...others, `- As with ${linkTo(name, name)}: ${names}.`, ...more];
  }
  return [...left, ...more];
}

function section(name: string, command: Command, flags: readonly string[], notes: string): string {
  const parts = [`## ${name}\n`, `${command.description()}\n`, `    ${name} ${command.usage()}\n`];
  for (const heading of new Set(childrenOf(command).map((child) => child.helpGroup()))) {
    const children = childrenOf(command).filter((child) => child.helpGroup() === heading);
    const title = heading === '' ? 'Commands:' : heading;
    parts.push(`${title} ${children.map((child) => linkTo(`${name} ${child.name()}`, child.name())).join(', ')}.\n`);
  }
  const byDefault = defaultChildOf(command);
  if (byDefault !== undefined) parts.push(`Without a command: \`${name} ${byDefault.name()}\`.\n`);
  const args = command.createHelp().visibleArguments(command);
  const lines = [...args.map(argumentLine), ...flags];
  if (lines.length > 0) parts.push(`${lines.join('\n')}\n`);
  if (notes !== '') parts.push(`\`\`\`text\n${notes}\n\`\`\`\n`);
  return parts.join('\n');
}

function linkTo(name: string, text: string): string {
  return `[\`${text}\`](#${name.replaceAll(' ', '-')})`;
}

function argumentLine(argument: Argument): string {
  return `- \`${argument.name()}\`: ${escaped(argument.description)}`;
}

function optionLine(option: Option): string {
  const { flags, description, argChoices, mandatory } = option;
  const choices = argChoices ? `; one of ${argChoices.map((choice) => `\`${choice}\``).join(', ')}` : '';
  const byDefault = mandatory ? 'must be given' : defaultText(option);
  const more = byDefault === '' ? '' : ` (${mandatory ? '' : 'default: '}${byDefault})`;
  return `- \`${flags}\`: ${escaped(description)}${choices}${more}`;
}

function defaultText({ defaultValue, defaultValueDescription }: Option): string {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  if (defaultValue === undefined || defaultValue === false) return '';
  return typeof defaultValue === 'string' ? `\`${defaultValue}\`` : JSON.stringify(defaultValue);
}

/** `<name>` outside of code would be HTML. */
function escaped(text: string): string {
  return text.replaceAll(/(?<!`)<(?<name>[^>`]*)>/g, '`<$<name>>`');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(CLI_PAGE, await cliPage());
  writeFileSync(MAN_PAGE, await manPage());
}
