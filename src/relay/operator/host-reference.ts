import type { Sha256Hex } from '../../protocol/encodings.ts';
import { type HostName, parseHostName } from '../../protocol/names.ts';
import { type PublicKey, parseFingerprint, parsePublicKey } from '../../protocol/public-key.ts';

type HostReference =
  | { type: 'Fingerprint'; fingerprint: Sha256Hex }
  | { type: 'Key'; hostPubkey: PublicKey }
  | { type: 'Name'; name: HostName };

/** Parses a host as an operator names it: a fingerprint, a public key, or its name. No text is two of them. */
export function parseHostReference(text: string): HostReference | undefined {
  const fingerprint = parseFingerprint(text);
  if (fingerprint) return { type: 'Fingerprint', fingerprint };
  const hostPubkey = parsePublicKey(text);
  if (hostPubkey) return { type: 'Key', hostPubkey };
  const name = parseHostName(text);
  return name && { type: 'Name', name };
}
