/**
 * Writes docs/cli.md, the reference of every command, and man/poste.1, the manual page, from the commands themselves:
 *
 *   npm run docs:cli
 *
 * test/e2e/commands.test.ts fails when these and what this script makes differ.
 */
import { EventEmitter } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import type { Argument, Command, Option } from 'commander';
import { EXIT, type ExitName } from '../src/cli/lib/exit.ts';
import { childrenOf, commandsBelow, defaultChildOf, notesOf, optionsOf } from '../src/cli/lib/command-tree.ts';
import type { CommandContext } from '../src/cli/lib/context.ts';
import { posteCommand } from '../src/cli/run.ts';
import { EXIT_MEANINGS } from './exit-meanings.ts';
import { manText } from './man-page.ts';

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

/** What commands are built with. None of them runs, and the environment changes no default. */
const CONTEXT: CommandContext = {
  stdin: process.stdin,
  stdout: new PassThrough(),
  stderr: new PassThrough(),
  hasBrokenWords: false,
  env: {},
  platform: 'linux',
  signals: new EventEmitter(),
  program: 'poste',
  abort: (exitCode) => process.exit(exitCode),
  nowMs: () => Date.now(),
  exitCode: EXIT.ok,
};

/** The manual page. */
export async function manPage(): Promise<string> {
  return manText(await posteCommand(undefined, CONTEXT));
}

/** The whole page. */
export async function cliPage(): Promise<string> {
  const exits = Object.entries(EXIT) as [ExitName, number][];
  const rows = exits.map(([name, code]) => `| ${code} | ${name} | ${EXIT_MEANINGS[name]} |`);
  const sections = commandsBelow(await posteCommand(undefined, CONTEXT)).map(({ name, command }) =>
    section(name, command),
  );
  return `${HEAD}${rows.join('\n')}\n\n${sections.join('\n')}`;
}

function section(name: string, command: Command): string {
  const help = command.createHelp();
  const children = childrenOf(command);
  const parts = [`## ${name}\n`, `${command.description()}\n`, `    ${name} ${command.usage()}\n`];
  const headings = new Set(children.map((child) => child.helpGroup()));
  for (const heading of headings) {
    if (heading !== '') parts.push(`**${heading.replace(/:$/, '')}**\n`);
    parts.push(
      childTable(
        name,
        children.filter((child) => child.helpGroup() === heading),
      ),
    );
  }
  const byDefault = defaultChildOf(command);
  if (byDefault !== undefined) parts.push(`Without a command: \`${name} ${byDefault.name()}\`.\n`);
  const args = help.visibleArguments(command);
  if (args.length > 0) parts.push(table(['argument', 'meaning'], args.map(argumentRow)));
  const options = optionsOf(command).filter(({ long }) => long !== '--help');
  if (options.length > 0) parts.push(table(['flag', 'default', 'meaning'], options.map(optionRow)));
  const notes = notesOf(command);
  if (notes !== '') parts.push(`\`\`\`text\n${notes}\n\`\`\`\n`);
  return parts.join('\n');
}

function childTable(name: string, children: readonly Command[]): string {
  const rows = children.map((child) => {
    const full = `${name} ${child.name()}`;
    return [`[\`${full}\`](#${full.replaceAll(' ', '-')})`, child.description()];
  });
  return table(['command', 'what it does'], rows);
}

function argumentRow(argument: Argument): string[] {
  return [`\`${argument.name()}\``, argument.description];
}

function optionRow(option: Option): string[] {
  const { flags, description, argChoices, mandatory } = option;
  const choices = argChoices ? `; one of ${argChoices.map((choice) => `\`${choice}\``).join(', ')}` : '';
  // Some say their default in words, because it is found only when the command runs.
  const inWords = / \(default: (?<words>[^)]*)\)/.exec(description);
  const byDefault = mandatory ? 'must be given' : (inWords?.groups?.['words'] ?? defaultText(option));
  return [`\`${flags}\``, byDefault, `${description.replace(inWords?.[0] ?? '', '')}${choices}`];
}

function defaultText({ defaultValue, defaultValueDescription }: Option): string {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  if (defaultValue === undefined || defaultValue === false) return '';
  return typeof defaultValue === 'string' ? `\`${defaultValue}\`` : JSON.stringify(defaultValue);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows.map((row) => row.map(cell))];
  return `${lines.map((line) => `| ${line.join(' | ')} |`).join('\n')}\n`;
}

/** A \`|\` would end the cell, and \`<name>\` outside of code would be HTML. */
function cell(text: string): string {
  const escaped = text.replaceAll('|', String.raw`\|`);
  return escaped.startsWith('`') ? escaped : escaped.replaceAll(/(?<!`)<(?<name>[^>`]*)>/g, '`<$<name>>`');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(CLI_PAGE, await cliPage());
  writeFileSync(MAN_PAGE, await manPage());
}
