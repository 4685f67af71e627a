/** Tables of a command: whole in a pipe, and as wide as the terminal for a person. */
import stringWidth from 'string-width';
import { printable, withoutOpenEnd } from '../../protocol/printable.ts';
import { formatTime, type Moment, type Screen, type Style, applyStyle } from './screen.ts';

/**
 * A column of a table: of text, which is cut where the terminal is too narrow, or of numbers, of times or of ids, which
 * are shown whole. The table makes every cell printable.
 */
export type Column<Row> = { title: string; style?: (row: Row) => Style | undefined } & (
  | { cell: (row: Row) => string; isNumber?: boolean }
  | { time: (row: Row) => Moment | null }
  /** An id: on a terminal as many characters as tell the ids of the table apart. A command takes those, too. */
  | { id: (row: Row) => string | null }
);

const EMPTY = '-';
const GAP = '  ';
/** A column of text is cut to no less than this. */
const CUT_COLUMNS_MIN = 6;

interface ColumnCells {
  cells: string[];
  isRight: boolean;
  mayBeCut: boolean;
  width: number;
}

/** A line of titles, and a line for each row. On a terminal the widest columns of text are cut to its width. */
export function table<Row>(screen: Screen, rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const laid = columns.map((column) => layOut(screen, column, rows));
  shrink(laid, screen.columns);
  const stylesOf = columns.map((column) => column.style ?? defaultStyle(column));
  const lines = [undefined, ...rows].map((row, line) => {
    const cells = laid.map((column, at) => {
      const text = cutTo(column.cells[line] ?? '', column.width);
      const space = ' '.repeat(Math.max(0, column.width - textWidth(text)));
      const shown = applyStyle(screen, row === undefined ? 'bold' : stylesOf[at]?.(row), text);
      return column.isRight ? space + shown : shown + space;
    });
    return cells.join(GAP).trimEnd();
  });
  return `${lines.join('\n')}\n`;
}

function defaultStyle<Row>(column: Column<Row>): (row: Row) => Style | undefined {
  const style = 'id' in column ? 'yellow' : 'time' in column ? 'dim' : undefined;
  return () => style;
}

function layOut<Row>(screen: Screen, column: Column<Row>, rows: readonly Row[]): ColumnCells {
  const shown = cellsOf(screen, column, rows).map((cell) => printable(cell));
  const cells = [column.title, ...shown];
  // Not as arguments of one call: a long table has more rows than a call may have.
  const width = cells.reduce((widest, cell) => Math.max(widest, textWidth(cell)), 0);
  const isRight = 'cell' in column && column.isNumber === true;
  return { cells, isRight, mayBeCut: 'cell' in column && !isRight, width };
}

function cellsOf<Row>(screen: Screen, column: Column<Row>, rows: readonly Row[]): string[] {
  if ('cell' in column) return rows.map(column.cell);
  if ('time' in column) {
    return rows.map((row) => {
      const moment = column.time(row);
      return moment === null ? EMPTY : formatTime(screen, moment);
    });
  }
  const ids = rows.map((row) => column.id(row) ?? EMPTY);
  return screen.columns === undefined ? ids : shortIds(ids);
}

const FINGERPRINT_PREFIX = 'SHA256:';
/** The first ten characters are its time, and the next two make it one of a thousand. */
const ID_CHARACTERS_MIN = 12;
const FINGERPRINT_CHARACTERS_MIN = FINGERPRINT_PREFIX.length + 8;

/** The first characters of each, so many that no two different ids look the same. */
export function shortIds(ids: readonly string[]): string[] {
  const different = [...new Set(ids)].toSorted();
  const shared = different.reduce((most, id, at) => Math.max(most, sharedCharacters(different[at - 1] ?? '', id)), 0);
  return ids.map((id) => {
    const least = id.startsWith(FINGERPRINT_PREFIX) ? FINGERPRINT_CHARACTERS_MIN : ID_CHARACTERS_MIN;
    return id.slice(0, Math.max(least, shared + 1));
  });
}

function sharedCharacters(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** Takes from the widest columns of text what the terminal has no room for. */
function shrink(laid: readonly ColumnCells[], columns: number | undefined): void {
  if (columns === undefined) return;
  const whole = laid.reduce((sum, { width }) => sum + width, GAP.length * (laid.length - 1));
  for (let excess = whole - columns; excess > 0; ) {
    const wide = laid
      .filter(({ mayBeCut, width }) => mayBeCut && width > CUT_COLUMNS_MIN)
      .toSorted((a, b) => b.width - a.width);
    const [widest, next] = wide;
    if (!widest) return;
    // To the next one, or further where there is none as wide.
    const to = Math.max(CUT_COLUMNS_MIN, widest.width - excess, Math.min((next?.width ?? 0) - 1, widest.width - 1));
    excess -= widest.width - to;
    widest.width = to;
  }
}

/** Each character takes one column: those of Latin scripts, and signs that Poste writes itself. */
const ONE_COLUMN_EACH = /^[\u0020-\u007e\u00a0-\u00ac\u00ae-\u02ff–—…]*$/;

/** The columns of a terminal that the text takes. */
export function textWidth(text: string): number {
  // The first call of the library makes its tables of Unicode, which takes half as long as the start of Node.js.
  return ONE_COLUMN_EACH.test(text) ? text.length : stringWidth(text);
}

const ELLIPSIS = '…';

/** The text, or as much of it as fits with an ellipsis. Never half of a character. */
export function cutTo(text: string, columns: number): string {
  if (textWidth(text) <= columns) return text;
  let kept = '';
  let width = 0;
  // The first one that a process makes takes about 10 ms, so none is made for a text that is not cut.
  const graphemes = new Intl.Segmenter();
  for (const { segment } of graphemes.segment(text)) {
    width += textWidth(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return withoutOpenEnd(kept) + ELLIPSIS;
}
