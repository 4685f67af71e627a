/**
 * What the relay reads of wire bytes, and nothing more: that an envelope is sealed and carries its id, and that a
 * receipt is exactly a signed delivery-receipt record. The bodies stay closed.
 */
import { ENVELOPE_JSON_BOUNDS, RECEIPT_JSON_BOUNDS, parseJsonBounded } from './bounded-json.ts';
import { canonicalBytes } from './canonical-json.ts';
import { DELIVERY_STATES } from './documents.ts';
import { verifySignature } from './ed25519.ts';
import { isObject } from './items.ts';
import type { ItemId } from './names.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

export type EnvelopeVerdict = 'sealed' | 'not sealed' | 'id mismatch';

export function inspectEnvelope(wire: Buffer, itemId: ItemId): EnvelopeVerdict {
  const envelope = parseJsonBounded(wire, ENVELOPE_JSON_BOUNDS);
  if (!isObject(envelope) || Object.hasOwn(envelope, 'body')) return 'not sealed';
  const sealed = Object.hasOwn(envelope, 'sealed') ? envelope['sealed'] : undefined;
  if (!isObject(sealed) || !['alg', 'enc', 'ct'].every((name) => isFilled(sealed, name))) return 'not sealed';
  return Object.hasOwn(envelope, 'id') && envelope['id'] === itemId ? 'sealed' : 'id mismatch';
}

/** Whether `wire` is a delivery receipt named `itemId`, signed by one of `signers` (the pusher's key and its retired ones). */
export function isSignedReceipt(wire: Buffer, itemId: ItemId, signers: readonly PublicKey[]): boolean {
  const receipt = parseJsonBounded(wire, RECEIPT_JSON_BOUNDS);
  if (!isObject(receipt) || Object.keys(receipt).length !== 2 || !isObject(receipt['rec'])) return false;
  const { rec, sig } = receipt as { rec: Record<string, unknown>; sig: unknown };
  const signer = parsePublicKey(rec['host_pubkey']);
  if (rec['type'] !== 'receipt' || !signer || !signers.includes(signer)) return false;
  if (!(DELIVERY_STATES as readonly unknown[]).includes(rec['state'])) return false;
  const { msg, recipient, seq } = rec;
  if (typeof msg !== 'string' || typeof recipient !== 'string' || typeof seq !== 'number') return false;
  if (itemId !== `receipt:${msg}:${recipient}:${seq}`) return false;
  try {
    return canonicalBytes(receipt).equals(wire) && verifySignature(signer, canonicalBytes(rec), sig);
  } catch {
    return false;
  }
}

function isFilled(object: Record<string, unknown>, name: string): boolean {
  const member = Object.hasOwn(object, name) ? object[name] : undefined;
  return typeof member === 'string' && member !== '';
}
