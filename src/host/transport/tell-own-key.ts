/**
 * Tells a paired host that this one goes on under a new key: the rotations, oldest first, then the key to seal to.
 *
 * What the peer has pinned is kept with its row, so that it is told until it knows, however often the daemon ends.
 */
import type { PeerRow } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { rotationsSince } from '../office/own-key.ts';
import { markPinnedOurKey } from '../office/peers.ts';
import { type CalledHost, type LanClient, LanCallFailed } from './lan-client.ts';
import { encKeyDocument } from './lan-routes.ts';

/**
 * Whether there was anything to tell. `anyway`: the peer does not know this host's key although it should: it is told
 * everything. Throws `LanCallFailed`.
 */
export async function tellOwnKey(
  office: Office,
  client: LanClient,
  host: CalledHost & { peer: PeerRow },
  anyway = false,
): Promise<boolean> {
  const { publicKey } = office.identity().signer;
  if (host.peer.pinnedOurKey === publicKey && !anyway) return false;
  const identity = await office.store.read((reader) => reader.get('identity'));
  if (!identity) throw new Error('invariant: a store has an identity');
  const rotations = anyway ? identity.rotations : rotationsSince(identity, host.peer.pinnedOurKey);
  for (const rotation of rotations) {
    try {
      await client.rotate(host, rotation);
    } catch (error) {
      // It may have pinned this host under a later key.
      if (!anyway || !(error instanceof LanCallFailed) || !error.isAnswered) throw error;
    }
  }
  await client.encKey(host, encKeyDocument(office));
  await office.store.transact((tx) => markPinnedOurKey(tx, host.peer.peerId, publicKey));
  return true;
}
