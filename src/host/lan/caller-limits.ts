/**
 * What one caller of the LAN may cost: requests in a minute, and bodies that are held at once. Connections are in
 * connection-room.ts.
 *
 * The signature of a caller is checked after its body was read. Until then a caller that names a paired host is treated
 * as one; an address that named one falsely is treated as a stranger for a while.
 */
import { groupOf } from './connection-room.ts';

/** Bodies that are held at once: of everybody, of strangers, and from one address. */
export const BODY_BYTES_MAX = 64 << 20;
export const STRANGER_BYTES_MAX = 16 << 20;
export const ADDRESS_BYTES_MAX = 16 << 20;
/** Requests of strangers, from one address in a minute. */
export const STRANGER_REQUESTS_PER_MINUTE = 60;
const MINUTE_MS = 60_000;
/** Addresses whose requests are counted; the least recent makes room. */
const ADDRESSES_MAX = 10_000;

interface Counted {
  startedAtMs: number;
  requests: number;
  hasLied: boolean;
}

export class CallerLimits {
  readonly #monotonicMs: () => number;
  readonly #counted = new Map<string, Counted>();
  readonly #held = new Map<string, number>();
  #allBytes = 0;
  #strangerBytes = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Counts a request of a stranger; whether it is one too many. */
  isStrangerTooOften(address: string): boolean {
    const counted = this.#countOf(groupOf(address));
    counted.requests++;
    return counted.requests > STRANGER_REQUESTS_PER_MINUTE;
  }

  /** It named a paired host, and was not that host. */
  markLiar(address: string): void {
    this.#countOf(groupOf(address)).hasLied = true;
  }

  isLiar(address: string): boolean {
    return this.#running(groupOf(address))?.hasLied === true;
  }

  /** Room for a body, to be given back by what is answered; `undefined` when there is none. */
  hold(address: string, bytes: number, isStranger: boolean): (() => void) | undefined {
    const group = groupOf(address);
    const ofAddress = this.#held.get(group) ?? 0;
    if (this.#allBytes + bytes > BODY_BYTES_MAX || ofAddress + bytes > ADDRESS_BYTES_MAX) return undefined;
    if (isStranger && this.#strangerBytes + bytes > STRANGER_BYTES_MAX) return undefined;
    this.#add(group, bytes, isStranger);
    return () => this.#add(group, -bytes, isStranger);
  }

  #add(group: string, bytes: number, isStranger: boolean): void {
    this.#allBytes += bytes;
    if (isStranger) this.#strangerBytes += bytes;
    change(this.#held, group, bytes);
  }

  #countOf(group: string): Counted {
    const counted = this.#running(group) ?? { startedAtMs: this.#monotonicMs(), requests: 0, hasLied: false };
    this.#counted.delete(group);
    this.#counted.set(group, counted);
    if (this.#counted.size > ADDRESSES_MAX) {
      const oldest = this.#counted.keys().next();
      if (!oldest.done) this.#counted.delete(oldest.value);
    }
    return counted;
  }

  #running(group: string): Counted | undefined {
    const counted = this.#counted.get(group);
    return counted && this.#monotonicMs() - counted.startedAtMs < MINUTE_MS ? counted : undefined;
  }
}

function change(counts: Map<string, number>, group: string, by: number): void {
  const next = (counts.get(group) ?? 0) + by;
  if (next === 0) counts.delete(group);
  else counts.set(group, next);
}
