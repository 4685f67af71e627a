/**
 * What this host shows its peers of the log of its relay, in mail and in delivery receipts, and opens of theirs.
 * For receipts it is sealed once a look at the relay.
 */
import type { ReceiptParties } from '../../protocol/documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parseSeen, type SeenEntry } from '../../protocol/seen.ts';
import type { HostContext } from '../base/context.ts';
import type { PeerId, PeerRow, SealKey } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import type { Sealed } from '../wire/sealing.ts';
import { openInReceipt, SEEN_SEAL, sealInReceipt } from '../wire/receipt-seals.ts';
import { OpenedLast, SealedAhead } from './sealed-ahead.ts';
import { seenForPeer } from './trust-rows.ts';

interface Shown {
  /** The messages and answers to a peer, counted: what contradicts itself is shown in turn. */
  turns: Map<PeerId, number>;
  sealed: SealedAhead;
  /** Until its next look the receipts of a peer show the same. */
  opened: OpenedLast<SeenEntry[]>;
}

const ofHosts = new WeakMap<HostContext, Shown>();

function shownBy(context: HostContext): Shown {
  const known = ofHosts.get(context);
  if (known) return known;
  const anew: Shown = { turns: new Map(), sealed: new SealedAhead(), opened: new OpenedLast() };
  ofHosts.set(context, anew);
  return anew;
}

/** What the next message to a peer, or the next answer over the LAN, shows. */
export function nextSeen(reader: Reader, context: HostContext, peer: PeerRow): Promise<SeenEntry[]> {
  const { turns } = shownBy(context);
  const turn = turns.get(peer.peerId) ?? 0;
  turns.set(peer.peerId, turn + 1);
  return seenForPeer(reader, context, peer, turn);
}

/**
 * Seals what the next receipts for mail under `to`, a key of the peer, show. Undefined where that is done, and where
 * this host uses no relay: then none carries its receipts, so they need not hide from it whether they show anything.
 */
export function sealForReceipts(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  to: PublicKey,
): Promise<void> | undefined {
  const { sealed } = shownBy(context);
  if (!reader.get('relay')) {
    sealed.clear();
    return undefined;
  }
  const parties = { host_pubkey: context.identity().signer.publicKey, sender_host_pubkey: to };
  const { atRelay, encKey } = peer;
  // In this state of the looks at the relay it shows the same.
  const look = atRelay && reader.get('relayTrust', atRelay);
  return sealed.prepare(context, peer, to, [atRelay, look], async (turn) => {
    const [entry] = await seenForPeer(reader, context, peer, turn);
    return sealInReceipt(SEEN_SEAL, entry, parties, encKey.encPub);
  });
}

/** What was sealed last for receipts between these keys. */
export function sealedForReceipts(context: HostContext, peer: PeerRow, parties: ReceiptParties): Sealed | undefined {
  return shownBy(context).sealed.get(peer, parties.host_pubkey, parties.sender_host_pubkey);
}

/** What the receipt of a peer shows. What many receipts of it carry is opened once. */
export function openedSeen(
  context: HostContext,
  peerId: PeerId,
  rec: ReceiptParties & { seen?: unknown },
  keys: readonly SealKey[],
): Promise<SeenEntry[]> {
  return shownBy(context).opened.get(peerId, rec.seen, async () => {
    return parseSeen([await openInReceipt(SEEN_SEAL, rec.seen, rec, keys)]);
  });
}
