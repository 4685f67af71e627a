/** Callbacks by host key, each called at most once: long polls wait for items, open requests for a revocation. */
import type { PublicKey } from '../../protocol/public-key.ts';

type Listener = () => void;

export class OnceListeners {
  readonly #byKey = new Map<PublicKey, Set<Listener>>();

  get count(): number {
    let count = 0;
    for (const listeners of this.#byKey.values()) count += listeners.size;
    return count;
  }

  /**
   * Keeps `listener` until `key` is called. Where `key` has `max` listeners already, the oldest is called now. Returns a
   * function that removes the listener.
   */
  add(key: PublicKey, listener: Listener, max = Infinity): () => void {
    const listeners = this.#byKey.get(key) ?? new Set();
    const [oldest] = listeners;
    if (oldest && listeners.size >= max) {
      listeners.delete(oldest);
      oldest();
    }
    listeners.add(listener);
    this.#byKey.set(key, listeners);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byKey.get(key) === listeners) this.#byKey.delete(key);
    };
  }

  /** Calls and removes the listeners of `key`. */
  call(key: PublicKey): void {
    const listeners = this.#byKey.get(key);
    if (!listeners) return;
    this.#byKey.delete(key);
    for (const listener of listeners) listener();
  }

  callAll(): void {
    for (const key of this.#byKey.keys()) this.call(key);
  }
}
