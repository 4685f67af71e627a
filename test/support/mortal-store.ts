/**
 * A host's store whose process can be killed: at a transaction, before or after that is durable, nobody is answered any
 * more.
 */
import type { HostStore } from '../../src/host/store/host-store.ts';

export interface Death {
  /** At which transaction from now; 0: on the spot. */
  inTransactions: number;
  /** Says whether the one that it dies at becomes durable. */
  isDurable: boolean;
}

const never = <R>(): Promise<R> => new Promise<R>(() => {});

/** Changes how `store` answers. What was begun before a death becomes durable or not; none of it is ever heard of. */
export class Mortality {
  #death: Death | undefined;
  #isDead = false;
  #died!: () => void;
  /** Resolves when it is dead. */
  readonly died = new Promise<void>((resolve) => {
    this.#died = resolve;
  });

  constructor(store: HostStore) {
    const transact = store.transact.bind(store);
    const read = store.read.bind(store);
    store.transact = <R>(work: Parameters<typeof transact<R>>[0]): Promise<R> => {
      if (this.#isDead) return never();
      const death = this.#death;
      if (!death || --death.inTransactions > 0) return this.#whileAlive(transact(work));
      if (death.isDurable) void transact(work).catch(() => undefined);
      this.dieNow();
      return never();
    };
    store.read = <R>(work: Parameters<typeof read<R>>[0]): Promise<R> =>
      this.#isDead ? never() : this.#whileAlive(read(work));
  }

  die(death: Death): void {
    if (death.inTransactions <= 0) this.dieNow();
    else this.#death = { ...death };
  }

  dieNow(): void {
    this.#isDead = true;
    this.#died();
  }

  async #whileAlive<R>(answer: Promise<R>): Promise<R> {
    try {
      const value = await answer;
      return this.#isDead ? await never() : value;
    } catch (error) {
      if (this.#isDead) return never();
      throw error;
    }
  }
}
