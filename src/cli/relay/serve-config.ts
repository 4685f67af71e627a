/**
 * What `poste relay serve` is set to: flags win over the environment, that over the config file, that over the defaults.
 * Each setting is known with where it comes from, and can be printed as a config file.
 *
 * The file is TOML, and says no secret: the relay's key and the password of the log are in files that it names.
 */
import { dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { stringify } from 'smol-toml';
import { suggestions } from '../../host/core/suggestions.ts';
import { ConfigRefused, type ReadSetting, configText, settingsOf } from '../../lib/config-file.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { printable } from '../../protocol/printable.ts';
import { shownAddress } from '../../relay/shared-log/log-address.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import {
  configFileOf,
  SETTINGS,
  type ServeFlags,
  type Setting,
  type SettingName,
  settingEntries,
  settingKey,
  settingKeys,
} from './settings.ts';

export type SettingSource =
  | { type: 'flag' }
  | { type: 'environment'; variable: string }
  | { type: 'file'; place: string }
  | { type: 'default' };

/** A setting as it was given. */
interface GivenSetting {
  /** As on a command line; a path is absolute. */
  text: string;
  source: SettingSource;
}

/** By the member of `ServeFlags`; each limit by `limits.` and its name. */
type GivenSettings = Map<string, GivenSetting>;

export interface EffectiveSettings {
  settings: ServeFlags;
  given: ReadonlyMap<string, GivenSetting>;
  file: { path: string; isThere: boolean };
}

/** What the command, which has the options of `withSettings` and `--config`, is given. Throws `CommandFailed`. */
export function effectiveSettings(context: CommandContext, command: Command): EffectiveSettings {
  const { path, isThere, given } = fileOf(context, command);
  const all: GivenSettings = new Map([...byDefault(), ...given, ...inEnvironment(context), ...onCommandLine(command)]);
  return { settings: settingsFrom(all), given: all, file: { path, isThere } };
}

/** What the file of a command with `--config` says of a setting that no variable overrides. Throws `CommandFailed`. */
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
  const { isThere, given } = orBadConfig(() => inFile(path));
  if (isNamed && !isThere)
    throw new CommandFailed('notFound', 'BAD_CONFIG', `there is no config file at ${path}: name the right one`);
  return { path, isThere, given };
}

/** Without file and environment: for a command that says what is wrong with those. */
export function flagsAlone(command: Command): ServeFlags {
  return settingsFrom(new Map([...byDefault(), ...onCommandLine(command)]));
}

function settingsFrom(given: GivenSettings): ServeFlags {
  const limits = Object.keys(DEFAULT_LIMITS).flatMap((name) => {
    const text = given.get(limitName(name))?.text;
    return text === undefined ? [] : [[name, Number(text)]];
  });
  const settings = settingEntries().flatMap(([name, { kind, parse }]) => {
    if (kind === 'limits') return [[name, parse(JSON.stringify(Object.fromEntries(limits)))]];
    const text = given.get(name)?.text;
    return text === undefined ? [] : [[name, parse(text)]];
  });
  return Object.fromEntries(settings) as ServeFlags;
}

function* byDefault(): Generator<[string, GivenSetting]> {
  const source = { type: 'default' } as const;
  for (const [name, entry] of settingEntries()) {
    const { kind, byDefault: text } = entry;
    if (kind === 'limits') yield* limitsOf({ ...DEFAULT_LIMITS }, source);
    else if (text !== undefined) yield [name, { text: placed(entry, text), source }];
  }
}

/** Throws `ConfigRefused`. */
function inFile(path: string): { isThere: boolean; given: GivenSettings } {
  const text = configText(path);
  const given: GivenSettings = new Map();
  const known = settingKeys();
  const byKey = new Map(settingEntries().map(([name, entry]) => [settingKey(entry), { name, entry }]));
  for (const setting of settingsOf(text ?? '', path, known)) {
    const [key = '', limit] = setting.key.split('.', 2);
    const found = byKey.get(key);
    if (!found || (setting.key.includes('.') && !known.includes(setting.key))) throw unknownSetting(setting, known);
    const value = limit === undefined ? textOf(setting, found.entry) : numberOf(setting);
    const used = placed(found.entry, value, dirname(path));
    refuseUnreadable(setting, found.entry, limit === undefined ? used : JSON.stringify({ [limit]: Number(value) }));
    const source = { type: 'file', place: setting.place() } as const;
    given.set(limit === undefined ? found.name : limitName(limit), { text: used, source });
  }
  return { isThere: text !== undefined, given };
}

function unknownSetting({ key, place }: ReadSetting, known: readonly string[]): ConfigRefused {
  const near = suggestions(key.replaceAll('-', '_'), known);
  const meant = near.length === 0 ? '' : ` (did you mean ${near.join(' or ')}?)`;
  return new ConfigRefused(
    `${place()}: there is no setting ${printable(key)}${meant}: poste relay serve --print-config shows all that there are`,
  );
}

/** As it would be on the command line. Throws `ConfigRefused` for a value of another type. */
function textOf(setting: ReadSetting, { kind }: Setting): string {
  const { key, value, place } = setting;
  switch (kind) {
    case 'number':
      return numberOf(setting);
    case 'yes':
      if (typeof value === 'boolean') return String(value);
      throw new ConfigRefused(`${place()}: ${key} must be true or false, without quotes`);
    case 'limits':
      throw new ConfigRefused(`${place()}: ${key} must be a table: [limits], and below it a line for each limit`);
    default:
      if (typeof value === 'string') return value;
      throw new ConfigRefused(`${place()}: ${key} must be a text, in quotes`);
  }
}

function numberOf({ key, value, place }: ReadSetting): string {
  if (typeof value === 'number') return String(value);
  throw new ConfigRefused(`${place()}: ${key} must be a number, without quotes`);
}

function refuseUnreadable({ place }: ReadSetting, entry: Setting, text: string): void {
  try {
    entry.parse(text);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    // The sentence about a limit begins with its name.
    const what = entry.kind === 'limits' ? '' : settingKey(entry);
    throw new ConfigRefused(`${place()}: ${refusal(what, error)}`);
  }
}

function* inEnvironment({ env }: CommandContext): Generator<[string, GivenSetting]> {
  for (const [name, entry] of settingEntries()) {
    const { environment: variable, parse } = entry;
    const said = variable === undefined ? undefined : env[variable];
    if (variable === undefined || said === undefined || said === '') continue;
    try {
      parse(said);
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      throw new CommandFailed('usage', 'BAD_ENVIRONMENT', refusal(variable, error));
    }
    yield [name, { text: placed(entry, said), source: { type: 'environment', variable } }];
  }
}

/** `what` and the sentence of a parser, as one clause. */
function refusal(what: string, { message }: InvalidArgumentError): string {
  const clause = message.replace(/\.$/, '').replace(/^It must/, `${what} must`);
  return clause.startsWith(what) ? clause : `${what}: ${clause}`;
}

function* onCommandLine(command: Command): Generator<[string, GivenSetting]> {
  const source = { type: 'flag' } as const;
  for (const [name, entry] of settingEntries()) {
    if (command.getOptionValueSource(name) !== 'cli') continue;
    const value = command.getOptionValue(name) as string | true;
    if (entry.kind === 'limits') yield* limitsOf(JSON.parse(String(value)) as Record<string, number>, source);
    else yield [name, { text: placed(entry, textOfFlag(entry, value)), source }];
  }
}

/** A flag without its text, as it is allowed to stand. */
function textOfFlag({ kind }: Setting, value: string | true): string {
  if (value !== true) return value;
  return kind === 'yes' ? 'true' : 'xff';
}

function* limitsOf(limits: Record<string, number>, source: SettingSource): Generator<[string, GivenSetting]> {
  for (const [name, value] of Object.entries(limits)) yield [limitName(name), { text: String(value), source }];
}

function limitName(name: string): string {
  return `limits.${name}`;
}

/** A path from where it starts: the working folder, unless it is another one. */
function placed({ kind }: Setting, text: string, from = ''): string {
  const isPath = kind === 'path' || (kind === 'path or off' && text !== 'off');
  return isPath ? resolve(from, text) : text;
}

function orBadConfig<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof ConfigRefused) throw new CommandFailed('usage', 'BAD_CONFIG', error.message);
    throw error;
  }
}

/** A config file with every setting that holds, and where it comes from. Without secrets. */
export function printedConfig({ env }: CommandContext, { given }: EffectiveSettings): string {
  const lines = [
    `# The settings of poste relay serve ${softwareVersion()}, and where each comes from. Nothing sets those that are`,
    '# commented out. Secrets are left out.',
  ];
  if (env['MAIL_RELAY_KEY'])
    lines.push('# The key of the relay comes from MAIL_RELAY_KEY, which is not shown: key_file names a file instead.');
  lines.push('');
  const limits: string[] = [];
  for (const [name, entry] of settingEntries()) {
    const setting = given.get(name);
    if (entry.kind === 'limits') limits.push('', `[${settingKey(entry)}]`, ...limitLines(given));
    else lines.push(setting ? settingLine(name, entry, setting) : unsetLine(entry));
  }
  return `${[...lines, ...limits].join('\n')}\n`;
}

function limitLines(given: EffectiveSettings['given']): string[] {
  return Object.keys(DEFAULT_LIMITS).flatMap((name) => {
    const setting = given.get(limitName(name));
    return setting ? [`${assignment(name, Number(setting.text))}  # ${sourceText(setting.source, '--limits')}`] : [];
  });
}

function settingLine(name: SettingName, entry: Setting, { text, source }: GivenSetting): string {
  const { kind, flags } = entry;
  const key = settingKey(entry);
  const from = sourceText(source, flags.split(' ', 1)[0] ?? '');
  if (name === 'log') return addressLine(key, text, from);
  const value = kind === 'number' ? Number(text) : kind === 'yes' ? text === 'true' : text;
  return `${assignment(key, value)}  # ${from}`;
}

/** The address of a log may hold a password. */
function addressLine(key: string, address: string, from: string): string {
  const shown = shownAddress(address);
  if (!shown) return `# ${key} is set (${from}), and is no address of a log: it is not shown`;
  const hidden = shown.isWhole ? '' : '; without its password, which is for the file that log_password_file names';
  return `${assignment(key, shown.address)}  # ${from}${hidden}`;
}

function unsetLine(entry: Setting): string {
  const inWords = / \(default: (?<words>[^)]*)\)/.exec(entry.description)?.groups?.['words'];
  return `# ${settingKey(entry)}: ${inWords ?? 'not set'}`;
}

function assignment(key: string, value: string | number | boolean): string {
  return printable(stringify({ [key]: value }).trim(), tomlEscape);
}

/** TOML takes it in every text that `stringify` makes. */
function tomlEscape(character: string): string {
  return `\\U${(character.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`;
}

function sourceText(source: SettingSource, flag: string): string {
  switch (source.type) {
    case 'flag':
      return flag;
    case 'environment':
      return source.variable;
    case 'file':
      return printable(source.place);
    case 'default':
      return 'default';
  }
}
