/**
 * Makes what `docs/figures.md` shows of `bench/summary.json`: its tables, and its plots as SVG for light and dark
 * pages.
 */
import { withPart } from '../scripts/page-part.ts';
import { type Summary, type SummaryFigure, isOfNode, isReached, machineOf, shown } from './report.ts';

const PEERS = 'peers';
/** The relay in JSON, and in the binary form. */
const POSTE = ['Poste', 'Poste, binary'] as const;
const TABLE = { 'PostgreSQL table': 'a table of PostgreSQL' };
const LOADS = ['batch', 'single'] as const;

/** The page with its tables made anew; what stands around them stays. */
export function figuresPage(page: string, summary: Summary): string {
  return placed(placed(page, 'peers', peersTable(summary)), 'goals', goalsTable(summary));
}

/** The README with its three lines made anew. */
export function figuresReadme(readme: string, summary: Summary): string {
  const systems = { 'Redis Streams': 'Redis Streams', JetStream: 'JetStream, written synchronously', ...TABLE };
  const rows = Object.entries(systems).map(([name, title]) => {
    const cells = LOADS.map((load) => partsOf(summary, load, name).join('; '));
    return `| ${title} | ${cells.join(' | ')} |`;
  });
  const head = "| Poste's rate / that of, in JSON; as hosts push | 200 × 1 KiB a request | 1 KiB a request |";
  return placed(readme, 'peers', [head, '|---|---|---|', ...rows].join('\n'));
}

function placed(page: string, name: string, text: string): string {
  return withPart(page, { name, command: 'docs:figures', text });
}

function peersTable(summary: Summary): string {
  const rows = peersOf(summary, 'batch').map(({ name }) => {
    const cells = LOADS.flatMap((load) => {
      const rate = find(summary, `${load}: ${name}`);
      return [spread(rate), partsOf(summary, load, name).join(', ')];
    });
    return `| ${name} | ${cells.join(' | ')} |`;
  });
  const dates = datesOf(onUsualNode(summary).figures.filter(({ cell }) => cell === PEERS));
  return [
    `Beside other systems, items a second, ${dates}. The second column of each load is Poste's part of that ` +
      "system's rate, in JSON and in the binary form with one signature a request:",
    '',
    '| | 200 × 1 KiB a request, 4 connections | Poste / it | 1 KiB a request, 64 connections | Poste / it |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

/** The relay's part of that system's rate in each of its forms. */
function partsOf(summary: Summary, load: string, system: string): string[] {
  const found = POSTE.map((poste) => find(summary, `${load}: ${poste} / ${system}`));
  return found.flatMap((figure) => (figure ? [figure.median.toFixed(2)] : []));
}

function goalsTable({ figures }: Summary): string {
  const aims = figures.filter(({ goal }) => goal !== undefined);
  const usual = mostOften(aims.map(machineOf));
  const rows = aims.map((figure) => {
    const { cell, name, unit, goal = 0, better, note, at, commit, load } = figure;
    const other = machineOf(figure) === usual ? '' : `, on ${machineOf(figure)}`;
    const wanted = `${better === 'more' ? 'at least' : 'at most'} ${withUnit(goal, unit)}`;
    const explained = note === undefined ? '' : `; ${note}`;
    const verdict = reaches(figure) ? 'reached' : 'not reached';
    const cells = [
      cell,
      `${name}${explained}`,
      spread(figure),
      wanted,
      verdict,
      `${at} on ${commit}, load ${load}${other}`,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    `Goals and figures on ${usual}, unless a row names another machine: medians, and the least and most of the rounds:`,
    '',
    '| cell | figure | measured | goal | | run of |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

/** Those on the Node that most were measured on: plots and tables of rates compare nothing across versions. */
function onUsualNode({ figures }: Summary): Summary {
  const usual = mostOften(figures.map(({ node }) => node));
  return { figures: figures.filter((figure) => isOfNode(figure, usual)) };
}

function mostOften(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? '';
}

function spread(figure: SummaryFigure | undefined): string {
  if (!figure) return '';
  const { median, least, most, unit, rounds } = figure;
  const range = rounds > 1 ? ` (${shown(least, unit)} to ${shown(most, unit)})` : '';
  return `${unit === 'items/s' ? shown(median, unit) : withUnit(median, unit)}${range}`;
}

function withUnit(value: number, unit: SummaryFigure['unit']): string {
  return unit === 'ratio' ? shown(value, unit) : `${shown(value, unit)} ${unit}`;
}

function reaches({ median, better, goal }: SummaryFigure): boolean {
  return isReached({ values: [median], better, ...(goal !== undefined && { goal }) });
}

function datesOf(figures: readonly SummaryFigure[]): string {
  return [...new Set(figures.map(({ at, commit, load }) => `${at} on ${commit}, load ${load}`))].join(', ');
}

function find(summary: Summary, name: string): SummaryFigure | undefined {
  return onUsualNode(summary).figures.find((figure) => figure.cell === PEERS && figure.name === name);
}

/** Rates of one load by system. */
function peersOf(summary: Summary, load: string): { name: string; figure: SummaryFigure }[] {
  return onUsualNode(summary)
    .figures.filter(({ cell, name, unit }) => cell === PEERS && unit === 'items/s' && name.startsWith(`${load}: `))
    .map((figure) => ({ name: figure.name.slice(load.length + 2), figure }));
}

const WIDTH = 960;
const BAR = { height: 18, step: 26 };

/** Numbers have a column of their own. */
const NUMBER_WIDTH = 210;
const MARGIN = 20;

interface Bar {
  label: string;
  /** The longest one of its group has 1. */
  part: number;
  number: string;
  kind: 'own' | 'other' | 'reached' | 'missed';
}

interface Group {
  title: string;
  labelWidth: number;
  bars: readonly Bar[];
  /** The place of a line, as a part of the longest bar. */
  line?: number;
}

/** Rates of durable pushes, by load and system. */
export function peersPlot(summary: Summary): string {
  const titles = { batch: '200 × 1 KiB a request, 4 connections', single: '1 KiB a request, 64 connections' };
  const groups = LOADS.map((load): Group => {
    const systems = peersOf(summary, load);
    const longest = Math.max(...systems.map(({ figure }) => figure.median));
    const bars = systems.map(({ name, figure }): Bar => {
      const kind = POSTE.some((poste) => poste === name) ? 'own' : 'other';
      const number = `${shown(figure.median, 'items/s')} items/s`;
      return { label: name, part: figure.median / longest, number, kind };
    });
    return { title: titles[load], labelWidth: 200, bars };
  });
  const said = 'Durable pushes into Poste, Redis Streams, JetStream and a PostgreSQL table, in items a second.';
  return plot(said, groups);
}

/** Returns how far the project is with what it wants to reach: 1 is reached. */
export function goalsPlot(summary: Summary): string {
  const most = 1.25;
  const bars = onUsualNode(summary).figures.flatMap((figure): Bar[] => {
    const { cell, name, median, better, goal, unit } = figure;
    if (goal === undefined) return [];
    const part = Math.min(most, better === 'more' ? median / goal : goal / median) / most;
    const number = `${withUnit(median, unit)} (${better === 'more' ? '≥' : '≤'} ${shown(goal, unit)})`;
    return [{ label: `${cell}: ${name}`, part, number, kind: reaches(figure) ? 'reached' : 'missed' }];
  });
  const title = 'What was measured, as a part of what is to be reached (at the line)';
  return plot(title, [{ title, labelWidth: 420, bars, line: 1 / most }]);
}

/** Horizontal bars on a ground of their own, so that they can be read on any page. */
function plot(said: string, groups: readonly Group[]): string {
  const parts: string[] = [];
  let y = 12;
  for (const { title, labelWidth, bars, line } of groups) {
    const left = MARGIN + labelWidth;
    const room = WIDTH - left - NUMBER_WIDTH - MARGIN;
    parts.push(`<text class="title" x="${MARGIN}" y="${y + 22}">${escaped(title)}</text>`);
    y += 38;
    const top = y;
    for (const { label, part, number, kind } of bars) {
      const width = Math.max(2, Math.round(room * part));
      const middle = y + 13;
      parts.push(
        `<text x="${left - 10}" y="${middle}" text-anchor="end">${escaped(label)}</text>`,
        `<rect class="${kind}" x="${left}" y="${y}" width="${width}" height="${BAR.height}" rx="2" />`,
        `<text class="number" x="${left + room + 12}" y="${middle}">${escaped(number)}</text>`,
      );
      y += BAR.step;
    }
    if (line !== undefined) {
      const x = left + Math.round(room * line);
      parts.push(`<path class="line" d="M${x} ${top - 4} V${y}" />`);
    }
    y += 8;
  }
  const height = y + 6;
  const view = `viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(said)}"`;
  const font = 'font-family="system-ui, sans-serif" font-size="13"';
  return `<svg xmlns="http://www.w3.org/2000/svg" ${view} ${font}>
  <style>
    .back { fill: #ffffff; stroke: #d0d7de }
    text { fill: #22303d }
    .title { font-weight: 600; font-size: 15px }
    .number { fill: #50606f; font-size: 12px }
    .own { fill: #b3402f } .other { fill: #8fa3b5 }
    .reached { fill: #2f7d4f } .missed { fill: #b58a2b }
    .line { stroke: #22303d; stroke-width: 1.5; stroke-dasharray: 4 3 }
    @media (prefers-color-scheme: dark) {
      .back { fill: #161b22; stroke: #30363d }
      text { fill: #e6edf3 }
      .number { fill: #9da7b3 }
      .own { fill: #e5705d } .other { fill: #5f7488 }
      .reached { fill: #46a86b } .missed { fill: #c79a3a }
      .line { stroke: #e6edf3 }
    }
  </style>
  <rect class="back" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8" />
  ${parts.join('\n  ')}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
