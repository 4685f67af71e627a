/** The relays of this host at which a paired host was seen to be enrolled. Pure. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerRow } from './rows.ts';

type AtRelays = Pick<PeerRow, 'atRelay' | 'alsoAt'>;

/** In the order in which this host prefers them. */
export function relaysOfPeer({ atRelay, alsoAt = [] }: AtRelays): PublicKey[] {
  return atRelay ? [atRelay, ...alsoAt] : [];
}

export function peerIsAt(peer: AtRelays, relayPubkey: PublicKey): boolean {
  return relaysOfPeer(peer).includes(relayPubkey);
}

/** The members of the row of a peer that is enrolled at these relays. */
export function atRelays([atRelay, ...alsoAt]: readonly PublicKey[]): AtRelays {
  return { ...(atRelay && { atRelay }), ...(alsoAt.length > 0 && { alsoAt }) };
}
