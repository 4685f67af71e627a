/** Loads the data of a view, and loads it again when something changes. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { failureText } from './session.ts';

export interface Loaded<T> {
  /** `undefined` until the first answer. A later failure does not remove it. */
  value: T | undefined;
  /** Why the last request failed; `''` when it did not. */
  problem: string;
  isBusy: boolean;
  reload: () => Promise<void>;
  /** Loads with `isMore`: what comes after `value`. */
  loadMore: () => Promise<void>;
}

/**
 * Calls `load` at first and when one of `inputs` changes, after a pause of `delayMs`. `load` gets the last value. Only
 * the answer to the latest request counts.
 */
export function useLoaded<T>(
  load: (last: T | undefined, isMore: boolean) => Promise<T>,
  inputs: readonly unknown[],
  delayMs = 0,
): Loaded<T> {
  const [value, setValue] = useState<T>();
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  const latest = useRef(0);
  const run = async (isMore: boolean): Promise<void> => {
    const mine = ++latest.current;
    setBusy(true);
    try {
      const loaded = await load(value, isMore);
      if (mine !== latest.current) return;
      setValue(() => loaded);
      setProblem('');
    } catch (error) {
      const text = failureText(error);
      if (mine === latest.current) setProblem(text);
    }
    if (mine === latest.current) setBusy(false);
  };
  useEffect(() => {
    const timer = setTimeout(() => void run(false), delayMs);
    return () => {
      latest.current++;
      clearTimeout(timer);
    };
  }, inputs);
  return { value, problem, isBusy, reload: () => run(false), loadMore: () => run(true) };
}
