/**
 * Ed25519 signatures (RFC 8032, strict) by node:crypto.
 *
 * `verifySignature` is the one verifier of the project. OpenSSL checks S < L and recomputes R, which together with
 * the key checks of public-key.ts leaves no leniency; the tests compare it with @noble/ed25519 on every known edge case.
 */
import { type KeyObject, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { decodeBase64 } from './base64.ts';
import { type PublicKey, publicKeyBytes, publicKeyFromBytes } from './public-key.ts';

export const SEED_BYTES = 32;
export const SIGNATURE_BYTES = 64;
const SIGNATURE_CHARACTERS = 88;

/** The DER in front of the 32 raw bytes (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A private key that signs. The seed itself is kept in OpenSSL's key object only. */
export interface Signer {
  readonly publicKey: PublicKey;
  /** Base64 of the 64 signature bytes over `message`. */
  sign(message: Uint8Array): string;
  /** As `sign`, on the thread pool: the loop stays free. */
  signInPool(message: Uint8Array): Promise<string>;
}

/** Throws `RangeError` unless the seed has 32 bytes; the message never holds the seed. */
export function signerFromSeed(seed: Uint8Array): Signer {
  if (seed.length !== SEED_BYTES) throw new RangeError('an Ed25519 seed has 32 bytes');
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return {
    publicKey: publicKeyFromBytes(spki.subarray(SPKI_PREFIX.length)),
    sign: (message) => sign(null, message, key).toString('base64'),
    signInPool: (message) =>
      new Promise((resolve, reject) => {
        sign(null, message, key, (error, signature) => {
          if (error) reject(error);
          else resolve(signature.toString('base64'));
        });
      }),
  };
}

/** Key objects are costly to make (about 20 us), so the most recent ones are kept. */
const KEY_OBJECTS_MAX = 4096;
const keyObjects = new Map<PublicKey, KeyObject>();

function keyObject(key: PublicKey): KeyObject {
  const kept = keyObjects.get(key);
  if (kept) return kept;
  const made = createPublicKey({ key: Buffer.concat([SPKI_PREFIX, publicKeyBytes(key)]), format: 'der', type: 'spki' });
  if (keyObjects.size >= KEY_OBJECTS_MAX) {
    const oldest = keyObjects.keys().next();
    if (!oldest.done) keyObjects.delete(oldest.value);
  }
  keyObjects.set(key, made);
  return made;
}

/** Whether `signature` (base64, 88 characters) is `key`'s over `message`. A malformed signature is simply not one. */
export function verifySignature(key: PublicKey, message: Uint8Array, signature: unknown): boolean {
  if (typeof signature !== 'string' || signature.length !== SIGNATURE_CHARACTERS) return false;
  const bytes = decodeBase64(signature);
  return bytes?.length === SIGNATURE_BYTES && verify(null, message, keyObject(key), bytes);
}
