/**
 * The `poste` command as a function: arguments in, exit code out. Data goes to stdout, everything else to stderr;
 * errors are one sentence and an exit code.
 *
 * Nothing here belongs to a process: `main.ts` runs it with the streams and signals of its own. They are bundled apart,
 * so `main.ts` takes nothing from here but `runToExit`, by `import()`.
 */
import { type Command, CommanderError, Help } from 'commander';
import { printable } from '../protocol/printable.ts';
import { type CommonFlag, COMMON_FLAGS, commandTree } from './commands.ts';
import type { CommandContext, OutputStream } from './lib/context.ts';
import { inputNameOf, optionsOf } from './lib/command-tree.ts';
import { type CommandFailed, EXIT, failureOf, usageFailure } from './lib/exit.ts';
import { jsonLine } from './lib/format.ts';
import { meantLine } from './lib/meant-commands.ts';
import { endWithOutput } from './lib/output.ts';
import { screenOf, applyStyle } from './lib/screen.ts';

const BROKEN_WORDS =
  'the command line holds bytes that are no UTF-8: turn the text into UTF-8, as iconv does, and give the command again';

/** The width of help that goes to a file or a pipe. */
const HELP_COLUMNS = 80;

/** Does what `run` does, and ends the process when its output takes no more, and after an error whatever it holds. */
export async function runToExit(args: readonly string[], context: CommandContext): Promise<number> {
  const { stdout, stderr, abort } = context;
  endWithOutput(context, (failure) =>
    stderr.write(failureText(failure, context, asksForJson(args)), () => abort(EXIT[failure.exit])),
  );
  const exitCode = await run(args, context);
  // A failed command may hold handles that never close, and nobody may read what an interrupted one wrote.
  if (exitCode === EXIT.interrupted) abort(exitCode);
  else if (exitCode !== EXIT.ok) stdout.write('', () => abort(exitCode));
  return exitCode;
}

/** Runs `poste` with these arguments, without node and the script, to its exit code. Throws bugs only. */
export async function run(args: readonly string[], given: CommandContext): Promise<number> {
  const { argv, context } = withoutCommonFlags(args, given);
  const isJson = asksForJson(argv);
  let running: Command | undefined;
  try {
    if (context.hasBrokenWords) throw usageFailure(BROKEN_WORDS);
    const poste = await posteCommand(argv, context, isJson);
    poste.hook('preAction', (_poste, command) => void (running = command));
    await poste.parseAsync(argv, { from: 'user' });
    return context.exitCode;
  } catch (error) {
    const failure = failureOf(error) ?? (argv.includes('relay') ? await relayFailureOf(error) : undefined);
    if (failure) {
      context.stderr.write(failureText(inFlagsOf(running, failure), context, isJson));
      return EXIT[failure.exit];
    }
    if (!(error instanceof CommanderError)) throw error;
    // Commander has printed it; help and version are no errors.
    if (error.exitCode === 0) return EXIT.ok;
    if (isJson) {
      const message = error.message.replace(/^error: /, '');
      context.stderr.write(jsonLine({ code: 'USAGE', message, details: {} }));
    }
    return EXIT.usage;
  }
}

/** Loads it when it is needed: it knows the errors of every part of a relay. */
async function relayFailureOf(error: unknown): Promise<CommandFailed | undefined> {
  if (error instanceof CommanderError) return undefined;
  const { relayFailure } = await import('./relay/failure.ts');
  return relayFailure(error);
}

type FailureShown = Pick<CommandFailed, 'code' | 'message' | 'details'>;

/** The failure with the name of a flag or an argument in the place of the member of the input that comes from it. */
function inFlagsOf(command: Command | undefined, failure: CommandFailed): FailureShown {
  const { message, details } = failure;
  const { field, path = field } = details;
  if (!command || typeof field !== 'string' || typeof path !== 'string' || !message.startsWith(path)) return failure;
  const name = inputNameOf(command, field);
  return name === undefined
    ? failure
    : { code: failure.code, details, message: `${name}${message.slice(path.length)}` };
}

function failureText({ code, message, details }: FailureShown, context: CommandContext, isJson: boolean): string {
  return isJson ? jsonLine({ code, message, details }) : `${errorPrefix(context)} ${printable(message)}.\n`;
}

/** Behind `--` stand the words of another program. */
function asksForJson(argv: readonly string[]): boolean {
  return ownWords(argv).includes('--json');
}

function ownWords(argv: readonly string[]): readonly string[] {
  return argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv;
}

/** Each flag that any command takes is a change of what the command gets. */
const CHANGES: Readonly<Record<CommonFlag, (context: CommandContext) => Partial<CommandContext>>> = {
  '--no-color': ({ env }) => ({ env: { ...env, FORCE_COLOR: undefined, NO_COLOR: '1' } }),
  '--no-start': ({ env }) => ({ env: { ...env, POSTE_NO_START: '1' } }),
  '--quiet': () => ({ isQuiet: true }),
};

/** Reads those flags, and takes them out of the arguments: commands need not know them. Behind `--` are none. */
function withoutCommonFlags(
  args: readonly string[],
  given: CommandContext,
): { argv: readonly string[]; context: CommandContext } {
  const end = ownWords(args).length;
  const isCommon = (word: string, at: number): word is CommonFlag => at < end && Object.hasOwn(COMMON_FLAGS, word);
  let context = given;
  const argv = args.filter((word, at) => {
    if (!isCommon(word, at)) return true;
    context = { ...context, ...CHANGES[word](context) };
    return false;
  });
  return { argv, context };
}

/**
 * `poste` with the command loaded that `argv` names, and every other by its name and summary. Without `argv` every
 * command is loaded.
 */
export async function posteCommand(
  argv: readonly string[] | undefined,
  context: CommandContext,
  isJson = false,
): Promise<Command> {
  const poste = await commandTree(argv, context);
  poste.hook('preAction', (_poste, command) => {
    context.isJson = command.opts()['json'] === true;
    refuseEmptyPlaces(command);
  });
  return withErrors(poste, context, isJson);
}

/** Usage errors end as exceptions, all the way down, and hint at what was meant. */
function withErrors(command: Command, context: CommandContext, isJson: boolean, parents = ''): Command {
  const path = `${parents}${command.name()}`;
  const { stdout, stderr } = context;
  command.configureOutput({
    writeOut: (text) => stdout.write(wrapText(text, helpWidth(stdout))),
    // As JSON the error is one document, which `run` prints.
    writeErr: (text) => isJson || stderr.write(text),
    outputError: (text, write) => write(usageError(text, context)),
    getOutHelpWidth: () => helpWidth(stdout),
    getErrHelpWidth: () => helpWidth(stderr),
  });
  // A command that is not loaded shows no flags or arguments in a list, so none does.
  command.configureHelp({ subcommandTerm: (child) => child.name(), visibleOptions: optionsOf });
  if (command.commands.length > 0) {
    const refuse = ([word = '']: string[]): never => refuseUnknown(command, path, word);
    command.on('command:*', refuse);
    // Commander calls such a word an argument too many where the group is a command itself.
    if (command.registeredArguments.length === 0) Object.assign(command, { _excessArguments: refuse });
  }
  command.exitOverride().showSuggestionAfterError().showHelpAfterError(`(see ${path} --help)`);
  // Commander gives a word that names no command to the default command, which then has an argument too many.
  command.hook('preSubcommand', (group, child) => {
    const [word = '-'] = group.args;
    const isUnknown = !word.startsWith('-') && word !== child.name() && child.registeredArguments.length === 0;
    if (isUnknown) refuseUnknown(group, path, word);
  });
  for (const child of command.commands) withErrors(child, context, isJson, `${path} `);
  return command;
}

/** Help as wide as its screen: paragraphs with a line that is too long are filled anew, and indented lines stay. */
export function wrapText(text: string, columns: number): string {
  const help = Object.assign(new Help(), { minWidthToWrap: 1 });
  return text.replaceAll(/^[^ \n].*(?:\n[^ \n].*)*/gm, (paragraph) => {
    const isWide = paragraph.split('\n').some((line) => line.length > columns);
    return isWide ? help.boxWrap(paragraph.replaceAll('\n', ' '), columns) : paragraph;
  });
}

/** Commander suggests commands that are spelled alike, and this first those that are meant by other words. */
function refuseUnknown(command: Command, path: string, word: string): never {
  const line = meantLine(`${path} ${word}`.slice('poste '.length));
  if (line !== undefined) command.error(`error: unknown command '${word}'\n${line}`);
  return (command as unknown as { unknownCommand(): never }).unknownCommand();
}

/** Names a place: without a value it would mean the folder that this is run in, or nothing. */
const PLACE = /<(?:file|dir|url|command)>/;

/** A shell makes an empty value of a variable that is not set. */
function refuseEmptyPlaces(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    if (PLACE.test(option.flags) && command.getOptionValueSource(name) === 'cli' && command.getOptionValue(name) === '')
      command.error(`error: option '${option.flags}' argument '' is invalid. It must not be empty.`);
  }
}

/** Begins as every other error does, with the words that were given made printable. */
function usageError(text: string, context: CommandContext): string {
  const lines = text.replace(/^error: /, '').split('\n');
  return `${errorPrefix(context)} ${lines.map((line) => printable(line)).join('\n')}`;
}

function errorPrefix(context: CommandContext): string {
  return applyStyle(screenOf(context, context.stderr), 'red', 'poste:');
}

function helpWidth({ isTTY, columns }: OutputStream): number {
  return isTTY && columns !== undefined ? columns : HELP_COLUMNS;
}
