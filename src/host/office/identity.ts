/** Who this host is: its keys as they are stored, and what it signs with them. */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { encKeyAdvertisement } from '../../protocol/documents.ts';
import { signerFromSeed } from '../../protocol/ed25519.ts';
import type { HostName } from '../../protocol/names.ts';
import type { HostKey, IdentityRow, PeerEncKey, SealKey } from '../core/rows.ts';
import type { HostStore } from '../store/host-store.ts';
import type { Identity } from './office.ts';

export interface NewIdentity {
  hostName: HostName;
  /** 32 random bytes. */
  seed: Buffer;
  /** An X25519 key pair, base64. */
  sealKey: Pick<SealKey, 'encPub' | 'secret'>;
  nowMs: number;
}

/** The row of a host that begins now. */
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

/** What a stored row says. Throws when it is none: a host has one living key of each kind, and the seed is the key's. */
export function identityOf(row: IdentityRow): Identity {
  const { publicKey, seed } = living(row.keys);
  const signer = signerFromSeed(Buffer.from(seed, 'base64'));
  if (signer.publicKey !== publicKey) throw new Error('invariant: the seed of the host key is that of another key');
  return { hostName: row.hostName, signer, sealKey: living(row.sealKeys) };
}

/** The identity that the store holds. Throws when it holds none. */
export function loadIdentity(store: HostStore): Promise<Identity> {
  return store.read((reader) => {
    const row = reader.get('identity');
    if (!row) throw new Error('invariant: a store has an identity');
    return identityOf(row);
  });
}

/** What paired hosts and relays are given to seal to: the same document for the same keys. */
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
    sig: signer.sign(canonicalBytes(advertisement)),
  };
}

function living<K extends HostKey | SealKey>(keys: readonly K[]): K {
  const [key, another] = keys.filter(({ retiredAtMs }) => retiredAtMs === null);
  if (!key || another) throw new Error('invariant: a host has exactly one key of a kind that is not retired');
  return key;
}
