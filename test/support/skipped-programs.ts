/** The last line of a run in which tests were skipped: which programs they need, and how to get them. */
import type { Reporter, TestModule } from 'vitest/node';
import { NEEDS } from './programs.ts';

/** One line; undefined when nothing was skipped for want of a program. */
export function skippedLine(notes: readonly (string | undefined)[]): string | undefined {
  const needs = notes.flatMap((note) => (note?.startsWith(NEEDS) ? [note.slice(NEEDS.length)] : []));
  const parts = [...new Set(needs)].map((program) => {
    const count = needs.filter((need) => need === program).length;
    return `${count} ${count === 1 ? 'test needs' : 'tests need'} ${program}`;
  });
  return parts.length === 0 ? undefined : `Skipped: ${parts.join('; ')}.`;
}

/** Stands after the reporter that sums up, so that its line is the last one. */
export class SkippedPrograms implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const results = modules.flatMap((module) => [...module.children.allTests('skipped')].map((one) => one.result()));
    const line = skippedLine(results.map((result) => (result.state === 'skipped' ? result.note : undefined)));
    if (line !== undefined) console.log(`${line}\n`);
  }
}
