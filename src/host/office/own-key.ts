/**
 * This host goes on under a new key: signed by the old and the new one, and kept for whoever does not know it yet.
 *
 * One transaction: the old keys retire, the new ones are there, the record is kept. Mail that is sealed to the old
 * encryption key still opens for 60 days, and what the old key signed still verifies at peers.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { hostRotation } from '../../protocol/documents.ts';
import { SEED_BYTES, signerFromSeed } from '../../protocol/ed25519.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { HostKey, IdentityRow, SealKey, SignedRotation } from '../core/rows.ts';
import type { RotateKeyResult } from '../documents/peers.ts';
import { identityOf } from './identity.ts';
import type { Office } from './office.ts';
import { livePeers } from './peers.ts';
import { generateSealKey } from './sealing.ts';

/** Resolves when the new key is durable; peers are told afterwards. */
export async function rotateOwnKey(office: Office): Promise<RotateKeyResult> {
  const seed = office.randomBytes(SEED_BYTES);
  const { enc_pub: encPub, secret } = await generateSealKey();
  return office.store.transact(async (tx) => {
    const row = tx.get('identity');
    if (!row) throw new Error('invariant: a store has an identity');
    const { signer: oldSigner } = identityOf(row);
    const newSigner = signerFromSeed(seed);
    // Never before the record of the rotation before, whatever the clock says.
    const iat = Math.max(office.nowMs(), (row.rotations.at(-1)?.rec.iat ?? 0) + 1);
    const rec = hostRotation({ old_pubkey: oldSigner.publicKey, new_pubkey: newSigner.publicKey, iat });
    const bytes = canonicalBytes(rec);
    const rotation: SignedRotation = { rec, old_sig: oldSigner.sign(bytes), new_sig: newSigner.sign(bytes) };
    const life = { sinceMs: iat, retiredAtMs: null };
    const next: IdentityRow = {
      ...row,
      keys: [...retired(row.keys, iat), { publicKey: newSigner.publicKey, seed: seed.toString('base64'), ...life }],
      sealKeys: [...retired(row.sealKeys, iat), { encPub, secret, ...life }],
      rotations: [...row.rotations, rotation],
    };
    const identity = identityOf(next);
    tx.put('identity', [], next);
    const peers = await livePeers(tx);
    tx.afterCommit(() => office.tell({ type: 'identity-changed', identity }));
    return {
      host_pubkey: newSigner.publicKey,
      fingerprint: displayFingerprint(newSigner.publicKey),
      old_pubkey: oldSigner.publicKey,
      peers: peers.length,
    };
  });
}

/** The rotations that lead from `key` to the key of now, oldest first; all of them when the key is none of ours. */
export function rotationsSince({ rotations }: IdentityRow, key: string): SignedRotation[] {
  const at = rotations.findIndex(({ rec }) => rec.old_pubkey === key);
  if (at >= 0) return rotations.slice(at);
  return rotations.at(-1)?.rec.new_pubkey === key ? [] : rotations;
}

function retired<K extends HostKey | SealKey>(keys: readonly K[], atMs: number): K[] {
  return keys.map((key) => (key.retiredAtMs === null ? { ...key, retiredAtMs: atMs } : key));
}
