/** Notes in a peer's row whether it answers over the LAN: what waits for it goes out when it does. */
import type { HostContext } from '../base/context.ts';
import type { PeerId } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';
import { afterPeerChange } from './outbox.ts';

/** A peer that answers again and again is noted in its row no more often than this, as most reads take that row. */
const NOTE_REACHED_MS = 1_000;

/** Records that the peer answered over the LAN, or called from `address`. */
export async function markReached(
  tx: Transaction,
  context: HostContext,
  peerId: PeerId,
  address?: string,
): Promise<void> {
  const peer = tx.get('peer', peerId);
  if (!peer || peer.unpairedAtMs !== null) return;
  const isNews = peer.lanFailures > 0 || (address !== undefined && address !== peer.address);
  const sinceMs = context.nowMs() - (peer.reachedAtMs ?? 0);
  if (!isNews && sinceMs >= 0 && sinceMs < NOTE_REACHED_MS) return;
  tx.put('peer', [peerId], {
    ...peer,
    reachedAtMs: context.nowMs(),
    lanFailures: 0,
    ...(address !== undefined && { address }),
  });
  if (isNews) await afterPeerChange(tx, context, peerId, { type: 'peer-reached' });
}

export function markUnreached(tx: Transaction, peerId: PeerId): void {
  const peer = tx.get('peer', peerId);
  if (peer) tx.put('peer', [peerId], { ...peer, lanFailures: peer.lanFailures + 1 });
}

/** Records what became of a request with mail over the LAN. */
export function noteMailOverLan(tx: Transaction, peerId: PeerId, became: 'taken' | 'failed' | 'unreached'): void {
  const peer = tx.get('peer', peerId);
  if (!peer || (became === 'taken' && !peer.mailFailed)) return;
  const { mailFailed, ...others } = peer;
  if (became === 'taken') tx.put('peer', [peerId], others);
  else
    tx.put('peer', [peerId], {
      ...peer,
      mailFailed: { count: (mailFailed?.count ?? 0) + 1, isAnswered: became === 'failed' },
    });
}
