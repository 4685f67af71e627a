/**
 * Whether what a relay proved of a row is about this row: its item, its bytes, this host and the one it was for.
 *
 * Pure. The proof itself is verified as `poste relay log check-proof` verifies it, against the key that signed the
 * receipt, which is the pinned one.
 */
import type { TraceRow } from '../host/documents/trace.ts';
import type { ItemAccepted } from '../relay/core/event.ts';
import { NotVerified, type Verified, checkProofs } from './proof-check.ts';

export type CheckedRow =
  | { state: 'verified'; verified: Verified[] }
  /** The relay's word and its log do not agree, or it denies what it signed. `reason` is a clause. */
  | { state: 'failed'; reason: string }
  /** Nobody took it, or there is no proof to be had now. */
  | { state: 'none'; reason: string };

export function checkRow(row: TraceRow): CheckedRow {
  const { acceptance, proof } = row;
  if (!acceptance) return { state: 'none', reason: 'no relay has taken it' };
  if (acceptance.fault !== null)
    return { state: 'failed', reason: `of the relay's receipt the ${acceptance.fault} is wrong` };
  if (!proof || proof.state === 'none') return { state: 'none', reason: proof?.reason ?? 'no relay was asked' };
  if (proof.state === 'denied') {
    return { state: 'failed', reason: `it signed that it took the item, and denies it now: ${proof.reason}` };
  }
  const { relay_pubkey: relayKey, accept, sig } = acceptance;
  const proofs = [proof.document];
  try {
    const { verified, items } = checkProofs({ proofs, relayKey });
    const [item] = items;
    const fault = item ? faultOf(item, row) : 'it is of no item';
    if (!item || fault !== undefined) return { state: 'failed', reason: fault ?? '' };
    // A receipt that a repeated push got after a key was rotated names another key than the record.
    const isSame =
      item.senderPubkey === accept.sender_pubkey &&
      item.targets.some(({ hostPubkey }) => hostPubkey === accept.targets[0]?.host_pubkey);
    if (!isSame) return { state: 'verified', verified };
    return { state: 'verified', verified: checkProofs({ proofs, relayKey, accept: { accept, sig } }).verified };
  } catch (error) {
    if (error instanceof NotVerified) return { state: 'failed', reason: error.message };
    throw error;
  }
}

function faultOf(item: ItemAccepted, row: TraceRow): string | undefined {
  if (item.itemId !== row.item_id) return 'the record is of another item';
  if (!row.own_keys.includes(item.senderPubkey)) return 'the record names a sender that is not this host';
  const target = item.targets.find(({ hostPubkey }) => row.host_keys.includes(hostPubkey));
  if (!target) return `the record names no key of ${row.host}`;
  if (target.wireHash !== row.wire_hash) return 'the record is of other bytes than were sent';
  return target.seq === row.acceptance?.seq ? undefined : 'the record has another seq than the receipt';
}
