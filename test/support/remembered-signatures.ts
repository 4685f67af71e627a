/**
 * For tests that verify the same signatures many times: libsodium does so once, and not at all for what it signed here.
 *
 * It is the library that remembers: a worker's files share the modules that they import, so that a module which took
 * the place of one of them would come too late for some, and stay for others.
 */
import { afterAll, beforeAll } from 'vitest';
import { SEED_BYTES } from '../../src/protocol/ed25519.ts';
import { libsodium } from '../../src/protocol/libsodium.ts';

const REMEMBERED_MAX = 20_000;

/** Of `Libsodium`, as functions that can be replaced. */
interface Signing {
  crypto_sign_detached: (signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array) => void;
  crypto_sign_verify_detached: (signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array) => boolean;
}

/** In the file that calls it. Without libsodium all is verified every time. */
export function rememberSignatures(): void {
  const sodium: Signing | undefined = libsodium();
  if (!sodium) return;
  const { crypto_sign_detached: sign, crypto_sign_verify_detached: verify } = sodium;
  const right = new Set<string>();
  const remember = (name: string): void => {
    if (right.size >= REMEMBERED_MAX) right.clear();
    right.add(name);
  };
  beforeAll(() => {
    sodium.crypto_sign_detached = (signature, message, secretKey) => {
      sign(signature, message, secretKey);
      // The public key is the second half.
      remember(nameOf(signature, message, secretKey.subarray(SEED_BYTES)));
    };
    sodium.crypto_sign_verify_detached = (signature, message, publicKey) => {
      const name = nameOf(signature, message, publicKey);
      if (right.has(name)) return true;
      const isRight = verify(signature, message, publicKey);
      if (isRight) remember(name);
      return isRight;
    };
  });
  afterAll(() => void Object.assign(sodium, { crypto_sign_detached: sign, crypto_sign_verify_detached: verify }));
}

function nameOf(...parts: readonly Uint8Array[]): string {
  return Buffer.concat(parts).toString('latin1');
}
