/**
 * What this host shows its peers of the log of its relay, in mail and in delivery receipts, and opens of theirs.
 *
 * Receipts are made in the midst of transactions, which do not wait for a seal. So what they show is sealed before,
 * once a look at the relay, for all receipts to a peer. None of it is stored: after a start it is sealed once more.
 */
import type { ReceiptParties } from '../../protocol/documents.ts';
import { isObject } from '../../protocol/json.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parseSeen, type SeenEntry } from '../../protocol/seen.ts';
import type { HostContext } from '../base/context.ts';
import type { RelayTrustRow } from '../core/relay-trust.ts';
import type { PeerId, PeerRow, SealKey } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import type { Sealed } from '../wire/sealing.ts';
import { openInReceipt, SEEN_SEAL, sealInReceipt } from '../wire/receipt-seals.ts';
import { seenForPeer } from './trust-rows.ts';

/** What receipts to a peer show, sealed under these keys, in this state of the looks at the relay. */
interface ForReceipts {
  from: PublicKey;
  encPub: string;
  atRelay: PublicKey | undefined;
  look: RelayTrustRow | undefined;
  turn: number;
  isSealed: Promise<void>;
  /** Absent until then, and where nothing can be sealed to the key. */
  sealed?: Sealed;
  /** When that failed, by the clock that never goes back. */
  failedAtMs?: number;
}

interface Shown {
  /** The messages and answers to a peer, counted: what contradicts itself is shown in turn. */
  turns: Map<PeerId, number>;
  /** By peer, and by the key of it that receipts name. */
  sealed: Map<string, ForReceipts>;
  /** What the last receipt of a peer showed: until its next look the others show the same. */
  opened: Map<PeerId, { ct: unknown; entries: Promise<SeenEntry[]> }>;
}

/** More than the present and former keys of all peers. */
const SEALED_MAX = 1_000;
/** What could not be sealed is tried again then. */
const SEALED_AGAIN_MS = 60_000;
const ofHosts = new WeakMap<HostContext, Shown>();

function shownBy(context: HostContext): Shown {
  const known = ofHosts.get(context);
  if (known) return known;
  const anew: Shown = { turns: new Map(), sealed: new Map(), opened: new Map() };
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
  const { sealed: seals } = shownBy(context);
  if (!reader.get('relay')) {
    seals.clear();
    return undefined;
  }
  const { publicKey: from } = context.identity().signer;
  const { atRelay } = peer;
  const { encPub } = peer.encKey;
  const look = atRelay && reader.get('relayTrust', atRelay);
  const name = `${peer.peerId} ${to}`;
  const known = seals.get(name);
  const isSame = known?.from === from && known.encPub === encPub && known.atRelay === atRelay && known.look === look;
  const isFailed = known?.failedAtMs !== undefined && context.monotonicMs() - known.failedAtMs >= SEALED_AGAIN_MS;
  if (known && isSame && !isFailed) return known.sealed ? undefined : known.isSealed;
  const turn = known ? known.turn + 1 : 0;
  const seal = async (): Promise<void> => {
    try {
      const [entry] = await seenForPeer(reader, context, peer, turn);
      sealing.sealed = await sealInReceipt(SEEN_SEAL, entry, { host_pubkey: from, sender_host_pubkey: to }, encPub);
    } catch (error) {
      // With a key that nothing can be sealed to a receipt still says what it is for.
      sealing.failedAtMs = context.monotonicMs();
      context.log('warn', 'nothing can be sealed for a paired host', { host: peer.hostName, err: error });
    }
  };
  const sealing: ForReceipts = { from, encPub, atRelay, look, turn, isSealed: Promise.resolve() };
  if (seals.size >= SEALED_MAX) seals.clear();
  seals.set(name, sealing);
  sealing.isSealed = seal();
  return sealing.isSealed;
}

/** What was sealed last for receipts between these keys. */
export function sealedForReceipts(context: HostContext, peer: PeerRow, parties: ReceiptParties): Sealed | undefined {
  const { host_pubkey: from, sender_host_pubkey: to } = parties;
  const known = shownBy(context).sealed.get(`${peer.peerId} ${to}`);
  return known?.from === from && known.encPub === peer.encKey.encPub ? known.sealed : undefined;
}

/** What the receipt of a peer shows. What many receipts of it carry is opened once. */
export function openedSeen(
  context: HostContext,
  peerId: PeerId,
  rec: ReceiptParties & { seen?: unknown },
  keys: readonly SealKey[],
): Promise<SeenEntry[]> {
  const { opened } = shownBy(context);
  const ct = isObject(rec.seen) ? rec.seen['ct'] : undefined;
  const known = opened.get(peerId);
  if (known && known.ct === ct) return known.entries;
  const entries = openInReceipt(SEEN_SEAL, rec.seen, rec, keys).then((entry) => parseSeen([entry]));
  opened.set(peerId, { ct, entries });
  return entries;
}
