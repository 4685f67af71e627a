/** Relays that hosts of tests say they take mail at. Nobody calls them. */
import type { HomeDocumentRow } from '../../src/host/core/home-documents.ts';
import type { HostContext } from '../../src/host/base/context.ts';
import { ownHome, renewOwnHome } from '../../src/host/outbox/homes.ts';
import type { HomeRelay } from '../../src/protocol/documents.ts';
import { carol, dave, hostNamed } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

/** Three of them, in the order of their addresses. */
export const HOME_RELAYS = [carol, dave, hostNamed('third')].map(({ key }, nth) => ({
  relay_pubkey: key,
  url: `https://r${nth}.example`,
})) as [HomeRelay, HomeRelay, HomeRelay];

/** Has a host use these from now on, the last one as a guest if `guest` says so. Returns its document. */
export function useRelays(
  context: HostContext,
  relays: readonly HomeRelay[],
  guest = false,
): Promise<HomeDocumentRow | undefined> {
  return context.store.transact(async (tx) => {
    for (const { relay_pubkey } of HOME_RELAYS) tx.delete('relayMore', [relay_pubkey]);
    tx.delete('relay', []);
    for (const [rank, { relay_pubkey: pubkey, url }] of relays.entries()) {
      const row = { url, pubkey, pinnedAtMs: NOON_MS, seenKey: null, proof: null, epoch: null, sendersIatMs: 0 };
      const role = guest && rank === relays.length - 1 ? 'guest' : 'home';
      if (rank === 0) tx.put('relay', [], row);
      else tx.put('relayMore', [pubkey], { ...row, rank, role });
    }
    await renewOwnHome(tx, context);
    return ownHome(tx);
  });
}
