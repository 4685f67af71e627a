/** Calls a paired host over the LAN to see how it answers. Changes nothing here or there. */
import { displayFingerprint, parsePublicKey } from '../../../protocol/public-key.ts';
import type { PeerProbe } from '../../core/doctor/peer-checks.ts';
import type { PeerRow } from '../../core/rows.ts';
import type { Office } from '../../office/office.ts';
import { currentKey } from '../../office/peers.ts';
import { type LanClient, LanCallFailed } from '../lan-client.ts';

export async function probePeer(office: Office, client: LanClient, peer: PeerRow): Promise<PeerProbe> {
  const { address } = peer;
  if (address === null) return { type: 'no-address' };
  try {
    const { publicKey } = currentKey(peer);
    const askedMs = office.nowMs();
    const { pubkey, now } = await client.hello(address);
    const aheadMs = Math.round((askedMs + office.nowMs()) / 2 - now);
    const shown = parsePublicKey(pubkey);
    if (shown && shown !== publicKey) return { type: 'another-host', fingerprint: displayFingerprint(shown) };
    const agents = await client.agents({ address, publicKey });
    return { type: 'answered', agents: agents.length, aheadMs };
  } catch (error) {
    if (!(error instanceof LanCallFailed)) throw error;
    const { message: reason, code, isAnswered } = error;
    return isAnswered ? { type: 'refused', code, reason } : { type: 'unreached', reason };
  }
}
