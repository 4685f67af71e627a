/** The dedup rows, and how many of them each sender key keeps. */
import type { DedupExtended, ItemsExpired, ItemsMoved, RelayEvent } from './event.ts';
import { movedRow } from './reduce-queues.ts';
import { type DedupRow, type RowChange, type RowReader, rowKey } from './rows.ts';

export function reduceDedup(event: RelayEvent, lsn: number, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'ItemAccepted': {
      const { senderPubkey, itemId, acceptedAtMs, dedupUntilMs, targets } = event;
      const changes = targets.map(({ hostPubkey, wireHash, seq, bytes }): RowChange => {
        const row: DedupRow = {
          senderPubkey,
          itemId,
          targetPubkey: hostPubkey,
          wireHash,
          seq,
          bytes,
          acceptedAtMs,
          dedupUntilMs,
          queuedTarget: hostPubkey,
          queuedSeq: seq,
          lsn,
          expired: false,
        };
        return { table: 'dedup', key: rowKey.dedup(senderPubkey, hostPubkey, itemId), row };
      });
      return [...changes, ...counted(rows, senderPubkey, targets.length)];
    }
    case 'ItemsExpired':
      return kept(event, { expired: true }, rows);
    case 'DedupExtended':
      return kept(event, {}, rows);
    case 'ItemsMoved':
      return event.fromSeqs.flatMap((fromSeq, position) => moved(event, fromSeq, event.firstSeq + position, rows));
    case 'DedupPurged':
      return event.senders.flatMap(({ senderPubkey, rows: count }) => counted(rows, senderPubkey, -count));
    case 'ItemLost': {
      if (event.kind === 'expired') return [];
      const { senderPubkey, pushedTo, itemId } = event;
      const key = rowKey.dedup(senderPubkey, pushedTo, itemId);
      return [{ table: 'dedup', key, row: null }, ...counted(rows, senderPubkey, -1)];
    }
    default:
      return [];
  }
}

/** The rows of these items, as far as there are any, stay until the event says or longer. */
function kept(
  { items, dedupUntilMs }: ItemsExpired | DedupExtended,
  changes: Partial<DedupRow>,
  rows: RowReader,
): RowChange[] {
  return items.flatMap(({ senderPubkey, pushedTo, itemId }): RowChange[] => {
    const key = rowKey.dedup(senderPubkey, pushedTo, itemId);
    const before = rows.get('dedup', key);
    if (!before) return [];
    const untilMs = Math.max(before.dedupUntilMs, dedupUntilMs);
    return [{ table: 'dedup', key, row: { ...before, ...changes, dedupUntilMs: untilMs } }];
  });
}

/** The row stays where it is and says where the item went. Of a notice there is none. */
function moved({ oldPubkey, newPubkey }: ItemsMoved, fromSeq: number, queuedSeq: number, rows: RowReader): RowChange[] {
  const queued = movedRow(rows, oldPubkey, fromSeq);
  const key = rowKey.dedup(queued.senderPubkey, queued.payloadTarget, queued.itemId);
  const row = rows.get('dedup', key);
  if (row?.queuedTarget !== oldPubkey || row.queuedSeq !== fromSeq) return [];
  return [{ table: 'dedup', key, row: { ...row, queuedTarget: newPubkey, queuedSeq } }];
}

function counted(rows: RowReader, sender: DedupRow['senderPubkey'], change: number): RowChange[] {
  const dedupRows = (rows.get('sender', sender)?.dedupRows ?? 0) + change;
  return [{ table: 'sender', key: sender, row: dedupRows > 0 ? { dedupRows } : null }];
}
