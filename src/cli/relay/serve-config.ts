/**
 * The settings of `poste relay serve`: flags win over the environment, that over the config file, that over the
 * defaults. Each setting is known with where it comes from, and can be printed as a config file.
 *
 * The file is TOML, and says no secret: the relay's key and the password of the log are in files that it names.
 */
import { dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { stringify } from 'smol-toml';
import { suggestions } from '../../host/core/suggestions.ts';
import { ConfigRefused, type ReadSetting, configText, settingsOf } from '../../lib/config-file.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { printable } from '../../protocol/printable.ts';
import { shownAddress } from '../../relay/shared-log/log-address.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import {
  ALL_SETTINGS,
  configFileOf,
  flagOf,
  type NamedSetting,
  SETTINGS,
  type ServeFlags,
  type Setting,
  type SettingKind,
  type SettingName,
} from './settings.ts';

interface GivenSetting {
  /** The text as on a command line; a path is absolute. */
  text: string;
  /** Where it comes from, as the printed settings say it. */
  source: string;
}

/** The key is the member of `ServeFlags`; that of a limit is `limits.` and its name. */
type GivenSettings = Map<string, GivenSetting>;

interface EffectiveSettings {
  settings: ServeFlags;
  given: ReadonlyMap<string, GivenSetting>;
  file: { path: string; isThere: boolean };
}

/** The settings of a command with the options of `serveOptions` and `--config`. Throws `CommandFailed`. */
export function effectiveSettings(context: CommandContext, command: Command): EffectiveSettings {
  const { path, isThere, given } = fileOf(context, command);
  const all: GivenSettings = new Map([...byDefault(), ...given, ...inEnvironment(context), ...onCommandLine(command)]);
  return { settings: settingsFrom(all), given: all, file: { path, isThere } };
}

/** The value that the config file has for a setting that no variable overrides. Throws `CommandFailed`. */
export function settingInFile(context: CommandContext, command: Command): (name: SettingName) => unknown {
  const { given } = fileOf(context, command);
  return (name) => {
    const { environment: variable, parse }: Setting = SETTINGS[name];
    const text = given.get(name)?.text;
    const isOverridden = variable !== undefined && (context.env[variable] ?? '') !== '';
    return text === undefined || isOverridden ? undefined : parse(text);
  };
}

/** The config file of the command, and what it says; one that is named must be there. Throws `CommandFailed`. */
function fileOf(context: CommandContext, command: Command): { path: string; isThere: boolean; given: GivenSettings } {
  const path = configFileOf(context, command);
  const isNamed = command.opts<{ config?: string }>().config !== undefined;
  const { isThere, given } = inFile(path);
  if (isNamed && !isThere)
    throw new CommandFailed('notFound', 'BAD_CONFIG', `there is no config file at ${path}: name the right one`);
  return { path, isThere, given };
}

/** Leaves out file and environment: for a command that says what is wrong with those. */
export function flagsAlone(command: Command): ServeFlags {
  return settingsFrom(new Map([...byDefault(), ...onCommandLine(command)]));
}

function settingsFrom(given: GivenSettings): ServeFlags {
  const limits = [...given].flatMap(([name, { text }]) => {
    return name.startsWith(LIMITS) ? [[name.slice(LIMITS.length), Number(text)]] : [];
  });
  const settings = ALL_SETTINGS.flatMap(({ name, kind, parse }) => {
    const text = given.get(name)?.text;
    return text === undefined || kind === 'limits' ? [] : [[name, parse(text)]];
  });
  return {
    ...(Object.fromEntries(settings) as ServeFlags),
    limits: SETTINGS.limits.parse(JSON.stringify(Object.fromEntries(limits))),
  };
}

function* byDefault(): Generator<[string, GivenSetting]> {
  for (const entry of ALL_SETTINGS) {
    const { name, byDefault: text } = entry;
    if (text !== undefined) yield [name, { text: fullPath(entry, text), source: 'default' }];
  }
}

/** Throws `CommandFailed`. */
function inFile(path: string): { isThere: boolean; given: GivenSettings } {
  const given: GivenSettings = new Map();
  const byKey = new Map(ALL_SETTINGS.map((entry) => [entry.key, entry]));
  const known = [...byKey.keys()];
  try {
    const text = configText(path);
    for (const setting of settingsOf(text ?? '', path, known)) {
      const entry = byKey.get(setting.key);
      if (!entry) throw unknownSetting(setting, known);
      const used = fullPath(entry, textOf(setting, entry), dirname(path));
      // The sentence about a limit begins with its name.
      const name = entry.kind === 'limits' ? '' : entry.key;
      requireParsed(entry, used, name, (why) => new ConfigRefused(`${setting.place()}: ${why}`));
      given.set(entry.name, { text: used, source: printable(setting.place()) });
    }
    return { isThere: text !== undefined, given };
  } catch (error) {
    if (error instanceof ConfigRefused) throw new CommandFailed('usage', 'BAD_CONFIG', error.message);
    throw error;
  }
}

/** Throws the error that `refused` makes of the sentence of the parser about `name`. */
function requireParsed({ parse }: Setting, text: string, name: string, refused: (why: string) => Error): void {
  try {
    parse(text);
  } catch (error) {
    throw error instanceof InvalidArgumentError ? refused(refusal(name, error)) : error;
  }
}

function unknownSetting({ key, place }: ReadSetting, known: readonly string[]): ConfigRefused {
  if (key === 'limits')
    return new ConfigRefused(`${place()}: limits must be a table: [limits], and below it a line for each limit`);
  const near = suggestions(key.replaceAll('-', '_'), known);
  const meant = near.length === 0 ? '' : ` (did you mean ${near.join(' or ')}?)`;
  return new ConfigRefused(
    `${place()}: there is no setting ${printable(key)}${meant}: poste relay serve --print-config shows all that ` +
      'there are',
  );
}

/** The type of a value in the file, and how a refusal names it; of every other kind it is a text. */
const TYPES: Partial<Record<SettingKind, [type: string, words: string]>> = {
  number: ['number', 'a number, without quotes'],
  limits: ['number', 'a number, without quotes'],
  yes: ['boolean', 'true or false, without quotes'],
};

/** The value as it would be on the command line. Throws `ConfigRefused` for a value of another type. */
function textOf({ key, value, place }: ReadSetting, { kind }: Setting): string {
  const [type, words] = TYPES[kind] ?? ['string', 'a text, in quotes'];
  if (typeof value === type) return String(value);
  throw new ConfigRefused(`${place()}: ${key} must be ${words}`);
}

function* inEnvironment({ env }: CommandContext): Generator<[string, GivenSetting]> {
  for (const entry of ALL_SETTINGS) {
    const { environment: variable = '' } = entry;
    const text = env[variable] ?? '';
    if (text === '') continue;
    requireParsed(entry, text, variable, (why) => new CommandFailed('usage', 'BAD_ENVIRONMENT', why));
    yield [entry.name, { text: fullPath(entry, text), source: variable }];
  }
}

/** `what` and the sentence of a parser, as one clause. */
function refusal(what: string, { message }: InvalidArgumentError): string {
  const clause = message.replace(/\.$/, '').replace(/^It must/, `${what} must`);
  return clause.startsWith(what) ? clause : `${what}: ${clause}`;
}

function* onCommandLine(command: Command): Generator<[string, GivenSetting]> {
  const isGiven = (name: string): boolean => command.getOptionValueSource(name) === 'cli';
  const limits = isGiven('limits') ? (JSON.parse(command.getOptionValue('limits') as string) as object) : {};
  for (const [name, value] of Object.entries(limits))
    yield [`${LIMITS}${name}`, { text: String(value), source: '--limits' }];
  for (const entry of ALL_SETTINGS) {
    if (!isGiven(entry.name)) continue;
    const text = String(command.getOptionValue(entry.name));
    yield [entry.name, { text: fullPath(entry, text), source: flagOf(entry.flags) }];
  }
}

/** It stands before the name of a limit. */
const LIMITS = 'limits.';

/** A path from where it starts: the working folder, unless it is another one. */
function fullPath({ kind }: Setting, text: string, from = ''): string {
  const isPath = kind === 'path' || (kind === 'path or off' && text !== 'off');
  return isPath ? resolve(from, text) : text;
}

/** A config file with every setting that holds, and where it comes from. Leaves out secrets. */
export function printedConfig({ env }: CommandContext, { given }: EffectiveSettings): string {
  const lines = [
    `# The settings of poste relay serve ${softwareVersion()}, and where each comes from. Nothing sets those that are`,
    '# commented out. Secrets are left out.',
  ];
  if (env['MAIL_RELAY_KEY'])
    lines.push('# The key of the relay comes from MAIL_RELAY_KEY, which is not shown: key_file names a file instead.');
  lines.push('');
  const limits = ['', '[limits]'];
  for (const entry of ALL_SETTINGS) {
    const setting = given.get(entry.name);
    const lineOf = entry.kind === 'limits' ? limits : lines;
    lineOf.push(setting ? settingLine(entry, setting) : unsetLine(entry));
  }
  return `${[...lines, ...limits].join('\n')}\n`;
}

function settingLine({ name, kind, key }: NamedSetting, { text, source: from }: GivenSetting): string {
  if (name === 'log') return addressLine(key, text, from);
  const value = TYPES[kind]?.[0] === 'number' ? Number(text) : kind === 'yes' ? text === 'true' : text;
  return `${assignment(key.replace(LIMITS, ''), value)}  # ${from}`;
}

/** The address of a log may hold a password. */
function addressLine(key: string, address: string, from: string): string {
  const shown = shownAddress(address);
  if (!shown) return `# ${key} is set (${from}), and is no address of a log: it is not shown`;
  const hidden = shown.isWhole ? '' : '; without its password, which is for the file that log_password_file names';
  return `${assignment(key, shown.address)}  # ${from}${hidden}`;
}

function unsetLine({ key, description }: NamedSetting): string {
  const inWords = / \(default: (?<words>[^)]*)\)/.exec(description)?.groups?.['words'];
  return `# ${key}: ${inWords ?? 'not set'}`;
}

function assignment(key: string, value: string | number | boolean): string {
  return printable(stringify({ [key]: value }).trim(), tomlEscape);
}

/** TOML takes it in every text that `stringify` makes. */
function tomlEscape(character: string): string {
  return `\\U${(character.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`;
}
