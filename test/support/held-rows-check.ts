/** Checks of the rows against the log that end when the test says so. */
import type { RowsCheckRun } from '../../src/relay/jobs/rows-check.ts';
import type { CheckedRows } from '../../src/relay/replay/audit-thread.ts';

export const SOUND_ROWS: CheckedRows = {
  findings: [],
  found: 0,
  lsn: 9,
  replayedFrom: 1,
  records: 9,
  rows: 4,
  busyMs: 2,
};

export class HeldRowsCheck implements RowsCheckRun {
  readonly progress = { stage: 'log', done: 1, of: 9 };
  readonly share: number;
  readonly done: Promise<CheckedRows | undefined>;
  end!: (checked: CheckedRows | undefined) => void;
  fail!: (error: Error) => void;

  constructor(share: number) {
    this.share = share;
    this.done = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
  }

  async stop(): Promise<void> {
    this.end(undefined);
    await this.done;
  }
}

/** Returns what a relay or a job is started with, and every check that it began. */
export function heldRowsChecks(): { runs: HeldRowsCheck[]; start: (share: number) => HeldRowsCheck } {
  const runs: HeldRowsCheck[] = [];
  return {
    runs,
    start: (share) => {
      const run = new HeldRowsCheck(share);
      runs.push(run);
      return run;
    },
  };
}
