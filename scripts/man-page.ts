/** The manual page of `poste`, in the man macros of roff, from the tree of commands. */
import type { Command, Option } from 'commander';
import { childrenOf, commandsBelow, defaultChildOf, notesOf, optionsOf } from '../src/cli/lib/command-tree.ts';
import { EXIT } from '../src/cli/lib/exit.ts';
import { softwareVersion } from '../src/lib/package-root.ts';
import { EXIT_MEANINGS } from './exit-meanings.ts';

const DESCRIPTION = [
  'Poste carries mail between coding agents on different machines. A daemon beside the agents keeps their ' +
    'mailboxes and talks to paired hosts; where the LAN does not reach, a relay keeps the ' +
    'sealed mail until it is fetched.',
  'Data goes to standard output, everything else to standard error. With --json the data is one JSON document, ' +
    'or one on each line where a command goes on printing; its times are ISO 8601.',
  'On a terminal, tables are cut to its width, ids are short, and times are local or relative. Where a command ' +
    'takes an id or a fingerprint, its first characters will do, and of an id the last ones; of a message also its ' +
    'number, which lists show.',
];

const ENVIRONMENT: readonly (readonly [name: string, meaning: string])[] = [
  ['POSTE_AGENT', 'the agent to act as, where --as is not given'],
  ['POSTE_HOME', 'one folder for config, store and socket, instead of the XDG folders'],
  ['POSTE_NO_START', 'set to 1: no command starts a daemon, as with --no-start'],
  ['NO_COLOR', 'no colours; FORCE_COLOR has them in a pipe too'],
  ['TZ', 'the time zone of times on a terminal'],
];

const FILES: readonly (readonly [name: string, meaning: string])[] = [
  ['~/.config/poste/config.toml', 'the config of the host'],
  ['~/.local/share/poste', 'its store, and the log of a daemon that a command started'],
];

const SEE_ALSO = 'The pages in the folder docs of the package, and https://github.com/poste-mail/poste.';

export function manText(poste: Command): string {
  const lines = [
    '.\\" Made by npm run docs:cli from the commands. Do not edit.',
    `.TH POSTE 1 "" "poste ${softwareVersion()}" "User Commands"`,
    '.SH NAME',
    'poste \\- mail between coding agents on different machines',
    '.SH SYNOPSIS',
    '.B poste',
    '.RI [ options ] " command " [ arguments ]',
    '.SH DESCRIPTION',
    ...DESCRIPTION.flatMap((text) => ['.PP', escaped(text)]),
    '.SH OPTIONS',
    ...optionsOf(poste).flatMap(optionLines),
    '.SH COMMANDS',
    ...commandsBelow(poste)
      .slice(1)
      .flatMap(({ name, command }) => commandLines(name, command)),
    '.SH EXIT STATUS',
    ...Object.entries(EXIT_MEANINGS).flatMap(([name, meaning]) =>
      tagged(String(EXIT[name as keyof typeof EXIT]), meaning.replaceAll('`', '')),
    ),
    '.SH ENVIRONMENT',
    ...ENVIRONMENT.flatMap(([name, meaning]) => tagged(name, meaning)),
    '.SH FILES',
    ...FILES.flatMap(([name, meaning]) => tagged(name, meaning)),
    '.SH SEE ALSO',
    escaped(SEE_ALSO),
  ];
  return `${lines.join('\n')}\n`;
}

function commandLines(name: string, command: Command): string[] {
  const byDefault = defaultChildOf(command);
  const notes = notesOf(command);
  return [
    `.SS "${escaped(`${name} ${command.usage()}`)}"`,
    escaped(command.description()),
    ...(byDefault ? ['.PP', escaped(`Without a command: ${name} ${byDefault.name()}.`)] : []),
    ...(childrenOf(command).length > 0
      ? [
          '.PP',
          escaped(
            `Commands: ${childrenOf(command)
              .map((child) => child.name())
              .join(', ')}.`,
          ),
        ]
      : []),
    ...command.registeredArguments.flatMap((one) => tagged(one.name(), one.description)),
    // Those of a child that runs by default stand there.
    ...(byDefault ? [] : optionsOf(command).flatMap(optionLines)),
    ...notes.split('\n\n').flatMap(noteLines),
  ];
}

/** Prose is filled; what is indented, as examples are, stays as it is. */
function noteLines(block: string): string[] {
  const lines = block.split('\n').filter((line) => line !== '');
  const prose = lines.filter((line) => !line.startsWith(' '));
  const kept = lines.filter((line) => line.startsWith(' '));
  return [
    ...(prose.length > 0 ? ['.PP', escaped(prose.join(' '))] : []),
    ...(kept.length > 0 ? ['.nf', ...kept.map(escaped), '.fi'] : []),
  ];
}

function optionLines({ flags, long, description, argChoices }: Option): string[] {
  if (long === '--help') return [];
  return tagged(flags, `${description}${argChoices ? ` (one of ${argChoices.join(', ')})` : ''}`);
}

function tagged(term: string, meaning: string): string[] {
  return ['.TP', `.B ${escaped(term)}`, escaped(meaning)];
}

/** A line of text: no character of it is taken for a request, an escape or a hyphen that may break a flag. */
function escaped(text: string): string {
  const written = text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('"', '\\(dq')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replaceAll(
      /[^\n\u0020-\u007e]/gu,
      (character) => `\\[u${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    );
  return written.startsWith('.') ? `\\&${written}` : written;
}
