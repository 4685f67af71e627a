/**
 * Sends this host's new key to a paired host: the rotations, oldest first, then the key to seal to.
 *
 * The peer's row says which key it has pinned, so this host sends the new one until the peer has it, even across restarts.
 */
import type { PeerRow } from '../core/rows.ts';
import { encKeyDocument, rotationsSince } from '../peers/identity.ts';
import type { HostContext } from '../context.ts';
import { markPinnedOurKey } from '../peers/peers.ts';
import { type CalledHost, type LanClient, LanCallFailed } from './lan-client.ts';

/**
 * Returns whether there was anything to send. `anyway`: the peer does not know this host's key although it should, so
 * everything is sent. Throws `LanCallFailed`.
 */
export async function sendOwnKey(
  context: HostContext,
  client: LanClient,
  host: CalledHost & { peer: PeerRow },
  anyway = false,
): Promise<boolean> {
  const { publicKey } = context.identity().signer;
  if (host.peer.pinnedOurKey === publicKey && !anyway) return false;
  const identity = await context.store.read((reader) => reader.get('identity'));
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
  await client.encKey(host, encKeyDocument(context.identity()));
  await context.store.transact((tx) => markPinnedOurKey(tx, host.peer.peerId, publicKey));
  return true;
}
