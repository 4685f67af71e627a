/** Looking at a real program until it has done something: it tells nobody when. */
import { setTimeout as elapsed } from 'node:timers/promises';

/** How long something may take on a busy machine. */
export const PATIENCE_MS = 30_000;
const LOOK_EVERY_MS = 25;

/** Looks again until it sees something. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  forMs = PATIENCE_MS,
): Promise<T> {
  const seen = await within(forMs, look);
  if (seen === undefined) throw new Error(`it did not happen in ${forMs / 1000} s: ${what}`);
  return seen;
}

/** What was seen in that time, or undefined. */
export async function within<T>(
  forMs: number,
  look: () => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const deadline = performance.now() + forMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined || performance.now() > deadline) return seen;
    await elapsed(LOOK_EVERY_MS);
  }
}
