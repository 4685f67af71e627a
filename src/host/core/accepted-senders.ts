/** Whose mail a relay is to take for this host: the paired hosts. Pure. */
import { LISTED_SENDERS_MAX } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerRow } from './rows.ts';

/**
 * Every key that a paired host has now, and then of its former ones as many as a list holds, those that retired last
 * first: a relay whose store was restored may know a host by one of them.
 */
export function acceptedSenders(peers: readonly Pick<PeerRow, 'keys' | 'unpairedAtMs'>[]): PublicKey[] {
  const keys = peers.filter(({ unpairedAtMs }) => unpairedAtMs === null).flatMap((peer) => peer.keys);
  const newestFirst = keys.toSorted((a, b) => (b.retiredAtMs ?? Infinity) - (a.retiredAtMs ?? Infinity) || 0);
  return newestFirst
    .slice(0, LISTED_SENDERS_MAX)
    .map(({ publicKey }) => publicKey)
    .toSorted();
}
