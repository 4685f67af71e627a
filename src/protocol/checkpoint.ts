/**
 * Checkpoints of the relay's log (c2sp.org/tlog-checkpoint@v1): the relay signs the head of the tree of one epoch.
 *
 *     poste/<host_fp of the relay key>/<epoch>
 *     <size>
 *     <base64 of the root hash>
 *     after <base64 of 32 bytes>
 *
 * The first line is the origin, and also the name of the signing key: each relay key and epoch has a log of its own. A
 * relay never signs two checkpoints of one origin that contradict each other. The fourth line, an extension line, is
 * there when a reader asked for it: the relay signed the note after it had seen these bytes.
 *
 * A checkpoint is a signed note (c2sp.org/signed-note@v1): a text with Ed25519 signatures below it, each by a named
 * key. Trust a text only when `openNote` returns it. Signatures of other keys are ignored, so that others may cosign a
 * note; one wrong signature of the key that is asked for makes the note invalid.
 */
import { hash } from 'node:crypto';
import { decodeBase64 } from './encodings.ts';
import { type Signer, verifySignature } from './ed25519.ts';
import { type Epoch, parseEpoch } from './names.ts';
import { HASH_BYTES } from './merkle.ts';
import { type PublicKey, hostFingerprint, publicKeyBytes } from './public-key.ts';

export interface Checkpoint {
  epoch: Epoch;
  /** The number of leaves of the tree. */
  size: number;
  rootHash: Buffer;
  /** 32 bytes that the relay had seen when it signed, if the note says so. */
  after?: Buffer;
}

const AFTER_BYTES = 32;
/** A plain note has the origin twice, the largest size, root, `after` and the signature. */
export const PLAIN_NOTE_CHARACTERS_MAX = 405;

export function signCheckpoint({ epoch, size, rootHash, after }: Checkpoint, signer: Signer): string {
  const origin = `${originOf(signer.publicKey)}${epoch}`;
  const lines = [origin, String(size), rootHash.toString('base64')];
  if (after) lines.push(`after ${after.toString('base64')}`);
  return signNote(`${lines.join('\n')}\n`, origin, signer);
}

/** The checkpoint in the note if the relay with this key signed it. Unknown extension lines are passed over. */
export function openCheckpoint(note: string, relayPubkey: PublicKey): Checkpoint | undefined {
  return openOwn(note, relayPubkey)?.checkpoint;
}

/**
 * The note without the signatures of others: three lines, or four with `after`, and the first signature of the relay.
 * `undefined` when the relay with this key did not sign it, and for a note with other lines or too many characters.
 */
export function plainNote(note: string, relayPubkey: PublicKey): { note: string; checkpoint: Checkpoint } | undefined {
  const found = openOwn(note, relayPubkey);
  if (!found) return undefined;
  const { text, line, checkpoint } = found;
  const plain = `${text}\n${line}\n`;
  const lines = text.split('\n').length - 1;
  if (lines !== (checkpoint.after ? 4 : 3) || plain.length > PLAIN_NOTE_CHARACTERS_MAX) return undefined;
  return { note: plain, checkpoint };
}

function openOwn(note: string, relayPubkey: PublicKey): (SignedText & { checkpoint: Checkpoint }) | undefined {
  const [origin = ''] = note.split('\n', 1);
  const relay = originOf(relayPubkey);
  const epoch = origin.startsWith(relay) ? parseEpoch(origin.slice(relay.length)) : undefined;
  const signed = epoch && signedBy(note, noteKey(origin, relayPubkey));
  if (!signed) return undefined;
  const [, sizeText = '', root = '', ...extensions] = signed.text.slice(0, -1).split('\n');
  const rootHash = decodeBase64(root);
  const size = Number(sizeText);
  if (!/^(?:0|[1-9][0-9]*)$/.test(sizeText) || !Number.isSafeInteger(size)) return undefined;
  if (rootHash?.length !== HASH_BYTES || extensions.includes('')) return undefined;
  const after = afterIn(extensions[0]);
  return { ...signed, checkpoint: { epoch, size, rootHash, ...(after && { after }) } };
}

/** The bytes of a fourth line that is one of `after`. */
function afterIn(line: string | undefined): Buffer | undefined {
  const after = line?.startsWith('after ') ? decodeBase64(line.slice('after '.length)) : undefined;
  return after?.length === AFTER_BYTES ? after : undefined;
}

function originOf(relayPubkey: PublicKey): string {
  return `poste/${hostFingerprint(relayPubkey)}/`;
}

/** Ed25519 over the text of the note. */
const ED25519 = 0x01;
const KEY_ID_BYTES = 4;
/** Room for a text and for far more signatures than the 16 that a reader must accept. */
const NOTE_CHARACTERS_MAX = 16_384;
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/=]+)$/;

/** `text` ends in a newline; `name` has no space and no plus. */
export function signNote(text: string, name: string, signer: Signer): string {
  const id = noteKeyId(name, ED25519, signer.publicKey);
  return `${text}\n${signatureLine(name, id, Buffer.from(signer.sign(Buffer.from(text)), 'base64'))}\n`;
}

export function signatureLine(name: string, id: Buffer, signature: Buffer): string {
  return `\u2014 ${name} ${Buffer.concat([id, signature]).toString('base64')}`;
}

/** The text of the note if `key` signed it under `name`. */
export function openNote(note: string, name: string, key: PublicKey): string | undefined {
  return signedBy(note, noteKey(name, key))?.text;
}

/** A key under its name, and the kind of its signatures. */
export interface NoteKey {
  name: string;
  /** `noteKeyId` gives it. */
  id: Buffer;
  isRight: (text: Buffer, signature: Buffer) => boolean;
}

function noteKey(name: string, key: PublicKey): NoteKey {
  const isRight = (text: Buffer, signature: Buffer): boolean =>
    verifySignature(key, text, signature.toString('base64'));
  return { name, id: noteKeyId(name, ED25519, key), isRight };
}

/** The lines of a note that are signed, with the newline behind the last; `''` of what has no signatures. */
export function noteText(note: string): string {
  return note.slice(0, note.lastIndexOf('\n\n') + 1);
}

/** A text with the first line of those that sign it under one name. */
interface SignedText {
  text: string;
  line: string;
  /** The bytes of that line, without the key id. */
  signature: Buffer;
}

/** `undefined` unless the key signed the note, and for a note that is none or has a wrong signature of that key. */
export function signedBy(note: string, { name, id, isRight }: NoteKey): SignedText | undefined {
  if (note.length > NOTE_CHARACTERS_MAX || !note.isWellFormed() || hasControls(note)) return undefined;
  const text = noteText(note);
  if (text === '' || !note.endsWith('\n')) return undefined;
  const lines = note.slice(text.length + 1, -1).split('\n');
  let signed: SignedText | undefined;
  for (const line of lines) {
    const [, signer, base64 = ''] = SIGNATURE_LINE.exec(line) ?? [];
    const bytes = decodeBase64(base64);
    if (signer === undefined || !bytes || bytes.length <= KEY_ID_BYTES) return undefined;
    if (signer !== name || !bytes.subarray(0, KEY_ID_BYTES).equals(id)) continue;
    const signature = bytes.subarray(KEY_ID_BYTES);
    if (!isRight(Buffer.from(text), signature)) return undefined;
    signed ??= { text, line, signature };
  }
  return signed;
}

/** Distinguishes keys of one name, and kinds of signatures by one key. It proves nothing. */
export function noteKeyId(name: string, signatureType: number, key: PublicKey): Buffer {
  const named = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(signatureType), publicKeyBytes(key)]);
  return hash('sha256', named, 'buffer').subarray(0, KEY_ID_BYTES);
}

function hasControls(note: string): boolean {
  for (let at = 0; at < note.length; at++) {
    const code = note.charCodeAt(at);
    if (code < 0x20 && code !== 0x0a) return true;
  }
  return false;
}
