/** A config file in TOML: its settings, each with the line on which it stands, so that a refusal can name it. */
import { TomlError, type TomlTable, parse } from 'smol-toml';
import { fileFault } from './file-fault.ts';
import { readText } from './user-text.ts';

/** The configuration cannot be used; the message says where and why. */
export class ConfigRefused extends Error {}

export interface ReadSetting {
  /** A dot leads into a table. */
  key: string;
  value: unknown;
  /** `file, line n`; found when it is asked for. */
  place: () => string;
}

/** The text of the file; `undefined` without one. Throws `ConfigRefused`. */
export function configText(file: string): string | undefined {
  try {
    return readText(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'EISDIR') throw new ConfigRefused(`${file} is a folder: name the config file in it`);
    throw new ConfigRefused(`${file} cannot be read (${fileFault(error)}): mend that and try again`);
  }
}

/** Every setting of `text`; one in a table that `known` has no key of is the whole table. Throws `ConfigRefused`. */
export function settingsOf(text: string, file: string, known: readonly string[]): ReadSetting[] {
  const found = leaves(parseOrRefuse(text, file), '', known);
  return Array.from(found, ([key, value]) => ({ key, value, place: () => placeOf(text, file, key, known) }));
}

function parseOrRefuse(text: string, file: string): TomlTable {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const why = /^Invalid TOML document: ([^\n]*)/.exec(error.message)?.[1] ?? 'it is no TOML';
    throw new ConfigRefused(`${file}, line ${error.line}: ${why}`);
  }
}

/** Every value with its full key. An empty table of ours is no value. */
function* leaves(table: TomlTable, prefix: string, known: readonly string[]): Generator<[key: string, value: unknown]> {
  for (const [name, value] of Object.entries(table)) {
    const key = `${prefix}${name}`;
    const isTable = typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date);
    if (isTable && known.some((one) => one.startsWith(`${key}.`))) yield* leaves(value, `${key}.`, known);
    else yield [key, value];
  }
}

/** `file, line n`: the first line up to which the text, read alone, has the key. */
function placeOf(text: string, file: string, key: string, known: readonly string[]): string {
  const lines = text.split('\n');
  for (let count = 1; count <= lines.length; count++) {
    let beginning: TomlTable;
    try {
      beginning = parse(lines.slice(0, count).join('\n'));
    } catch {
      continue;
    }
    const has = [...leaves(beginning, '', known)].some(([found]) => found === key);
    if (has) return `${file}, line ${count}`;
  }
  return file;
}
