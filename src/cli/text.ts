/** How documents, times and tables are written. */
import { printable } from '../protocol/printable.ts';

/** One line of JSON; what a terminal would obey is escaped. */
export function jsonLine(document: unknown): string {
  return `${printable(JSON.stringify(document), jsonEscape)}\n`;
}

function jsonEscape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** To the minute, in UTC: `2025-11-20 21:48Z`. */
export function timeText(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? 'never' : `${date.toISOString().slice(0, -8).replace('T', ' ')}Z`;
}

const BYTE_UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** As people read it: `12.3 MB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < BYTE_UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

export interface Column<Row> {
  title: string;
  /** Printable. */
  cell: (row: Row) => string;
  isNumber?: boolean;
}

/** Cells longer than this are cut: JSON has them whole. */
const CELL_CHARACTERS_MAX = 70;

/** A title line and a line for each row. */
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
