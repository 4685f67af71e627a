/**
 * Limits the open connections of one listener, in total and for each address, and groups addresses by client: an IPv6
 * client usually holds a whole /64 network.
 *
 * A connection beyond a limit closes another one. When an address has too many, it loses its own longest idle
 * connection. When all are taken, the address with the most connections loses its longest idle one. Connections whose
 * request is proven to come from a known host count apart from those of strangers, to whom an eighth of all is
 * reserved. So strangers cannot close the pull of a host, and hosts cannot keep a stranger from proving who it is.
 *
 * Invariants: an open connection is in exactly one pool; each set is ordered by activity, the longest idle first; every
 * step is O(1).
 */

import { isIPv4, isIPv6 } from 'node:net';

export interface ConnectionLimits {
  /** The connections in total; at least 2. */
  max: number;
  /** The connections of one address; at least 2. */
  perAddressMax: number;
}

export interface ConnectionsOptions extends ConnectionLimits {
  /**
   * Says whether the peers are proxies of ours. Then a connection counts against the client that its request names, and
   * between requests against no address.
   */
  arePeersProxies: boolean;
  /** Groups peer addresses otherwise than by `networkOf`. */
  groupOf?: (peerAddress: string) => string;
  /** A connection was closed to make room for another. */
  displaced?: (why: Displacement) => void;
}

/** The limit that was reached. */
export type Displacement = 'all' | 'address';

/**
 * The share of connections that is reserved to strangers: beyond it, theirs are closed before those of proven hosts.
 */
const STRANGERS_SHARE = 1 / 8;

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #strangers = new Pool();
  readonly #proven = new Pool();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  get open(): number {
    return this.#strangers.size + this.#proven.size;
  }

  /** Adds a new connection. `close` must close it; it is called when the connection has to make room for another. */
  opened(peerAddress: string, close: () => void): Connection {
    const { max, groupOf = networkOf } = this.#options;
    const connection = new Connection(this, groupOf(peerAddress), close);
    this.#strangers.add(connection);
    if (this.open > max) {
      const strangersFirst = this.#strangers.size > Math.max(1, max * STRANGERS_SHARE) || this.#proven.size === 0;
      const victim = (strangersFirst ? this.#strangers : this.#proven).idlestOfLargest(connection);
      this.#displace(victim, 'all');
    }
    if (!this.#options.arePeersProxies) this.#limitAddress(connection);
    return connection;
  }

  /** Only connections call this: changes what a connection counts as. */
  move(connection: Connection, change: () => void): void {
    this.#poolOf(connection).delete(connection);
    change();
    this.#poolOf(connection).add(connection);
  }

  /** Only connections call this: the client of the current request is known. */
  named(connection: Connection, address: string): void {
    if (connection.address === address) return;
    this.move(connection, () => void (connection.address = address));
    this.#limitAddress(connection);
  }

  /** Only connections call this: the peer has sent or received something. */
  moved(connection: Connection): void {
    this.#poolOf(connection).moved(connection);
  }

  /** Only connections call this. */
  closed(connection: Connection): void {
    this.#poolOf(connection).delete(connection);
  }

  #poolOf(connection: Connection): Pool {
    return connection.isProven ? this.#proven : this.#strangers;
  }

  #limitAddress(newcomer: Connection): void {
    const { address } = newcomer;
    const strangers = this.#strangers.of(address);
    const proven = this.#proven.of(address);
    if (strangers.size + proven.size <= this.#options.perAddressMax) return;
    this.#displace(idlestBut(newcomer, strangers) ?? idlestBut(newcomer, proven), 'address');
  }

  #displace(victim: Connection | undefined, why: Displacement): void {
    if (!victim) return;
    victim.displace();
    this.#options.displaced?.(why);
  }
}

/**
 * Limits those of a listener that only this machine or few clients reach: at most `max` in total, and no limit for an
 * address.
 */
export function connectionsOfAll(max: number): Connections {
  return new Connections({ max, perAddressMax: max, arePeersProxies: false, groupOf: (address) => address });
}

export class Connection {
  /** The address against which it counts now. */
  address: string;
  isProven = false;
  readonly #connections: Connections;
  readonly #peerAddress: string;
  readonly #close: () => void;
  #isClosed = false;

  /** Only `Connections.opened` calls this. */
  constructor(connections: Connections, peerAddress: string, close: () => void) {
    this.#connections = connections;
    this.#peerAddress = peerAddress;
    this.#close = close;
    this.address = peerAddress;
  }

  /** Call this when the peer has sent or received something. */
  moved(): void {
    if (!this.#isClosed) this.#connections.moved(this);
  }

  /** Call this when the current request comes from the client at `address`, which is not the peer behind a proxy. */
  named(address: string): void {
    if (!this.#isClosed) this.#connections.named(this, address);
  }

  /** Call this when the current request is proven to come from a known host. */
  proven(): void {
    if (!this.#isClosed && !this.isProven) this.#connections.move(this, () => void (this.isProven = true));
  }

  /** Call this when the request is over. */
  settled(): void {
    if (this.#isClosed) return;
    if (!this.isProven && this.address === this.#peerAddress) return this.#connections.moved(this);
    this.#connections.move(this, () => {
      this.isProven = false;
      this.address = this.#peerAddress;
    });
  }

  /** Call this when the connection is closed. May be called again. */
  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connections.closed(this);
  }

  /** Closes the connection to make room for another. */
  displace(): void {
    this.closed();
    this.#close();
  }
}

/** Connections by address, and the addresses by how many they have. */
class Pool {
  readonly #byAddress = new Map<string, Set<Connection>>();
  /** Addresses by their number of connections, in the order in which they reached it. */
  readonly #bySize = new Map<number, Set<string>>();
  #largest = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  of(address: string): ReadonlySet<Connection> {
    return this.#byAddress.get(address) ?? EMPTY;
  }

  add(connection: Connection): void {
    const { address } = connection;
    const own = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, own);
    own.add(connection);
    this.#size++;
    this.#resized(address, own.size - 1, own.size);
  }

  delete(connection: Connection): void {
    const { address } = connection;
    const own = this.#byAddress.get(address);
    if (!own?.delete(connection)) return;
    if (own.size === 0) this.#byAddress.delete(address);
    this.#size--;
    this.#resized(address, own.size + 1, own.size);
  }

  moved(connection: Connection): void {
    const own = this.#byAddress.get(connection.address);
    if (own?.delete(connection)) own.add(connection);
  }

  /** The longest idle connection, other than `newcomer`, of the address with the most connections. */
  idlestOfLargest(newcomer: Connection): Connection | undefined {
    for (let size = this.#largest; size > 0; size--) {
      for (const address of this.#bySize.get(size) ?? []) {
        const found = idlestBut(newcomer, this.of(address));
        if (found) return found;
      }
    }
    return undefined;
  }

  #resized(address: string, before: number, after: number): void {
    const peers = this.#bySize.get(before);
    peers?.delete(address);
    if (peers?.size === 0) this.#bySize.delete(before);
    if (after > 0) {
      const others = this.#bySize.get(after) ?? new Set();
      this.#bySize.set(after, others.add(address));
    }
    this.#largest = after > this.#largest || this.#bySize.has(this.#largest) ? Math.max(after, this.#largest) : after;
  }
}

const EMPTY: ReadonlySet<Connection> = new Set();

function idlestBut(newcomer: Connection, connections: ReadonlySet<Connection>): Connection | undefined {
  for (const connection of connections) if (connection !== newcomer) return connection;
  return undefined;
}

/** The network of a client, which may hold many addresses, or the address itself. */
export function networkOf(address: string): string {
  return addressGroup(address) ?? address;
}

/** An IPv4 address itself, IPv4-mapped IPv6 as IPv4, other IPv6 as its /64; `undefined` for any other text. */
export function addressGroup(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const groups = ipv6Groups(text);
  if (!groups) return undefined;
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  }
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** Says whether two texts are the same IP address in any notation. A host name never is. */
export function isSameAddress(one: string, other: string): boolean {
  const groups = wholeAddress(one);
  return groups !== undefined && groups === wholeAddress(other);
}

function wholeAddress(text: string): string | undefined {
  if (isIPv4(text)) return ipv6Groups(`::ffff:${text}`)?.join(':');
  return ipv6Groups(text)?.join(':');
}

/** The eight 16-bit groups of an IPv6 address without zone. */
function ipv6Groups(text: string): number[] | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const dotted = text.lastIndexOf('.') > 0 ? text.slice(text.lastIndexOf(':') + 1) : undefined;
  const plain = dotted === undefined ? text : text.slice(0, -dotted.length) + dottedGroups(dotted);
  const [before = '', after] = plain.split('::');
  const left = before === '' ? [] : before.split(':');
  const right = after === undefined || after === '' ? [] : after.split(':');
  const zeros = after === undefined ? [] : Array.from({ length: 8 - left.length - right.length }, () => '0');
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16));
}

function dottedGroups(dotted: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number);
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}
