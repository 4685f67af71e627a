/**
 * Cosignatures of checkpoints, and how a log asks a witness for one (c2sp.org/tlog-cosignature, c2sp.org/tlog-witness).
 *
 * A witness says with a cosignature that it saw the log grow up to this checkpoint without a contradiction, and that it
 * knew no larger one at that time. Here is the Ed25519 kind, cosignature v1:
 *
 *     signed   cosignature/v1\ntime <seconds>\n and the text of the note
 *     line     — <name of the witness> <base64 of key id, 8 bytes of seconds, 64 bytes of signature>
 *
 * Cosignatures of other kinds (ML-DSA-44, 0x06) are lines of unknown keys, and are passed over.
 */
import { type NoteKey, noteKeyId, noteText, signatureLine, signedBy } from './checkpoint.ts';
import { decodeBase64 } from './encodings.ts';
import { SIGNATURE_BYTES, type Signer, verifySignature } from './ed25519.ts';
import { HASH_BYTES } from './merkle.ts';
import { PUBLIC_KEY_BYTES, type PublicKey, publicKeyBytes, publicKeyFromBytes } from './public-key.ts';

/** The byte of cosignature v1 in key ids and verifier keys. */
const COSIGNATURE_V1 = 0x04;
const TIME_BYTES = 8;

/** The key of a witness, and the name under which it signs. */
export interface WitnessKey {
  name: string;
  publicKey: PublicKey;
}

/** Says whether a witness may sign under this name. */
export function isWitnessName(name: string): boolean {
  return /^[^\s+\p{Cc}]{1,100}$/u.test(name) && name.isWellFormed();
}

/** Reads a verifier key (vkey) of cosignature v1: `<name>+<key id in hex>+<base64 of 0x04 and the key>`. */
export function parseWitnessKey(vkey: string): WitnessKey | undefined {
  const [, name = '', id, base64 = ''] = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/u.exec(vkey) ?? [];
  const bytes = decodeBase64(base64);
  if (!isWitnessName(name) || bytes?.length !== 1 + PUBLIC_KEY_BYTES || bytes[0] !== COSIGNATURE_V1) return undefined;
  const key = { name, publicKey: publicKeyFromBytes(bytes.subarray(1)) };
  return keyId(key).toString('hex') === id ? key : undefined;
}

/** The verifier key that `parseWitnessKey` reads. */
export function witnessKeyText(key: WitnessKey): string {
  const bytes = Buffer.concat([Buffer.of(COSIGNATURE_V1), publicKeyBytes(key.publicKey)]);
  return `${key.name}+${keyId(key).toString('hex')}+${bytes.toString('base64')}`;
}

/** The line of a cosignature of the note, without a newline. `timeS` is in seconds since 1970. */
export function cosignatureLine(note: string, name: string, signer: Signer, timeS: number): string {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(timeS));
  const signature = Buffer.from(signer.sign(cosignedBytes(noteText(note), timeS)), 'base64');
  return signatureLine(name, keyId({ name, publicKey: signer.publicKey }), Buffer.concat([time, signature]));
}

interface Cosignature {
  /** The line as it stands in the note. */
  line: string;
  /** Seconds since 1970. */
  timeS: number;
}

/** The first cosignature of the witness in the note; `undefined` without one, and if one of them is wrong. */
export function openCosignature(note: string, key: WitnessKey): Cosignature | undefined {
  const noteKey: NoteKey = {
    name: key.name,
    id: keyId(key),
    isRight: (text, bytes) => {
      if (bytes.length !== TIME_BYTES + SIGNATURE_BYTES) return false;
      const signature = bytes.subarray(TIME_BYTES).toString('base64');
      return verifySignature(key.publicKey, cosignedBytes(text, timeOf(bytes)), signature);
    },
  };
  const signed = signedBy(note, noteKey);
  return signed && { line: signed.line, timeS: Number(timeOf(signed.signature)) };
}

function timeOf(bytes: Buffer): bigint {
  return bytes.readBigUInt64BE();
}

function cosignedBytes(text: string | Buffer, timeS: number | bigint): Buffer {
  return Buffer.concat([Buffer.from(`cosignature/v1\ntime ${timeS}\n`), Buffer.from(text)]);
}

function keyId({ name, publicKey }: WitnessKey): Buffer {
  return noteKeyId(name, COSIGNATURE_V1, publicKey);
}

/** A log asks this of a witness. */
export interface AddCheckpoint {
  /** The size up to which the witness knows the log; 0: it knows nothing of it. */
  old: number;
  /** Hashes of 32 bytes, which prove that the log of this size continues. */
  proof: readonly Buffer[];
  /** The checkpoint to be cosigned. */
  note: string;
}

const PROOF_HASHES_MAX = 63;
/** No answer of a witness is as long: it has a few signature lines, also such of other kinds. */
export const WITNESS_ANSWER_BYTES_MAX = 16_384;

export function addCheckpointBody({ old, proof, note }: AddCheckpoint): string {
  const lines = [`old ${old}`, ...proof.map((hash) => hash.toString('base64'))];
  return `${lines.join('\n')}\n\n${note}`;
}

/** Reads a body of `add-checkpoint`; `undefined` when it is none. The note is not looked at. */
export function parseAddCheckpoint(body: string): AddCheckpoint | undefined {
  const end = body.indexOf('\n\n');
  if (end === -1) return undefined;
  const [first = '', ...lines] = body.slice(0, end).split('\n');
  const old = parseSize(/^old (.*)$/.exec(first)?.[1] ?? '');
  const proof = lines.map(decodeBase64);
  if (old === undefined || proof.length > PROOF_HASHES_MAX) return undefined;
  if (!proof.every((hash): hash is Buffer => hash?.length === HASH_BYTES)) return undefined;
  return { old, proof, note: body.slice(end + 2) };
}

/** A size of a log in decimal, as the body and the answer 409 have it. */
export function parseSize(text: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
}
