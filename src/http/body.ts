/**
 * Receives a request body: limits its size, counts it against the budget of all bodies, and hashes it as it arrives.
 */
import { type Hash, createHash, hash as hashOf } from 'node:crypto';
import type { Sha256Hex } from '../protocol/digest.ts';
import { EMPTY_BODY_HASH } from '../protocol/hop.ts';
import type { Budget, Claim, Holder } from './budget.ts';
import type { Exchange } from './exchange.ts';

/** A request fails when its body has not arrived within this time. */
export const BODY_DEADLINE_MS = 60_000;

/** The timers of the deadlines. */
export interface DeadlineTimers {
  /** Calls `run` once after `ms`. The returned function cancels it. */
  after(ms: number, run: () => void): () => void;
}

export interface Body {
  type: 'Body';
  bytes: Buffer;
  hash: Sha256Hex;
}

/** `no budget`: the budget had no room for it, or gave its room to another body. */
export type BodyFailure = 'too large' | 'no budget' | 'aborted' | 'late';

const EMPTY: Body = { type: 'Body', bytes: Buffer.alloc(0), hash: EMPTY_BODY_HASH };

/** The budget for the bytes of a body. */
export interface BodyRoom {
  budget: Budget;
  holders: readonly Holder[];
  /** The declared length of the body. */
  expectedBytes: number;
}

/**
 * Reads the body of `exchange`, at most `bytesMax` bytes. Call `read` before the handler first yields, and in every
 * case `release` at the end: it returns the bytes to the budget.
 */
export class BodyReader {
  readonly #exchange: Exchange;
  readonly #keepsBytes: boolean;
  readonly #claim: Claim | undefined;
  readonly #bytesMax: number;
  #received = 0;
  #finish: ((result: Body | BodyFailure) => void) | undefined;

  /** Without `room` the bytes are hashed but not kept. */
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
      let hash: Hash | undefined;
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
          // A body that comes whole needs no object for its hash.
          if (!isLast || this.#received > chunk.length) (hash ??= createHash('sha256')).update(chunk);
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
        const hex = hash ? hash.digest('hex') : hashOf('sha256', chunk, 'hex');
        this.#finish({ type: 'Body', bytes: bytes ?? EMPTY.bytes, hash: hex as Sha256Hex });
      });
    });
  }

  /** Ends a read that takes too long, or whose result is not needed any more. */
  giveUp(): void {
    this.#finish?.('late');
  }

  release(): void {
    this.#claim?.release();
  }
}

/** Reads and drops a body, at most for `BODY_DEADLINE_MS`, so that the peer then reads the reply. */
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
