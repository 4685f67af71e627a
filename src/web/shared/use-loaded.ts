/** Loads the data of a view, and loads it again when something changes; keeps it, and what the user chose there. */
import { type Dispatch, type StateUpdater, useEffect, useRef, useState } from 'preact/hooks';
import { failureText } from './session.ts';

export interface LoadedValue<T> {
  /** `undefined` until the first answer. A later failure does not remove it. */
  value: T | undefined;
  /** Says why the last request failed; `''` when it did not. */
  problem: string;
  isBusy: boolean;
  reload: () => Promise<void>;
  /** Loads with `isMore`: what comes after `value`. */
  loadMore: () => Promise<void>;
}

interface When {
  /** A pause before the first request with new inputs. */
  delayMs?: number;
  /** Counts changes of what is loaded. */
  changes?: number;
  /** The name under which the page keeps the value, so that the view is whole at once when it is opened again. */
  keptAs?: string;
}

/** When there are this many, a new one replaces the oldest. */
const KEPT_MAX = 20;
const kept = new Map<string, unknown>();
const states = new Map<string, Map<string, unknown>>();

function keep<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  for (const oldest of map.keys()) if (map.size > KEPT_MAX) map.delete(oldest);
}

/** A state that the page keeps by the name of its view, so that a view that is opened again is as it was left. */
export function useKept<T>(view: string, name: string, first: T): [T, Dispatch<StateUpdater<T>>] {
  const last = states.get(view) ?? new Map<string, unknown>();
  const [value, setValue] = useState(last.has(name) ? (last.get(name) as T) : first);
  keep(states, view, last.set(name, value));
  return [value, setValue];
}

/** The view begins anew when it is opened again. */
export function forgetView(view: string): void {
  states.delete(view);
}

/**
 * Calls `load` at first and when one of `inputs` changes; only the answer to the latest request counts then. Calls it
 * too when `changes` grows: during a request only after its end, so that many changes hold up no answer. `load` gets
 * the last value.
 */
export function useLoaded<T>(
  load: (last: T | undefined, isMore: boolean) => Promise<T>,
  inputs: readonly unknown[],
  { delayMs = 0, changes = 0, keptAs }: When = {},
): LoadedValue<T> {
  const [value, setValue] = useState(keptAs === undefined ? undefined : (kept.get(keptAs) as T | undefined));
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  const latest = useRef(0);
  /** The changes that the last request was sent after. */
  const asked = useRef(changes);
  const run = async (isMore: boolean): Promise<void> => {
    const mine = ++latest.current;
    asked.current = changes;
    setBusy(true);
    try {
      const loaded = await load(value, isMore);
      if (mine !== latest.current) return;
      setValue(() => loaded);
      if (keptAs !== undefined) keep(kept, keptAs, loaded);
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
  useEffect(() => {
    if (!isBusy && asked.current !== changes) void run(false);
  }, [changes, isBusy]);
  return { value, problem, isBusy, reload: () => run(false), loadMore: () => run(true) };
}
