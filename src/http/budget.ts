/**
 * Bytes that may be held at once over all requests, in claims that know how fast their peers move them.
 *
 * A peer that sends or takes slowly holds its claim long, so a full budget makes room: it cuts the claim that has moved
 * least, when that one is slow; else the one that has moved least of a holder with more claims and more bytes than the
 * newcomer's. A holder is whom a claim counts against: a host key, a client address, an account.
 *
 * Invariants: the claims of a room together never exceed it; a claim is cut at most once, and gives back its bytes then.
 */

/** A claim that has moved less than this for `SLOW_AFTER_MS` may be cut. In bytes a second. */
export const SLOW_BYTES_PER_S = 4096;
/** How long a peer may stall before its claim counts as slow. */
export const SLOW_AFTER_MS = 5_000;
const SECOND_MS = 1_000;
/** The share of the speed at which a claim would be done at its deadline; below it, it is slow as well. */
const NEEDED_SPEED_SHARE = 1 / 4;
/** Claims that are cut at once although they are not slow: each is looked for among all. */
const HEAVIEST_CUT_MAX = 16;

export interface BudgetOptions {
  /** Bytes of all claims that are not small. */
  bytesMax: number;
  /** Small claims have room of their own; absent: none counts as small. Both in bytes. */
  small?: { bytesMax: number; claimBytesMax: number };
  monotonicMs: () => number;
}

/** Whom a claim counts against. */
export interface Holder {
  kind: 'key' | 'address' | 'account';
  name: string;
  /** Bytes that this holder may hold at once even while there is room; absent: as many as there are. */
  bytesMax?: number;
}

export interface ClaimOptions {
  holders: readonly Holder[];
  /** As many bytes as the peer will move when all goes well, and how long it has for that. */
  expectedBytes: number;
  deadlineMs: number;
  /** What the claim holds from the start; more with `grow`. */
  bytes?: number;
  /** Ends what the claim is for. Called once, when its bytes are needed for another. */
  cut: () => void;
}

/** What one holder has of one room. */
interface Held {
  kind: Holder['kind'];
  bytes: number;
  claims: number;
}

/** One pot of bytes, and who has how much of it. */
class Room {
  readonly bytesMax: number;
  readonly claims = new Set<Claim>();
  readonly #held = new Map<string, Held>();
  #free: number;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
    this.#free = bytesMax;
  }

  get free(): number {
    return this.#free;
  }

  /** By the names of `holderName`. */
  get held(): ReadonlyMap<string, Held> {
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
  readonly #large: Room;
  readonly #small: Room;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#large = new Room(options.bytesMax);
    this.#small = new Room(options.small?.bytesMax ?? 0);
  }

  /** `undefined` when there is no room, and none can be made. */
  claim(options: ClaimOptions): Claim | undefined {
    const { small, monotonicMs } = this.#options;
    const bytes = options.bytes ?? 0;
    const isSmall = small !== undefined && Math.max(options.expectedBytes, bytes) <= small.claimBytesMax;
    const claim = new Claim(this, isSmall ? this.#small : this.#large, options, monotonicMs);
    return claim.grow(bytes) ? claim : undefined;
  }

  /** Whether `claim` may hold `bytes` more. Makes room where it may. For claims only. */
  makeRoom(claim: Claim, bytes: number): boolean {
    const { room } = claim;
    if (bytes > room.bytesMax) return false;
    for (const holder of claim.holders) {
      const held = room.held.get(holderName(holder))?.bytes ?? 0;
      if (holder.bytesMax !== undefined && held + bytes > holder.bytesMax) return false;
    }
    if (room.free >= bytes) return true;
    for (const victim of slowestFirst(room.claims, claim)) {
      victim.cut();
      if (room.free >= bytes) return true;
    }
    for (let cuts = 0; room.free < bytes; cuts++) {
      const victim = cuts < HEAVIEST_CUT_MAX ? heaviest(room, claim, bytes) : undefined;
      if (!victim) return false;
      victim.cut();
    }
    return true;
  }
}

export class Claim {
  readonly holders: readonly Holder[];
  readonly room: Room;
  readonly #budget: Budget;
  readonly #options: ClaimOptions;
  readonly #monotonicMs: () => number;
  readonly #slowBytesPerS: number;
  #bytes = 0;
  #isReleased = false;
  #isPeerDone = false;
  readonly #startedMs: number;
  /** Bytes moved in each of the last seconds, by the second modulo their number. */
  readonly #moved = new Float64Array(SLOW_AFTER_MS / SECOND_MS);
  /** The newest of these seconds. */
  #second = 0;

  /** For `Budget.claim`. */
  constructor(budget: Budget, room: Room, options: ClaimOptions, monotonicMs: () => number) {
    this.#budget = budget;
    this.#options = options;
    this.#monotonicMs = monotonicMs;
    this.#startedMs = monotonicMs();
    const neededBytesPerS = (options.expectedBytes * 1000) / options.deadlineMs;
    this.#slowBytesPerS = Math.max(SLOW_BYTES_PER_S, neededBytesPerS * NEEDED_SPEED_SHARE);
    this.holders = options.holders;
    this.room = room;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether it may hold `bytes` more, and then does. Never after it was cut or released. */
  grow(bytes: number): boolean {
    if (this.#isReleased || !this.#budget.makeRoom(this, bytes)) return false;
    this.room.take(this, bytes);
    this.#bytes += bytes;
    return true;
  }

  /** The peer sent or took `bytes`. */
  moved(bytes: number): void {
    const second = this.#forgetOld();
    this.#moved[second % this.#moved.length] = (this.#moved[second % this.#moved.length] ?? 0) + bytes;
  }

  /** The peer has moved everything: what is left to do is ours, so it is not cut any more. */
  peerDone(): void {
    this.#isPeerDone = true;
  }

  /** Bytes a second over the last `SLOW_AFTER_MS`; `undefined` when nothing more is to be moved. */
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

  /** Gives back what it holds; harmless when it has. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.room.giveBack(this);
  }

  get #ageMs(): number {
    return this.#monotonicMs() - this.#startedMs;
  }

  /** Makes room for the present second, which it answers, counted from the start of the claim. */
  #forgetOld(): number {
    const second = Math.floor(this.#ageMs / SECOND_MS);
    if (second - this.#second >= this.#moved.length) this.#moved.fill(0);
    else for (let old = this.#second + 1; old <= second; old++) this.#moved[old % this.#moved.length] = 0;
    this.#second = second;
    return second;
  }
}

/** The claims that are slow, the one that has moved least first. One that holds nothing gives nothing back. */
function slowestFirst(claims: Iterable<Claim>, newcomer: Claim): Claim[] {
  const slow: { claim: Claim; speed: number }[] = [];
  for (const claim of claims) {
    if (claim !== newcomer && claim.bytes > 0 && claim.isSlow) slow.push({ claim, speed: claim.speed ?? 0 });
  }
  return slow.toSorted((a, b) => a.speed - b.speed).map(({ claim }) => claim);
}

/**
 * The claim that has moved least of the holder with the most bytes, where that one has both more bytes and more claims
 * than the newcomer's holder of the same kind would have: many keys, or many connections, win nothing.
 */
function heaviest(room: Room, newcomer: Claim, bytes: number): Claim | undefined {
  const own = new Map(newcomer.holders.map((holder) => [holder.kind, room.held.get(holderName(holder))]));
  const added = room.claims.has(newcomer) ? 0 : 1;
  let name: string | undefined;
  let most = 0;
  for (const [one, held] of room.held) {
    const mine = own.get(held.kind);
    const isMore = held.bytes > (mine?.bytes ?? 0) + bytes && held.claims > (mine?.claims ?? 0) + added;
    if (!isMore || held.bytes <= most) continue;
    name = one;
    most = held.bytes;
  }
  let found: Claim | undefined;
  for (const claim of room.claims) {
    if (claim.bytes === 0 || claim.speed === undefined || !claim.holders.some((holder) => holderName(holder) === name))
      continue;
    if (!found || claim.speed < (found.speed ?? 0)) found = claim;
  }
  return found;
}
