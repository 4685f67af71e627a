/**
 * Checkpoints of the relay's log (c2sp.org/tlog-checkpoint@v1): the relay signs the head of the tree of one epoch.
 *
 *     poste/<host_fp of the relay key>/<epoch>
 *     <size>
 *     <base64 of the root hash>
 *
 * The first line is the origin, and also the name of the signing key: each relay key and epoch has a log of its own. A
 * relay never signs two checkpoints of one origin that contradict each other.
 *
 * A checkpoint is a signed note (c2sp.org/signed-note@v1): a text with Ed25519 signatures below it, each by a named
 * key. Trust a text only when `openNote` returns it. Signatures of other keys are ignored, so that others may cosign a
 * note; one wrong signature of the key that is asked for makes the note invalid.
 */
import { hash } from 'node:crypto';
import { decodeBase64 } from './encodings.ts';
import { type Signer, verifySignature } from './ed25519.ts';
import type { Epoch } from './epoch.ts';
import { HASH_BYTES } from './merkle.ts';
import { type PublicKey, hostFingerprint, publicKeyBytes } from './public-key.ts';

export interface Checkpoint {
  epoch: Epoch;
  /** The number of leaves of the tree. */
  size: number;
  rootHash: Buffer;
}

export function signCheckpoint({ epoch, size, rootHash }: Checkpoint, signer: Signer): string {
  const origin = `${originOf(signer.publicKey)}${epoch}`;
  return signNote(`${origin}\n${size}\n${rootHash.toString('base64')}\n`, origin, signer);
}

/** The checkpoint in the note if the relay with this key signed it. */
export function openCheckpoint(note: string, relayPubkey: PublicKey): Checkpoint | undefined {
  const [origin = ''] = note.split('\n', 1);
  const relay = originOf(relayPubkey);
  const epoch = origin.startsWith(relay) ? origin.slice(relay.length) : '';
  const text = epoch === '' ? undefined : openNote(note, origin, relayPubkey);
  if (text === undefined) return undefined;
  const [, sizeText = '', root = '', ...extensions] = text.slice(0, -1).split('\n');
  const rootHash = decodeBase64(root);
  const size = Number(sizeText);
  if (!/^(?:0|[1-9][0-9]*)$/.test(sizeText) || !Number.isSafeInteger(size)) return undefined;
  if (rootHash?.length !== HASH_BYTES || extensions.includes('')) return undefined;
  return { epoch: epoch as Epoch, size, rootHash };
}

function originOf(relayPubkey: PublicKey): string {
  return `poste/${hostFingerprint(relayPubkey)}/`;
}

/** Ed25519 over the text of the note. */
const SIGNATURE_TYPE = 0x01;
const KEY_ID_BYTES = 4;
/** Room for a text and for far more signatures than the 16 that a reader must accept. */
const NOTE_CHARACTERS_MAX = 16_384;
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/=]+)$/;

/** `text` ends in a newline; `name` has no space and no plus. */
export function signNote(text: string, name: string, signer: Signer): string {
  const signature = Buffer.from(signer.sign(Buffer.from(text)), 'base64');
  return `${text}\n\u2014 ${name} ${Buffer.concat([keyId(name, signer.publicKey), signature]).toString('base64')}\n`;
}

/** The text of the note if `key` signed it under `name`. */
export function openNote(note: string, name: string, key: PublicKey): string | undefined {
  if (note.length > NOTE_CHARACTERS_MAX || !note.isWellFormed() || hasControls(note)) return undefined;
  const blank = note.lastIndexOf('\n\n');
  if (blank === -1 || !note.endsWith('\n')) return undefined;
  const text = note.slice(0, blank + 1);
  const lines = note.slice(blank + 2, -1).split('\n');
  const id = keyId(name, key);
  let isSigned = false;
  for (const line of lines) {
    const [, signer, base64 = ''] = SIGNATURE_LINE.exec(line) ?? [];
    const bytes = decodeBase64(base64);
    if (signer === undefined || !bytes || bytes.length <= KEY_ID_BYTES) return undefined;
    if (signer !== name || !bytes.subarray(0, KEY_ID_BYTES).equals(id)) continue;
    const signature = bytes.subarray(KEY_ID_BYTES).toString('base64');
    if (!verifySignature(key, Buffer.from(text), signature)) return undefined;
    isSigned = true;
  }
  return isSigned ? text : undefined;
}

/** Distinguishes keys of one name. It proves nothing. */
function keyId(name: string, key: PublicKey): Buffer {
  const named = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(SIGNATURE_TYPE), publicKeyBytes(key)]);
  return hash('sha256', named, 'buffer').subarray(0, KEY_ID_BYTES);
}

function hasControls(note: string): boolean {
  for (let at = 0; at < note.length; at++) {
    const code = note.charCodeAt(at);
    if (code < 0x20 && code !== 0x0a) return true;
  }
  return false;
}
