/**
 * The hosts that this one is paired with: pins them, learns their new keys and addresses, unpairs them.
 *
 * A peer is identified by its keys, which rotations link, and not by its name or address. An unpaired peer's row is
 * kept, so that mail it sent before is still known if it is paired again.
 */
import { decodeBase64 } from '../../protocol/encodings.ts';
import { encKeyAdvertisement, isDocumentSigned } from '../../protocol/documents.ts';
import type { LanEncKey } from '../../protocol/lan.ts';
import { type HostName, foldHostName } from '../../protocol/names.ts';
import { isoSecond, isoSecondOrNull } from '../../protocol/time.ts';
import {
  PUBLIC_KEY_BYTES,
  type PublicKey,
  displayFingerprint,
  parseFingerprint,
  hostFingerprint,
  parsePublicKey,
} from '../../protocol/public-key.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { isSameHost } from '../core/address.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import { atRelays, peerIsAt, relaysOfPeer } from '../core/relay-rows.ts';
import type { PeerEncKey, PeerId, PeerKey, PeerRow, SignedRotation } from '../core/rows.ts';
import { suggestions } from '../core/suggestions.ts';
import type { PeerView } from '../contract/peers.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { type OwnRelay, ownRelays, dropPeerHome, takeHome, homesOf, takesMailAt } from '../outbox/homes.ts';
import type { HostContext } from '../base/context.ts';
import { lastSentMs, afterPeerChange, noteMailOverLan } from '../outbox/outbox.ts';
import type { RelayFacts } from '../core/transport-choice.ts';

/** The most hosts that one host may be paired with: as many as a relay's sender list holds. */
export const PEERS_MAX = 256;

/** The other host, as the pairing proved it. */
export interface PairedHost {
  hostName: HostName;
  publicKey: PublicKey;
  encKey: PeerEncKey;
  /** `host:port`, if known. */
  address: string | null;
  /** The port of its listener, if it announced only that. */
  port?: number | undefined;
  /** Its statement about relays, untrusted. */
  home?: unknown;
}

/** The advertisement in its stored form; `undefined` unless `host` signed it and the key is valid. */
export function encKeyOf(advertisement: LanEncKey, host: PublicKey): PeerEncKey | undefined {
  const { host_pubkey: hostPubkey, enc_pub: encPub, at, sig } = advertisement;
  if (hostPubkey !== host || decodeBase64(encPub)?.length !== PUBLIC_KEY_BYTES) return undefined;
  const document = encKeyAdvertisement({ host_pubkey: host, enc_pub: encPub, at });
  return isDocumentSigned(host, document, sig) ? { hostPubkey: host, encPub, at, sig } : undefined;
}

/** Pins a host. Pairing again with a pinned host updates its row. */
export async function pinPeer(tx: Transaction, context: HostContext, host: PairedHost): Promise<PeerRow | Refusal> {
  const { hostName, publicKey, encKey, address, port, home } = host;
  const known = peerOfKey(tx, publicKey);
  const refused = await refusePairing(tx, context, host, known);
  if (refused) return refused;
  const nowMs = context.nowMs();
  const peer: PeerRow = {
    ...(known ?? {
      peerId: context.randomBytes(16).toString('hex') as PeerId,
      keys: [{ publicKey, pinnedAtMs: nowMs, retiredAtMs: null }],
      directory: null,
      hasConfirmed: false,
    }),
    hostName,
    encKey: known && known.encKey.at > encKey.at ? known.encKey : encKey,
    address: address ?? known?.address ?? null,
    ...(port !== undefined && { port }),
    pairedAtMs: known && !isNewPeer(known) ? known.pairedAtMs : nowMs,
    unpairedAtMs: null,
    reachedAtMs: nowMs,
    lanFailures: 0,
    pinnedOurKey: context.identity().signer.publicKey,
  };
  // Another peer may have taken its name while it was unpaired.
  if (known && peerOfName(tx, known.hostName)?.peerId === known.peerId) {
    tx.delete('peerName', [foldHostName(known.hostName)]);
  }
  putPeer(tx, peer);
  tx.put('peerKey', [publicKey], peer.peerId);
  tx.put('peerName', [foldHostName(hostName)], peer.peerId);
  await takeHome(tx, context, peer.peerId, { home, via: 'lan', by: { type: 'lan' } });
  // The host just answered: send now what waits for it.
  if (known) await afterPeerChange(tx, context, peer.peerId, { type: 'peer-reached' });
  tx.afterCommit(() => context.emit({ type: 'peers-changed' }));
  return peer;
}

/** Says why the host cannot be pinned, if it cannot; `known` is the peer that has its key. */
export async function refusePairing(
  reader: Reader,
  context: HostContext,
  { hostName, publicKey }: PairedHost,
  known: PeerRow | undefined,
): Promise<Refusal | undefined> {
  if (!isAcceptablePoint(publicKey)) return refusal('PAIRING_REFUSED', 'The key of the other host is not a good one.');
  const own = reader.get('identity');
  if (own?.keys.some((key) => key.publicKey === publicKey)) {
    return refusal('PAIRING_REFUSED', 'A host cannot be paired with itself: give this command on the other host.');
  }
  if (isSameHost(hostName, context.identity().hostName)) {
    return refusal(
      'NAME_TAKEN',
      `The other host is called ${hostName} as this one is: addresses could not tell them apart.`,
    );
  }
  const holder = peerOfName(reader, hostName);
  if (holder && holder.peerId !== known?.peerId) {
    const hint = `if it is the same host with a new key, let it go first: poste peer remove ${holder.hostName}`;
    return refusal('NAME_TAKEN', `Another paired host is called ${holder.hostName}; ${hint}`, { host: hostName });
  }
  if (known && currentKey(known).publicKey !== publicKey) {
    // An old key may be stolen: it pairs nobody.
    return refusal(
      'PAIRING_REFUSED',
      `${known.hostName} has a newer key and came with an old one: rotate its key (poste host rotate-key), ` +
        `unpair it here (poste peer remove ${known.hostName}), and pair again.`,
    );
  }
  if (isNewPeer(known) && (await livePeers(reader)).length >= PEERS_MAX) {
    return refusal(
      'PAIRING_REFUSED',
      `This host is paired with ${PEERS_MAX} hosts, and takes no more: unpair one first (poste peer remove).`,
    );
  }
  return undefined;
}

/** True of one that is not known, or was unpaired since. */
function isNewPeer(known: PeerRow | undefined): boolean {
  return known === undefined || known.unpairedAtMs !== null;
}

/** Refuses the name of a host with which this host was never paired. */
export async function refuseStranger(context: HostContext, host: string | undefined): Promise<Refusal | undefined> {
  if (host === undefined) return undefined;
  const known: string[] = [];
  await context.store.read(async (reader) => {
    for await (const { row } of reader.range('peer', [])) known.push(row.hostName);
  });
  return known.some((name) => isSameHost(name, host)) ? undefined : noSuchHost(host, known);
}

/** Refuses the member `host` of an input, which is none of the known ones. */
export function noSuchHost(host: string, known: readonly string[]): Refusal {
  const knows = known.length === 0 ? 'no other' : known.join(', ');
  const message = `host: this host is not paired with ${host}; it knows ${knows}.`;
  return refusal('NO_SUCH_PEER', message, { field: 'host', suggestions: suggestions(host, known) });
}

/** Ends a pairing: nothing more is sent to the host or accepted from it. `named`: its name or fingerprint. */
export function unpair(context: HostContext, named: string): Promise<PeerView | Refusal> {
  return context.store.transact(async (tx) => {
    const peer = await findPeer(tx, named);
    if (!peer)
      return refusal('NO_SUCH_PEER', `This host is not paired with ${named}: see poste peer list.`, { host: named });
    const gone: PeerRow = { ...peer, unpairedAtMs: context.nowMs(), directory: null };
    putPeer(tx, gone);
    tx.delete('peerName', [foldHostName(peer.hostName)]);
    dropPeerHome(tx, peer.peerId);
    await afterPeerChange(tx, context, peer.peerId, { type: 'peer-unpaired' });
    tx.afterCommit(() => context.emit({ type: 'peers-changed' }));
    return peerView(context, gone);
  });
}

/** All paired hosts, with where those that are out of reach take mail. `factsFor`: of the relays of this host. */
export function listPeers(
  context: HostContext,
  factsFor: (peer: PeerRow) => RelayFacts | null | 'unknown' = () => 'unknown',
): Promise<{ peers: PeerView[] }> {
  return context.store.read(async (reader) => ({
    peers: (await livePeers(reader)).map((peer) =>
      Object.assign(peerView(context, peer), takesMailAt(peer, homesOf(reader, peer), factsFor(peer))),
    ),
  }));
}

export async function livePeers(reader: Reader): Promise<PeerRow[]> {
  const peers: PeerRow[] = [];
  for await (const { row } of reader.range('peer', [])) if (row.unpairedAtMs === null) peers.push(row);
  return peers;
}

/** Returns the live peers by name. */
export async function pairedPeers(reader: Reader): Promise<PeerRow[]> {
  return (await livePeers(reader)).toSorted((a, b) => (a.hostName < b.hostName ? -1 : 1));
}

/** The relay was asked whether it can take mail for the peer. It drops what relays of before said. */
export async function notePeerAtRelay(
  tx: Transaction,
  peerId: PeerId,
  relayPubkey: PublicKey,
  isThere: boolean,
): Promise<void> {
  const own = await ownRelays(tx);
  const peer = tx.get('peer', peerId);
  if (peer) putRelaysOf(tx, peer, own, (pubkey) => (pubkey === relayPubkey ? isThere : peerIsAt(peer, pubkey)));
}

/** This host uses other relays, or prefers others of them. */
export async function noteRelaysChanged(tx: Transaction): Promise<void> {
  const own = await ownRelays(tx);
  for (const peer of await livePeers(tx)) putRelaysOf(tx, peer, own, (pubkey) => peerIsAt(peer, pubkey));
}

function putRelaysOf(
  tx: Transaction,
  peer: PeerRow,
  own: readonly OwnRelay[],
  isThere: (pubkey: PublicKey) => boolean,
): void {
  const now = own.map(({ row }) => row.pubkey).filter(isThere);
  if (now.join() === relaysOfPeer(peer).join()) return;
  const { atRelay: _atRelay, alsoAt: _alsoAt, ...others } = peer;
  putPeer(tx, { ...others, ...atRelays(now) });
}

export function peerOfKey(reader: Reader, key: PublicKey): PeerRow | undefined {
  // A relay may claim any text.
  const peerId = parsePublicKey(key) && reader.get('peerKey', key);
  const peer = peerId === undefined ? undefined : reader.get('peer', peerId);
  return peer?.keys.some(({ publicKey }) => publicKey === key) ? peer : undefined;
}

export function peerOfName(reader: Reader, hostName: string): PeerRow | undefined {
  const peerId = reader.get('peerName', foldHostName(hostName));
  return peerId === undefined ? undefined : reader.get('peer', peerId);
}

export function currentKey({ keys }: PeerRow): PeerKey {
  const key = keys.find(({ retiredAtMs }) => retiredAtMs === null);
  if (!key) throw new Error('invariant: a peer has a key that is not retired');
  return key;
}

async function findPeer(reader: Reader, named: string): Promise<PeerRow | undefined> {
  const fingerprint = parseFingerprint(named);
  if (fingerprint === undefined) return peerOfName(reader, named);
  return (await livePeers(reader)).find((peer) => hostFingerprint(currentKey(peer).publicKey) === fingerprint);
}

type LearnedRotation = 'learned' | 'known' | 'unknown-host' | 'refused';

/** Applies a peer's rotation, signed by its old and its new key. Anybody may deliver it: the signatures are enough. */
export async function learnRotation(
  tx: Transaction,
  context: HostContext,
  { rec, old_sig: oldSig, new_sig: newSig }: SignedRotation,
): Promise<LearnedRotation> {
  const oldKey = parsePublicKey(rec.old_pubkey);
  const newKey = parsePublicKey(rec.new_pubkey);
  if (!oldKey || !newKey || oldKey === newKey) return 'refused';
  const peer = peerOfKey(tx, oldKey);
  if (!peer || peer.unpairedAtMs !== null) return 'unknown-host';
  if (!isDocumentSigned(oldKey, rec, oldSig)) return 'refused';
  const owner = tx.get('peerKey', newKey);
  if (owner !== undefined) return owner === peer.peerId ? 'known' : 'refused';
  // A key that was replaced once cannot be replaced by another: a host's key history has no branches.
  if (currentKey(peer).publicKey !== oldKey) return 'refused';
  if (!isAcceptablePoint(newKey) || !isDocumentSigned(newKey, rec, newSig)) return 'refused';
  const nowMs = context.nowMs();
  // Where the clock was set back meanwhile, nothing that was sent before may look as if it had been sent afterwards.
  const retiredAtMs = await lastSentMs(tx, peer.peerId, nowMs);
  const keys = peer.keys.map((key) => (key.publicKey === oldKey ? { ...key, retiredAtMs } : key));
  putPeer(tx, { ...peer, keys: [...keys, { publicKey: newKey, pinnedAtMs: nowMs, retiredAtMs: null }] });
  tx.put('peerKey', [newKey], peer.peerId);
  // Items that a relay refused for the old key may go to the new one at once.
  for (const { row } of await ownRelays(tx)) {
    const { pubkey: relayPubkey, epoch } = row;
    if (epoch) await afterPeerChange(tx, context, peer.peerId, { type: 'relay-ready', relayPubkey, epoch });
  }
  tx.afterCommit(() => {
    context.emit({ type: 'peer-rotated', peerId: peer.peerId, keys: [oldKey, newKey] });
    context.emit({ type: 'peers-changed' });
  });
  return 'learned';
}

/** Stores a peer's new encryption key, unless the known one is newer. Returns whether the peer signed it. */
export function learnEncKey(tx: Transaction, context: HostContext, peerId: PeerId, advertisement: LanEncKey): boolean {
  const peer = tx.get('peer', peerId);
  const encKey = peer && encKeyOf(advertisement, currentKey(peer).publicKey);
  if (!encKey) return false;
  if (encKey.hostPubkey === peer.encKey.hostPubkey && encKey.at <= peer.encKey.at) return true;
  putPeer(tx, { ...peer, encKey });
  tx.afterCommit(() => context.emit({ type: 'peers-changed' }));
  return true;
}

/** Stores a peer's list of agents, which it sent by itself or as the answer to a request at `fetchedAtMs`. */
export function learnDirectory(
  tx: Transaction,
  peerId: PeerId,
  directory: NonNullable<PeerRow['directory']>,
  nowMs: number,
): void {
  const peer = tx.get('peer', peerId);
  // A peer that was unpaired meanwhile is asked again after the next pairing.
  if (peer?.unpairedAtMs !== null) return;
  const knownAtMs = peer.directory?.fetchedAtMs ?? 0;
  // It sent a newer list while the answer was on its way. A time in the future came from another clock.
  if (knownAtMs > directory.fetchedAtMs && knownAtMs <= nowMs) return;
  changePeer(tx, peerId, { directory });
}

/** The peer answered a request of this host: mail that did not reach it says nothing any more. */
export function noteAnswered(tx: Transaction, peerId: PeerId): void {
  if (tx.get('peer', peerId)?.mailFailed?.isAnswered === false) noteMailOverLan(tx, peerId, 'taken');
}

export function markPinnedOurKey(tx: Transaction, peerId: PeerId, pinnedOurKey: PublicKey): void {
  changePeer(tx, peerId, { pinnedOurKey });
}

/** Records that something the peer signed proves that it knows this host's present key. */
export function noteKnowsOurKey(tx: Transaction, context: HostContext, peerId: PeerId): void {
  const { publicKey } = context.identity().signer;
  const peer = tx.get('peer', peerId);
  if (peer && !knowsOurKey(peer, publicKey)) changePeer(tx, peerId, { shownOurKey: publicKey });
}

export function knowsOurKey({ pinnedOurKey, shownOurKey }: PeerRow, ourKey: PublicKey): boolean {
  return pinnedOurKey === ourKey || shownOurKey === ourKey;
}

/** Sets a peer's LAN address, on the owner's word. */
export function setAddress(context: HostContext, named: string, address: string): Promise<PeerView | Refusal> {
  return context.store.transact(async (tx) => {
    const peer = await findPeer(tx, named);
    if (!peer)
      return refusal('NO_SUCH_PEER', `This host is not paired with ${named}: see poste peer list.`, { host: named });
    const { mailFailed: _mailFailed, ...others } = peer;
    const moved = { ...others, address, lanFailures: 0 };
    putPeer(tx, moved);
    await afterPeerChange(tx, context, peer.peerId, { type: 'peer-reached' });
    tx.afterCommit(() => context.emit({ type: 'peers-changed' }));
    return peerView(context, moved);
  });
}

function changePeer(tx: Transaction, peerId: PeerId, changes: Partial<PeerRow>): void {
  const peer = tx.get('peer', peerId);
  if (peer) putPeer(tx, { ...peer, ...changes });
}

function putPeer(tx: Transaction, peer: PeerRow): void {
  tx.put('peer', [peer.peerId], peer);
}

export function peerView(context: HostContext, peer: PeerRow): PeerView {
  const nowMs = context.nowMs();
  const { publicKey } = currentKey(peer);
  const { directory } = peer;
  return {
    host: peer.hostName,
    host_pubkey: publicKey,
    fingerprint: displayFingerprint(publicKey),
    retired_keys: peer.keys.length - 1,
    address: peer.address,
    paired_at: isoSecond(peer.pairedAtMs),
    reached_at: isoSecondOrNull(peer.reachedAtMs),
    lan_failures: peer.lanFailures,
    agents: directory?.agents.length ?? null,
    directory_age_seconds: directory ? Math.max(0, Math.floor((nowMs - directory.fetchedAtMs) / 1000)) : null,
    has_confirmed: peer.hasConfirmed,
    knows_our_key: knowsOurKey(peer, context.identity().signer.publicKey),
  };
}
