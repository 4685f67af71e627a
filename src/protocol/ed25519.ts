/**
 * Ed25519 signatures (RFC 8032, strict) by libsodium where it loads, and by node:crypto.
 *
 * `verifySignature` is the only verifier of the project. OpenSSL checks S < L and recomputes R. With the key checks of
 * public-key.ts nothing lenient is left; the tests compare it with @noble/ed25519 in every known edge case. libsodium
 * checks the same and a little more (it refuses an R of small order), so what it accepts is right, and what it does not
 * OpenSSL decides: every host gives the same verdict, with libsodium or without.
 */
import { type KeyObject, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { decodeBase64 } from './encodings.ts';
import { libsodium } from './libsodium.ts';
import { PUBLIC_KEY_BYTES, type PublicKey, publicKeyBytes, publicKeyFromBytes } from './public-key.ts';

export const SEED_BYTES = 32;
export const SIGNATURE_BYTES = 64;
/** The length of a signature in base64. */
export const SIGNATURE_CHARACTERS = 88;

/** The DER in front of the 32 raw bytes (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A private key that signs. Only OpenSSL's key object holds the seed, and libsodium's guarded memory. */
export interface Signer {
  readonly publicKey: PublicKey;
  /** A thread of this process may have it. */
  readonly privateKey: KeyObject;
  /** Base64 of the 64 signature bytes over `message`. */
  sign(message: Uint8Array): string;
  /** Signs on the thread pool, so that it does not block the event loop. */
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
    sign: signingWith(key),
    signInPool: (message) =>
      new Promise((resolve, reject) => {
        sign(null, message, key, (error, signature) => {
          if (error) reject(error);
          else resolve(signature.toString('base64'));
        });
      }),
  };
}

/** Signs messages with a private key, in base64: Ed25519 has one signature for a message, by whichever library. */
export function signingWith(key: KeyObject): (message: Uint8Array) => string {
  let secret: Buffer | undefined;
  return (message) => {
    const sodium = libsodium();
    if (!sodium) return sign(null, message, key).toString('base64');
    if (!secret) {
      secret = sodium.sodium_malloc(sodium.crypto_sign_SECRETKEYBYTES);
      // No text of the seed: a buffer can be wiped.
      const exported = key.export({ format: 'der', type: 'pkcs8' });
      const seed = exported.subarray(PKCS8_PREFIX.length);
      sodium.crypto_sign_seed_keypair(Buffer.allocUnsafe(PUBLIC_KEY_BYTES), secret, seed);
      sodium.sodium_memzero(exported);
      sodium.sodium_mprotect_readonly(secret);
    }
    const signature = Buffer.allocUnsafe(SIGNATURE_BYTES);
    sodium.crypto_sign_detached(signature, message, secret);
    return signature.toString('base64');
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

/**
 * Says whether `signature` (base64, 88 characters) is a signature of `key` over `message`; false when it is malformed.
 */
export function verifySignature(key: PublicKey, message: Uint8Array, signature: unknown): boolean {
  if (typeof signature !== 'string' || signature.length !== SIGNATURE_CHARACTERS) return false;
  const bytes = decodeBase64(signature);
  if (bytes?.length !== SIGNATURE_BYTES) return false;
  if (libsodium()?.crypto_sign_verify_detached(bytes, message, publicKeyBytes(key))) return true;
  return verify(null, message, keyObject(key), bytes);
}
