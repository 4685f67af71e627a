/** The check of the rows against the log on the console: how the last one went, and how far one is that is under way. */
import type { RowsCheckShown } from '../../protocol/rows-check-documents.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';

const FINDINGS_SHOWN_MAX = 10;

export function rowsCheckShown({ last, failedAtMs, run }: RowsCheck): RowsCheckShown {
  return {
    last: last
      ? {
          at: last.atMs,
          rows: last.checked.rows,
          found: last.checked.found,
          findings: last.checked.findings.slice(0, FINDINGS_SHOWN_MAX).map(({ message }) => message),
        }
      : null,
    failed_at: failedAtMs ?? null,
    under_way: run ? { stage: run.progress.stage, done: run.progress.done, of: run.progress.of ?? null } : null,
  };
}
