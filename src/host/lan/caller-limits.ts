/**
 * What one caller of the LAN may cost: requests in a minute, bodies that are held at once, and connections.
 *
 * The signature of a caller is checked after its body was read. Until then a caller that names a paired host is treated
 * as one; an address that named one falsely is treated as a stranger for a while.
 */
import { addressGroup } from '../../lib/address-group.ts';

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

export const CONNECTIONS_MAX = 512;
/** Of strangers: what is left is for paired hosts. */
export const STRANGER_CONNECTIONS_MAX = 384;
/** From one address. */
export const ADDRESS_CONNECTIONS_MAX = 64;
/** Addresses that are remembered as those of paired hosts; the least recent makes room. */
const KNOWN_ADDRESSES_MAX = 1_000;

/** As much of a socket as matters here. */
export interface Connection {
  readonly bytesRead: number;
  destroy(): void;
}

interface Guest {
  address: string;
  group: string;
  isPaired: boolean;
  bytesRead: number;
  /** When it last did something, as far as was looked. */
  activeAtMs: number;
}

/**
 * The open connections of the LAN listener, and which of them ends when there is no room for another.
 *
 * A connection is a stranger's until a paired host proved itself over it, or it comes from an address where one is known.
 * Strangers leave a part of the room free. A new connection is let in where a stranger's can make room: of the address
 * with most of them the one that has been idle for longest, so that an address that opens more ends its own.
 */
export class ConnectionRoom {
  readonly #monotonicMs: () => number;
  readonly #guests = new Map<Connection, Guest>();
  /** Of hosts that proved themselves, the most recent last. */
  readonly #proven = new Set<string>();
  /** Where paired hosts are to be called. */
  #known: ReadonlySet<string> = new Set();

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return this.#guests.size;
  }

  /** The addresses where paired hosts are known to listen, without ports. */
  setKnown(addresses: Iterable<string>): void {
    this.#known = new Set(addresses);
  }

  /** Lets a connection in, if need be in the place of another; whether it may stay. */
  enter(connection: Connection, address: string): boolean {
    const group = groupOf(address);
    const ofAddress = this.#where((guest) => guest.group === group);
    if (ofAddress.length >= ADDRESS_CONNECTIONS_MAX && !this.#endOne(ofAddress)) return false;
    const strangers = this.#where((guest) => this.#isStranger(guest));
    const isFull = !this.#isKnown(address) && strangers.length >= STRANGER_CONNECTIONS_MAX;
    if (isFull || this.#guests.size >= CONNECTIONS_MAX) {
      const all = strangers.length > 0 ? strangers : [...this.#guests];
      if (!this.#endOne(fullestAddress(all))) return false;
    }
    const { bytesRead } = connection;
    this.#guests.set(connection, { address, group, isPaired: false, bytesRead, activeAtMs: this.#monotonicMs() });
    return true;
  }

  /** Something was asked over it. */
  noteRequest(connection: Connection): void {
    const guest = this.#guests.get(connection);
    if (guest) guest.activeAtMs = this.#monotonicMs();
  }

  /** A paired host proved itself over it. */
  notePaired(connection: Connection): void {
    const guest = this.#guests.get(connection);
    if (!guest) return;
    guest.isPaired = true;
    this.#proven.delete(guest.address);
    this.#proven.add(guest.address);
    const [oldest] = this.#proven;
    if (this.#proven.size > KNOWN_ADDRESSES_MAX && oldest !== undefined) this.#proven.delete(oldest);
  }

  leave(connection: Connection): void {
    this.#guests.delete(connection);
  }

  #isKnown(address: string): boolean {
    return this.#known.has(address) || this.#proven.has(address);
  }

  #isStranger({ address, isPaired }: Guest): boolean {
    return !isPaired && !this.#isKnown(address);
  }

  #where(isMeant: (guest: Guest) => boolean): [Connection, Guest][] {
    return [...this.#guests].filter(([, guest]) => isMeant(guest));
  }

  /** Ends the one of these that has been idle for longest: a stranger's, else one that no paired host has used. */
  #endOne(candidates: readonly [Connection, Guest][]): boolean {
    const strangers = candidates.filter(([, guest]) => this.#isStranger(guest));
    const unproven = candidates.filter(([, guest]) => !guest.isPaired);
    const [idlest, ...others] = strangers.length > 0 ? strangers : unproven;
    if (!idlest) return false;
    let chosen = idlest;
    for (const each of [idlest, ...others]) {
      this.#look(each);
      if (each[1].activeAtMs < chosen[1].activeAtMs) chosen = each;
    }
    this.leave(chosen[0]);
    chosen[0].destroy();
    return true;
  }

  /** One that was read from since the last look is not idle. */
  #look([{ bytesRead }, guest]: [Connection, Guest]): void {
    if (bytesRead === guest.bytesRead) return;
    guest.bytesRead = bytesRead;
    guest.activeAtMs = this.#monotonicMs();
  }
}

/** Those of the address that has most of them. */
function fullestAddress(guests: readonly [Connection, Guest][]): readonly [Connection, Guest][] {
  const byGroup = new Map<string, [Connection, Guest][]>();
  for (const each of guests) {
    const ofGroup = byGroup.get(each[1].group);
    if (ofGroup) ofGroup.push(each);
    else byGroup.set(each[1].group, [each]);
  }
  return [...byGroup.values()].reduce<readonly [Connection, Guest][]>(
    (most, ofGroup) => (ofGroup.length > most.length ? ofGroup : most),
    [],
  );
}

/** A link-local address counts by itself, whatever its zone. */
export function groupOf(address: string): string {
  return addressGroup(address.replace(/%.*$/, '')) ?? address;
}
