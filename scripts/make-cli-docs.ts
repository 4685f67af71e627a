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
import type { Command, Option } from 'commander';
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

const OF_OUTPUT =
  'Every command of `poste`, as its `--help` shows it. Data goes to standard output, everything else to ' +
  'standard error. With `--json` the data is one JSON document, or one on each line where a command goes on ' +
  'printing, and an error is `{code, message, details}`. Every time in it is ISO 8601; what is signed stays as it ' +
  'was signed.';

const OF_TERMINALS =
  'On a terminal, tables are cut to its width, ids are short, and times are local or relative. In a pipe nothing is ' +
  'cut, and times are ISO 8601. Where a command takes the id of a message, a thread or an item, or the fingerprint ' +
  'of a host, its first characters will do (six, and four behind `SHA256:`), and of an id its last four: several ' +
  'that a text may mean are listed, with exit code 4. A message has a number in each mailbox, which lists on a ' +
  'terminal show and commands take; it never means another message. At a terminal `inbox`, `sent` and `trace` ' +
  'are about your own mailbox, that of `owner`, unless `--as` or `POSTE_AGENT` names an agent; in a pipe, and where ' +
  'the program of an agent says that it runs the command, one of them must name whose mailbox it is. `send` and ' +
  '`reply` always need one: `--as owner` writes in your name. Colours are for a terminal, unless `NO_COLOR` ' +
  'or `--no-color` forbids them; `FORCE_COLOR` has them in a pipe too.';

const OF_DAEMON =
  'A command that asks the daemon starts it where none runs, and says so on a terminal. Where `poste daemon install` ' +
  'made a service of this host, it starts that; where the service does not come up, the command ends it and ' +
  'starts the daemon without it. With `--no-start`, or `POSTE_NO_START=1` in the environment of ' +
  'scripts, it ends with exit code 1 instead. `status`, `doctor`, `daemon stop`, `session list` and `session end` ' +
  'start none.';

const HEAD = `<!-- Made by npm run docs:cli from the commands. Do not edit. -->

# Commands

${OF_OUTPUT}

${OF_TERMINALS}

${OF_DAEMON}

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
  const rows = Object.entries(EXIT).map(([name, code]) => `| ${code} | ${name} | ${EXIT_MEANINGS[name as ExitName]} |`);
  const commands = commandsBelow(await posteCommand(undefined, CONTEXT));
  const common = commonFlags(commands);
  const notes = new Map(commands.map(({ name, command }) => [name, notesOf(command).split('\n')]));
  const flagsOf = new Map(commands.map(({ name, command }) => [name, ownOptions(command)]));
  const sections = commands.map(({ name, command }, at) => {
    const shown = notes.get(name.slice(0, name.lastIndexOf(' '))) ?? [];
    const flags = flagLines(flagsOf.get(name) ?? [], common, [...flagsOf].slice(0, at));
    const sisters = commands.slice(0, at).filter((one) => one.command.parent === command.parent);
    const said = new Set(sisters.flatMap((one) => argumentLines(one.command)));
    const lines = [...argumentLines(command).filter((line) => !said.has(line)), ...flags];
    return section(name, command, lines, newNotes(notes.get(name) ?? [], shown));
  });
  const silent = commands.filter(
    ({ command }) => childrenOf(command).length === 0 && command.options.every(({ long }) => long !== '--json'),
  );
  const but = silent.map(({ name }) => linkTo(name, name.replace('poste ', ''))).join(', ');
  const json = `Every command takes \`--json\`, which prints JSON instead of text, but ${but}.`;
  const intro = `${json} Many take these flags, and name them behind “Also”:`;
  return `${HEAD}${[rows.join('\n'), intro, [...common.keys()].join('\n'), sections.join('\n')].join('\n\n')}`;
}

/** A flag that so many commands take, in the same words, is explained once. */
const COMMON_FROM = 3;

/** The lines of the flags that many commands take, each with how a section names it. */
function commonFlags(commands: readonly NamedCommand[]): Map<string, string> {
  const options = commands.flatMap(({ command }) => ownOptions(command));
  const lines = options.map((option) => [optionLine(option), `\`${option.long}\``] as const);
  return new Map(lines.filter(([line]) => lines.filter(([other]) => other === line).length >= COMMON_FROM));
}

/** The flags of a command; those of a child that runs by default stand there, and --json is said once. */
function ownOptions(command: Command): readonly Option[] {
  if (defaultChildOf(command)) return [];
  return optionsOf(command).filter(({ long }) => long !== '--help' && long !== '--json');
}

/** The notes without the lines of the group above, and without a lone example, which repeats the usage. */
function newNotes(notes: readonly string[], shown: readonly string[]): string {
  const lone = notes.indexOf('Example:');
  const kept = lone === -1 ? notes : notes.slice(0, lone);
  const left = kept.filter((line) => line === '' || !shown.includes(line) || /^\S.*:$/.test(line));
  const isIdle = (line: string, at: number): boolean => line === 'Examples:' && !left[at + 1]?.startsWith('  ');
  const lines = left.filter((line, at) => !isIdle(line, at));
  return lines.join('\n').trim();
}

/** Several flags that another command has in the same words are only named, with that command. */
function flagLines(
  options: readonly Option[],
  common: ReadonlyMap<string, string>,
  earlier: readonly [name: string, options: readonly Option[]][],
): string[] {
  const lines = options.map(optionLine);
  const left = lines.filter((line) => !common.has(line));
  const also = lines.flatMap((line) => common.get(line) ?? []);
  const more = also.length > 0 ? [`- Also ${also.join(', ')}.`] : [];
  for (const [name, theirs] of earlier) {
    const [same, others] = [true, false].map((is) => theirs.filter((one) => left.includes(optionLine(one)) === is));
    if (!same || !others || same.length < 2) continue;
    const isMost = same.length > others.length;
    const named = (isMost ? others : same).filter((one) => !common.has(optionLine(one)));
    const names = named.map(({ long }) => `\`${long}\``).join(', ');
    const own = left.filter((line) => !same.some((option) => optionLine(option) === line));
    const link = linkTo(name, name);
    return [...own, isMost ? `- All flags of ${link} but ${names}.` : `- As with ${link}: ${names}.`, ...more];
  }
  return [...left, ...more];
}

/** `lines` explain what it takes; an argument that a command beside it takes in the same words is explained there. */
function section(name: string, command: Command, lines: readonly string[], notes: string): string {
  const parts = [`## ${name}\n`, `${command.description()}\n`];
  // Without arguments the usage is the name.
  if (command.registeredArguments.length > 0) parts.push(`    ${name} ${command.usage()}\n`);
  for (const heading of new Set(childrenOf(command).map((child) => child.helpGroup()))) {
    const children = childrenOf(command).filter((child) => child.helpGroup() === heading);
    const title = heading === '' ? 'Commands:' : heading;
    parts.push(`${title} ${children.map((child) => linkTo(`${name} ${child.name()}`, child.name())).join(', ')}.\n`);
  }
  const byDefault = defaultChildOf(command);
  if (byDefault !== undefined) parts.push(`Without a command: \`${name} ${byDefault.name()}\`.\n`);
  if (lines.length > 0) parts.push(`${lines.join('\n')}\n`);
  if (notes !== '') parts.push(`\`\`\`text\n${notes}\n\`\`\`\n`);
  return parts.join('\n');
}

function linkTo(name: string, text: string): string {
  return `[\`${text}\`](#${name.replaceAll(' ', '-')})`;
}

function argumentLines(command: Command): string[] {
  const args = command.createHelp().visibleArguments(command);
  return args.map((argument) => `- \`${argument.name()}\`: ${escaped(argument.description)}`);
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
