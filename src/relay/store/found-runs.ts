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

/** Runs, and places behind which nothing lies: those that were used longest ago go. */
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
  /** Seqs at or behind which nothing lies. */
  readonly #ends = new Map<PublicKey, Set<number>>();
  #endsCount = 0;

  /** `max`: for tests. */
  constructor(max: number = RUNS_MAX) {
    this.#max = max;
  }

  /** The bound of the run that may hold the row; `'none'` where none does, `undefined` where that is not known. */
  boundOf(target: PublicKey, seq: number): number | 'none' | undefined {
    const runs = this.#runs.get(target) ?? [];
    const run = runs[placeOf(runs, seq)];
    if (run && run.first <= seq) {
      this.#used.delete(run);
      this.#used.add(run);
      return run.bound;
    }
    return this.#ends.get(target)?.has(seq) ? 'none' : undefined;
  }

  /** Rows from `first` to `bound` are in the run with this bound or nowhere: it was written, or found. */
  note(target: PublicKey, first: number, bound: number): void {
    const ends = this.#ends.get(target);
    for (const seq of ends ?? []) if (seq <= bound) this.#forgetEnd(target, seq);
    let runs = this.#runs.get(target);
    if (!runs) this.#runs.set(target, (runs = []));
    // A run between `first` and the bound is gone, so a row up to there is nowhere, as that run says.
    const next = runs[placeOf(runs, first)];
    if (next && next.bound <= bound) next.first = Math.min(next.first, first);
    if (next?.bound === bound) return;
    const at = placeOf(runs, bound);
    if (runs[at]?.bound === bound) return;
    const run = { target, first: next && next.bound < bound ? next.bound + 1 : first, bound };
    runs.splice(at, 0, run);
    this.#used.add(run);
    for (const [oldest] of this.#used.entries()) {
      if (this.#used.size <= this.#max) break;
      this.#forget(oldest);
    }
  }

  /** Nothing lies at or behind this place. */
  noteEnd(target: PublicKey, seq: number): void {
    if (this.#endsCount >= this.#max) {
      this.#ends.clear();
      this.#endsCount = 0;
    }
    const ends = this.#ends.get(target) ?? new Set();
    this.#ends.set(target, ends);
    if (!ends.has(seq)) this.#endsCount++;
    ends.add(seq);
  }

  #forget(run: FoundRun): void {
    this.#used.delete(run);
    const runs = this.#runs.get(run.target) ?? [];
    runs.splice(placeOf(runs, run.bound), 1);
    if (runs.length === 0) this.#runs.delete(run.target);
  }

  #forgetEnd(target: PublicKey, seq: number): void {
    const ends = this.#ends.get(target);
    if (!ends?.delete(seq)) return;
    this.#endsCount--;
    if (ends.size === 0) this.#ends.delete(target);
  }
}

/** Returns where the first run is whose bound is at or behind `seq`. */
function placeOf(runs: readonly FoundRun[], seq: number): number {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle]?.bound ?? Infinity) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
