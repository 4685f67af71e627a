/** Wire bytes that a relay takes: sealed envelopes and signed delivery receipts, and the items that carry them. */
import { canonicalBytes } from '../../src/protocol/documents.ts';
import type { ItemToPush } from '../../src/host/relay/relay-forms.ts';
import type { TestHost } from './hosts.ts';

/** A sealed envelope as far as a relay reads one, of about `bytes` bytes when that is more than it needs. */
export function envelopeWire(id: string, bytes = 0): Buffer {
  const text = (ct: string): string => JSON.stringify({ id, sealed: { alg: 'test', ct, enc: 'e' }, v: 1 });
  return Buffer.from(text('c'.repeat(Math.max(1, bytes - text('').length))));
}

export function receiptId(msg: string, recipient: string, seq: number): string {
  return `receipt:${msg}:${recipient}:${seq}`;
}

/** A delivery receipt of `from`, signed. */
export function receiptWire(from: TestHost, msg: string, recipient: string, seq: number, state = 'delivered'): Buffer {
  const rec = { v: 1, type: 'receipt', msg, recipient, seq, state, host_pubkey: from.key };
  return canonicalBytes({ rec, sig: from.signer.sign(canonicalBytes(rec)) });
}

/** An item with the same wire bytes for every target. */
export function itemTo(targets: readonly TestHost[], itemId: string, wire: Buffer = envelopeWire(itemId)): ItemToPush {
  const wire_b64 = wire.toString('base64');
  return {
    kind: itemId.startsWith('receipt:') ? 'receipt' : 'envelope',
    item_id: itemId,
    targets: targets.map(({ key }) => ({ host_pubkey: key, wire_b64 })),
  };
}
