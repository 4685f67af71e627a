/**
 * Keeps what the newest torture of each kind tried and found: `npm run torture -- --record` keeps it in
 * `test/torture.json` and makes the table of `docs/testing.md` anew, so that no figure is typed.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { withPart } from './page-part.ts';

export interface KindRun {
  /** The day of its end, in UTC. */
  date: string;
  commit: string;
  seconds: number;
  isRight: boolean;
  /** The number of tests that passed. */
  tests: number;
  /** The counts of the tests, a sentence each. */
  tried: readonly string[];
}

export type TortureRecord = Readonly<Record<string, KindRun>>;

const RECORD = new URL('../test/torture.json', import.meta.url);
const PAGE = new URL('../docs/testing.md', import.meta.url);

export function readRecord(): TortureRecord {
  return JSON.parse(readFileSync(RECORD, 'utf8')) as TortureRecord;
}

/** Keeps these runs instead of the earlier ones of the same kinds. `kinds` are the names in their order. */
export function keepRuns(runs: TortureRecord, kinds: readonly string[]): void {
  const all = { ...readRecord(), ...runs };
  const record = Object.fromEntries(kinds.flatMap((kind) => (all[kind] ? [[kind, all[kind]]] : [])));
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(PAGE, torturePage(readFileSync(PAGE, 'utf8'), record));
}

/** The page with the table of these runs. */
export function torturePage(page: string, record: TortureRecord): string {
  const rows = Object.entries(record).map(([kind, { date, commit, seconds, isRight, tests, tried }]) => {
    const what = [...tried, ...(tried.length === 0 ? [`${tests} tests`] : [])].join('<br>');
    const found = isRight ? 'nothing' : '**failed**';
    return `| \`${kind}\` | ${what} | ${found} | ${inWords(seconds)} | ${date}, ${commit} |`;
  });
  const head = '| kind | tried | wrong | took | when, commit |';
  const text = [head, '|---|---|---|---|---|', ...rows].join('\n');
  return withPart(page, { name: 'torture', command: 'torture -- --record', text });
}

function inWords(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
