/**
 * The signal of one request. It aborts when the maker of requests stops, or after a time; when the request is over, its
 * timer and its listener are removed. `AbortSignal.any` with `AbortSignal.timeout` would keep a listener on the signal
 * of the maker for as long as that lives.
 */
import { setMaxListeners } from 'node:events';

export interface LimitedSignal {
  signal: AbortSignal;
  /** Aborts it now. */
  end: (reason: Error) => void;
  /** Call it when the request is over, also when it failed. */
  over: () => void;
}

/** When the time is up, it aborts with an error named `TimeoutError`. */
export function limitedSignal(ms: number, stopping?: AbortSignal): LimitedSignal {
  const ending = new AbortController();
  const stop = (): void => ending.abort(stopping?.reason);
  const timer = setTimeout(() => ending.abort(new DOMException('it took too long', 'TimeoutError')), ms);
  timer.unref();
  if (stopping?.aborted) stop();
  else if (stopping) {
    // One listener for each request under way, so no number of them is a leak.
    setMaxListeners(0, stopping);
    stopping.addEventListener('abort', stop, { once: true });
  }
  return {
    signal: ending.signal,
    end: (reason) => ending.abort(reason),
    over: () => {
      clearTimeout(timer);
      stopping?.removeEventListener('abort', stop);
    },
  };
}
