/** What a relay's receipt, kept with a row, is worth now. Pure. */
import { DAY_MS } from '../../protocol/limits.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type ReceiptFault, checkAcceptReceipt } from './accept-receipt.ts';
import type { OutboxRow, RelayAcceptance } from './rows.ts';

/** Every key that this host and the row's host have or had: either may have gone on under another since. */
export interface RowKeys {
  own: readonly PublicKey[];
  peer: readonly PublicKey[];
}

/** Null when the receipt is the relay's word for this row; else what of it is not. */
export function keptAcceptanceFault(
  row: Pick<OutboxRow, 'itemId' | 'wireHash'>,
  { relayPubkey, epoch, accept, sig }: RelayAcceptance,
  { own, peer }: RowKeys,
): ReceiptFault | null {
  const senderPubkey = own.find((key) => key === accept.sender_pubkey);
  if (!senderPubkey) return 'sender';
  const targetPubkey = peer.find((key) => accept.targets.some(({ host_pubkey: host }) => host === key));
  if (!targetPubkey) return 'target';
  const { itemId, wireHash } = row;
  const checked = checkAcceptReceipt(accept, sig, { relayPubkey, epoch, senderPubkey, itemId, targetPubkey, wireHash });
  return 'fault' in checked ? checked.fault : null;
}

/**
 * Whether the relay still has to know the item that it signed for: in the same epoch, and for the retention twice and 7
 * days after it took it.
 */
export function mustKnowItem(acceptance: RelayAcceptance, epoch: Epoch | null, nowMs: number): boolean {
  const { acceptedAtMs, retentionMs, mayBeLost } = acceptance;
  return acceptance.epoch === epoch && !mayBeLost && nowMs < acceptedAtMs + 2 * retentionMs + 7 * DAY_MS;
}
