/**
 * Reports what a run measured: printed, kept as JSON, and compared with the checked-in summary.
 *
 * Machines differ, and the same one is busy in other ways each time. So two runs are compared by ratios alone: of what
 * was measured to a floor program, a bare server or another system in the same run.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { dirname } from 'node:path';
import { quantile } from './figures.ts';

export type Unit =
  | 'ratio'
  | 'items/s'
  | 'messages/s'
  | 'requests/s'
  | 'events/s'
  | 'MB/s'
  | 'MB'
  | 'bytes'
  | 's'
  | 'ms'
  | 'us';

export interface Figure {
  /** No two of a cell have the same. */
  name: string;
  unit: Unit;
  better: 'more' | 'less';
  /** One for each round. */
  values: number[];
  /** Those of another build, measured by turns with these. */
  beside?: number[];
  /** The value that the project wants to reach. */
  goal?: number;
  /** A reader has to know this of it. */
  note?: string;
}

/** A figure of one round. */
export function more(name: string, unit: Unit, value: number, goal?: number): Figure {
  return { name, unit, better: 'more', values: [value], ...(goal !== undefined && { goal }) };
}

export function less(name: string, unit: Unit, value: number, goal?: number): Figure {
  return { name, unit, better: 'less', values: [value], ...(goal !== undefined && { goal }) };
}

export interface Measured {
  cell: string;
  title: string;
  figures: Figure[];
}

export interface Run {
  /** ISO 8601. */
  at: string;
  commit: string;
  node: string;
  machine: string;
  /** Processes that wanted to run when it began, averaged over a minute. */
  loadBefore: number;
  cells: Measured[];
}

export interface SummaryFigure {
  cell: string;
  name: string;
  unit: Unit;
  better: 'more' | 'less';
  median: number;
  least: number;
  most: number;
  rounds: number;
  goal?: number;
  note?: string;
  /** The time of the run that it is from. */
  at: string;
  commit: string;
  /** As `loadBefore` of the run. */
  load: number;
  machine: string;
  node: string;
}

export interface Summary {
  figures: SummaryFigure[];
}

export const SUMMARY_PATH: string = new URL('summary.json', import.meta.url).pathname;

/** Git ignores it. */
export const RUNS_FOLDER: string = new URL('runs', import.meta.url).pathname;

/** By how much a median is worse than the worst round of the summary before it is called slower. */
export const MARGIN = 0.1;

export function newRun(cells: Measured[], { startedMs, loadBefore }: { startedMs: number; loadBefore: number }): Run {
  return {
    at: new Date(startedMs).toISOString(),
    commit: commitOf(),
    node: process.version,
    machine: `${availableParallelism()} cores of ${cpus()[0]?.model ?? 'a processor that the system does not name'}`,
    loadBefore,
    cells,
  };
}

/** At the beginning of a run. */
export function beginning(): { startedMs: number; loadBefore: number } {
  return { startedMs: Date.now(), loadBefore: loadavg()[0] ?? 0 };
}

export function printMeasured({ cell, title, figures }: Measured): void {
  console.log(`${cell}: ${title}`);
  const width = Math.max(...figures.map(({ name }) => name.length)) + 2;
  for (const figure of figures) {
    const { name, unit, values, beside, goal, note } = figure;
    const aim =
      goal === undefined ? '' : `  goal ${shown(goal, unit)}: ${isReached(figure) ? 'reached' : 'not reached'}`;
    const other = beside && `  beside ${median(beside, unit)}: ${quantile(eachBeside(values, beside), 0.5).toFixed(2)}`;
    console.log(
      `  ${name.padEnd(width)}${median(values, unit)}${other ?? ''}${aim}${note === undefined ? '' : `  [${note}]`}`,
    );
  }
}

/** The median with its unit, and how far the rounds lie apart. */
function median(values: readonly number[], unit: Unit): string {
  const middle = `${shown(quantile(values, 0.5), unit)}${unit === 'ratio' ? '' : ` ${unit}`}`;
  if (values.length === 1) return middle;
  return `${middle} (${shown(Math.min(...values), unit)} to ${shown(Math.max(...values), unit)})`;
}

/** Each round by the round of the other build that was its turn. */
function eachBeside(values: readonly number[], beside: readonly number[]): number[] {
  return values.map((value, round) => value / (beside[round] ?? Number.NaN));
}

type Round = readonly Figure[];

/** A cell that measures each figure once makes one of several rounds. */
export function eachRound(measure: () => Promise<Figure[]>): (rounds: number) => Promise<Figure[]> {
  return async (rounds) => {
    const all: Figure[][] = [];
    for (let round = 0; round < rounds; round++) all.push(await measure());
    return joined(all);
  };
}

/**
 * The figures of several rounds, each of which measured them once, and of those of another build. One that a round does
 * not have was nothing in it.
 */
export function joined(rounds: readonly Round[], others?: readonly Round[]): Figure[] {
  const longestFirst = [...rounds, ...(others ?? [])].toSorted((a, b) => b.length - a.length).flat();
  const names = new Map(longestFirst.map((figure) => [figure.name, figure]));
  return [...names.values()].map((figure) => ofRounds(figure, rounds, others));
}

function ofRounds(figure: Figure, rounds: readonly Round[], others?: readonly Round[]): Figure {
  const valueOf = (round: Round): number[] => round.find(({ name }) => name === figure.name)?.values ?? [0];
  return { ...figure, values: rounds.flatMap(valueOf), ...(others && { beside: others.flatMap(valueOf) }) };
}

export function isReached({ values, better, goal }: Pick<Figure, 'values' | 'better' | 'goal'>): boolean {
  const median = quantile(values, 0.5);
  return goal === undefined || (better === 'more' ? median >= goal : median <= goal);
}

export function shown(value: number, unit: Unit): string {
  if (unit === 'ratio') return value.toFixed(2);
  if (Math.abs(value) >= 100) return grouped(value);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** 1234567 as 1,234,567. */
export function grouped(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/** Writes `run` to a file, and makes its folder. */
export function saveRun(run: Run, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(run, null, 2)}\n`);
}

export function readRun(path: string): Run {
  return JSON.parse(readFileSync(path, 'utf8')) as Run;
}

export function readSummary(): Summary | undefined {
  if (!existsSync(SUMMARY_PATH)) return undefined;
  return JSON.parse(readFileSync(SUMMARY_PATH, 'utf8')) as Summary;
}

/** What earlier runs said stays where the new ones do not measure it again. */
export function summaryOf(runs: readonly Run[], earlier?: Summary): Summary {
  const figures = new Map(earlier?.figures.map((figure) => [keyOf(figure), figure]));
  for (const { at, commit, loadBefore, machine, node, cells } of runs)
    for (const { cell, figures: measured } of cells) {
      // A figure that the cell no longer has is of a program that is gone.
      for (const [key, kept] of figures) if (kept.cell === cell && isOfNode(kept, node)) figures.delete(key);
      for (const { values, ...figure } of measured) {
        const numbers = { median: quantile(values, 0.5), least: Math.min(...values), most: Math.max(...values) };
        const rounded = Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, significant(value)]));
        const { name, unit, better, goal, note } = figure;
        figures.set(keyOf({ cell, name, node }), {
          cell,
          name,
          unit,
          better,
          ...(rounded as typeof numbers),
          rounds: values.length,
          ...(goal !== undefined && { goal }),
          ...(note !== undefined && { note }),
          at: at.slice(0, 10),
          commit,
          load: Math.round(loadBefore),
          machine,
          node,
        });
      }
    }
  return { figures: [...figures.values()].toSorted((a, b) => (a.cell < b.cell ? -1 : a.cell > b.cell ? 1 : 0)) };
}

/** A line for each ratio that is worse by more than the margin than the summary has it on the same major of Node. */
export function slowerThan(summary: Summary, run: Pick<Run, 'cells' | 'node'>): string[] {
  const kept = new Map(summary.figures.map((figure) => [keyOf(figure), figure]));
  return run.cells.flatMap(({ cell, figures }) =>
    figures.flatMap(({ name, unit, better, values }) => {
      const before = kept.get(keyOf({ cell, name, node: run.node }));
      if (unit !== 'ratio' || before?.unit !== 'ratio') return [];
      const median = quantile(values, 0.5);
      const isSlower = better === 'more' ? median < before.least * (1 - MARGIN) : median > before.most * (1 + MARGIN);
      if (!isSlower) return [];
      const then = `${before.median.toFixed(2)} (${before.least.toFixed(2)} to ${before.most.toFixed(2)})`;
      return [`slower: ${cell}, ${name}: ${median.toFixed(2)}; on ${before.at} it was ${then}`];
    }),
  );
}

/** More processes for each core than this wanted to run: what is measured then is mostly who was there beside. */
const LOAD_OF_A_CORE_MAX = 2;

/** Keeps the run, says what got slower, and sets the exit code when that is asked for. */
export function concludeRun(run: Run, { json, strict = false }: { json?: string; strict?: boolean }): void {
  const path = json ?? `${RUNS_FOLDER}/${run.at.replaceAll(/[:.]/g, '-')}.json`;
  saveRun(run, path);
  console.log(`measured on ${machineOf(run)}; kept in ${path}`);
  if (run.loadBefore > LOAD_OF_A_CORE_MAX * availableParallelism())
    console.log(`${run.loadBefore.toFixed(0)} processes wanted to run when this began: measure on a quieter machine`);
  const summary = readSummary();
  const slower = summary ? slowerThan(summary, run) : [];
  for (const line of slower) console.log(line);
  if (summary && slower.length === 0) console.log('no ratio is slower than in bench/summary.json');
  if (strict && slower.length > 0) process.exitCode = 1;
}

/** Figures on another major of Node stand beside those on this one. */
function keyOf({ cell, name, node }: Pick<SummaryFigure, 'cell' | 'name' | 'node'>): string {
  return [cell, name, majorOf(node)].join('\n');
}

export function isOfNode(figure: Pick<SummaryFigure, 'node'>, node: string): boolean {
  return majorOf(figure.node) === majorOf(node);
}

function majorOf(node: string): string {
  return node.split('.', 1)[0] ?? '';
}

export function machineOf({ machine, node }: Pick<Run, 'machine' | 'node'>): string {
  return `${machine}, Node.js ${node.replace('v', '')}`;
}

/** Three digits would round a goal that was just missed up to it; five would change the summary with each run. */
function significant(value: number): number {
  return Number(value.toPrecision(4));
}

function commitOf(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}
