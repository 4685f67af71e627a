/** A gate before the store's `append`: holds batches until the test lets them through, or fails them. */
import type { LogBatch } from '../../src/relay/store/durable-log.ts';
import type { Encoding } from '../../src/relay/store/encoding.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';

export class AppendGate {
  /** Every batch that came to the gate, in order, whatever became of it. */
  readonly batches: LogBatch[] = [];
  readonly #waiting: ((error?: Error) => void)[] = [];
  readonly #arrivals: { count: number; resolve: () => void }[] = [];
  #isOpen = true;

  constructor(store: RelayStore) {
    const append = store.append.bind(store);
    store.append = async (batch: LogBatch, ahead?: Encoding): Promise<void> => {
      this.batches.push(batch);
      for (const { resolve } of this.#arrivals.filter(({ count }) => count <= this.batches.length)) resolve();
      if (!this.#isOpen) {
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push((error) => (error ? reject(error) : resolve()));
        });
      }
      await append(batch, ahead);
    };
  }

  /** A gate at which batches wait. */
  static closed(store: RelayStore): AppendGate {
    const gate = new AppendGate(store);
    gate.close();
    return gate;
  }

  /** From now on batches wait at the gate. */
  close(): void {
    this.#isOpen = false;
  }

  /** From now on batches pass, those that wait first. */
  open(): void {
    this.#isOpen = true;
    for (const pass of this.#waiting.splice(0)) pass();
  }

  /** Lets the batch that waits pass and goes on holding the next. */
  letOnePass(): void {
    this.#waiting.shift()?.();
  }

  /** Closes, lets the next batch pass, and holds the one after it; resolves with what `work` answers meanwhile. */
  async holdAfter<T>(work: () => Promise<T>): Promise<T> {
    const before = this.batches.length;
    this.close();
    const answered = work();
    await this.arrived(before + 1);
    this.letOnePass();
    const answer = await answered;
    await this.arrived(before + 2);
    return answer;
  }

  /** Fails the batch that waits: it is not written. */
  failOne(error: Error): void {
    this.#waiting.shift()?.(error);
  }

  /** Resolves when `count` batches have come to the gate since it was built. */
  async arrived(count: number): Promise<void> {
    if (this.batches.length >= count) return;
    await new Promise<void>((resolve) => {
      this.#arrivals.push({ count, resolve });
    });
  }
}
