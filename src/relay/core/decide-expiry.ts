/**
 * Decides which items expire, which senders get a notice, and which dedup rows are forgotten.
 *
 * Invariants ("Item at the relay"; "Expiry notice"; "Dedup record"):
 *   - an expired envelope leaves a tombstone, and its sender gets one notice;
 *   - an expired receipt or notice is dropped without a word;
 *   - nothing expires before its time, and nothing is forgotten before its horizon.
 */
import { expiryNotice, type ExpiryNotice } from '../../protocol/documents.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ExpireItems, PurgeDedup } from './command.ts';
import { type Decided, type Done, decided } from './decision.ts';
import type { ExpiredItem, ItemsExpired, QueuedNotice } from './event.ts';
import type { ExpireFacts } from './facts.ts';
import type { QueueRow } from './rows.ts';

/** Items that one command expires at most: each notice is signed before others get their turn. */
export const EXPIRED_AT_ONCE = 100;

/** A notice whose bytes are not signed yet. */
export interface UnsignedNotice extends Omit<QueuedNotice, 'wire' | 'wireHash'> {
  rec: ExpiryNotice;
}

/** The event but for the signed bytes of its notices. */
export interface DecidedExpiry extends Omit<ItemsExpired, 'notices'> {
  notices: UnsignedNotice[];
}

/** `undefined` when nothing of it is due. */
export function decideExpire(command: ExpireItems, facts: ExpireFacts): DecidedExpiry | undefined {
  const { targetPubkey, nowMs } = command;
  if (facts.due.length === 0) return undefined;
  const heads = new Map<PublicKey, number>();
  const notices = facts.due.flatMap((row) => {
    const teller = facts.tellAt.get(row.senderPubkey);
    if (row.kind !== 'envelope' || !teller) return [];
    const seq = Math.max((heads.get(teller.key) ?? teller.headSeq) + 1, nowMs);
    heads.set(teller.key, seq);
    return notice(row, teller.key, seq, nowMs, facts.retentionMs);
  });
  const { relayPubkey, account } = facts;
  return {
    type: 'ItemsExpired',
    targetPubkey,
    relayPubkey,
    items: facts.due.map(expired),
    account,
    dedupUntilMs: nowMs + facts.dedupHorizonMs,
    notices,
    atMs: nowMs,
  };
}

export function decidePurge({ beforeMs, senders, nowMs }: PurgeDedup): Decided<Done> {
  return decided({ type: 'Done' }, { type: 'DedupPurged', beforeMs, senders, atMs: nowMs });
}

/** `target_pubkey` is the key that the sender pushed to, which its row holds, whatever was rotated since. */
function notice(
  row: QueueRow,
  targetPubkey: PublicKey,
  seq: number,
  nowMs: number,
  retentionMs: number,
): UnsignedNotice {
  const { itemId, payloadTarget: pushedTo, acceptedAtMs } = row;
  return {
    targetPubkey,
    seq,
    itemId: `expired:${itemId}:${pushedTo}` as ItemId,
    expiresAtMs: nowMs + retentionMs,
    rec: expiryNotice({ item_id: itemId, target_pubkey: pushedTo, accepted_at: acceptedAtMs, expired_at: nowMs }),
  };
}

function expired({ seq, kind, itemId, senderPubkey, payloadTarget, bytes }: QueueRow): ExpiredItem {
  return { seq, kind, itemId, senderPubkey, pushedTo: payloadTarget, bytes };
}
