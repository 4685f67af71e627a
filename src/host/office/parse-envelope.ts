/**
 * Envelopes that strangers sent, from bytes to typed values: every member has its type, length and pattern, or the
 * envelope is malformed. Members that nobody knows stay, and are covered by signature and seal.
 */
import { decodeBase64 } from '../../protocol/base64.ts';
import { ENVELOPE_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { isObject } from '../../protocol/items.ts';
import { parseHostName, parseMessageId } from '../../protocol/names.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { partsOfAddress } from '../core/address.ts';
import { MESSAGE_KINDS, ORIGINS } from '../core/rows.ts';
import { BODY_CHARACTERS_MAX, REFS_MAX, REF_CHARACTERS_MAX, SUBJECT_CHARACTERS_MAX } from '../documents/mail.ts';
import { type Envelope, SEAL_ALGORITHM, type SealedContent } from './sealing.ts';

/** Recipients on one host: `*` and roles mean many. */
export const ENVELOPE_RECIPIENTS_MAX = 1000;
const X25519_KEY_BYTES = 32;
const SIGNATURE_CHARACTERS = 88;
/** The tag alone; a shorter text is no ciphertext. */
const CIPHERTEXT_BYTES_MIN = 16;

/** What is wrong with it, for people. */
export class Malformed extends Error {}

/** The envelope. Throws `Malformed`. */
export function parseEnvelope(wire: Buffer): Envelope {
  const value = parseJsonBounded(wire, ENVELOPE_JSON_BOUNDS);
  check(isObject(value), 'it is no JSON object');
  const { v, type, id, from, from_host_pubkey: key, to, to_host: toHost, subject, created_at: at, hops, sig } = value;
  check(v === 1 && type === 'envelope', 'it is no envelope of version 1');
  check(isText(id) && parseMessageId(id) !== undefined, 'id is no message id');
  check(isText(from) && partsOfAddress(from) !== undefined, 'from is no address');
  check(parsePublicKey(key) !== undefined, 'from_host_pubkey is no public key');
  checkRecipients(to);
  check(isText(toHost) && parseHostName(toHost) !== undefined, 'to_host is no host name');
  check(isTextWithin(subject, 1, SUBJECT_CHARACTERS_MAX), `subject has 1 to ${SUBJECT_CHARACTERS_MAX} characters`);
  check(isCount(at), 'created_at is no time');
  check(isCount(hops), 'hops is no count');
  check(isText(sig) && sig.length === SIGNATURE_CHARACTERS, 'sig is no signature');
  checkSealed(value['sealed']);
  checkCanonical(wire, value);
  return value as unknown as Envelope;
}

/** What the host key signs: the envelope without its signature and hops. */
export function signedBytesOf(envelope: Envelope): Buffer {
  const { sig: _sig, hops: _hops, ...signed } = envelope;
  return canonicalBytes(signed);
}

/** What was sealed. Throws `Malformed`. */
export function parseContent(plaintext: Buffer): SealedContent {
  const value = parseJsonBounded(plaintext, ENVELOPE_JSON_BOUNDS);
  check(isObject(value), 'what was sealed is no JSON object');
  const { kind, needs_reply: needsReply, origin, refs, reply_to: replyTo, thread, body } = value;
  check((MESSAGE_KINDS as readonly unknown[]).includes(kind), 'kind is none of the kinds');
  check(typeof needsReply === 'boolean', 'needs_reply is neither true nor false');
  check(origin === null || (ORIGINS as readonly unknown[]).includes(origin), 'origin is none of the origins');
  check(Array.isArray(refs) && refs.length <= REFS_MAX, `refs is no list of at most ${REFS_MAX}`);
  check(
    refs.every((ref) => isTextWithin(ref, 1, REF_CHARACTERS_MAX)),
    `a ref has 1 to ${REF_CHARACTERS_MAX} characters`,
  );
  check(replyTo === null || (isText(replyTo) && parseMessageId(replyTo) !== undefined), 'reply_to is no message id');
  check(isText(thread) && parseMessageId(thread) !== undefined, 'thread is no message id');
  check(isTextWithin(body, 0, BODY_CHARACTERS_MAX), `body has at most ${BODY_CHARACTERS_MAX} characters`);
  checkCanonical(plaintext, value);
  return value as unknown as SealedContent;
}

/** That the bytes are the one form of the value: another could say one thing to one reader and another to the next. */
export function checkCanonical(bytes: Buffer, value: unknown): void {
  let canonical: Buffer;
  try {
    canonical = canonicalBytes(value);
  } catch {
    throw new Malformed('it holds what no canonical form carries');
  }
  check(canonical.equals(bytes), 'it is not in canonical form');
}

export function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Malformed(otherwise);
}

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** A whole number, not below zero, that a double carries. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function checkRecipients(to: unknown): void {
  check(Array.isArray(to) && to.length > 0, 'to names nobody');
  check(to.length <= ENVELOPE_RECIPIENTS_MAX, `to names more than ${ENVELOPE_RECIPIENTS_MAX}`);
  check(
    to.every((address) => isText(address) && partsOfAddress(address) !== undefined),
    'to holds what is no address',
  );
  check(new Set(to.map((address: string) => address.toLowerCase())).size === to.length, 'to names somebody twice');
}

function checkSealed(sealed: unknown): void {
  check(isObject(sealed), 'sealed is no object');
  const { key_id: keyId, alg, enc, ct } = sealed;
  check(isText(keyId) && /^[0-9a-f]{16}$/.test(keyId), 'sealed.key_id is none');
  check(alg === SEAL_ALGORITHM, 'sealed.alg is not known here');
  check(isText(enc) && decodeBase64(enc)?.length === X25519_KEY_BYTES, 'sealed.enc is no key');
  check(isText(ct) && (decodeBase64(ct)?.length ?? 0) >= CIPHERTEXT_BYTES_MIN, 'sealed.ct is no ciphertext');
}

/** Characters are code points, as the input of a send counts them. */
function isTextWithin(value: unknown, min: number, max: number): value is string {
  if (typeof value !== 'string' || value.length < min || value.length > 2 * max) return false;
  if (value.length <= max) return true;
  let characters = 0;
  for (const _character of value) if (++characters > max) return false;
  return true;
}
