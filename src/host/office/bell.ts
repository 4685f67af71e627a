/** Says to whoever listens what is durable now. */
import type { Happening } from './office.ts';

/** Must not throw, and is not waited for. */
export type Listener = (happening: Happening) => void;

export class Bell {
  readonly #listeners = new Set<Listener>();

  /** Listeners are told in the order they came; answers what ends the listening. */
  listen(listener: Listener): () => void {
    // One function may listen twice.
    const own: Listener = (happening) => listener(happening);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  tell(happening: Happening): void {
    for (const listener of this.#listeners) listener(happening);
  }
}
