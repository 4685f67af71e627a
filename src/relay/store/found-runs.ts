/**
 * Knows under which key the row of a queue lies, so that a synchronous read can ask for it: a run of rows lies under
 * the key of its last one (keys.ts, 40).
 *
 * What is known here stays true: runs of a queue are disjoint and ascend, the bound of a run neither changes nor comes
 * again, and a run that is gone is gone with all its rows. So a seq between the first one and the bound of a run is in
 * that run or nowhere. That nothing lies at or behind a seq is true until a run is written there, which a rotation may
 * do.
 */
import type { PublicKey } from '../../protocol/public-key.ts';

/** Of runs, those go that were used longest ago; of ends of queues, as many as that, all go together. */
const RUNS_MAX = 16_384;

interface FoundRun {
  target: PublicKey;
  first: number;
  bound: number;
}

export class FoundRuns {
  readonly #max: number;
  /** Ascending. */
  readonly #runs = new Map<PublicKey, FoundRun[]>();
  /** In the order of their last use. */
  readonly #used = new Set<FoundRun>();
  /** The seq of each queue at and behind which nothing lies. */
  readonly #ends = new Map<PublicKey, number>();

  /** `max`: for tests. */
  constructor(max: number = RUNS_MAX) {
    this.#max = max;
  }

  /** The bound of the run that may hold the row; `'none'` where none does, `undefined` where that is not known. */
  boundOf(target: PublicKey, seq: number): number | 'none' | undefined {
    const runs = this.#runs.get(target) ?? [];
    const run = runs[placeOf(runs, seq, boundIn)];
    if (run && run.first <= seq) {
      this.#used.delete(run);
      this.#used.add(run);
      return run.bound;
    }
    return seq >= this.#endOf(target) ? 'none' : undefined;
  }

  /** Rows from `first` to `bound` are in the run with this bound or nowhere: it was written, or found. */
  note(target: PublicKey, first: number, bound: number): void {
    if (this.#endOf(target) <= bound) this.#ends.delete(target);
    let runs = this.#runs.get(target);
    if (!runs) this.#runs.set(target, (runs = []));
    // A run between `first` and the bound is gone, so a row up to there is nowhere, as that run says.
    const next = runs[placeOf(runs, first, boundIn)];
    if (next && next.bound <= bound) next.first = Math.min(next.first, first);
    if (next?.bound === bound) return;
    const at = placeOf(runs, bound, boundIn);
    if (runs[at]?.bound === bound) return;
    const run = { target, first: next && next.bound < bound ? next.bound + 1 : first, bound };
    runs.splice(at, 0, run);
    this.#used.add(run);
    for (const [oldest] of this.#used.entries()) {
      if (this.#used.size <= this.#max) break;
      this.#forget(oldest);
    }
  }

  /** Nothing lies at or behind this place, as was seen: a run that is known there is gone, or was written since. */
  noteEnd(target: PublicKey, seq: number): void {
    const runs = this.#runs.get(target) ?? [];
    const next = runs[placeOf(runs, seq, boundIn)];
    if (next) {
      next.first = Math.min(next.first, seq);
      return;
    }
    if (this.#ends.size >= this.#max) this.#ends.clear();
    this.#ends.set(target, Math.min(seq, this.#endOf(target)));
  }

  #endOf(target: PublicKey): number {
    return this.#ends.get(target) ?? Infinity;
  }

  #forget(run: FoundRun): void {
    this.#used.delete(run);
    const runs = this.#runs.get(run.target) ?? [];
    runs.splice(placeOf(runs, run.bound, boundIn), 1);
    if (runs.length === 0) this.#runs.delete(run.target);
  }
}

function boundIn({ bound }: FoundRun): number {
  return bound;
}

/** Returns where in a list that ascends by `numberOf` the first one is that has at least this number. */
export function placeOf<T>(ascending: readonly T[], least: number, numberOf: (one: T) => number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numberOf(ascending[middle] as T) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
