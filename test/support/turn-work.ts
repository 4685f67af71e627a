/**
 * Counts how much is done in one turn of the event loop: counted and not timed, so that the load of the machine changes
 * nothing.
 *
 * `monotonicMs` is a clock that goes on with the work alone: who pauses by it pauses after as much work each time.
 * Pauses and this watch both go by the turn, in any order: up to two stretches of work are seen as one.
 */
export class TurnWork {
  readonly #msEach: number;
  readonly #kinds = new Map<string, { inTurn: number; most: number; all: number }>();
  #all = 0;
  #isWatching = true;

  /** `msEach`: how long one piece of work takes by the clock. */
  constructor(msEach: number) {
    this.#msEach = msEach;
    this.#turn();
  }

  readonly monotonicMs = (): number => this.#all * this.#msEach;

  add(kind: string, count: number): void {
    const done = this.#kinds.get(kind) ?? { inTurn: 0, most: 0, all: 0 };
    done.inTurn += count;
    done.most = Math.max(done.most, done.inTurn);
    done.all += count;
    this.#kinds.set(kind, done);
    this.#all += count;
  }

  /** Yields what `source` gives, counted as it is taken. */
  async *counted<T>(kind: string, source: AsyncIterable<T>, countOf: (taken: T) => number): AsyncGenerator<T> {
    for await (const taken of source) {
      this.add(kind, countOf(taken));
      yield taken;
    }
  }

  all(kind: string): number {
    return this.#kinds.get(kind)?.all ?? 0;
  }

  mostInOneTurn(kind: string): number {
    return this.#kinds.get(kind)?.most ?? 0;
  }

  stop(): void {
    this.#isWatching = false;
  }

  #turn(): void {
    setImmediate(() => {
      if (!this.#isWatching) return;
      for (const done of this.#kinds.values()) done.inTurn = 0;
      this.#turn();
    });
  }
}
