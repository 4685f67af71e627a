/**
 * Receives a request body: bounded, counted against all bodies under way, and hashed while it streams in.
 */
import { createHash } from 'node:crypto';
import type { Sha256Hex } from '../protocol/digest.ts';
import { EMPTY_BODY_HASH } from '../protocol/hop.ts';
import type { Budget, Claim, Holder } from './budget.ts';
import type { Exchange } from './exchange.ts';

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

/** `no budget`: there was no room for it, or its room was given to another. */
export type BodyFailure = 'too large' | 'no budget' | 'aborted' | 'late';

const EMPTY: Body = { type: 'Body', bytes: Buffer.alloc(0), hash: EMPTY_BODY_HASH };

/** What the bytes of a body count against. */
export interface BodyRoom {
  budget: Budget;
  holders: readonly Holder[];
  /** The declared length. */
  expectedBytes: number;
}

/**
 * The body of `exchange`, at most `bytesMax`. Must be called before the handler first yields. What it holds of the
 * budget is given back by `release`, whatever came of it.
 */
export class BodyReader {
  readonly #exchange: Exchange;
  readonly #keepsBytes: boolean;
  readonly #claim: Claim | undefined;
  readonly #bytesMax: number;
  #received = 0;
  #finish: ((result: Body | BodyFailure) => void) | undefined;

  /** Without room the bytes are hashed and not kept. */
  constructor(exchange: Exchange, room: BodyRoom | undefined, bytesMax: number) {
    this.#exchange = exchange;
    this.#keepsBytes = room !== undefined;
    this.#bytesMax = bytesMax;
    this.#claim = room?.budget.claim({
      holders: room.holders,
      expectedBytes: room.expectedBytes,
      deadlineMs: BODY_DEADLINE_MS,
      cut: () => this.#finish?.('no budget'),
    });
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
          if (this.#keepsBytes) {
            this.#claim?.moved(chunk.length);
            if (!this.#claim?.grow(chunk.length)) return this.#finish('no budget');
            chunks.push(Buffer.from(chunk));
          }
        }
        if (!isLast) return;
        this.#claim?.peerDone();
        if (this.#received === 0) return this.#finish(EMPTY);
        const bytes = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
        this.#finish({ type: 'Body', bytes: bytes ?? EMPTY.bytes, hash: hash.digest('hex') as Sha256Hex });
      });
    });
  }

  /** Ends a read that takes too long, or that nobody waits for any more. */
  giveUp(): void {
    this.#finish?.('late');
  }

  release(): void {
    this.#claim?.release();
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
