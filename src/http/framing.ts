/**
 * Reads a request: checks its target and its framing before anything else, and receives its body, whose size it limits,
 * counts against the budget of all bodies, and hashes as it arrives.
 *
 * Both versions of uWebSockets.js accept conflicting lengths and odd chunks, with which a client could smuggle a second
 * request past a proxy. So repeated framing headers and chunked bodies are refused, and the connection is closed.
 */
import { type Hash, createHash, hash as hashOf } from 'node:crypto';
import { EMPTY_BODY_HASH, HOP_HEADERS, RECEIPTS_HEADER } from '../protocol/hop.ts';
import type { Exchange, Reply, RequestHead } from './exchange.ts';
import { problemReply } from './replies.ts';
import type { Sha256Hex } from '../protocol/encodings.ts';
import { Budget, type Claim, type Holder } from './budget.ts';

/** Headers that may appear only once. */
const ONCE = new Set(['content-length', 'transfer-encoding', 'host', ...Object.values(HOP_HEADERS), RECEIPTS_HEADER]);
/** Visible ASCII without `#`. */
const TARGET_PATTERN = /^\/[!"$-~]*$/;
const LENGTH_PATTERN = /^(?:0|[1-9][0-9]{0,15})$/;

export interface Target {
  path: string;
  /** The part after `?`; `undefined` without one. */
  query: string | undefined;
}

/** Returns the target, or the reply that refuses it. */
export function readTarget({ target }: RequestHead): Target | Reply {
  if (!TARGET_PATTERN.test(target)) {
    return problemReply('BAD_REQUEST', 'the request target is not plain ASCII', { close: true });
  }
  const at = target.indexOf('?');
  return at === -1 ? { path: target, query: undefined } : { path: target.slice(0, at), query: target.slice(at + 1) };
}

export interface Framing {
  /** The declared body length; 0 when none is declared. */
  contentLength: number;
  header: (name: string) => string | undefined;
}

/** Returns the framing, or the reply that refuses it. `isHostNeeded` is false for probes, which may have no Host. */
export function readFraming(head: RequestHead, isHostNeeded = true): Framing | Reply {
  const headers = new Map<string, string>();
  for (const [name, value] of head.headers) {
    if (headers.has(name) && ONCE.has(name)) {
      return problemReply('BAD_REQUEST', `the header ${name} is repeated`, { close: true });
    }
    headers.set(name, value);
  }
  if (isHostNeeded && !headers.has('host'))
    return problemReply('BAD_REQUEST', 'the header host is missing', { close: true });
  if (headers.has('transfer-encoding')) {
    return problemReply('LENGTH_REQUIRED', 'send the body with content-length; chunked requests are refused', {
      close: true,
    });
  }
  const lengthText = headers.get('content-length');
  if (lengthText === undefined && head.method === 'POST') {
    return problemReply('LENGTH_REQUIRED', 'send the body with content-length', { close: true });
  }
  if (lengthText !== undefined && !LENGTH_PATTERN.test(lengthText)) {
    return problemReply('BAD_REQUEST', 'content-length is not a number', { close: true });
  }
  return { contentLength: Number(lengthText ?? 0), header: (name) => headers.get(name) };
}

export function isReply(value: object): value is Reply {
  return 'status' in value;
}

/** A request fails when its body has not arrived within this time. */
export const BODY_DEADLINE_MS = 60_000;

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

/** Up to here a body is small. To read it costs little more than to refuse it. */
export const SMALL_CLAIM_BYTES_MAX = 64 << 10;

/** The number of bytes of bodies that are held at once. */
interface BodyLimits {
  bytesMax: number;
  /** Small bodies have so many of their own; absent: none. */
  smallBytesMax?: number;
  /** The share of one host key from one address, or of one address when no key counts. */
  shareBytesMax: number;
}

interface BodyBudgetsOptions {
  /** The limits of requests whose hop names a known host. */
  hops: BodyLimits;
  others: BodyLimits;
  monotonicMs: () => number;
}

/**
 * The budgets of the bodies at a listener of hosts. A claim grows by the bytes that have come: a head that declares a
 * long body takes nothing.
 */
export class BodyBudgets {
  readonly #options: BodyBudgetsOptions;
  readonly #hops: Budget;
  readonly #others: Budget;

  constructor(options: BodyBudgetsOptions) {
    this.#options = options;
    this.#hops = budgetOf(options.hops, options.monotonicMs);
    this.#others = budgetOf(options.others, options.monotonicMs);
  }

  /** `hostKey`: of the known host that the hop names, whose signature covers the body and is not verified yet. */
  room(method: string, address: string, hostKey: string | undefined, expectedBytes: number): BodyRoom | undefined {
    // A GET has nothing to say in its body, so that a stranger cannot fill the budget with it.
    if (method === 'GET') return undefined;
    const { hops, others } = this.#options;
    const ofAddress: Holder = { kind: 'address', name: address };
    if (hostKey === undefined) {
      const holders: Holder[] = [{ ...ofAddress, bytesMax: others.shareBytesMax }];
      return { budget: this.#others, holders, expectedBytes };
    }
    // A caller who claims the key of another from elsewhere does not use up that one's share.
    const share: Holder = { kind: 'key', name: `${address} ${hostKey}`, bytesMax: hops.shareBytesMax };
    return { budget: this.#hops, holders: [share, ofAddress], expectedBytes };
  }
}

function budgetOf({ bytesMax, smallBytesMax }: BodyLimits, monotonicMs: () => number): Budget {
  if (smallBytesMax === undefined) return new Budget({ bytesMax, monotonicMs });
  const small = { bytesMax: smallBytesMax, claimBytesMax: SMALL_CLAIM_BYTES_MAX };
  return new Budget({ bytesMax, small, monotonicMs });
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
