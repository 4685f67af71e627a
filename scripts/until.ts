/** Looking at a real program until it has done something: it tells nobody when. */
import { setTimeout as elapsed } from 'node:timers/promises';

/** Something may take this long on a busy machine. */
const PATIENCE_MS = 30_000;
const LOOK_EVERY_MS = 25;

type Look<T> = () => T | undefined | Promise<T | undefined>;

/** Looks again until it sees something. Rejects when that takes too long, or `signal` aborts. */
export async function until<T>(what: string, look: Look<T>, forMs = PATIENCE_MS, signal?: AbortSignal): Promise<T> {
  const seen = await within(forMs, look, signal);
  if (seen === undefined) throw new Error(`it did not happen in ${forMs / 1000} s: ${what}`);
  return seen;
}

/** Returns what was seen in that time, or undefined. */
export async function within<T>(forMs: number, look: Look<T>, signal?: AbortSignal): Promise<T | undefined> {
  const deadline = performance.now() + forMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined || performance.now() > deadline) return seen;
    await elapsed(LOOK_EVERY_MS, undefined, { signal });
  }
}
