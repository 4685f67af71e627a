/**
 * Bytes that may be held at once over all requests, of which no caller gets more than its share: one that sends slowly
 * or reads slowly holds up itself.
 */
export class SharedBudget {
  #free: number;
  readonly #shareMax: number;
  readonly #held = new Map<string, number>();

  /** Both in bytes. */
  constructor(bytesMax: number, shareMax: number) {
    this.#free = bytesMax;
    this.#shareMax = shareMax;
  }

  /** Whether `caller` may hold `bytes` more, and then does. */
  take(caller: string, bytes: number): boolean {
    const held = (this.#held.get(caller) ?? 0) + bytes;
    if (bytes > this.#free || held > this.#shareMax) return false;
    this.#free -= bytes;
    this.#held.set(caller, held);
    return true;
  }

  give(caller: string, bytes: number): void {
    const held = (this.#held.get(caller) ?? 0) - bytes;
    this.#free += bytes;
    if (held > 0) this.#held.set(caller, held);
    else this.#held.delete(caller);
  }
}
