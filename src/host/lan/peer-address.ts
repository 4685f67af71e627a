/**
 * LAN addresses of hosts, as they are stored and sent (`host:port` that a URL can carry), and where a paired host
 * listens that calls from another address than the known one.
 *
 * A host may listen elsewhere than it calls from (two networks, a tunnel), and somebody else may pass its calls on. So
 * this host changes an address only to one that the peer signs as its own, for a fresh nonce, and only when the peer no
 * longer signs the known one.
 */
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import { currentKey } from '../peers/peers.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import {
  hostsListenedAt,
  parseListenAddress,
  type ListenAddress,
  listenAddressText,
} from '../../lib/listen-address.ts';
import type { LanClient } from './lan-client.ts';
import { networkInterfaces } from 'node:os';
import { LanAddressText } from '../../protocol/lan.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { isSameAddress } from '../../http/connections.ts';

const parse = parserOf(LanAddressText);

/** `host:port`; null for an address that no URL can carry, such as a link-local one with its zone, or port 0. */
export function callableAddress(address: ListenAddress): string | null {
  return parse(listenAddressText(address)) ?? null;
}

/**
 * Tells whether `address` is `calledAt`, this host's end of the connection, or the address that the
 * configuration advertises. Another address of this machine does not count: a connection to it would end there.
 */
export function isDialledAt(address: string, calledAt: ListenAddress, advertised: string | undefined): boolean {
  if (address.toLowerCase() === advertised?.toLowerCase()) return true;
  const dialled = parseListenAddress(address);
  return dialled?.port === calledAt.port && isSameAddress(dialled.host, calledAt.host);
}

/** The addresses of this host's listener that other machines can call, for the owner of the other host. */
export function ownAddresses({ host, port }: ListenAddress, interfaces = networkInterfaces()): string[] {
  const callable = hostsListenedAt(host, interfaces)
    .map((each) => callableAddress({ host: each, port }))
    .filter((each) => each !== null);
  return callable.length > 0 ? callable : [listenAddressText({ host, port })];
}

/** The time until the next check of a peer that calls from the same address. */
const CHECK_AGAIN_MS = 60_000;

export class PeerAddressCheck {
  readonly #context: HostContext;
  readonly #client: LanClient;
  readonly #checked = new Map<PeerId, { from: string; atMs: number }>();

  constructor(context: HostContext, client: LanClient) {
    this.#context = context;
    this.#client = client;
  }

  /** The new address of the peer; undefined when the known one still holds. */
  async addressAfterCall(peer: PeerRow, from: string): Promise<string | undefined> {
    const known = peer.address === null ? undefined : parseListenAddress(peer.address);
    // A name is looked up for every call.
    if (known && (known.host === from || isName(known.host))) return undefined;
    const port = known?.port ?? peer.port;
    const moved = port === undefined ? null : callableAddress({ host: from, port });
    if (moved === null || !this.#mayCheck(peer.peerId, from)) return undefined;
    const { publicKey } = currentKey(peer);
    if (peer.address !== null && (await this.#client.isAt({ address: peer.address, publicKey }))) return undefined;
    return (await this.#client.isAt({ address: moved, publicKey })) ? moved : undefined;
  }

  /** The address of a host that is about to be paired: the one it calls from, if it signs that as its own. */
  async addressOfCaller(caller: {
    publicKey: PublicKey;
    port: number | undefined;
    from: string;
  }): Promise<string | null> {
    const { publicKey, port, from } = caller;
    const address = port === undefined ? null : callableAddress({ host: from, port });
    return address !== null && (await this.#client.isAt({ address, publicKey })) ? address : null;
  }

  #mayCheck(peerId: PeerId, from: string): boolean {
    const nowMs = this.#context.monotonicMs();
    const last = this.#checked.get(peerId);
    if (last?.from === from && nowMs - last.atMs < CHECK_AGAIN_MS) return false;
    this.#checked.set(peerId, { from, atMs: nowMs });
    return true;
  }
}

function isName(host: string): boolean {
  return /[a-z]/i.test(host) && !host.includes(':');
}
