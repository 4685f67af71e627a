/**
 * Parses what strangers sent, from bytes to typed values: envelopes, their opened content, and the signed records
 * (delivery receipts, expiry notices). Every known member has its type, length and pattern, or the item is malformed.
 * Unknown members stay, and signature and seal cover them.
 */
import { decodeBase64 } from '../../protocol/encodings.ts';
import { ENVELOPE_JSON_BOUNDS, RECEIPT_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import {
  CanonicalMembers,
  canonicalBytes,
  DELIVERY_STATES,
  type DeliveryReceipt,
  type ExpiryNotice,
  signedBytesIn,
} from '../../protocol/documents.ts';
import { type HostName, parseHostName, parseMessageId } from '../../protocol/names.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { isTime } from '../../protocol/time.ts';
import { BODY_CHARACTERS_MAX, REF_CHARACTERS_MAX, REFS_MAX, SUBJECT_CHARACTERS_MAX } from '../contract/limits.ts';
import { partsOfAddress } from '../core/address.ts';
import { MESSAGE_KINDS, ORIGINS } from '../core/rows.ts';
import { type Envelope, SEAL_ALGORITHM, type SealedContent } from './sealing.ts';

/** Recipients on one host: `*` and roles may mean many. */
const ENVELOPE_RECIPIENTS_MAX = 1000;
const X25519_KEY_BYTES = 32;
const SIGNATURE_CHARACTERS = 88;
/** The length of the tag: a shorter text is no ciphertext. */
const CIPHERTEXT_BYTES_MIN = 16;

/** The message says what is wrong with the item, for people. */
export class Malformed extends Error {}

/** An envelope, with its members in canonical form. */
export interface ParsedEnvelope {
  envelope: Envelope;
  members: CanonicalMembers;
}

/** Throws `Malformed`. */
export function parseEnvelope(wire: Buffer): ParsedEnvelope {
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
  check(isTime(at), 'created_at is no time');
  check(isCount(hops), 'hops is no count');
  check(isText(sig) && sig.length === SIGNATURE_CHARACTERS, 'sig is no signature');
  checkSealed(value['sealed']);
  const members = canonicalOf(() => new CanonicalMembers(value));
  checkCanonical(wire, members.bytesWithout());
  return { envelope: value as unknown as Envelope, members };
}

/** The host that an item says it is from. Nobody has checked it. */
export function claimedHost({ kind, wire }: { kind: string; wire: Buffer }): HostName | undefined {
  try {
    if (kind === 'envelope') return partsOfAddress(parseEnvelope(wire).envelope.from)?.host;
    if (kind === 'receipt') return partsOfAddress(parseReceipt(wire).rec.recipient)?.host;
    return undefined;
  } catch (error) {
    if (error instanceof Malformed) return undefined;
    throw error;
  }
}

/** The opened content of an envelope. Throws `Malformed`. */
export function parseContent(plaintext: Buffer): SealedContent {
  const value = parseJsonBounded(plaintext, ENVELOPE_JSON_BOUNDS);
  check(isObject(value), 'what was sealed is no JSON object');
  const { kind, needs_reply: needsReply, origin, refs, reply_to: replyTo, thread, body } = value;
  check((MESSAGE_KINDS as readonly unknown[]).includes(kind), 'kind is none of the kinds');
  check(typeof needsReply === 'boolean', 'needs_reply is neither true nor false');
  check(origin === null || (ORIGINS as readonly unknown[]).includes(origin), 'origin is none of the origins');
  check(Array.isArray(refs) && refs.length <= REFS_MAX, `refs is no list of at most ${REFS_MAX}`);
  check(
    refs.every((ref) => isTextWithin(ref, 0, REF_CHARACTERS_MAX)),
    `a ref has at most ${REF_CHARACTERS_MAX} characters`,
  );
  check(replyTo === null || (isText(replyTo) && parseMessageId(replyTo) !== undefined), 'reply_to is no message id');
  check(isText(thread) && parseMessageId(thread) !== undefined, 'thread is no message id');
  check(isTextWithin(body, 0, BODY_CHARACTERS_MAX), `body has at most ${BODY_CHARACTERS_MAX} characters`);
  checkCanonical(
    plaintext,
    canonicalOf(() => canonicalBytes(value)),
  );
  return value as unknown as SealedContent;
}

/** Requires the canonical bytes of the value: parsers may read other forms in different ways. */
function checkCanonical(bytes: Buffer, canonical: Buffer): void {
  check(canonical.equals(bytes), 'it is not in canonical form');
}

function canonicalOf<Form>(write: () => Form): Form {
  try {
    return write();
  } catch {
    throw new Malformed('it holds what no canonical form carries');
  }
}

function check(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Malformed(otherwise);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** An integer from 0 on that a double holds exactly. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function checkRecipients(to: unknown): void {
  check(Array.isArray(to) && to.length > 0, 'to names nobody');
  check(to.length <= ENVELOPE_RECIPIENTS_MAX, `to names more than ${ENVELOPE_RECIPIENTS_MAX}`);
  check(
    to.every((address) => isText(address) && partsOfAddress(address) !== undefined),
    'to holds what is no address',
  );
  check(new Set(to.map((address: string) => address.toLowerCase())).size === to.length, 'to names a recipient twice');
}

function checkSealed(sealed: unknown): void {
  check(isObject(sealed), 'sealed is no object');
  const { key_id: keyId, alg, enc, ct } = sealed;
  check(isText(keyId) && /^[0-9a-f]{16}$/.test(keyId), 'sealed.key_id is none');
  check(alg === SEAL_ALGORITHM, 'sealed.alg is not known here');
  check(isText(enc) && decodeBase64(enc)?.length === X25519_KEY_BYTES, 'sealed.enc is no key');
  check(isText(ct) && (decodeBase64(ct)?.length ?? 0) >= CIPHERTEXT_BYTES_MIN, 'sealed.ct is no ciphertext');
}

/** Counts code points, as the input of `mail_send` does. */
function isTextWithin(value: unknown, min: number, max: number): value is string {
  if (typeof value !== 'string' || value.length < min || value.length > 2 * max) return false;
  if (value.length <= max) return true;
  let characters = 0;
  for (const _character of value) if (++characters > max) return false;
  return true;
}

export interface SignedRecord<Rec> {
  rec: Rec;
  /** The signed bytes: the canonical form of `rec`, unknown members included. */
  signedBytes: Buffer;
  sig: string;
}

/** Throws `Malformed`. */
export function parseReceipt(wire: Buffer): SignedRecord<DeliveryReceipt> {
  const { rec, signedBytes, sig } = parseRecord(wire);
  check(rec['v'] === 1 && rec['type'] === 'receipt', 'it is no receipt of version 1');
  const { msg, recipient, seq, state, at, host_pubkey: host, sender_host_pubkey: sender, wire_hash: hash } = rec;
  check(isText(msg) && parseMessageId(msg) !== undefined, 'msg is no message id');
  check(isText(recipient) && partsOfAddress(recipient) !== undefined, 'recipient is no address');
  check(isCount(seq), 'seq is no number');
  check((DELIVERY_STATES as readonly unknown[]).includes(state), 'state is none of the states');
  check(isTime(at), 'at is no time');
  check(parsePublicKey(host) !== undefined, 'host_pubkey is no public key');
  check(parsePublicKey(sender) !== undefined, 'sender_host_pubkey is no public key');
  check(isText(hash) && /^[0-9a-f]{64}$/.test(hash), 'wire_hash is no hash');
  return { rec: rec as unknown as DeliveryReceipt, signedBytes, sig };
}

/** Throws `Malformed`. */
export function parseNotice(wire: Buffer): SignedRecord<ExpiryNotice> {
  const { rec, signedBytes, sig } = parseRecord(wire);
  check(rec['v'] === 1 && rec['type'] === 'relay-expired', 'it is no expiry notice of version 1');
  const { item_id: itemId, target_pubkey: target, accepted_at: acceptedAt, expired_at: expiredAt } = rec;
  check(isText(itemId) && parseMessageId(itemId) !== undefined, 'item_id is no message id');
  check(parsePublicKey(target) !== undefined, 'target_pubkey is no public key');
  check(isTime(acceptedAt) && isTime(expiredAt), 'accepted_at or expired_at is no time');
  return { rec: rec as unknown as ExpiryNotice, signedBytes, sig };
}

function parseRecord(wire: Buffer): SignedRecord<Record<string, unknown>> {
  const value = parseJsonBounded(wire, RECEIPT_JSON_BOUNDS);
  check(isObject(value) && Object.keys(value).length === 2, 'it is no JSON object of rec and sig');
  const { rec, sig } = value;
  check(isObject(rec) && isText(sig), 'it is no JSON object of rec and sig');
  checkCanonical(
    wire,
    canonicalOf(() => canonicalBytes(value)),
  );
  return { rec, signedBytes: signedBytesIn(wire, sig), sig };
}
