/**
 * Ed25519 signatures (RFC 8032, strict) by node:crypto.
 *
 * `verifySignature` is the only verifier of the project. OpenSSL checks S < L and recomputes R. With the key checks of
 * public-key.ts nothing lenient is left; the tests compare it with @noble/ed25519 in every known edge case.
 */
import { type KeyObject, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { decodeBase64 } from './base64.ts';
import { type PublicKey, publicKeyBytes, publicKeyFromBytes } from './public-key.ts';

export const SEED_BYTES = 32;
const SIGNATURE_BYTES = 64;
/** Of a signature in base64. */
export const SIGNATURE_CHARACTERS = 88;

/** The DER in front of the 32 raw bytes (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A private key that signs. Only OpenSSL's key object holds the seed. */
export interface Signer {
  readonly publicKey: PublicKey;
  /** For a thread of this process. */
  readonly privateKey: KeyObject;
  /** Base64 of the 64 signature bytes over `message`. */
  sign(message: Uint8Array): string;
  /** As `sign`, but on the thread pool, so that it does not block the event loop. */
  signInPool(message: Uint8Array): Promise<string>;
}

/** Throws `RangeError` unless the seed has 32 bytes; its message never contains the seed. */
export function signerFromSeed(seed: Uint8Array): Signer {
  if (seed.length !== SEED_BYTES) throw new RangeError('an Ed25519 seed has 32 bytes');
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return {
    publicKey: publicKeyFromBytes(spki.subarray(SPKI_PREFIX.length)),
    privateKey: key,
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

/** Making a key object costs about 20 us, so the most recent ones are cached. */
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

/** Whether `signature` (base64, 88 characters) is a signature of `key` over `message`; false when it is malformed. */
export function verifySignature(key: PublicKey, message: Uint8Array, signature: unknown): boolean {
  if (typeof signature !== 'string' || signature.length !== SIGNATURE_CHARACTERS) return false;
  const bytes = decodeBase64(signature);
  return bytes?.length === SIGNATURE_BYTES && verify(null, message, keyObject(key), bytes);
}
