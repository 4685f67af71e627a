/** An item as a peer or a relay brought it, and who is behind a key. */
import type { Epoch } from '../../protocol/epoch.ts';
import type { ItemKind } from '../../protocol/items.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import type { PeerRow } from '../core/rows.ts';
import { type Judgement, keep } from './verdict.ts';
import type { Reader } from '../store/host-store.ts';

export interface IncomingItem {
  via: 'lan' | 'relay';
  /** The relay that it came from, and its place there as far as v1 tells; null over the LAN. */
  relay: { pubkey: PublicKey; epoch: Epoch; seq: number | null } | null;
  kind: ItemKind;
  itemId: string;
  wire: Buffer;
  /** Whoever brought it: by its verified hop over the LAN, by the relay's word otherwise. */
  senderPubkey: PublicKey;
}

/** The paired host that has this key now or had it, or why there is none. */
export function signingPeer(reader: Reader, key: PublicKey): PeerRow | Judgement {
  const peer = peerOfKey(reader, key);
  if (!peer) return keep('unknown-sender', 'it is signed by a key of no paired host');
  if (peer.unpairedAtMs !== null) return keep('unpaired', `${peer.hostName} is not paired with this host any more`);
  return peer;
}

/**
 * Whether an item that `signingKey` of the peer signed was brought by the peer, or under a key that is nobody's as far as
 * is known: a peer's new key may be seen at a relay first.
 */
export function isBroughtBy(reader: Reader, peer: PeerRow, signingKey: PublicKey, key: PublicKey): boolean {
  if (key === signingKey) return true;
  const owner = peerOfKey(reader, key);
  return !owner || owner.peerId === peer.peerId;
}

export function peerOfKey(reader: Reader, key: PublicKey): PeerRow | undefined {
  // A relay's word is any text.
  const peerId = parsePublicKey(key) && reader.get('peerKey', key);
  const peer = peerId === undefined ? undefined : reader.get('peer', peerId);
  return peer?.keys.some(({ publicKey }) => publicKey === key) ? peer : undefined;
}
