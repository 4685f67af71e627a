/**
 * Finds out where a paired host listens that calls from another address than the known one.
 *
 * A host may listen elsewhere than it calls from (two networks, a tunnel), and somebody else may pass its calls on. So
 * this host changes an address only to one that the peer signs as its own, for a fresh nonce, and only when the peer no
 * longer signs the known one.
 */
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { HostContext } from '../context.ts';
import { currentKey } from '../peers/peers.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parseListenAddress } from '../../lib/listen-address.ts';
import { callableAddress } from '../peers/callable-address.ts';
import type { LanClient } from './lan-client.ts';

/** Until the next check of a peer that calls from the same address. */
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
