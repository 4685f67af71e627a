/** X25519 keys of the vectors, from secrets that are 32 times the same byte. */
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { encodeBase64 } from '../../src/protocol/base64.ts';

export interface SealKey {
  /** Both base64 of 32 bytes. */
  secret: string;
  encPub: string;
}

/** The DER in front of the 32 raw bytes of a private key (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const KEY_BYTES = 32;

function sealKey(secretByte: number): SealKey {
  const secret = Buffer.alloc(KEY_BYTES, secretByte);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, secret]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { secret: encodeBase64(secret), encPub: encodeBase64(spki.subarray(-KEY_BYTES)) };
}

export const aliceSealKey = sealKey(0x12);
export const bobSealKey = sealKey(0x13);
export const bobSecondSealKey = sealKey(0x23);
export const carolSealKey = sealKey(0x14);
/** The one-time keys of senders, which nobody but a vector may ever fix. */
export const firstEphemeralKey = sealKey(0x41);
export const secondEphemeralKey = sealKey(0x42);
