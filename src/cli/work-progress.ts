/** How far a long piece of work is, for whoever watches it, and its end by ctrl-c or SIGTERM. */
import type { EventEmitter } from 'node:events';
import type { Progress } from '../relay/audit/finding.ts';
import { CommandFailed } from './exit.ts';
import { ProgressLine, type ProgressOutput } from './progress.ts';

/** What shows the progress, and what tells that somebody pressed ctrl-c. */
export interface Watched {
  output: ProgressOutput;
  signals: Pick<EventEmitter, 'once' | 'off'>;
  monotonicMs: () => number;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

const WATCHED: Watched = { output: process.stderr, signals: process, monotonicMs: () => performance.now() };

/** What the work comes to. When it is interrupted it cleans up behind itself and ends in `CommandFailed`. */
export async function withProgress<T>(
  work: AsyncGenerator<Progress, T>,
  { output, signals, monotonicMs }: Watched = WATCHED,
): Promise<T> {
  const line = new ProgressLine(output, monotonicMs);
  let isInterrupted = false;
  const interrupt = (): void => {
    isInterrupted = true;
  };
  for (const name of SIGNALS) signals.once(name, interrupt);
  try {
    for (;;) {
      const step = await work.next();
      if (step.done) return step.value;
      if (isInterrupted) {
        await work.return(undefined as T);
        throw new CommandFailed(
          'interrupted',
          'INTERRUPTED',
          'nothing was changed, as the work was left before its end',
        );
      }
      line.step(() => progressText(step.value));
    }
  } finally {
    for (const name of SIGNALS) signals.off(name, interrupt);
    line.end();
  }
}

export function progressText({ stage, done, of }: Progress): string {
  const share = of ? ` (${Math.min(100, Math.floor((done / of) * 100))} %)` : '';
  return `${stage}: ${done}${of === undefined ? '' : ` of ${of}`}${share}`;
}
