/**
 * Signed notes (c2sp.org/signed-note@v1): a text and Ed25519 signatures under it, each by a named key.
 *
 * A text is believed only when `openNote` gives it out. Signatures of keys that are not asked for are passed over, so
 * that a note may be cosigned; one of the asked key that does not verify spoils the note.
 */
import { hash } from 'node:crypto';
import { decodeBase64 } from './base64.ts';
import { type Signer, verifySignature } from './ed25519.ts';
import { type PublicKey, publicKeyBytes } from './public-key.ts';

/** Ed25519 over the text of the note. */
const SIGNATURE_TYPE = 0x01;
const KEY_ID_BYTES = 4;
/** Room for a text and far more than the 16 signatures that have to be taken. */
const NOTE_CHARACTERS_MAX = 16_384;
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/=]+)$/;

/** `text` ends in a newline; `name` has no space and no plus. */
export function signNote(text: string, name: string, signer: Signer): string {
  const signature = Buffer.from(signer.sign(Buffer.from(text)), 'base64');
  return `${text}\n\u2014 ${name} ${Buffer.concat([keyId(name, signer.publicKey), signature]).toString('base64')}\n`;
}

/** The text, when `key` signed it under `name`. */
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

/** Tells keys of one name apart, and is no proof of anything. */
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
