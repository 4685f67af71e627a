/** A line on stderr that says how far long work is. Only a terminal sees it: a file or a pipe would keep every step. */
import type { Progress } from '../relay/audit/finding.ts';

const BETWEEN_LINES_MS = 100;
const CLEARED = '\r\u001b[2K';

/** What the work comes to. */
export async function withProgress<T>(
  work: AsyncGenerator<Progress, T>,
  terminal: { isTTY?: boolean; write(text: string): unknown } = process.stderr,
  monotonicMs: () => number = () => performance.now(),
): Promise<T> {
  let shownMs = Number.NEGATIVE_INFINITY;
  try {
    let step = await work.next();
    while (!step.done) {
      if (terminal.isTTY && monotonicMs() - shownMs >= BETWEEN_LINES_MS) {
        shownMs = monotonicMs();
        terminal.write(`${CLEARED}${progressText(step.value)}`);
      }
      step = await work.next();
    }
    return step.value;
  } finally {
    if (shownMs >= 0) terminal.write(CLEARED);
  }
}

export function progressText({ stage, done, of }: Progress): string {
  const share = of ? ` (${Math.min(100, Math.floor((done / of) * 100))} %)` : '';
  return `${stage}: ${done}${of === undefined ? '' : ` of ${of}`}${share}`;
}
