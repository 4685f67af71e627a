/** Formats of commands for JSON, sizes and fields. */
import { jsonEscape, printable } from '../../protocol/printable.ts';
import { isoTime } from '../../protocol/time.ts';

/** Every command says `--json` in the same words. */
export const JSON_FLAG = ['--json', 'print JSON instead of text'] as const;

/** One line of JSON, with its times in ISO 8601. Control characters are escaped, so that no terminal obeys them. */
export function jsonLine(document: unknown): string {
  return `${printable(JSON.stringify(shownDocument(document)), jsonEscape)}\n`;
}

/** Members that hold a time, in milliseconds, in the documents of a relay and of backups. */
const TIME_NAME = /^(?:at|time|iat|until|before|first_time|last_time|[a-z_]+_(?:at|until))$/;
const MILLISECONDS_NAME = /_ms$/;
/** Documents with a signature: they stay as they were signed. */
const SIGNED_NAMES: ReadonlySet<string> = new Set(['accept', 'document']);

/** A document as `--json` prints it: times in ISO 8601 instead of milliseconds, and durations in seconds. */
function shownDocument(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shownDocument);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => shownMember(name, one)));
}

function shownMember(name: string, value: unknown): [name: string, value: unknown] {
  if (SIGNED_NAMES.has(name)) return [name, value];
  if (typeof value === 'number' && TIME_NAME.test(name)) return [name, isoTime(value)];
  if (!MILLISECONDS_NAME.test(name)) return [name, shownDocument(value)];
  return [name.replace(MILLISECONDS_NAME, '_seconds'), typeof value === 'number' ? value / 1000 : value];
}

const BYTE_UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** Writes `12.3 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes === 1) return '1 byte';
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < BYTE_UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** A line for each text, printable. */
export function formatLines(texts: readonly string[], indent = ''): string {
  return texts.map((text) => `${indent}${printable(text)}\n`).join('');
}

/** A line for each field: its name in a column of `width`, and its value, printable. None for `false`. */
export function formatFields(fields: readonly (readonly string[] | false)[], width: number, indent = '  '): string {
  const there = fields.filter((field) => field !== false);
  return there.map(([name = '', value = '']) => `${indent}${name.padEnd(width)} ${printable(value)}\n`).join('');
}
