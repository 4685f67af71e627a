/** The tree of commands, for what is made of it: help, the reference, completion and the man page. */
import { type Command, Help, type Option } from 'commander';

const help = new Help();

/** The command that runs where none of the children is named. Commander keeps its name to itself. */
export function defaultChildOf(command: Command): Command | undefined {
  const { _defaultCommandName: name } = command as unknown as { _defaultCommandName?: string | null };
  return command.commands.find((child) => child.name() === name);
}

/** The children that help shows, without `help`. */
export function childrenOf(command: Command): Command[] {
  return help.visibleCommands(command).filter((child) => child.name() !== 'help');
}

/** Many commands take these: a command's own flags stand before these. */
const COMMON_FLAGS: ReadonlySet<string | undefined> = new Set(['--store-dir', '--config', '--as', '--json', '--help']);

function isCommon({ long }: Option): boolean {
  return COMMON_FLAGS.has(long);
}

/** The options that the command takes: its own flags, and those of the child that runs where none is named. */
export function optionsOf(command: Command): Option[] {
  const own = help.visibleOptions(command);
  const child = defaultChildOf(command);
  const all = child ? [...help.visibleOptions(child).filter(({ long }) => long !== '--help'), ...own] : own;
  return [...all.filter((option) => !isCommon(option)), ...all.filter(isCommon)];
}

/**
 * The flag or argument of a command that a member of an operation's input comes from, as help writes it: `--reply-to`
 * for `reply_to`, `<message>` for `message_ids`. Undefined where no name is like it.
 */
export function inputNameOf(command: Command, member: string): string | undefined {
  const isMeant = (name: string): boolean => foldedName(name) === foldedName(member);
  const option = command.options.find(({ long }) => isMeant(long ?? ''));
  const argument = command.registeredArguments.find((one) => isMeant(one.name()));
  return option?.long ?? (argument && `<${argument.name()}>`);
}

/** Takes hyphens, underscores, and the endings of an id and of a plural out of a name. */
function foldedName(name: string): string {
  return name
    .replaceAll(/[_-]/g, '')
    .replace(/ids?$/, '')
    .replace(/[es]+$/, '');
}

export interface NamedCommand {
  /** The name with those of its parents: `poste relay log`. */
  name: string;
  command: Command;
}

/** The command and all below it, in the order in which help shows them; what help hides too. */
export function commandsBelow(command: Command, parents = ''): NamedCommand[] {
  const name = `${parents}${command.name()}`;
  const children = command.commands.filter((child) => child.name() !== 'help');
  return [{ name, command }, ...children.flatMap((child) => commandsBelow(child, `${name} `))];
}

/** The text that a command's help has below its options: notes, environment, examples. */
export function notesOf(command: Command): string {
  let shown = '';
  command.configureOutput({
    writeOut: (text) => {
      shown += text;
    },
  });
  command.outputHelp();
  return shown.slice(command.helpInformation().length).trim();
}
