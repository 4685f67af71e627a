/** Ed25519 public keys in the form of the wire. */
import { type Sha256Hex, areSame, decodeBase64, sha256Hex } from './encodings.ts';

declare const publicKeyBrand: unique symbol;
/** Base64 of 32 bytes, 44 characters. A key of an enrolment row has also passed `isAcceptablePoint`. */
export type PublicKey = string & { readonly [publicKeyBrand]: true };

export const PUBLIC_KEY_BYTES = 32;
export const PUBLIC_KEY_CHARACTERS = 44;
/** Canonical base64 of 32 bytes, which is what `parsePublicKey` takes. */
export const PUBLIC_KEY_PATTERN = '^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$';

/** The key if `text` is canonical base64 of 32 bytes. `isAcceptablePoint` checks its point. */
export function parsePublicKey(text: unknown): PublicKey | undefined {
  if (typeof text !== 'string' || text.length !== PUBLIC_KEY_CHARACTERS) return undefined;
  const slot = (text.charCodeAt(0) * 64 + text.charCodeAt(1)) % KNOWN_MAX;
  if (parsedTexts[slot] === text) return parsedTexts[slot];
  const bytes = decodeBase64(text);
  return bytes?.length === PUBLIC_KEY_BYTES ? (parsedTexts[slot] = publicKeyFromBytes(bytes)) : undefined;
}

export function publicKeyFromBytes(bytes: Uint8Array): PublicKey {
  if (bytes.length !== PUBLIC_KEY_BYTES) throw new RangeError('a public key has 32 bytes');
  return keyTextAt(bytes, 0);
}

/** Keys by what they begin with: the same few hosts are named again and again, and one text of each is looked up. */
const KNOWN_MAX = 4096;
const parsedTexts: (PublicKey | undefined)[] = /* @__PURE__ */ Array.from({ length: KNOWN_MAX });
const knownTexts: (PublicKey | undefined)[] = /* @__PURE__ */ Array.from({ length: KNOWN_MAX });
const knownBytes = /* @__PURE__ */ Buffer.alloc(KNOWN_MAX * PUBLIC_KEY_BYTES);

/** The text of the 32 bytes at `at`. */
export function keyTextAt(bytes: Uint8Array, at: number): PublicKey {
  const slot = ((bytes[at] as number) << 4) | ((bytes[at + 1] as number) >> 4);
  const known = knownTexts[slot];
  if (known !== undefined && areSame(bytes, at, knownBytes, slot * PUBLIC_KEY_BYTES, PUBLIC_KEY_BYTES)) return known;
  const { buffer, byteOffset, length } = bytes.subarray(at, at + PUBLIC_KEY_BYTES);
  const key = Buffer.from(buffer, byteOffset, length);
  key.copy(knownBytes, slot * PUBLIC_KEY_BYTES);
  return (knownTexts[slot] = key.toString('base64') as PublicKey);
}

export function publicKeyBytes(key: PublicKey): Buffer {
  return Buffer.from(key, 'base64');
}

/** `host_fp`: lowercase hex SHA-256 of the 32 key bytes. */
export function hostFingerprint(key: PublicKey): Sha256Hex {
  return sha256Hex(publicKeyBytes(key));
}

/** The fingerprint for people, in the form of ssh: `SHA256:` and unpadded base64. */
export function displayFingerprint(key: PublicKey): string {
  return `SHA256:${Buffer.from(hostFingerprint(key), 'hex').toString('base64').replace(/=+$/, '')}`;
}

/** Reads a fingerprint in the form of `displayFingerprint` or of `host_fp`. */
export function parseFingerprint(text: string): Sha256Hex | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase() as Sha256Hex;
  const shown = /^SHA256:([A-Za-z0-9+/]{43})$/.exec(text)?.[1];
  if (shown === undefined) return undefined;
  return decodeBase64(`${shown}=`)?.toString('hex') as Sha256Hex | undefined;
}
