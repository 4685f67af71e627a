/** Many events in a moment become few calls. */

/** It does as `setTimeout`. */
type After = (work: () => void, ms: number) => unknown;

/**
 * A function that calls `work` at once, and not again within `everyMs`: calls meanwhile become one at the end of that
 * time.
 */
export function coalesce(work: () => void, everyMs: number, after: After = setTimeout): () => void {
  let state: 'idle' | 'resting' | 'due' = 'idle';
  const rested = (): void => {
    const isDue = state === 'due';
    state = 'idle';
    if (isDue) begin();
  };
  const begin = (): void => {
    state = 'resting';
    after(rested, everyMs);
    work();
  };
  return () => {
    if (state === 'idle') begin();
    else state = 'due';
  };
}
