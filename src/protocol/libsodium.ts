/**
 * libsodium, where it loads: a signature in 18 to 20 µs instead of OpenSSL's 35, a verification in 50 instead of 105,
 * and less for the steps of sealed mail. It is optional: who calls it does without where there is no prebuilt binary.
 */
import { createRequire } from 'node:module';

/**
 * The functions of `sodium-native` that are used; it has no types. All throw for arguments of another length or kind.
 */
interface Libsodium {
  crypto_sign_SECRETKEYBYTES: number;
  /** Fills in the 32 bytes of the public key and the 64 of the secret key. */
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void;
  /** Fills in the 64 bytes of the signature. */
  crypto_sign_detached(signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array): void;
  crypto_sign_verify_detached(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  /** Fills in the 32 bytes of the X25519 key of a secret. */
  crypto_scalarmult_base(publicKey: Uint8Array, secretKey: Uint8Array): void;
  /** Fills in the 32 bytes of the shared secret. Throws where it would be zero. */
  crypto_scalarmult(shared: Uint8Array, secretKey: Uint8Array, publicKey: Uint8Array): void;
  /** Fills in the ciphertext and, behind it, the 16 bytes of its tag. */
  crypto_aead_chacha20poly1305_ietf_encrypt(
    sealed: Uint8Array,
    message: Uint8Array,
    additional: Uint8Array,
    secretNonce: null,
    nonce: Uint8Array,
    key: Uint8Array,
  ): number;
  /** Fills in the message. Throws where the tag is not right. */
  crypto_aead_chacha20poly1305_ietf_decrypt(
    message: Uint8Array,
    secretNonce: null,
    sealed: Uint8Array,
    additional: Uint8Array,
    nonce: Uint8Array,
    key: Uint8Array,
  ): number;
  /** Memory between guarded pages that is not swapped out, and no part of V8's heap. */
  sodium_malloc(bytes: number): Buffer;
  sodium_mprotect_readonly(memory: Buffer): void;
  sodium_memzero(memory: Uint8Array): void;
}

/** The first call loads it: a command that signs nothing does not wait for it. `undefined` where it does not run. */
export const libsodium: () => Libsodium | undefined = /* @__PURE__ */ loadedOnce(requireLibsodium);

function requireLibsodium(): Libsodium {
  return createRequire(import.meta.url)('sodium-native') as Libsodium;
}

/** Returns what `load` returned when it was first asked for; `undefined` where it threw: it is called once. */
export function loadedOnce<T>(load: () => T): () => T | undefined {
  let found: { value: T | undefined } | undefined;
  return () => (found ??= { value: orNothing(load) }).value;
}

function orNothing<T>(load: () => T): T | undefined {
  try {
    return load();
  } catch {
    // Not installed, or no binary for this platform.
    return undefined;
  }
}
