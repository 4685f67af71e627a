/** How commands print JSON, times, sizes, fields and tables. */
import { jsonEscape, printable } from '../../protocol/printable.ts';

/** One line of JSON. Control characters are escaped, so that no terminal obeys them. */
export function jsonLine(document: unknown): string {
  return `${printable(JSON.stringify(document), jsonEscape)}\n`;
}

/** To the minute, in UTC: `2025-11-20 21:48Z`. */
export function formatTime(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? 'never' : `${date.toISOString().slice(0, -8).replace('T', ' ')}Z`;
}

const BYTE_UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** As in `12.3 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < BYTE_UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** A line for each field: its name in a column of `width`, and its value, printable. */
export function formatFields(fields: readonly (readonly string[])[], width: number, indent = '  '): string {
  return fields.map(([name = '', value = '']) => `${indent}${name.padEnd(width)} ${printable(value)}\n`).join('');
}

export interface Column<Row> {
  title: string;
  /** Printable. */
  cell: (row: Row) => string;
  isNumber?: boolean;
}

/** Longer cells are cut; --json shows them whole. */
const CELL_CHARACTERS_MAX = 70;

/** A line of titles, and a line for each row. */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ cell }) => cut(cell(row))))];
  // Not as arguments of one call: a long table has more rows than a call may have.
  const widths = columns.map((_, at) => lines.reduce((width, cells) => Math.max(width, cells[at]?.length ?? 0), 0));
  const padded = lines.map((cells) =>
    cells
      .map((text, at) => (columns[at]?.isNumber ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  return `${padded.join('\n')}\n`;
}

function cut(text: string): string {
  return text.length <= CELL_CHARACTERS_MAX ? text : `${text.slice(0, CELL_CHARACTERS_MAX - 1)}…`;
}
