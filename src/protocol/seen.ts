/**
 * A host tells this to its peers of a relay: the newest checkpoint that it has, and what it knew when it asked.
 *
 * A host that asks for a checkpoint sends `after`, the SHA-256 of `knew`, and the relay signs it with its newest head
 * (checkpoint.ts). `knew` is 16 random bytes and the hashes of four plain notes, random where there are fewer.
 * So the relay signs that this head is its newest, after those notes, and cannot read which they are; and a peer that
 * has one of them sees that it is in there.
 *
 * A peer that has heard an entry says so by its mark, and the entry is left out of what goes to that peer from then on.
 */
import { hash } from 'node:crypto';
import { isObject } from './json.ts';
import { canonicalBytes } from './documents.ts';
import { PLAIN_NOTE_CHARACTERS_MAX } from './checkpoint.ts';
import { type Sha256Hex, base64Length, decodeBase64, sha256Hex } from './encodings.ts';
import { HASH_BYTES } from './merkle.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

/** One relay, as one host sees it. */
export interface SeenEntry {
  relay: PublicKey;
  /** A note of the relay, whose signature is not verified yet (`plainNote`). */
  checkpoint: string;
  /** `KNEW_BYTES` in base64: those of the note's `after`, random where it has none. */
  knew: string;
}

/** Two hosts may share a relay each. */
export const SEEN_ENTRIES_MAX = 2;

const SALT_BYTES = 16;
export const KNEW_NOTES_MAX = 4;
export const KNEW_BYTES = SALT_BYTES + KNEW_NOTES_MAX * HASH_BYTES;
export const KNEW_CHARACTERS = base64Length(KNEW_BYTES);

/** `randomBytes` gives so many fresh bytes. Throws `RangeError` for more than `KNEW_NOTES_MAX` hashes. */
export function makeKnew(noteHashes: readonly Sha256Hex[], randomBytes: (count: number) => Buffer): Buffer {
  if (noteHashes.length > KNEW_NOTES_MAX) throw new RangeError('knew has room for the hashes of four notes');
  const knew = Buffer.from(randomBytes(KNEW_BYTES));
  for (const [nth, ofNote] of noteHashes.entries()) knew.write(ofNote, SALT_BYTES + nth * HASH_BYTES, 'hex');
  return knew;
}

/** The bytes that the relay signs in the line `after`. */
export function afterOf(knew: Buffer): Buffer {
  return hash('sha256', knew, 'buffer');
}

/** Says whether one of the hashes in `knew` is this one. */
export function knewHolds(knew: Buffer, ofNote: Sha256Hex): boolean {
  if (knew.length !== KNEW_BYTES) return false;
  const hashes = knew.toString('hex', SALT_BYTES);
  for (let at = 0; at < hashes.length; at += ofNote.length) if (hashes.startsWith(ofNote, at)) return true;
  return false;
}

/**
 * The hash of a plain note, which `knew` holds. It covers the signature: a host that pushes the next item can guess the
 * next text, and would make the relay sign "after" a note that it has not signed yet.
 */
export function noteHash(note: string): Sha256Hex {
  return sha256Hex(note);
}

/** The same as 32 bytes: as the line `after`, it says that a checkpoint was signed after this one note. */
export function noteBytes(note: string): Buffer {
  return Buffer.from(noteHash(note), 'hex');
}

/** The first entries of an untrusted list that have the right shape. An entry of another shape is passed over. */
export function parseSeen(value: unknown): SeenEntry[] {
  const entries: SeenEntry[] = [];
  if (!Array.isArray(value)) return entries;
  for (const one of value as unknown[]) {
    const entry = parseEntry(one);
    if (entry) entries.push(entry);
    if (entries.length === SEEN_ENTRIES_MAX) break;
  }
  return entries;
}

function parseEntry(value: unknown): SeenEntry | undefined {
  if (!isObject(value)) return undefined;
  const { checkpoint, knew } = value;
  const relay = parsePublicKey(value['relay']);
  if (!relay || typeof checkpoint !== 'string' || typeof knew !== 'string') return undefined;
  if (checkpoint.length > PLAIN_NOTE_CHARACTERS_MAX || !checkpoint.isWellFormed()) return undefined;
  if (decodeKnew(knew) === undefined) return undefined;
  return { relay, checkpoint, knew };
}

const MARK_BYTES = 16;
const MARK_CHARACTERS = 22;

/**
 * The mark of an entry: by it a host says which one it has heard. It covers `knew`, of which no relay knows the random
 * bytes, so that no relay can make it, nor tell what it is of.
 */
export function markOf({ checkpoint, knew, relay }: SeenEntry): string {
  const digest = hash('sha256', canonicalBytes({ checkpoint, knew, relay }), 'buffer');
  return digest.toString('base64url', 0, MARK_BYTES);
}

/** The first marks in an untrusted list. What has another shape is passed over. */
export function parseHeard(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  const marks = value.filter((one) => typeof one === 'string' && one.length === MARK_CHARACTERS) as string[];
  return marks.slice(0, SEEN_ENTRIES_MAX);
}

/** The bytes of `knew` in base64. */
export function decodeKnew(text: string): Buffer | undefined {
  return text.length === KNEW_CHARACTERS ? decodeBase64(text) : undefined;
}
