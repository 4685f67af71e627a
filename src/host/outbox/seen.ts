/**
 * What this host shows its peers of the logs of its relays, in mail and in delivery receipts, and opens of theirs. For
 * receipts it is sealed once a look at the relay to which they are pushed first.
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
import { seenForPeer, sharedRelays } from './trust-rows.ts';

interface Shown {
  /** The messages and answers to a peer, counted: what contradicts itself is shown in turn. */
  turns: Map<PeerId, number>;
  /** By the relay to which receipts are pushed first. */
  sealed: Map<PublicKey | undefined, SealedAhead>;
  /** Until its next look the receipts of a peer show the same. */
  opened: OpenedLast<SeenEntry[]>;
}

const ofHosts = new WeakMap<HostContext, Shown>();

function shownBy(context: HostContext): Shown {
  const known = ofHosts.get(context);
  if (known) return known;
  const anew: Shown = { turns: new Map(), sealed: new Map(), opened: new OpenedLast() };
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
 * Seals what the next receipts for mail under `to`, a key of the peer, show, which the relay `over` brought. Undefined
 * where that is done, and where this host uses no relay: then none carries its receipts, so they need not hide from it
 * whether they show anything.
 */
export function sealForReceipts(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  to: PublicKey,
  over?: PublicKey,
): Promise<void> | undefined {
  const { sealed } = shownBy(context);
  const relay = relayOfReceipts(reader, peer, over);
  if (!relay && !reader.get('relay')) {
    sealed.clear();
    return undefined;
  }
  const parties = { host_pubkey: context.identity().signer.publicKey, sender_host_pubkey: to };
  // In this state of the looks at the relay it shows the same.
  const look = relay && reader.get('relayTrust', relay);
  const ahead = sealed.get(relay) ?? new SealedAhead();
  sealed.set(relay, ahead);
  return ahead.prepare(context, peer, to, [look], async (turn) => {
    const [entry] = await seenForPeer(reader, context, peer, turn, relay ? [relay] : []);
    return sealInReceipt(SEEN_SEAL, entry, parties, peer.encKey.encPub);
  });
}

/** The relay that brought the message, or over which the peer prefers its mail. */
function relayOfReceipts(reader: Reader, peer: PeerRow, over: PublicKey | undefined): PublicKey | undefined {
  const shared = sharedRelays(reader, peer);
  return over && shared.includes(over) ? over : shared[0];
}

/** What was sealed last for receipts between these keys, for mail that the relay `over` brought. */
export function sealedForReceipts(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  parties: ReceiptParties,
  over?: PublicKey,
): Sealed | undefined {
  const ahead = shownBy(context).sealed.get(relayOfReceipts(reader, peer, over));
  return ahead?.get(peer, parties.host_pubkey, parties.sender_host_pubkey);
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
