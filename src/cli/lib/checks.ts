/** The two doctors print by this what they found, and end. */
import { countText } from '../../host/core/spans.ts';
import type { Check } from '../../lib/check.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';
import { print } from './output.ts';
import { type Screen, type Style, screenOf, applyStyle } from './screen.ts';

export interface Examination {
  checks: readonly Check[];
  /** The title of each area, in the order in which they are shown. */
  titles: Readonly<Record<string, string>>;
  /** The thing that was examined, as a line of text; empty where that is not known. */
  head: string;
  /** The same, as members of the document. */
  subject: object;
}

/** Prints the checks. Throws `CommandFailed` when something is broken. */
export function reportChecks(context: CommandContext, examined: Examination, isJson: boolean): void {
  const { checks, subject } = examined;
  const countOf = (wanted: Check['state']): number => checks.filter(({ state }) => state === wanted).length;
  const [broken, notes] = [countOf('broken'), countOf('note')];
  const counts = { ok: broken === 0, broken, notes };
  const text = (): string => textOf(screenOf(context), examined, broken, notes);
  print(context, { json: isJson }, { ...counts, ...subject, checks }, text);
  if (broken === 0) return;
  const found = checks.filter(({ state }) => state === 'broken').map(({ id, about }) => ({ id, about }));
  const message = `${countText(broken, 'thing is', 'things are')} broken`;
  const remedy = 'below each stands the command that repairs it';
  throw new CommandFailed('failure', 'BROKEN', `${message}: ${remedy}`, { checks: found });
}

function textOf(screen: Screen, { checks, titles, head }: Examination, broken: number, notes: number): string {
  const width = Math.min(LABEL_CHARACTERS_MAX, Math.max(...checks.map((check) => labelOf(check).length)));
  const areas = Object.entries(titles).flatMap(([area, name]) => {
    const ofArea = checks.filter((check) => check.area === area);
    return [...new Set(ofArea.map(({ relay = '' }) => relay))].map((relay) => {
      const found = ofArea.filter((check) => (check.relay ?? '') === relay);
      const title = relay === '' ? name : `${name} ${printable(relay)}`;
      return `${applyStyle(screen, 'bold', title)}\n${found.map((check) => checkText(screen, check, width)).join('')}`;
    });
  });
  const look = notes === 0 ? '' : `${countText(notes, 'thing is', 'things are')} worth a look`;
  const end = broken > 0 ? look : `Nothing is broken${look === '' ? '' : `, ${look}`}`;
  return `${head === '' ? '' : `${printable(head)}\n\n`}${areas.join('\n')}${end === '' ? '' : `\n${end}.\n`}`;
}

const MARKS: Readonly<Record<Check['state'], string>> = { ok: 'ok', note: 'note', broken: 'BROKEN' };
const STYLES: Readonly<Record<Check['state'], Style>> = { ok: 'green', note: 'yellow', broken: 'red' };
const LABEL_CHARACTERS_MAX = 24;

function checkText(screen: Screen, check: Check, width: number): string {
  const { state, sentence, command } = check;
  const mark = applyStyle(screen, STYLES[state], MARKS[state]) + ' '.repeat(6 - MARKS[state].length);
  const line = `  ${mark}  ${labelOf(check).padEnd(width)}  ${printable(sentence)}\n`;
  return command === null ? line : `${line}${''.padEnd(width + 12)}$ ${printable(command)}\n`;
}

/** The paired host or agent, or the part of the area. A path is too long for a label, and its sentence names it. */
function labelOf({ id, area, about }: Check): string {
  if (about !== null && !about.startsWith('/')) return printable(about);
  return id.startsWith(`${area}-`) ? id.slice(area.length + 1) : id;
}
