/** A line on stderr that says how far long work is. Only a terminal sees it: a file or a pipe would keep every step. */
import type { EventEmitter } from 'node:events';
import type { Progress } from '../relay/audit/finding.ts';
import { CommandFailed } from './exit.ts';

const BETWEEN_LINES_MS = 100;
const CLEARED = '\r\u001b[2K';

/** What shows the progress, and what tells that somebody pressed ctrl-c. */
export interface Watched {
  terminal: { isTTY?: boolean; write(text: string): unknown };
  signals: Pick<EventEmitter, 'once' | 'off'>;
  monotonicMs: () => number;
}

const WATCHED: Watched = { terminal: process.stderr, signals: process, monotonicMs: () => performance.now() };

/** What the work comes to. When it is interrupted it cleans up behind itself and ends in `CommandFailed`. */
export async function withProgress<T>(
  work: AsyncGenerator<Progress, T>,
  { terminal, signals, monotonicMs }: Watched = WATCHED,
): Promise<T> {
  let shownMs = Number.NEGATIVE_INFINITY;
  let isInterrupted = false;
  const interrupt = (): void => {
    isInterrupted = true;
  };
  signals.once('SIGINT', interrupt);
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
      if (!terminal.isTTY || monotonicMs() - shownMs < BETWEEN_LINES_MS) continue;
      shownMs = monotonicMs();
      terminal.write(`${CLEARED}${progressText(step.value)}`);
    }
  } finally {
    signals.off('SIGINT', interrupt);
    if (shownMs >= 0) terminal.write(CLEARED);
  }
}

export function progressText({ stage, done, of }: Progress): string {
  const share = of ? ` (${Math.min(100, Math.floor((done / of) * 100))} %)` : '';
  return `${stage}: ${done}${of === undefined ? '' : ` of ${of}`}${share}`;
}
