/** Names the parties of the vectors, their times, and what every file says of its encodings. */
import { encodeBase64 } from '../../src/protocol/encodings.ts';
import { canonicalBytes, canonicalJson } from '../../src/protocol/documents.ts';
import { type Signer, signerFromSeed } from '../../src/protocol/ed25519.ts';
import { epochFromRandom } from '../../src/protocol/names.ts';
import { createPrivateKey, createPublicKey } from 'node:crypto';

export interface Party {
  host: string;
  seed: Buffer;
  signer: Signer;
}

/** A host or relay whose seed is 32 times the same byte: nobody can take it for a real one. */
function party(host: string, seedByte: number): Party {
  const seed = Buffer.alloc(32, seedByte);
  return { host, seed, signer: signerFromSeed(seed) };
}

export const relay = party('relay', 0x01);
export const alice = party('alice-mac', 0x02);
export const bob = party('bob.example', 0x03);
export const carol = party('carol_7', 0x04);
/** The keys that `alice-mac` goes on under. */
export const aliceSecond = party(alice.host, 0x05);
export const aliceThird = party(alice.host, 0x06);
export const witness = party('witness.example', 0x07);
export const secondWitness = party('other-witness.example', 0x08);
export const secondRelay = party('other-relay', 0x09);

/** The seed and public key as every file shows them. */
export function keysOf({ seed, signer }: Party): { seed: string; pubkey: string } {
  return { seed: encodeBase64(seed), pubkey: signer.publicKey };
}

/** The same of a host, with its name. */
export function hostOf(host: Party): { name: string; seed: string; pubkey: string } {
  return { name: host.host, ...keysOf(host) };
}

/** A document, the text whose UTF-8 bytes are signed, and the signature. */
export function signed<D extends object>(
  document: D,
  signer: Signer,
): { document: D; canonical: string; signature: string } {
  return { document, canonical: canonicalJson(document), signature: signer.sign(canonicalBytes(document)) };
}

/** Ends the description of each file. */
export const CONVENTIONS =
  'Keys, seeds, signatures and wire bytes are RFC 4648 section 4 base64, padded. Times are milliseconds since the ' +
  'Unix epoch. Signatures are Ed25519 (RFC 8032); with the seed you can make them yourself, and they must come out ' +
  'the same. "canonical" is the RFC 8785 (JCS) form of the document: its UTF-8 bytes are what is signed.';

export const AT = 1_763_675_303_000;
export const EPOCH = epochFromRandom(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'));

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
export const thirdEphemeralKey = sealKey(0x43);
export const fourthEphemeralKey = sealKey(0x44);
export const fifthEphemeralKey = sealKey(0x45);
export const sixthEphemeralKey = sealKey(0x46);
export const seventhEphemeralKey = sealKey(0x47);
