/**
 * Receives a request body: bounded, counted against all bodies in flight, and hashed while it streams in.
 */
import { createHash } from 'node:crypto';
import type { Sha256Hex } from '../../protocol/digest.ts';
import { EMPTY_BODY_HASH } from '../../protocol/hop.ts';
import type { Exchange } from './exchange.ts';

/** Bytes that may be held at once, over all requests. Only bytes that arrived count. */
export class ByteBudget {
  #free: number;

  constructor(bytes: number) {
    this.#free = bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#free += bytes;
  }
}

export interface Body {
  type: 'Body';
  bytes: Buffer;
  hash: Sha256Hex;
}

export type BodyFailure = 'too large' | 'no budget' | 'aborted' | 'late';

const EMPTY: Body = { type: 'Body', bytes: Buffer.alloc(0), hash: EMPTY_BODY_HASH };

/**
 * The body of `exchange`, at most `bytesMax`. Must be called before the handler first yields. What it holds of the
 * budget is given back by `release`, whatever came of it.
 */
export class BodyReader {
  readonly #exchange: Exchange;
  readonly #budget: ByteBudget | undefined;
  readonly #bytesMax: number;
  #received = 0;
  #held = 0;
  #finish: ((result: Body | BodyFailure) => void) | undefined;

  /** Without a budget the bytes are hashed and not kept. */
  constructor(exchange: Exchange, budget: ByteBudget | undefined, bytesMax: number) {
    this.#exchange = exchange;
    this.#budget = budget;
    this.#bytesMax = bytesMax;
  }

  read(): Promise<Body | BodyFailure> {
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      const hash = createHash('sha256');
      this.#finish = (result) => {
        this.#finish = undefined;
        resolve(result);
      };
      this.#exchange.onAborted(() => this.#finish?.('aborted'));
      this.#exchange.receive((chunk, isLast) => {
        if (!this.#finish) return;
        if (chunk.length > 0) {
          this.#received += chunk.length;
          if (this.#received > this.#bytesMax) return this.#finish('too large');
          hash.update(chunk);
          if (this.#budget) {
            if (!this.#budget.take(chunk.length)) return this.#finish('no budget');
            this.#held += chunk.length;
            chunks.push(Buffer.from(chunk));
          }
        }
        if (!isLast) return;
        if (this.#received === 0) return this.#finish(EMPTY);
        const bytes = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, this.#held);
        this.#finish({ type: 'Body', bytes: bytes ?? EMPTY.bytes, hash: hash.digest('hex') as Sha256Hex });
      });
    });
  }

  /** Ends a read that takes too long. */
  giveUp(): void {
    this.#finish?.('late');
  }

  release(): void {
    this.#budget?.give(this.#held);
    this.#held = 0;
  }
}

/** Reads a body to its end and keeps nothing, so that the peer sees the reply that follows. */
export function discardBody(exchange: Exchange): Promise<void> {
  return new Promise((resolve) => {
    exchange.onAborted(resolve);
    exchange.receive((_chunk, isLast) => {
      if (isLast) resolve();
    });
  });
}
