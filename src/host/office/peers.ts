/**
 * The hosts that this one is paired with: pinned, renewed, let go.
 *
 * A peer is who it is by the keys that rotations joined, whatever its name and address. One that was let go is
 * remembered, so that mail it sent before is still known if it is paired again.
 */
import { decodeBase64 } from '../../protocol/base64.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { encKeyAdvertisement } from '../../protocol/documents.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { LanEncKey } from '../../protocol/lan.ts';
import { type HostName, foldHostName } from '../../protocol/names.ts';
import {
  PUBLIC_KEY_BYTES,
  type PublicKey,
  displayFingerprint,
  isAcceptablePoint,
  parseFingerprint,
  hostFingerprint,
  parsePublicKey,
} from '../../protocol/public-key.ts';
import { isSameHost } from '../core/address.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { PeerEncKey, PeerId, PeerKey, PeerRow, SignedRotation } from '../core/rows.ts';
import type { PeerView } from '../documents/peers.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { peerOfKey } from './incoming.ts';
import type { Office } from './office.ts';
import { afterPeerChange } from './outbox.ts';

/** Hosts that one host may be paired with: as many as a relay's sender list holds. */
export const PEERS_MAX = 256;

/** What a pairing proved of the other side. */
export interface PairedHost {
  hostName: HostName;
  publicKey: PublicKey;
  encKey: PeerEncKey;
  /** `host:port`, when it is known. */
  address: string | null;
}

/** The advertisement as it is stored, when `host` signed it and its key can be sealed to. */
export function encKeyOf(advertisement: LanEncKey, host: PublicKey): PeerEncKey | undefined {
  const { host_pubkey: hostPubkey, enc_pub: encPub, at, sig } = advertisement;
  if (hostPubkey !== host || decodeBase64(encPub)?.length !== PUBLIC_KEY_BYTES) return undefined;
  const document = encKeyAdvertisement({ host_pubkey: host, enc_pub: encPub, at });
  return verifySignature(host, canonicalBytes(document), sig) ? { hostPubkey: host, encPub, at, sig } : undefined;
}

/** Pins a host for good. Pairing again with one that is pinned renews what is known of it. */
export async function pinPeer(tx: Transaction, office: Office, host: PairedHost): Promise<PeerRow | Refusal> {
  const { hostName, publicKey, encKey, address } = host;
  if (!isAcceptablePoint(publicKey)) return refusal('PAIRING_REFUSED', 'The key of the other host is not a good one.');
  const own = tx.get('identity');
  if (own?.keys.some((key) => key.publicKey === publicKey)) {
    return refusal('PAIRING_REFUSED', 'A host cannot be paired with itself.');
  }
  if (isSameHost(hostName, office.identity().hostName)) {
    return refusal(
      'NAME_TAKEN',
      `The other host is called ${hostName} as this one is: addresses could not tell them apart.`,
    );
  }
  const holder = peerOfName(tx, hostName);
  const known = peerOfKey(tx, publicKey);
  if (holder && holder.peerId !== known?.peerId) {
    const hint = `if it is the same host with a new key, let it go first: poste unpair ${holder.hostName}`;
    return refusal('NAME_TAKEN', `Another paired host is called ${holder.hostName}; ${hint}`, { host: hostName });
  }
  if (known && currentKey(known).publicKey !== publicKey) {
    // Whoever has it may have found it: an old key pairs nobody.
    return refusal(
      'PAIRING_REFUSED',
      `${known.hostName} went on under a newer key and came with an old one: give it another (poste host rotate-key), let it go here (poste unpair ${known.hostName}), and pair again.`,
    );
  }
  const isNew = known === undefined || known.unpairedAtMs !== null;
  if (isNew && (await livePeers(tx)).length >= PEERS_MAX) {
    return refusal('PAIRING_REFUSED', `This host is paired with ${PEERS_MAX} hosts, and takes no more.`);
  }
  const nowMs = office.nowMs();
  const peer: PeerRow = {
    ...(known ?? {
      peerId: office.randomBytes(16).toString('hex') as PeerId,
      keys: [{ publicKey, pinnedAtMs: nowMs, retiredAtMs: null }],
      directory: null,
      hasConfirmed: false,
    }),
    hostName,
    encKey: known && known.encKey.at > encKey.at ? known.encKey : encKey,
    address: address ?? known?.address ?? null,
    pairedAtMs: isNew ? nowMs : known.pairedAtMs,
    unpairedAtMs: null,
    reachedAtMs: nowMs,
    lanFailures: 0,
    pinnedOurKey: office.identity().signer.publicKey,
  };
  // The name that it had while it was let go may be another's by now.
  if (known && peerOfName(tx, known.hostName)?.peerId === known.peerId) {
    tx.delete('peerName', [foldHostName(known.hostName)]);
  }
  putPeer(tx, peer);
  tx.put('peerKey', [publicKey], peer.peerId);
  tx.put('peerName', [foldHostName(hostName)], peer.peerId);
  // What waits for a host that has just been spoken to goes now.
  if (known) await afterPeerChange(tx, office, peer.peerId, { type: 'peer-reached' });
  tx.afterCommit(() => office.tell({ type: 'peers-changed' }));
  return peer;
}

/** Ends a pairing: nothing is sent to the host or taken from it any more. `named`: its name or its fingerprint. */
export function unpair(office: Office, named: string): Promise<PeerView | Refusal> {
  return office.store.transact(async (tx) => {
    const peer = await findPeer(tx, named);
    if (!peer) return refusal('NO_SUCH_PEER', `This host is not paired with ${named}.`, { host: named });
    const gone: PeerRow = { ...peer, unpairedAtMs: office.nowMs(), directory: null };
    putPeer(tx, gone);
    tx.delete('peerName', [foldHostName(peer.hostName)]);
    await afterPeerChange(tx, office, peer.peerId, { type: 'peer-unpaired' });
    tx.afterCommit(() => office.tell({ type: 'peers-changed' }));
    return peerView(gone, office.nowMs());
  });
}

/** Every host that is paired now. */
export function listPeers(office: Office): Promise<{ peers: PeerView[] }> {
  return office.store.read(async (reader) => ({
    peers: (await livePeers(reader)).map((peer) => peerView(peer, office.nowMs())),
  }));
}

export async function livePeers(reader: Reader): Promise<PeerRow[]> {
  const peers: PeerRow[] = [];
  for await (const { row } of reader.range('peer', [])) if (row.unpairedAtMs === null) peers.push(row);
  return peers;
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

export type LearnedRotation = 'learned' | 'known' | 'unknown-host' | 'refused';

/** A peer goes on under a new key, as both keys say. Whoever posts it needs no other authority. */
export async function learnRotation(
  tx: Transaction,
  office: Office,
  { rec, old_sig: oldSig, new_sig: newSig }: SignedRotation,
): Promise<LearnedRotation> {
  const oldKey = parsePublicKey(rec.old_pubkey);
  const newKey = parsePublicKey(rec.new_pubkey);
  if (!oldKey || !newKey || oldKey === newKey) return 'refused';
  const peer = peerOfKey(tx, oldKey);
  if (!peer || peer.unpairedAtMs !== null) return 'unknown-host';
  const signed = canonicalBytes(rec);
  if (!verifySignature(oldKey, signed, oldSig)) return 'refused';
  const owner = tx.get('peerKey', newKey);
  if (owner !== undefined) return owner === peer.peerId ? 'known' : 'refused';
  // A key that was already replaced by another cannot be replaced again: the history of a host has no branches.
  if (currentKey(peer).publicKey !== oldKey) return 'refused';
  if (!isAcceptablePoint(newKey) || !verifySignature(newKey, signed, newSig)) return 'refused';
  const nowMs = office.nowMs();
  const keys = peer.keys.map((key) => (key.publicKey === oldKey ? { ...key, retiredAtMs: nowMs } : key));
  putPeer(tx, { ...peer, keys: [...keys, { publicKey: newKey, pinnedAtMs: nowMs, retiredAtMs: null }] });
  tx.put('peerKey', [newKey], peer.peerId);
  tx.afterCommit(() => office.tell({ type: 'peers-changed' }));
  return 'learned';
}

/** A peer's new key to seal to; an older one than is known changes nothing. Answers whether it is the peer's. */
export function learnEncKey(tx: Transaction, office: Office, peerId: PeerId, advertisement: LanEncKey): boolean {
  const peer = tx.get('peer', peerId);
  const encKey = peer && encKeyOf(advertisement, currentKey(peer).publicKey);
  if (!encKey) return false;
  if (encKey.hostPubkey === peer.encKey.hostPubkey && encKey.at <= peer.encKey.at) return true;
  putPeer(tx, { ...peer, encKey });
  tx.afterCommit(() => office.tell({ type: 'peers-changed' }));
  return true;
}

/** What its agents are called, as it said when it was asked. */
export function learnDirectory(tx: Transaction, peerId: PeerId, directory: NonNullable<PeerRow['directory']>): void {
  // One that was let go meanwhile is asked again when it is paired again.
  if (tx.get('peer', peerId)?.unpairedAtMs === null) changePeer(tx, peerId, { directory });
}

/** It answered over the LAN, or called from `address`. */
export async function markReached(tx: Transaction, office: Office, peerId: PeerId, address?: string): Promise<void> {
  const peer = tx.get('peer', peerId);
  if (!peer || peer.unpairedAtMs !== null) return;
  const isNews = peer.lanFailures > 0 || (address !== undefined && address !== peer.address);
  changePeer(tx, peerId, { reachedAtMs: office.nowMs(), lanFailures: 0, ...(address !== undefined && { address }) });
  if (isNews) await afterPeerChange(tx, office, peerId, { type: 'peer-reached' });
}

export function markUnreached(tx: Transaction, peerId: PeerId): void {
  const peer = tx.get('peer', peerId);
  if (peer) changePeer(tx, peerId, { lanFailures: peer.lanFailures + 1 });
}

/** It has pinned this key of ours. */
export function markPinnedOurKey(tx: Transaction, peerId: PeerId, pinnedOurKey: PublicKey): void {
  changePeer(tx, peerId, { pinnedOurKey });
}

/** Where a peer's listener is, as the owner says. */
export function setAddress(office: Office, named: string, address: string): Promise<PeerView | Refusal> {
  return office.store.transact(async (tx) => {
    const peer = await findPeer(tx, named);
    if (!peer) return refusal('NO_SUCH_PEER', `This host is not paired with ${named}.`, { host: named });
    const moved = { ...peer, address, lanFailures: 0 };
    putPeer(tx, moved);
    await afterPeerChange(tx, office, peer.peerId, { type: 'peer-reached' });
    tx.afterCommit(() => office.tell({ type: 'peers-changed' }));
    return peerView(moved, office.nowMs());
  });
}

function changePeer(tx: Transaction, peerId: PeerId, changes: Partial<PeerRow>): void {
  const peer = tx.get('peer', peerId);
  if (peer) putPeer(tx, { ...peer, ...changes });
}

function putPeer(tx: Transaction, peer: PeerRow): void {
  tx.put('peer', [peer.peerId], peer);
}

export function peerView(peer: PeerRow, nowMs: number): PeerView {
  const { publicKey } = currentKey(peer);
  const { directory } = peer;
  return {
    host: peer.hostName,
    host_pubkey: publicKey,
    fingerprint: displayFingerprint(publicKey),
    retired_keys: peer.keys.length - 1,
    address: peer.address,
    paired_at: peer.pairedAtMs,
    reached_at: peer.reachedAtMs,
    lan_failures: peer.lanFailures,
    agents: directory?.agents.length ?? null,
    directory_age_seconds: directory ? Math.max(0, Math.floor((nowMs - directory.fetchedAtMs) / 1000)) : null,
    has_confirmed: peer.hasConfirmed,
  };
}
