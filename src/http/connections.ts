/**
 * The open connections of one listener: at most so many in all, and at most so many of one address.
 *
 * One more than that closes another one: of an address that has too many its own idlest; when all are taken, the idlest
 * of the address with most. A connection whose request is proven to come from a host that we know counts apart from
 * those of strangers, who have an eighth of all to themselves: strangers in any number close no host's pull, and hosts in
 * any number keep no stranger from proving who it is.
 *
 * Invariants: a connection is in exactly one pool, or closed; sets are in the order in which their connections were idle,
 * the idlest first; every step is O(1).
 */

export interface ConnectionLimits {
  /** In all; at least 2. */
  max: number;
  /** Of one address; at least 2. */
  perAddressMax: number;
}

export interface ConnectionsOptions extends ConnectionLimits {
  /**
   * Whether the peers are proxies of ours: a connection counts against the client that its request names, and against
   * no address while it has none.
   */
  arePeersProxies: boolean;
  /** Who a peer address stands for: a client has many addresses of one network. */
  groupOf: (peerAddress: string) => string;
  /** Told why a connection was closed for another. */
  displaced?: (why: Displacement) => void;
}

/** What was full. */
export type Displacement = 'all' | 'address';

/** Strangers may have this share of all connections before one of theirs has to go for a proven host's. */
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

  /** One more is there; `close` closes it, and is called when it has to go for another. */
  opened(peerAddress: string, close: () => void): Connection {
    const { max, groupOf } = this.#options;
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

  /** For connections only: what they count as changed. */
  move(connection: Connection, change: () => void): void {
    this.#poolOf(connection).delete(connection);
    change();
    this.#poolOf(connection).add(connection);
  }

  /** For connections only: the client of its request is known. */
  named(connection: Connection, address: string): void {
    if (connection.address === address) return;
    this.move(connection, () => void (connection.address = address));
    this.#limitAddress(connection);
  }

  /** For connections only: its peer sent or took something. */
  moved(connection: Connection): void {
    this.#poolOf(connection).moved(connection);
  }

  /** For connections only. */
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

/** For listeners that few may reach: at most `max` in all, from any address. */
export function connectionsOfAll(max: number): Connections {
  return new Connections({ max, perAddressMax: max, arePeersProxies: false, groupOf: (address) => address });
}

export class Connection {
  /** Whom it counts against now. */
  address: string;
  isProven = false;
  readonly #connections: Connections;
  readonly #peerAddress: string;
  readonly #close: () => void;
  #isClosed = false;

  /** For `Connections.opened`. */
  constructor(connections: Connections, peerAddress: string, close: () => void) {
    this.#connections = connections;
    this.#peerAddress = peerAddress;
    this.#close = close;
    this.address = peerAddress;
  }

  /** The peer sent or took something. */
  moved(): void {
    if (!this.#isClosed) this.#connections.moved(this);
  }

  /** The request under way is of the client at `address`: behind a proxy that is not the peer. */
  named(address: string): void {
    if (!this.#isClosed) this.#connections.named(this, address);
  }

  /** The request under way is proven to come from a host that we know. */
  proven(): void {
    if (!this.#isClosed && !this.isProven) this.#connections.move(this, () => void (this.isProven = true));
  }

  /** The request is over. */
  settled(): void {
    if (this.#isClosed) return;
    if (!this.isProven && this.address === this.#peerAddress) return this.#connections.moved(this);
    this.#connections.move(this, () => {
      this.isProven = false;
      this.address = this.#peerAddress;
    });
  }

  /** It is no longer open; harmless when that is known. */
  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connections.closed(this);
  }

  /** Closes it for another. */
  displace(): void {
    this.closed();
    this.#close();
  }
}

/** Connections by address, and the addresses by how many they have. */
class Pool {
  readonly #byAddress = new Map<string, Set<Connection>>();
  /** The addresses that have so many, in the order in which they came to have them. */
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

  /** The idlest connection of the address with most, `newcomer` left out. */
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
