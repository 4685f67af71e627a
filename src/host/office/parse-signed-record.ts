/** Delivery receipts and expiry notices, which travel as the canonical form of `{rec, sig}`: from bytes to typed values. */
import { RECEIPT_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { DELIVERY_STATES, type DeliveryReceipt, type ExpiryNotice } from '../../protocol/documents.ts';
import { isObject } from '../../protocol/items.ts';
import { parseMessageId } from '../../protocol/names.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { partsOfAddress } from '../core/address.ts';
import { check, checkCanonical, isCount, isText } from './parse-envelope.ts';

export interface SignedRecord<Rec> {
  rec: Rec;
  /** What is signed: the canonical form of `rec`, with members that nobody knows. */
  signedBytes: Buffer;
  sig: string;
}

/** Throws `Malformed`. */
export function parseReceipt(wire: Buffer): SignedRecord<DeliveryReceipt> {
  const { rec, sig } = parseRecord(wire);
  check(rec['v'] === 1 && rec['type'] === 'receipt', 'it is no receipt of version 1');
  const { msg, recipient, seq, state, at, host_pubkey: host, sender_host_pubkey: sender, wire_hash: hash } = rec;
  check(isText(msg) && parseMessageId(msg) !== undefined, 'msg is no message id');
  check(isText(recipient) && partsOfAddress(recipient) !== undefined, 'recipient is no address');
  check(isCount(seq), 'seq is no number');
  check((DELIVERY_STATES as readonly unknown[]).includes(state), 'state is none of the states');
  check(isCount(at), 'at is no time');
  check(parsePublicKey(host) !== undefined, 'host_pubkey is no public key');
  check(parsePublicKey(sender) !== undefined, 'sender_host_pubkey is no public key');
  check(isText(hash) && /^[0-9a-f]{64}$/.test(hash), 'wire_hash is no hash');
  return { rec: rec as unknown as DeliveryReceipt, signedBytes: canonicalBytes(rec), sig };
}

/** Throws `Malformed`. */
export function parseNotice(wire: Buffer): SignedRecord<ExpiryNotice> {
  const { rec, sig } = parseRecord(wire);
  check(rec['v'] === 1 && rec['type'] === 'relay-expired', 'it is no expiry notice of version 1');
  const { item_id: itemId, target_pubkey: target, accepted_at: acceptedAt, expired_at: expiredAt } = rec;
  check(isText(itemId) && parseMessageId(itemId) !== undefined, 'item_id is no message id');
  check(parsePublicKey(target) !== undefined, 'target_pubkey is no public key');
  check(isCount(acceptedAt) && isCount(expiredAt), 'accepted_at or expired_at is no time');
  return { rec: rec as unknown as ExpiryNotice, signedBytes: canonicalBytes(rec), sig };
}

function parseRecord(wire: Buffer): { rec: Record<string, unknown>; sig: string } {
  const value = parseJsonBounded(wire, RECEIPT_JSON_BOUNDS);
  check(isObject(value) && Object.keys(value).length === 2, 'it is no JSON object of rec and sig');
  const { rec, sig } = value;
  check(isObject(rec) && isText(sig), 'it is no JSON object of rec and sig');
  checkCanonical(wire, value);
  return { rec, sig };
}
