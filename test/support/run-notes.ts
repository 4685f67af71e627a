/**
 * Lines at the end of a run: what tests counted, which tests were skipped, and how to get the programs that they need.
 */
import type { Reporter, TestModule } from 'vitest/node';
import { IS_MEASURED, LONG_SECONDS, keepDurations, readDurations } from './long-files.ts';
import { NEEDS } from './programs.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** A line that the end of the run shows. */
    counted?: string;
  }
}

/** One line; undefined when nothing was skipped for want of a program. */
export function skippedLine(notes: readonly (string | undefined)[]): string | undefined {
  const needs = notes.flatMap((note) => (note?.startsWith(NEEDS) ? [note.slice(NEEDS.length)] : []));
  const parts = [...new Set(needs)].map((program) => {
    const count = needs.filter((need) => need === program).length;
    return `${count} ${count === 1 ? 'test needs' : 'tests need'} ${program}`;
  });
  return parts.length === 0 ? undefined : `Skipped: ${parts.join('; ')}.`;
}

/**
 * One line on files of `npm test` that took longer than one may, measured by what this machine took for the noted ones;
 * undefined when there is none.
 */
export function staleLine(seconds: Readonly<Record<string, number>>): string | undefined {
  const { leftOut, tried } = readDurations();
  const noted = Object.entries(tried).filter(([file]) => seconds[file] !== undefined);
  const speed = sum(noted.map(([file]) => seconds[file] ?? 0)) / sum(noted.map(([, one]) => one));
  const stale = Object.entries(seconds).filter(([file, took]) => !(file in leftOut) && took / speed > LONG_SECONDS);
  if (stale.length === 0) return undefined;
  const files = stale.map(([file, took]) => `${file} took ${took} s`).join(', ');
  return `Longer than a file of npm test may take: ${files}. Measure it: npm run test:durations -- <file>`;
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** Stands before the reporter that sums up, whose lines are the last ones. */
export class RunNotes implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const notes = tests
      .map((one) => one.result())
      .map((result) => (result.state === 'skipped' ? result.note : undefined));
    const seconds = Object.fromEntries(
      modules.map((module) => [module.relativeModuleId, Math.round(module.diagnostic().duration / 100) / 10]),
    );
    if (IS_MEASURED) keepDurations(seconds);
    const stale = IS_MEASURED || process.env['POSTE_TEST_THOROUGH'] !== undefined ? undefined : staleLine(seconds);
    const lines = [...tests.map((one) => one.meta().counted), skippedLine(notes), stale].filter(
      (line) => line !== undefined,
    );
    if (lines.length > 0) console.log(`${lines.join('\n')}\n`);
  }
}
