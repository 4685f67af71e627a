/**
 * The code by which one host invites another on a LAN, and the MAC that proves that a host knows the code.
 *
 * A code holds 32 bytes: the first 16 bytes of the SHA-256 of the inviter's key, then a secret of 16 bytes. By the
 * first half the accepting host checks the inviter's key before it sends anything. The secret is the key of both MACs,
 * which cover the whole request and answer.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { decodeBase64, decodeCrockford, encodeCrockford } from './encodings.ts';
import { NotCanonicalisable, canonicalBytes, lanPair } from './documents.ts';
import { type PublicKey, hostFingerprint } from './public-key.ts';

export const PAIRING_SECRET_BYTES = 16;
const KEY_HASH_BYTES = 16;
const GROUP_DIGITS = 4;

interface PairingCode {
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

/** Reads a code in upper or lower case, with any spaces and dashes; `undefined` when it is not a code. */
export function parsePairingCode(text: string): PairingCode | undefined {
  const bytes = decodeCrockford(text.replaceAll(/[\s-]/g, ''), KEY_HASH_BYTES + PAIRING_SECRET_BYTES);
  if (!bytes) return undefined;
  return { keyHash: bytes.toString('hex', 0, KEY_HASH_BYTES), secret: bytes.subarray(KEY_HASH_BYTES) };
}

/** Says whether the code names the key of this inviter. */
export function isCodeOf({ keyHash }: PairingCode, inviter: PublicKey): boolean {
  return hostFingerprint(inviter).startsWith(keyHash);
}

/** The content that a MAC covers. */
export type PairingContent = Parameters<typeof lanPair>[0];

/** Base64 of the HMAC-SHA256 that the host in `content.role` sends. Throws `NotCanonicalisable`. */
export function pairingMac(secret: Uint8Array, content: PairingContent): string {
  return createHmac('sha256', secret)
    .update(canonicalBytes(lanPair(content)))
    .digest('base64');
}

/** Says whether `mac` covers exactly this content. The comparison takes constant time. */
export function isPairingMac(mac: string, secret: Uint8Array, content: PairingContent): boolean {
  const given = decodeBase64(mac);
  let expected: Buffer;
  try {
    expected = Buffer.from(pairingMac(secret, content), 'base64');
  } catch (error) {
    // A value without a canonical form has no MAC.
    if (error instanceof NotCanonicalisable) return false;
    throw error;
  }
  return given?.length === expected.length && timingSafeEqual(given, expected);
}
