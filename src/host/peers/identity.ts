/** This host's identity: its name, its stored keys, its signed encryption key, and how they are replaced. */
import { encKeyAdvertisement, hostRotation, signDocument } from '../../protocol/documents.ts';
import { SEED_BYTES, signerFromSeed } from '../../protocol/ed25519.ts';
import type { LanEncKey } from '../../protocol/lan.ts';
import { type HostName, parseHostName } from '../../protocol/names.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { RenameHostInput, RenameHostResult, RotateKeyInput, RotateKeyResult } from '../contract/peers.ts';
import type { HostContext } from '../base/context.ts';
import { isSameHost } from '../core/address.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { HostKey, Identity, IdentityRow, PeerEncKey, PeerRow, SealKey, SignedRotation } from '../core/rows.ts';
import { countText } from '../core/spans.ts';
import { renewOwnHome } from '../outbox/homes.ts';
import { generateSealKey } from '../wire/sealing.ts';
import type { HostStore } from '../store/host-store.ts';
import { livePeers } from './peers.ts';

interface NewIdentity {
  hostName: HostName;
  /** 32 random bytes. */
  seed: Buffer;
  /** An X25519 key pair, base64. */
  sealKey: Pick<SealKey, 'encPub' | 'secret'>;
  nowMs: number;
}

export function newIdentityRow({ hostName, seed, sealKey, nowMs }: NewIdentity): IdentityRow {
  const { publicKey } = signerFromSeed(seed);
  const life = { sinceMs: nowMs, retiredAtMs: null };
  return {
    hostName,
    createdAtMs: nowMs,
    keys: [{ publicKey, seed: seed.toString('base64'), ...life }],
    sealKeys: [{ ...sealKey, ...life }],
    rotations: [],
    receiptFloor: 0,
  };
}

/** The identity in a stored row. Throws unless it has one present key of each kind, and the seed belongs to the key. */
export function identityOf(row: IdentityRow): Identity {
  const { publicKey, seed } = living(row.keys);
  const signer = signerFromSeed(Buffer.from(seed, 'base64'));
  if (signer.publicKey !== publicKey) throw new Error('invariant: the seed of the host key is that of another key');
  return { hostName: row.hostName, signer, sealKey: living(row.sealKeys) };
}

/** The identity in the store. Throws when there is none. */
export function loadIdentity(store: HostStore): Promise<Identity> {
  return store.read((reader) => {
    const row = reader.get('identity');
    if (!row) throw new Error('invariant: a store has an identity');
    return identityOf(row);
  });
}

/** The signed advertisement of the encryption key, for paired hosts and relays: the same document for the same keys. */
export function signedEncKey({ signer, sealKey }: Identity): PeerEncKey {
  const advertisement = encKeyAdvertisement({
    host_pubkey: signer.publicKey,
    enc_pub: sealKey.encPub,
    at: sealKey.sinceMs,
  });
  return {
    hostPubkey: signer.publicKey,
    encPub: sealKey.encPub,
    at: sealKey.sinceMs,
    sig: signDocument(signer, advertisement),
  };
}

/** The same document as paired hosts get it. */
export function encKeyDocument(identity: Identity): LanEncKey {
  const { hostPubkey, encPub, at, sig } = signedEncKey(identity);
  return { host_pubkey: hostPubkey, enc_pub: encPub, at, sig };
}

function living<K extends HostKey | SealKey>(keys: readonly K[]): K {
  const [key, another] = keys.filter(({ retiredAtMs }) => retiredAtMs === null);
  if (!key || another) throw new Error('invariant: a host has exactly one key of a kind that is not retired');
  return key;
}

/**
 * Rotates this host's keys: both the old and the new key sign the rotation, which is kept for peers that do not know it
 * yet.
 *
 * One transaction retires the old keys, adds the new ones and keeps the rotation. Mail sealed to the old
 * encryption key still opens for 60 days, and peers still verify what the old key signed. Resolves when the new key is
 * durable; it is sent to peers afterwards.
 */
export async function rotateOwnKey(context: HostContext, { stolen }: RotateKeyInput = {}): Promise<RotateKeyResult> {
  const seed = context.randomBytes(SEED_BYTES);
  const { enc_pub: encPub, secret } = await generateSealKey();
  return context.store.transact(async (tx) => {
    const row = tx.get('identity');
    if (!row) throw new Error('invariant: a store has an identity');
    const { signer: oldSigner } = identityOf(row);
    const newSigner = signerFromSeed(seed);
    // Never earlier than the previous rotation, whatever the clock says.
    const iat = Math.max(context.nowMs(), (row.rotations.at(-1)?.rec.iat ?? 0) + 1);
    const rec = hostRotation({ old_pubkey: oldSigner.publicKey, new_pubkey: newSigner.publicKey, iat });
    const [old_sig, new_sig] = [signDocument(oldSigner, rec), signDocument(newSigner, rec)];
    const rotation: SignedRotation = { rec, old_sig, new_sig };
    const life = { sinceMs: iat, retiredAtMs: null };
    const next: IdentityRow = {
      ...row,
      keys: [
        ...retire(row.keys, iat, stolen && { isStolen: true }),
        { publicKey: newSigner.publicKey, seed: seed.toString('base64'), ...life },
      ],
      sealKeys: [...retire(row.sealKeys, iat), { encPub, secret, ...life }],
      rotations: [...row.rotations, rotation],
    };
    const identity = identityOf(next);
    tx.put('identity', [], next);
    const peers = await livePeers(tx);
    tx.afterCommit(() => context.emit({ type: 'identity-changed', identity }));
    await renewOwnHome(tx, context, { signer: newSigner });
    return {
      host_pubkey: newSigner.publicKey,
      fingerprint: displayFingerprint(newSigner.publicKey),
      old_pubkey: oldSigner.publicKey,
      peers: peers.length,
    };
  });
}

/**
 * Gives this host another name. Its agents have other addresses from then on; mail that is here keeps its own.
 *
 * Paired hosts hold this host to the name that it was paired under: under another one they would put its mail into
 * quarantine, and it theirs. The protocol has no way to tell them, so a host that is paired keeps its name. Case does
 * not count in names, so another case of the same letters is always taken.
 */
export function renameHost(context: HostContext, { name }: RenameHostInput): Promise<RenameHostResult | Refusal> {
  return context.store.transact(async (tx) => {
    const hostName = parseHostName(name);
    const row = tx.get('identity');
    if (!row || hostName === undefined) throw new Error('invariant: a store has an identity, and an input its schema');
    const { hostName: former } = row;
    if (hostName === former) return { host: former, former_host: former, renamed: false };
    const peers = await livePeers(tx);
    if (peers.length > 0 && !isSameHost(hostName, former)) return refuseRename(former, peers);
    const next: IdentityRow = { ...row, hostName };
    const identity = identityOf(next);
    tx.put('identity', [], next);
    tx.afterCommit(() => {
      context.emit({ type: 'identity-changed', identity });
      context.emit({ type: 'host-renamed' });
    });
    return { host: hostName, former_host: former, renamed: true };
  });
}

function refuseRename(former: HostName, peers: readonly PeerRow[]): Refusal {
  const hosts = peers.map(({ hostName }) => hostName).toSorted();
  const [only, another] = hosts;
  const them = another === undefined ? `${only}, which knows` : `${countText(hosts.length, 'host')}, which know`;
  return refusal(
    'ALREADY_PAIRED',
    `This host is paired with ${them} it as ${former} and would not accept its mail under another name: unpair ` +
      'on both sides (poste peer remove), rename this host, and pair again.',
    { hosts },
  );
}

/** The rotations that lead from `key` to the present key, oldest first; all rotations when `key` is not this host's. */
export function rotationsSince({ rotations }: IdentityRow, key: string): SignedRotation[] {
  const at = rotations.findIndex(({ rec }) => rec.old_pubkey === key);
  if (at >= 0) return rotations.slice(at);
  return rotations.at(-1)?.rec.new_pubkey === key ? [] : rotations;
}

function retire<K extends HostKey | SealKey>(keys: readonly K[], atMs: number, more?: Partial<K> | false): K[] {
  return keys.map((key) => (key.retiredAtMs === null ? { ...key, retiredAtMs: atMs, ...more } : key));
}
