/** The dedup rows, and how many of them each sender key keeps. */
import type { ItemsMoved, RelayEvent } from './event.ts';
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
      return event.items.flatMap(({ senderPubkey, pushedTo, itemId }): RowChange[] => {
        const key = rowKey.dedup(senderPubkey, pushedTo, itemId);
        const row = rows.get('dedup', key);
        const dedupUntilMs = Math.max(row?.dedupUntilMs ?? 0, event.dedupUntilMs);
        return row ? [{ table: 'dedup', key, row: { ...row, expired: true, dedupUntilMs } }] : [];
      });
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

/** The row stays where it is and says where the item went. */
function moved({ oldPubkey, newPubkey }: ItemsMoved, fromSeq: number, queuedSeq: number, rows: RowReader): RowChange[] {
  const queued = rows.get('queue', rowKey.queue(oldPubkey, fromSeq));
  if (!queued || queued.kind === 'expired') return [];
  const key = rowKey.dedup(queued.senderPubkey, queued.payloadTarget, queued.itemId);
  const row = rows.get('dedup', key);
  if (row?.queuedTarget !== oldPubkey || row.queuedSeq !== fromSeq) return [];
  return [{ table: 'dedup', key, row: { ...row, queuedTarget: newPubkey, queuedSeq } }];
}

function counted(rows: RowReader, sender: DedupRow['senderPubkey'], change: number): RowChange[] {
  const dedupRows = (rows.get('sender', sender)?.dedupRows ?? 0) + change;
  return [{ table: 'sender', key: sender, row: dedupRows > 0 ? { dedupRows } : null }];
}
