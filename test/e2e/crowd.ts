/**
 * A crowd of strangers at a relay: connections that are held, that send or read slowly, that ask for challenges and
 * send bodies without end. They come from other loopback addresses than honest hosts, as strangers do.
 */
import { once, setMaxListeners } from 'node:events';
import { type Socket, connect } from 'node:net';
import { setTimeout as elapsed } from 'node:timers/promises';
import { hopBytes } from '../support/hops.ts';
import type { TestHost } from '../support/hosts.ts';
import { requestBytes } from '../support/raw-http.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';

/** Strangers have as many addresses as this. */
const ADDRESSES = 16;
const BODY_BYTES = 256 << 10;
const BYTE_EVERY_MS = 200;
const AGAIN_EVERY_MS = 1_000;
const OPENED_AT_ONCE = 50;

export interface CrowdedRelay {
  port: number;
  relayPubkey: PublicKey;
  /** A host for which so much waits that a page fills every buffer. */
  reader: TestHost;
}

/** The acts of a connection until `signal` aborts; it may be closed by the relay, and then opens another. */
type Manner = (socket: Socket, relay: CrowdedRelay, signal: AbortSignal) => Promise<void>;

const MANNERS: Readonly<Record<string, Manner>> = {
  held: async (socket, _relay, signal) => {
    while (!socket.destroyed) {
      socket.write(requestBytes('GET', '/v2/relay/info', {}));
      await elapsed(AGAIN_EVERY_MS, undefined, { signal });
    }
  },
  'slow writer': async (socket, _relay, signal) => {
    const bytes = requestBytes('POST', '/v2/relay/items', {}, Buffer.alloc(BODY_BYTES, 'a'));
    for (let at = 0; at < bytes.length && !socket.destroyed; at++) {
      socket.write(bytes.subarray(at, at + 1));
      await elapsed(BYTE_EVERY_MS, undefined, { signal });
    }
  },
  'slow reader': async (socket, { relayPubkey, reader }, signal) => {
    socket.pause();
    const target = '/v2/relay/items?after=0';
    socket.write(hopBytes({ host: reader, relayPubkey, method: 'GET', target, timestamp: Date.now() }));
    while (!socket.destroyed) {
      await elapsed(AGAIN_EVERY_MS, undefined, { signal });
      socket.read(1);
    }
  },
  challenges: async (socket, { reader }, signal) => {
    const request = requestBytes('POST', '/v1/relay/challenge', {}, JSON.stringify({ pubkey: reader.key }));
    while (!socket.destroyed && !signal.aborted) {
      socket.write(request);
      await once(socket, 'data', { signal });
    }
  },
  bodies: async (socket, _relay, signal) => {
    const request = requestBytes('POST', '/v2/relay/items', {}, Buffer.alloc(BODY_BYTES, 'a'));
    while (!socket.destroyed && !signal.aborted) {
      if (!socket.write(request)) await once(socket, 'drain', { signal });
      await once(socket, 'data', { signal });
    }
  },
};

/** The number of each kind among a hundred connections. A quarter of all reads or writes slowly. */
const SHARES: Readonly<Record<string, number>> = {
  held: 55,
  'slow writer': 13,
  'slow reader': 12,
  challenges: 10,
  bodies: 10,
};

export class Crowd {
  readonly #ending = new AbortController();
  readonly #members: Promise<void>[] = [];
  readonly #open = new Set<Socket>();
  /** The number of connections that were opened, by their kind. */
  readonly opened: Record<string, number> = {};

  /** Resolves when so many connections are open. */
  static async of(count: number, relay: CrowdedRelay): Promise<Crowd> {
    const crowd = new Crowd();
    // One or two for each connection.
    setMaxListeners(0, crowd.#ending.signal);
    const manners = Object.entries(SHARES).flatMap(([name, share]) =>
      Array.from({ length: Math.round((count * share) / 100) }, () => name),
    );
    for (let from = 0; from < manners.length; from += OPENED_AT_ONCE)
      await Promise.all(
        manners.slice(from, from + OPENED_AT_ONCE).map((name, at) => crowd.#join(name, from + at, relay)),
      );
    return crowd;
  }

  /** The kinds of the connections that it has open now. */
  get size(): number {
    return this.#open.size;
  }

  async leave(): Promise<void> {
    this.#ending.abort();
    for (const socket of this.#open) socket.destroy();
    await Promise.all(this.#members);
  }

  /** Resolves when its first connection is open. */
  async #join(name: string, at: number, relay: CrowdedRelay): Promise<void> {
    const first = await this.#connected(at, relay.port);
    this.#members.push(this.#stay(name, at, relay, first));
  }

  async #stay(name: string, at: number, relay: CrowdedRelay, first: Socket | undefined): Promise<void> {
    const { signal } = this.#ending;
    for (let socket = first; !signal.aborted; socket = await this.#connected(at, relay.port)) {
      // The relay turns away whom it has no room for.
      if (!socket) {
        await elapsed(AGAIN_EVERY_MS, undefined, { signal }).catch(() => undefined);
        continue;
      }
      this.opened[name] = (this.opened[name] ?? 0) + 1;
      await MANNERS[name]?.(socket, relay, signal).catch(() => undefined);
      socket.destroy();
    }
  }

  #connected(at: number, port: number): Promise<Socket | undefined> {
    return new Promise((resolve) => {
      const localAddress = `127.0.0.${2 + (at % ADDRESSES)}`;
      const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true });
      this.#open.add(socket);
      socket.on('error', () => undefined);
      socket.once('connect', () => {
        // What is answered matters to nobody here.
        if (!socket.isPaused()) socket.resume();
        resolve(socket);
      });
      socket.once('close', () => {
        this.#open.delete(socket);
        resolve(undefined);
      });
    });
  }
}
