/**
 * Which keys rotations joined into one host, by nothing but the signed rotations themselves.
 *
 * A receipt of a `duplicate` names the keys of its own request; the record names those of the first one.
 */
import { type PublicKey, isAcceptablePoint, parsePublicKey } from '../protocol/public-key.ts';
import { RotateRequest, parserOf } from '../protocol/schemas.ts';
import { isDocumentSigned } from '../relay/http/signed-document.ts';

const parseRotation = parserOf(RotateRequest);

export interface ProvenRotation {
  oldPubkey: PublicKey;
  newPubkey: PublicKey;
}

/** A rotation as it was posted, when both of its keys signed it. */
export function provenRotation(document: unknown): ProvenRotation | undefined {
  const posted = parseRotation(document);
  const [oldPubkey, newPubkey] = [posted?.rotation.rec.old_pubkey, posted?.rotation.rec.new_pubkey].map(parsePublicKey);
  if (!posted || !oldPubkey || !newPubkey) return undefined;
  const { rec, old_sig, new_sig } = posted.rotation;
  const isSigned = (key: PublicKey, sig: unknown): boolean => isAcceptablePoint(key) && isDocumentSigned(key, rec, sig);
  return isSigned(oldPubkey, old_sig) && isSigned(newPubkey, new_sig) ? { oldPubkey, newPubkey } : undefined;
}

/** Whether two keys are of one host, as far as these rotations say. */
export function hostsOf(rotations: readonly ProvenRotation[]): (one: PublicKey, other: PublicKey) => boolean {
  const hosts = new Map<PublicKey, Set<PublicKey>>();
  const hostOf = (key: PublicKey): Set<PublicKey> => hosts.get(key) ?? new Set([key]);
  for (const { oldPubkey, newPubkey } of rotations) {
    const joined = new Set([...hostOf(oldPubkey), ...hostOf(newPubkey)]);
    for (const key of joined) hosts.set(key, joined);
  }
  return (one, other) => hostOf(one).has(other);
}
