/** Signatures over documents that came in a body: unknown members are kept, and the signature covers them. */
import { NotCanonicalisable, canonicalBytes } from './canonical-json.ts';
import { verifySignature } from './ed25519.ts';
import type { PublicKey } from './public-key.ts';

/** False also for a document that has no canonical form. */
export function isDocumentSigned(key: PublicKey, document: unknown, sig: unknown): boolean {
  try {
    return verifySignature(key, canonicalBytes(document), sig);
  } catch (error) {
    if (error instanceof NotCanonicalisable) return false;
    throw error;
  }
}
