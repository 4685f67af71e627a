/**
 * Limits what requests take: how many come from each caller (`RateLimiter`), and the bytes that all of them together
 * hold in memory (`Budget`). Each request has a claim, which measures how fast its
 * peer sends or receives.
 *
 * A slow peer keeps its claim for long. So a full budget, and a holder's full share of it, makes room: it cuts slow
 * claims, the slowest first. When none is slow, a full budget cuts the slowest claim of a holder that has more claims
 * and more bytes than the newcomer's holder. A holder is a host key, a client address or an account; a claim counts
 * against each of its holders.
 *
 * Invariants: the claims of a pool never exceed its size; a claim is cut at most once, and its bytes are free then.
 */
import { keepRecent } from '../lib/recent.ts';

/** A claim that was slower than this for `SLOW_AFTER_MS` may be cut. The unit is bytes per second. */
const SLOW_BYTES_PER_S = 4096;
/** A peer may stall for this time before its claim counts as slow. */
export const SLOW_AFTER_MS = 5_000;
const SECOND_MS = 1_000;
/** A claim is also slow below this share of the speed that it needs to finish by its deadline. */
const NEEDED_SPEED_SHARE = 1 / 4;
/**
 * One newcomer may displace this number of claims that are not slow: finding each one is a search through all claims.
 */
const HEAVIEST_CUT_MAX = 16;

export interface BudgetOptions {
  /** Total bytes of the claims that are not small. */
  bytesMax: number;
  /** Small claims have a pool of their own; absent: no claim counts as small. Both in bytes. */
  small?: { bytesMax: number; claimBytesMax: number };
  monotonicMs: () => number;
}

/** A claim counts against each of its holders. */
export interface Holder {
  kind: 'key' | 'address' | 'account';
  name: string;
  /** The most bytes that this holder may hold, even when more are free; absent: no such limit. */
  bytesMax?: number;
}

interface ClaimOptions {
  holders: readonly Holder[];
  /** The number of bytes that the peer is expected to send or receive, and how long it may take. */
  expectedBytes: number;
  deadlineMs: number;
  /** Bytes that the claim holds from the start; `grow` adds more. */
  bytes?: number;
  /** Ends the request of the claim. It is called once, when another claim needs the bytes. */
  cut: () => void;
}

/** The claims that one holder has in one pool. */
interface HeldClaims {
  kind: Holder['kind'];
  bytes: number;
  claims: number;
}

/** A number of bytes, and how many of them each holder has. */
class Pool {
  readonly bytesMax: number;
  readonly claims = new Set<Claim>();
  readonly #held = new Map<string, HeldClaims>();
  #free: number;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
    this.#free = bytesMax;
  }

  get free(): number {
    return this.#free;
  }

  /** The keys are those of `holderName`. */
  get held(): ReadonlyMap<string, HeldClaims> {
    return this.#held;
  }

  take(claim: Claim, bytes: number): void {
    const isNew = !this.claims.has(claim);
    this.claims.add(claim);
    this.#free -= bytes;
    for (const holder of claim.holders) {
      const held = this.#held.get(holderName(holder)) ?? { kind: holder.kind, bytes: 0, claims: 0 };
      held.bytes += bytes;
      if (isNew) held.claims++;
      this.#held.set(holderName(holder), held);
    }
  }

  giveBack(claim: Claim): void {
    if (!this.claims.delete(claim)) return;
    this.#free += claim.bytes;
    for (const holder of claim.holders) {
      const held = this.#held.get(holderName(holder));
      if (!held) throw new Error('invariant: the holder of a claim is known');
      held.bytes -= claim.bytes;
      if (--held.claims === 0) this.#held.delete(holderName(holder));
    }
  }
}

function holderName({ kind, name }: Holder): string {
  return `${kind} ${name}`;
}

export class Budget {
  readonly #options: BudgetOptions;
  readonly #large: Pool;
  readonly #small: Pool;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#large = new Pool(options.bytesMax);
    this.#small = new Pool(options.small?.bytesMax ?? 0);
  }

  /** Returns `undefined` when there is no room and none can be made. */
  claim(options: ClaimOptions): Claim | undefined {
    const { small, monotonicMs } = this.#options;
    const bytes = options.bytes ?? 0;
    const isSmall = small !== undefined && Math.max(options.expectedBytes, bytes) <= small.claimBytesMax;
    const claim = new Claim(this, isSmall ? this.#small : this.#large, options, monotonicMs);
    return claim.grow(bytes) ? claim : undefined;
  }

  /** Says whether `claim` may hold `bytes` more; cuts other claims if it has to. Only claims call this. */
  makeRoom(claim: Claim, bytes: number): boolean {
    const { pool } = claim;
    if (bytes > pool.bytesMax) return false;
    for (const holder of claim.holders) {
      const { bytesMax = Infinity } = holder;
      const fits = (): boolean => (pool.held.get(holderName(holder))?.bytes ?? 0) + bytes <= bytesMax;
      if (!fits() && !cutSlow(claimsOf(pool, holder), claim, fits)) return false;
    }
    if (cutSlow(pool.claims, claim, () => pool.free >= bytes)) return true;
    for (let cuts = 0; pool.free < bytes; cuts++) {
      const victim = cuts < HEAVIEST_CUT_MAX ? heaviest(pool, claim, bytes) : undefined;
      if (!victim) return false;
      victim.cut();
    }
    return true;
  }
}

export class Claim {
  readonly holders: readonly Holder[];
  readonly pool: Pool;
  readonly #budget: Budget;
  readonly #options: ClaimOptions;
  readonly #monotonicMs: () => number;
  readonly #slowBytesPerS: number;
  #bytes = 0;
  #isReleased = false;
  #isPeerDone = false;
  readonly #startedMs: number;
  /** Bytes moved in each of the last seconds: a ring buffer, indexed by the second modulo its length. */
  readonly #moved = new Float64Array(SLOW_AFTER_MS / SECOND_MS);
  /** The latest second in the ring buffer. */
  #second = 0;

  /** Only `Budget.claim` calls this. */
  constructor(budget: Budget, pool: Pool, options: ClaimOptions, monotonicMs: () => number) {
    this.#budget = budget;
    this.#options = options;
    this.#monotonicMs = monotonicMs;
    this.#startedMs = monotonicMs();
    const neededBytesPerS = (options.expectedBytes * 1000) / options.deadlineMs;
    this.#slowBytesPerS = Math.max(SLOW_BYTES_PER_S, neededBytesPerS * NEEDED_SPEED_SHARE);
    this.holders = options.holders;
    this.pool = pool;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Takes `bytes` more, and returns whether it could. Returns false after a cut or release. */
  grow(bytes: number): boolean {
    if (this.#isReleased || !this.#budget.makeRoom(this, bytes)) return false;
    this.pool.take(this, bytes);
    this.#bytes += bytes;
    return true;
  }

  /** Call this when the peer has sent or received `bytes`. */
  moved(bytes: number): void {
    const second = this.#forgetOld();
    this.#moved[second % this.#moved.length] = (this.#moved[second % this.#moved.length] ?? 0) + bytes;
  }

  /** Call this when the peer has sent everything: the rest depends on us, so the claim is not cut any more. */
  peerDone(): void {
    this.#isPeerDone = true;
  }

  /** Bytes per second over the last `SLOW_AFTER_MS`; `undefined` when the peer is done. */
  get speed(): number | undefined {
    if (this.#isPeerDone) return undefined;
    this.#forgetOld();
    let bytes = 0;
    for (const moved of this.#moved) bytes += moved;
    return (bytes * 1000) / Math.max(1, Math.min(SLOW_AFTER_MS, this.#ageMs));
  }

  get isSlow(): boolean {
    const { speed } = this;
    return speed !== undefined && this.#ageMs >= SLOW_AFTER_MS && speed < this.#slowBytesPerS;
  }

  cut(): void {
    this.release();
    this.#options.cut();
  }

  /** Frees the bytes of the claim. May be called again. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.pool.giveBack(this);
  }

  get #ageMs(): number {
    return this.#monotonicMs() - this.#startedMs;
  }

  /**
   * Clears the entries of the ring buffer that are too old. Returns the current second since the start of the claim.
   */
  #forgetOld(): number {
    const second = Math.floor(this.#ageMs / SECOND_MS);
    if (second - this.#second >= this.#moved.length) this.#moved.fill(0);
    else for (let old = this.#second + 1; old <= second; old++) this.#moved[old % this.#moved.length] = 0;
    this.#second = second;
    return second;
  }
}

/** Cuts slow claims that hold bytes, the slowest first, until `isEnough`. Returns whether it is. */
function cutSlow(claims: Iterable<Claim>, newcomer: Claim, isEnough: () => boolean): boolean {
  if (isEnough()) return true;
  const slow: { claim: Claim; speed: number }[] = [];
  for (const claim of claims) {
    if (claim !== newcomer && claim.bytes > 0 && claim.isSlow) slow.push({ claim, speed: claim.speed ?? 0 });
  }
  for (const { claim } of slow.toSorted((a, b) => a.speed - b.speed)) {
    claim.cut();
    if (isEnough()) return true;
  }
  return false;
}

function* claimsOf(pool: Pool, holder: Holder): Generator<Claim> {
  const name = holderName(holder);
  for (const claim of pool.claims) if (claim.holders.some((one) => holderName(one) === name)) yield claim;
}

/**
 * The slowest claim of the holder with the most bytes. That holder must have more bytes and more claims than the
 * newcomer's holder of the same kind would have; so a peer gains nothing by many keys or many connections.
 */
function heaviest(pool: Pool, newcomer: Claim, bytes: number): Claim | undefined {
  const own = new Map(newcomer.holders.map((holder) => [holder.kind, pool.held.get(holderName(holder))]));
  const added = pool.claims.has(newcomer) ? 0 : 1;
  let name: string | undefined;
  let most = 0;
  for (const [one, held] of pool.held) {
    const mine = own.get(held.kind);
    const isMore = held.bytes > (mine?.bytes ?? 0) + bytes && held.claims > (mine?.claims ?? 0) + added;
    if (!isMore || held.bytes <= most) continue;
    name = one;
    most = held.bytes;
  }
  let found: Claim | undefined;
  for (const claim of pool.claims) {
    if (claim.bytes === 0 || claim.speed === undefined || !claim.holders.some((holder) => holderName(holder) === name))
      continue;
    if (!found || claim.speed < (found.speed ?? 0)) found = claim;
  }
  return found;
}

const MINUTE_MS = 60_000;
const RATE_TABLE_MAX = 10_000;
/** Sums of fractions of a millisecond are never exact. */
const ROUNDING_MS = 0.01;

/**
 * Rates per minute or another period, each caller alone, in a table that never grows beyond its bound.
 *
 * The generic cell rate algorithm: one number a caller, the time at which it would be even again. A caller may use a
 * period's worth at once; after that it waits its turn.
 */
export class RateLimiter {
  readonly #count: number;
  readonly #periodMs: number;
  readonly #monotonicMs: () => number;
  /** The time at which each caller is even again, least recent first. */
  readonly #evenAtMs = new Map<string, number>();

  constructor(count: number, monotonicMs: () => number, periodMs: number = MINUTE_MS) {
    this.#count = count;
    this.#periodMs = periodMs;
    this.#monotonicMs = monotonicMs;
  }

  /** Counts one request. 0 when it may pass, else the whole seconds to wait. */
  take(caller: string): number {
    const waitS = this.waitS(caller, 1);
    this.add(caller, waitS === 0 ? 1 : 0);
    return waitS;
  }

  /** Returns how many whole seconds it takes until so much may pass; 0 when it may now. */
  waitS(caller: string, count: number): number {
    const nowMs = this.#monotonicMs();
    const waitMs = this.#evenAt(caller, nowMs) + (count * this.#periodMs) / this.#count - this.#periodMs - nowMs;
    return waitMs > ROUNDING_MS ? Math.ceil(waitMs / 1000) : 0;
  }

  /** Counts so much, whether or not it may pass; what is below zero is given back. */
  add(caller: string, count: number): void {
    const evenAtMs = this.#evenAt(caller, this.#monotonicMs());
    keepRecent(this.#evenAtMs, caller, evenAtMs + (count * this.#periodMs) / this.#count, RATE_TABLE_MAX);
  }

  #evenAt(caller: string, nowMs: number): number {
    return Math.max(this.#evenAtMs.get(caller) ?? nowMs, nowMs);
  }
}
