/**
 * Seals for one host what a delivery receipt shows it besides: what this host has seen of a relay (`rec.seen`), and
 * which relays this host uses (`rec.home`). It is HPKE as for mail, under a text of its own, and always of the same few
 * sizes, as relays carry receipts. The associated data are the two hosts, so nobody can put it into a receipt between
 * others.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import type { ReceiptParties } from '../../protocol/documents.ts';
import { decodeBase64 } from '../../protocol/encodings.ts';
import { ENVELOPE_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import type { SealKey } from '../core/rows.ts';
import { NotOpened, openWith, type Sealed, sealKeyId, sealTo } from './sealing.ts';

/** A member of a receipt that is sealed. */
export interface ReceiptSeal {
  info: Buffer;
  type: 'mail-seen' | 'mail-home';
  /** The bytes that a plaintext may have, the least first. */
  sizes: readonly number[];
}

/** One entry (protocol/seen.ts), or nothing, which looks the same: more than its note, key and `knew`. */
export const SEEN_SEAL: ReceiptSeal = { info: Buffer.from('mail-seen-v1', 'utf8'), type: 'mail-seen', sizes: [704] };
/** What a host says of relays (protocol/home-relays.ts): the seq that it knows, and its own document beside. */
export const HOME_SEAL: ReceiptSeal = {
  info: Buffer.from('mail-home-v1', 'utf8'),
  type: 'mail-home',
  sizes: [128, 2_176],
};
const TAG_BYTES = 16;

/** Resolves to what stands in a receipt. Without a value it says nothing and looks the same. */
export function sealInReceipt(
  form: ReceiptSeal,
  value: object | undefined,
  parties: ReceiptParties,
  encPub: string,
): Promise<Sealed> {
  return sealTo(encPub, form.info, sealedPlaintext(form, value), sealedAdditional(form, parties));
}

/** What is sealed: the canonical form of the value, or nothing, and spaces. */
export function sealedPlaintext({ sizes }: ReceiptSeal, value: object | undefined): Buffer {
  const text = value ? canonicalBytes(value) : Buffer.alloc(0);
  const size = sizes.find((bytes) => bytes >= text.length);
  if (size === undefined) throw new Error('invariant: what a receipt shows fits into it');
  return Buffer.concat([text, Buffer.alloc(size - text.length, ' ')]);
}

/** What the seal covers besides. */
export function sealedAdditional({ type }: ReceiptSeal, parties: ReceiptParties): Buffer {
  const { host_pubkey: from, sender_host_pubkey: to } = parties;
  return canonicalBytes({ v: 1, type, from, to });
}

/**
 * What a member of a receipt shows; `undefined` where it shows nothing that can be read. Never rejects: a receipt
 * counts whatever stands in there.
 */
export async function openInReceipt(
  form: ReceiptSeal,
  member: unknown,
  parties: ReceiptParties,
  keys: readonly SealKey[],
): Promise<unknown> {
  if (!isObject(member)) return undefined;
  const { key_id: keyId, enc, ct } = member;
  const key = keys.find(({ encPub }) => sealKeyId(encPub) === keyId);
  if (!key || typeof enc !== 'string' || typeof ct !== 'string') return undefined;
  const length = decodeBase64(ct)?.length;
  if (length === undefined || !form.sizes.includes(length - TAG_BYTES)) return undefined;
  try {
    const plaintext = await openWith(key, { enc, ct }, form.info, sealedAdditional(form, parties));
    return parseJsonBounded(plaintext, ENVELOPE_JSON_BOUNDS);
  } catch (error) {
    if (error instanceof NotOpened) return undefined;
    throw error;
  }
}
