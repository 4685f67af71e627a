/** The last lines of a run: what tests counted, which tests were skipped, and how to get the programs that they need. */
import type { Reporter, TestModule } from 'vitest/node';
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

/** Stands after the reporter that sums up, so that its lines are the last ones. */
export class RunNotes implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const notes = tests
      .map((one) => one.result())
      .map((result) => (result.state === 'skipped' ? result.note : undefined));
    const lines = [...tests.map((one) => one.meta().counted), skippedLine(notes)].filter((line) => line !== undefined);
    if (lines.length > 0) console.log(`${lines.join('\n')}\n`);
  }
}
