/**
 * Measures how long the event loop was held: the longest time between two turns of it, from the beginning until `stop`.
 */
export class LoopWatch {
  #longestMs = 0;
  #lastMs = performance.now();
  #isWatching = true;

  constructor() {
    this.#turn();
  }

  longestMs(): number {
    this.#longestMs = Math.max(this.#longestMs, performance.now() - this.#lastMs);
    return this.#longestMs;
  }

  /** Ends the watch and answers the longest time. */
  stop(): number {
    this.#isWatching = false;
    return this.longestMs();
  }

  #turn(): void {
    setImmediate(() => {
      if (!this.#isWatching) return;
      this.longestMs();
      this.#lastMs = performance.now();
      this.#turn();
    });
  }
}
