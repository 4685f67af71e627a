/**
 * The signal of one request: it aborts when the maker of requests stops, or after a time, and lets go of both when the
 * request is over. `AbortSignal.any` with `AbortSignal.timeout` would stay with the stopping signal as long as that lives.
 */
import { setMaxListeners } from 'node:events';

export interface LimitedSignal {
  signal: AbortSignal;
  /** The request is over, whatever came of it. */
  over: () => void;
}

/** Aborts for its time with an error of the name `TimeoutError`. */
export function limitedSignal(ms: number, stopping?: AbortSignal): LimitedSignal {
  const ending = new AbortController();
  const stop = (): void => ending.abort(stopping?.reason);
  const timer = setTimeout(() => ending.abort(new DOMException('it took too long', 'TimeoutError')), ms);
  timer.unref();
  if (stopping?.aborted) stop();
  else if (stopping) {
    // As many as there are requests under way.
    setMaxListeners(0, stopping);
    stopping.addEventListener('abort', stop, { once: true });
  }
  return {
    signal: ending.signal,
    over: () => {
      clearTimeout(timer);
      stopping?.removeEventListener('abort', stop);
    },
  };
}
