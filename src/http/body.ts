/**
 * Receives a request body: bounded, counted against all bodies in flight, and hashed while it streams in.
 */
import { createHash } from 'node:crypto';
import type { Sha256Hex } from '../protocol/digest.ts';
import { EMPTY_BODY_HASH } from '../protocol/hop.ts';
import type { Exchange } from './exchange.ts';
import type { SharedBudget } from './shared-budget.ts';

/** A body that has not arrived by then is given up. */
export const BODY_DEADLINE_MS = 60_000;

/** What ends a wait that takes too long. */
export interface DeadlineTimers {
  /** Runs once, after `ms`, unless it is cancelled before. */
  after(ms: number, run: () => void): () => void;
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
  readonly #budget: SharedBudget | undefined;
  readonly #caller: string;
  readonly #bytesMax: number;
  #received = 0;
  #held = 0;
  #finish: ((result: Body | BodyFailure) => void) | undefined;

  /** Without a budget the bytes are hashed and not kept; else they count against `caller`. */
  constructor(exchange: Exchange, budget: SharedBudget | undefined, caller: string, bytesMax: number) {
    this.#exchange = exchange;
    this.#budget = budget;
    this.#caller = caller;
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
            if (!this.#budget.take(this.#caller, chunk.length)) return this.#finish('no budget');
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
    this.#budget?.give(this.#caller, this.#held);
    this.#held = 0;
  }
}

/** Reads a body to its end, or for `BODY_DEADLINE_MS`, and keeps nothing, so that the peer sees the reply that follows. */
export function discardBody(exchange: Exchange, timers: DeadlineTimers): Promise<void> {
  return new Promise((resolve) => {
    const cancel = timers.after(BODY_DEADLINE_MS, resolve);
    const finish = (): void => {
      cancel();
      resolve();
    };
    exchange.onAborted(finish);
    exchange.receive((_chunk, isLast) => {
      if (isLast) finish();
    });
  });
}
