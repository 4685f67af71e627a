/** The way of a client to whichever relay answers it, as through a load balancer. */
import { setTimeout as elapsed } from 'node:timers/promises';

const AGAIN_MS = 30;
/** A relay that is paused, or whose log waits for a standby, answers nothing. */
const ANSWERED_WITHIN_MS = 2_000;

export interface Answered<T> {
  startedMs: number;
  endedMs: number;
  answer: T;
}

/** A client stopped asking. */
export class GaveUp extends Error {}

export class Front {
  readonly #urls: readonly string[];
  /** The one that answered last is asked first. */
  #at = 0;

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  /** Asks each in turn until one answers. Throws `GaveUp` when `signal` aborts before. */
  async ask<T>(work: (url: string) => Promise<T>, signal: AbortSignal): Promise<Answered<T>> {
    let error: unknown;
    while (!signal.aborted) {
      const at = this.#at;
      const url = this.#urls[at % this.#urls.length] ?? '';
      const startedMs = performance.now();
      try {
        const answer = await inTime(work(url));
        return { startedMs, endedMs: performance.now(), answer };
      } catch (refused) {
        error = refused;
        // Several ask at the same time: two that went on from the same relay would come back to it.
        if (this.#at === at) this.#at++;
        await elapsed(AGAIN_MS);
      }
    }
    throw new GaveUp(`no relay answers: ${String(error)}`, { cause: error });
  }
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), ANSWERED_WITHIN_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined);
  }
}
