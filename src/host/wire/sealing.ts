/**
 * Seals a message for one host and opens it again: HPKE (RFC 9180), base mode, X25519, HKDF-SHA256, ChaCha20-Poly1305.
 *
 * Only ids, addresses, the subject, sizes, timing and hop counts are outside the seal. The associated data is
 * everything in the envelope that the sender fixes, so a change to any part of it breaks the seal.
 */
import type { webcrypto } from 'node:crypto';
import { decodeBase64, encodeBase64, sha256Hex } from '../../protocol/encodings.ts';
import { CanonicalMembers, canonicalBytes } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { SealKey } from '../core/rows.ts';
import { sealSuite } from './seal-suite.ts';

export const SEAL_ALGORITHM = 'HPKE-v1/X25519-HKDF-SHA256/HKDF-SHA256/ChaCha20Poly1305';
export const SEAL_INFO = Buffer.from('mail-envelope-v1', 'utf8');

/** The part of an envelope that the relay operator may see. */
export interface EnvelopeHead {
  v: 1;
  type: 'envelope';
  id: string;
  /** `agent@host`. */
  from: string;
  from_host_pubkey: PublicKey;
  to: string[];
  to_host: string;
  subject: string;
  /** Milliseconds since the Unix epoch. */
  created_at: number;
}

/** The part of an envelope that only the target host may see. */
export interface SealedContent {
  kind: string;
  needs_reply: boolean;
  origin: string | null;
  refs: string[];
  reply_to: string | null;
  thread: string;
  body: string;
  /** Marks of what the receiving host has shown of relays and this one has heard. `parseHeard` reads it. */
  heard?: unknown;
  /** What the sending host says of relays (protocol/home-relays.ts). Another host's may be anything. */
  home?: unknown;
  /** What the sending host has seen of a relay. Another host's may be anything: `parseSeen` reads it. */
  seen?: unknown;
}

/** What was sealed to a key, all base64 but the id of the key. */
export interface Sealed {
  key_id: string;
  enc: string;
  ct: string;
}

export interface Envelope extends EnvelopeHead {
  /** Counted by each relay or host that forwards it; neither sealed nor signed. */
  hops: number;
  sealed: Sealed & { alg: string };
  /** Base64: the sending host's signature over the envelope without `sig` and `hops`. */
  sig: string;
}

/** Thrown when what was sealed does not open: another key, or a changed byte. */
export class NotOpened extends Error {}

/** A new X25519 key pair, both base64 of 32 bytes. */
export async function generateSealKey(): Promise<{ enc_pub: string; secret: string }> {
  const { publicKey, privateKey } = await sealSuite.kem.generateKeyPair();
  return {
    enc_pub: encodeBase64(new Uint8Array(await sealSuite.kem.serializePublicKey(publicKey))),
    secret: encodeBase64(new Uint8Array(await sealSuite.kem.serializePrivateKey(privateKey))),
  };
}

/** The first 16 hexadecimal digits of SHA-256 of the encryption key that was sealed to. */
export function sealKeyId(encPub: string): string {
  return sha256Hex(Buffer.from(encPub, 'base64')).slice(0, 16);
}

/** The envelope for the host whose advertised key is `encPub`, signed by the sending host. */
export async function sealEnvelope(...given: Parameters<typeof sealedWire>): Promise<Envelope> {
  return JSON.parse((await sealedWire(...given)).toString('utf8')) as Envelope;
}

/** As `sealEnvelope`, in its wire form, which is JCS. */
export async function sealedWire(
  head: EnvelopeHead,
  content: SealedContent,
  encPub: string,
  signer: Signer,
): Promise<Buffer> {
  const members = new CanonicalMembers({ hops: 0, sealed: null, sig: null, ...head });
  const sealed = await sealTo(encPub, SEAL_INFO, canonicalBytes(content), additionalOf(members));
  members.set('sealed', { alg: SEAL_ALGORITHM, ...sealed });
  members.set('sig', signer.sign(signedBytesOf(members)));
  return members.bytesWithout();
}

/** Seals to the key `encPub`; `additional` is what the seal covers besides. */
export async function sealTo(encPub: string, info: Buffer, plaintext: Buffer, additional: Buffer): Promise<Sealed> {
  const { keyId, publicKey: recipientPublicKey } = await recipientOf(encPub);
  const context = await sealSuite.createSenderContext({ recipientPublicKey, info });
  const ct = await context.seal(plaintext, additional);
  return { ct: encodeBase64(new Uint8Array(ct)), enc: encodeBase64(new Uint8Array(context.enc)), key_id: keyId };
}

/** Returns what the host key signs: the envelope without its signature and hops. */
export function signedBytesOf(envelope: CanonicalMembers): Buffer {
  return envelope.bytesWithout('hops', 'sig');
}

/** Returns what the seal covers besides: what the sender fixed before it sealed. */
function additionalOf(envelope: CanonicalMembers): Buffer {
  return envelope.bytesWithout('hops', 'sealed', 'sig');
}

/**
 * The bytes that were sealed to `key`. Throws `NotOpened`. The caller has verified the signature; `members` are those
 * of the envelope, where it knows them.
 */
export async function openSeal(
  envelope: Envelope,
  key: Pick<SealKey, 'encPub' | 'secret'>,
  members?: CanonicalMembers,
): Promise<Buffer> {
  return openWith(key, envelope.sealed, SEAL_INFO, additionalOf(members ?? new CanonicalMembers(envelope)));
}

/** What `sealTo` sealed to `key`. Throws `NotOpened`. */
export async function openWith(
  key: Pick<SealKey, 'encPub' | 'secret'>,
  { enc, ct }: Pick<Sealed, 'enc' | 'ct'>,
  info: Buffer,
  additional: Buffer,
): Promise<Buffer> {
  try {
    const recipientKey = await keyPairOf(key);
    const context = await sealSuite.createRecipientContext({ recipientKey, enc: keyBytes(enc), info });
    return Buffer.from(await context.open(keyBytes(ct), additional));
  } catch (error) {
    throw new NotOpened('what was sealed does not open with this key', { cause: error });
  }
}

interface SealRecipient {
  keyId: string;
  publicKey: webcrypto.CryptoKey;
}

/** More than the hosts that most hosts are paired with. */
const RECIPIENTS_MAX = 1_000;
const recipients = new Map<string, Promise<SealRecipient>>();

/** The key that is sealed to, read once. */
function recipientOf(encPub: string): Promise<SealRecipient> {
  const known = recipients.get(encPub);
  if (known) return known;
  const recipient = readRecipient(encPub);
  if (recipients.size >= RECIPIENTS_MAX) recipients.clear();
  recipients.set(encPub, recipient);
  return recipient;
}

async function readRecipient(encPub: string): Promise<SealRecipient> {
  return { keyId: sealKeyId(encPub), publicKey: await sealSuite.kem.deserializePublicKey(keyBytes(encPub)) };
}

const pairs = new WeakMap<Pick<SealKey, 'encPub' | 'secret'>, Promise<webcrypto.CryptoKeyPair>>();

/** Both halves of the pair, read once for each key: without the public one, each message computes it. */
function keyPairOf(key: Pick<SealKey, 'encPub' | 'secret'>): Promise<webcrypto.CryptoKeyPair> {
  const known = pairs.get(key);
  if (known) return known;
  const pair = readPair(key);
  pairs.set(key, pair);
  return pair;
}

async function readPair({ encPub, secret }: Pick<SealKey, 'encPub' | 'secret'>): Promise<webcrypto.CryptoKeyPair> {
  return {
    privateKey: await sealSuite.kem.deserializePrivateKey(keyBytes(secret)),
    publicKey: await sealSuite.kem.deserializePublicKey(keyBytes(encPub)),
  };
}

function keyBytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeBase64(text);
  if (!bytes) throw new NotOpened('a member of what was sealed is no base64');
  return new Uint8Array(bytes);
}
