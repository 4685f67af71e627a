/**
 * Seals for one host what a delivery receipt shows it of a relay (`rec.seen`): HPKE as for mail, under a text of its
 * own, and always of one size, as relays carry receipts and must not tell them apart. The associated data are the two
 * hosts, so nobody can put it into a receipt between others.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import type { ReceiptParties } from '../../protocol/documents.ts';
import { decodeBase64 } from '../../protocol/encodings.ts';
import { RECEIPT_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { type SeenEntry, parseSeen } from '../../protocol/seen.ts';
import type { SealKey } from '../core/rows.ts';
import { NotOpened, openWith, type Sealed, sealKeyId, sealTo } from './sealing.ts';

export const SEEN_INFO = Buffer.from('mail-seen-v1', 'utf8');
/** More than the longest entry: its note, key and `knew`. */
const SEEN_BYTES = 704;
const SEALED_SEEN_BYTES = SEEN_BYTES + 16;

/** Resolves to what stands in a receipt; without an entry it says nothing and looks the same. */
export function sealSeen(entry: SeenEntry | undefined, parties: ReceiptParties, encPub: string): Promise<Sealed> {
  return sealTo(encPub, SEEN_INFO, seenPlaintext(entry), seenAdditional(parties));
}

/** What is sealed: the canonical form of the entry, or nothing, and spaces. */
export function seenPlaintext(entry: SeenEntry | undefined): Buffer {
  const text = entry ? canonicalBytes(entry) : Buffer.alloc(0);
  if (text.length > SEEN_BYTES) throw new Error('invariant: an entry fits into its receipt');
  return Buffer.concat([text, Buffer.alloc(SEEN_BYTES - text.length, ' ')]);
}

/** What the seal covers besides. */
export function seenAdditional({ host_pubkey: from, sender_host_pubkey: to }: ReceiptParties): Buffer {
  return canonicalBytes({ v: 1, type: 'mail-seen', from, to });
}

/** What the `seen` of a receipt shows: one entry or none. Never rejects: a receipt counts whatever stands in there. */
export async function openSeen(seen: unknown, parties: ReceiptParties, keys: readonly SealKey[]): Promise<SeenEntry[]> {
  if (!isObject(seen)) return [];
  const { key_id: keyId, enc, ct } = seen;
  const key = keys.find(({ encPub }) => sealKeyId(encPub) === keyId);
  if (!key || typeof enc !== 'string' || typeof ct !== 'string') return [];
  if (decodeBase64(ct)?.length !== SEALED_SEEN_BYTES) return [];
  try {
    const plaintext = await openWith(key, { enc, ct }, SEEN_INFO, seenAdditional(parties));
    return parseSeen([parseJsonBounded(plaintext, RECEIPT_JSON_BOUNDS)]);
  } catch (error) {
    if (error instanceof NotOpened) return [];
    throw error;
  }
}
