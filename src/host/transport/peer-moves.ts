/**
 * Notices that a paired host has moved: it calls from another address than it is known at.
 *
 * Where a call comes from is not where a host listens (two networks, a tunnel), and a hop may be repeated by somebody
 * else. So the address is changed only when the host answers at the new one and not at the old one any more.
 */
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { currentKey } from '../office/peers.ts';
import { parseListenAddress } from '../../system/listen-address.ts';
import { callableAddress } from './callable-address.ts';
import { type LanClient, LanCallFailed } from './lan-client.ts';

/** How soon a peer is looked for again that was found where it was known. */
const LOOK_AGAIN_MS = 60_000;

export class PeerMoves {
  readonly #office: Office;
  readonly #client: LanClient;
  readonly #looked = new Map<PeerId, { from: string; atMs: number }>();

  constructor(office: Office, client: LanClient) {
    this.#office = office;
    this.#client = client;
  }

  /** Where the peer listens now, when that is somewhere else than was known. */
  async addressAfterCall(peer: PeerRow, from: string): Promise<string | undefined> {
    const known = peer.address === null ? undefined : parseListenAddress(peer.address);
    // A name is looked up for every call.
    if (!known || known.host === from || isName(known.host)) return undefined;
    const moved = callableAddress({ host: from, port: known.port });
    if (moved === null || !this.#mayLook(peer.peerId, from)) return undefined;
    const { publicKey } = currentKey(peer);
    if (await this.#answersAt(peer.address ?? '', publicKey)) return undefined;
    return (await this.#answersAt(moved, publicKey)) ? moved : undefined;
  }

  #mayLook(peerId: PeerId, from: string): boolean {
    const nowMs = this.#office.monotonicMs();
    const last = this.#looked.get(peerId);
    if (last?.from === from && nowMs - last.atMs < LOOK_AGAIN_MS) return false;
    this.#looked.set(peerId, { from, atMs: nowMs });
    return true;
  }

  async #answersAt(address: string, publicKey: string): Promise<boolean> {
    try {
      return (await this.#client.hello(address)).pubkey === publicKey;
    } catch (error) {
      if (error instanceof LanCallFailed) return false;
      throw error;
    }
  }
}

function isName(host: string): boolean {
  return /[a-z]/i.test(host) && !host.includes(':');
}
