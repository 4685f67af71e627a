/**
 * Learns from the relay that a paired host goes on under another key: the relay shows the records that hosts posted,
 * and both keys signed each of them.
 *
 * Invariant: nothing rests on the relay's word. A record counts exactly as it would over the LAN: it begins at the key
 * that is pinned, and both signatures verify (`learnRotation`). A relay that shows none changes nothing.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { IncomingItem } from '../inbound/verify.ts';
import { peerOfKey } from '../peers/peers.ts';
import type { HostContext } from '../base/context.ts';
import { claimedHost } from '../wire/parse.ts';
import { currentKey, learnRotation, peerOfName } from '../peers/peers.ts';
import { RelayCallFailed, RelayProblem } from './relay-request.ts';
import type { RelaySession } from './connect.ts';

/** Rotations of one host that are followed at a time. */
const FOLLOWED_MAX = 64;

interface PeerRotationsOptions {
  context: HostContext;
  /** A key was learned that something in quarantine may wait for. */
  keyLearned: () => void;
}

export class PeerRotations {
  readonly #options: PeerRotationsOptions;

  constructor(options: PeerRotationsOptions) {
    this.#options = options;
  }

  /** The peer with its newest key that the relay can prove. Throws `RelayCallFailed`. */
  async newestOf(session: RelaySession, peer: PeerRow): Promise<PeerRow> {
    const { context, keyLearned } = this.#options;
    let newest = peer;
    for (let followed = 0; followed < FOLLOWED_MAX; followed++) {
      const next = await this.#next(session, newest);
      if (!next) break;
      newest = next;
    }
    if (newest !== peer) {
      context.log('info', 'a paired host goes on under another key, as the relay proved', { host: peer.hostName });
      keyLearned();
    }
    return newest;
  }

  /**
   * Before items are taken: an item under an unknown key that claims to be from a paired host may be under that host's
   * new key. The relay is asked once for each such host. Throws `RelayCallFailed`.
   */
  async learnSenders(session: RelaySession, items: readonly IncomingItem[]): Promise<void> {
    if (session.protocol === 1) return;
    const peers = await this.#options.context.store.read((reader) => {
      const found = new Map<PeerId, PeerRow>();
      for (const item of items) {
        if (peerOfKey(reader, item.senderPubkey)) continue;
        const host = claimedHost(item);
        const peer = host && peerOfName(reader, host);
        if (peer) found.set(peer.peerId, peer);
      }
      return [...found.values()];
    });
    for (const peer of peers) await this.newestOf(session, peer);
  }

  /** The peer under the key after the one that is pinned; `undefined` when none was proven. */
  async #next(session: RelaySession, peer: PeerRow): Promise<PeerRow | undefined> {
    const { context } = this.#options;
    const { publicKey } = currentKey(peer);
    const rotation = await rotationAt(session, publicKey);
    if (rotation?.rec.old_pubkey !== publicKey) return undefined;
    const learned = await context.store.transact((tx) => learnRotation(tx, context, rotation));
    if (learned === 'refused')
      context.log('warn', 'the relay shows a rotation that does not verify', { key: publicKey });
    const after = await context.store.read((reader) => reader.get('peer', peer.peerId));
    return after && after.unpairedAtMs === null && currentKey(after).publicKey !== publicKey ? after : undefined;
  }
}

/** Problems of 4xx that pass, or that say something of the session and not of this request. */
const NOT_OF_THE_REQUEST: ReadonlySet<number> = new Set([401, 408, 409, 425, 429]);

/**
 * A relay that does not know the request, as those of before it and those of others, has nothing to show: mail that
 * waits behind an unknown key is not held up by it.
 */
async function rotationAt(
  session: RelaySession,
  key: PublicKey,
): ReturnType<Extract<RelaySession, { protocol: 2 }>['client']['rotationOf']> {
  if (session.protocol === 1) return null;
  try {
    return await session.client.rotationOf(key);
  } catch (error) {
    if (error instanceof RelayCallFailed && isNoAnswerToThis(error)) return null;
    throw error;
  }
}

/** Whether another try would end the same: the relay refuses the request as such, or answers something else. */
function isNoAnswerToThis(error: RelayCallFailed): boolean {
  const { status } = error;
  if (!(error instanceof RelayProblem)) return status === 200;
  return status === 501 || (status >= 400 && status < 500 && !NOT_OF_THE_REQUEST.has(status));
}
