/**
 * Lays out the picture of who waits for whom, and says the same in words. Every line has a height of its own at either
 * end, so that no two labels lie on each other.
 */
import { printable } from '../../protocol/printable.ts';
import { countText, duration } from '../shared/format.ts';

/** One who waits for another, with how many questions, and since when. */
export interface Wait {
  asker: string;
  debtor: string;
  count: number;
  sinceMs: number;
}

/** More lines than this say nothing any more; the table has all. */
const LINES_MAX = 40;

/** The drawing is as wide as a phone. */
export const WIDTH = 310;
const ROW = 26;
const TOP = 30;
const NAMES = 94;
export const LINE_ENDS = { from: 154, to: WIDTH - NAMES - 8 };

interface Name {
  name: string;
  y: number;
}

export interface Line {
  wait: Wait;
  fromY: number;
  toY: number;
}

interface Picture {
  height: number;
  askers: Name[];
  debtors: Name[];
  lines: Line[];
}

/** The pairs of debts, the longest waiting first. */
export function waitsOf(debts: readonly { asker: string; debtor: string; sinceMs: number }[]): Wait[] {
  const waits = new Map<string, Wait>();
  for (const { asker, debtor, sinceMs } of debts) {
    const known = waits.get(`${asker} ${debtor}`) ?? { asker, debtor, count: 0, sinceMs };
    known.count++;
    known.sinceMs = Math.min(known.sinceMs, sinceMs);
    waits.set(`${asker} ${debtor}`, known);
  }
  return [...waits.values()].toSorted((a, b) => a.sinceMs - b.sinceMs);
}

/** Lays out the lines: those of one asker stand together, and debtors near the lines that lead to them. */
export function layOutPicture(waits: readonly Wait[]): Picture {
  const shown = waits.slice(0, LINES_MAX);
  const byAsker = [...inGroups(shown, ({ asker }) => asker)];
  const first = byAsker.flatMap(([, group]) => group);
  const meanRow = (group: readonly Wait[]): number =>
    group.reduce((sum, wait) => sum + first.indexOf(wait), 0) / group.length;
  const byDebtor = [...inGroups(shown, ({ debtor }) => debtor)].toSorted((a, b) => meanRow(a[1]) - meanRow(b[1]));
  const places = new Map(byDebtor.map(([debtor], place) => [debtor, place]));
  const placeOf = ({ debtor }: Wait): number => places.get(debtor) ?? 0;
  const begins = byAsker.flatMap(([, group]) => group.toSorted((a, b) => placeOf(a) - placeOf(b)));
  const ends = byDebtor.flatMap(([, group]) => group.toSorted((a, b) => begins.indexOf(a) - begins.indexOf(b)));
  return {
    height: TOP + shown.length * ROW,
    askers: namesOf(byAsker),
    debtors: namesOf(byDebtor),
    lines: begins.map((wait, row) => ({ wait, fromY: yOf(row), toY: yOf(ends.indexOf(wait)) })),
  };
}

function yOf(row: number): number {
  return TOP + row * ROW + ROW / 2;
}

function inGroups(waits: readonly Wait[], nameOf: (wait: Wait) => string): Map<string, Wait[]> {
  const groups = new Map<string, Wait[]>();
  for (const wait of waits) groups.set(nameOf(wait), [...(groups.get(nameOf(wait)) ?? []), wait]);
  return groups;
}

/** Each name in the middle of its rows. */
function namesOf(groups: readonly (readonly [string, readonly Wait[]])[]): Name[] {
  let row = 0;
  return groups.map(([name, group]) => {
    const first = row;
    row += group.length;
    return { name, y: (yOf(first) + yOf(row - 1)) / 2 };
  });
}

/** Says in words what the picture shows. */
export function pictureText(waits: readonly Wait[], nowMs: number): string {
  const sentences = waits
    .slice(0, LINES_MAX)
    .map((wait) => `${wait.asker} waits for ${wait.debtor}: ${waitText(wait, nowMs)}.`);
  return printable(sentences.join(' '));
}

export function waitText({ count, sinceMs }: Wait, nowMs: number): string {
  return `${countText(count, 'question')} for ${ageText(sinceMs, nowMs)}`;
}

/** The clock of the browser may be behind that of the host. */
export function ageText(sinceMs: number, nowMs: number): string {
  return duration(Math.max(1000, nowMs - sinceMs));
}
