/**
 * The code by which one host invites another on a LAN, and the MAC that proves that a side knows it.
 *
 * A code carries 32 bytes: the first 16 of the SHA-256 of the inviter's key, then a secret of 16. The host that
 * accepts knows by the first half whom it speaks to before it sends anything. The second half is the key of both sides' MACs, which
 * cover every word of the exchange.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { decodeBase64 } from './base64.ts';
import { NotCanonicalisable, canonicalBytes } from './canonical-json.ts';
import { decodeCrockford, encodeCrockford } from './crockford.ts';
import { lanPair } from './documents.ts';
import { type PublicKey, hostFingerprint } from './public-key.ts';

export const PAIRING_SECRET_BYTES = 16;
const KEY_HASH_BYTES = 16;
const GROUP_DIGITS = 4;

export interface PairingCode {
  /** The first 16 bytes of the SHA-256 of the inviter's key, in hexadecimal. */
  keyHash: string;
  secret: Buffer;
}

/** 52 digits in groups of 4. Throws `RangeError` unless the secret has 16 bytes. */
export function pairingCodeText(inviter: PublicKey, secret: Uint8Array): string {
  if (secret.length !== PAIRING_SECRET_BYTES) throw new RangeError('a pairing secret has 16 bytes');
  const keyHash = Buffer.from(hostFingerprint(inviter), 'hex').subarray(0, KEY_HASH_BYTES);
  const digits = encodeCrockford(Buffer.concat([keyHash, secret]));
  return (digits.match(new RegExp(`.{1,${GROUP_DIGITS}}`, 'g')) ?? []).join('-');
}

/** What a code says, however its groups are set and its letters written; `undefined` when it is none. */
export function parsePairingCode(text: string): PairingCode | undefined {
  const bytes = decodeCrockford(text.replaceAll(/[\s-]/g, ''), KEY_HASH_BYTES + PAIRING_SECRET_BYTES);
  if (!bytes) return undefined;
  return { keyHash: bytes.toString('hex', 0, KEY_HASH_BYTES), secret: bytes.subarray(KEY_HASH_BYTES) };
}

/** Whether the code was made by the holder of this key. */
export function isCodeOf({ keyHash }: PairingCode, inviter: PublicKey): boolean {
  return hostFingerprint(inviter).startsWith(keyHash);
}

/** What a MAC covers. */
export type PairingWords = Parameters<typeof lanPair>[0];

/** Base64 of the HMAC-SHA256 that the side of `words.role` sends. Throws `NotCanonicalisable`. */
export function pairingMac(secret: Uint8Array, words: PairingWords): string {
  return createHmac('sha256', secret)
    .update(canonicalBytes(lanPair(words)))
    .digest('base64');
}

/** Whether `mac` covers exactly these words; takes as long for a wrong one. */
export function isPairingMac(mac: string, secret: Uint8Array, words: PairingWords): boolean {
  const given = decodeBase64(mac);
  let expected: Buffer;
  try {
    expected = Buffer.from(pairingMac(secret, words), 'base64');
  } catch (error) {
    // What has no canonical form has no MAC.
    if (error instanceof NotCanonicalisable) return false;
    throw error;
  }
  return given?.length === expected.length && timingSafeEqual(given, expected);
}
