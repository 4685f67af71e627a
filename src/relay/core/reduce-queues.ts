/**
 * The queues: the waiting items, and one row a target that says how far it got.
 *
 * An ack writes one row here, whatever it releases: rows at or below `ackedThrough` are gone by that alone, and are
 * collected afterwards (see store/collect.ts).
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AcceptedTarget, ItemAccepted, ItemsExpired, ItemsMoved, KeyRotated, RelayEvent } from './event.ts';
import { BrokenQueue, targetRow } from './decision.ts';
import { type QueueRow, type RowChange, type RowReader, type TargetRow, rowKey } from './rows.ts';

export function reduceQueues(event: RelayEvent, rows: RowReader): RowChange[] {
  switch (event.type) {
    case 'ItemAccepted':
      return event.targets.flatMap((target) => reduceAcceptance(event, target, rows));
    case 'ItemsAcked': {
      const { targetPubkey, through, items, bytes } = event;
      const before = targetRow(rows, targetPubkey);
      const queueItems = before.queueItems - items;
      const queueBytes = before.queueBytes - bytes;
      return [
        {
          table: 'target',
          key: targetPubkey,
          row: { headSeq: before.headSeq, ackedThrough: through, queueItems, queueBytes },
        },
      ];
    }
    case 'ItemsExpired':
      return reduceExpiry(event, rows);
    case 'KeyRotated':
      return reduceRotation(event, rows);
    case 'ItemsMoved':
      return reduceMove(event, rows);
    case 'ItemLost': {
      const { targetPubkey, seq, kind, bytes } = event;
      const gone: RowChange = { table: 'queue', key: rowKey.queue(targetPubkey, seq), row: null };
      // No quota is charged for a notice.
      if (kind === 'expired') return [gone];
      const before = targetRow(rows, targetPubkey);
      const row = { ...before, queueItems: before.queueItems - 1, queueBytes: before.queueBytes - bytes };
      return [{ table: 'target', key: targetPubkey, row }, gone];
    }
    case 'SeqFloorsRaised':
      return event.floors.map(({ targetPubkey, headSeq }) => {
        const before = targetRow(rows, targetPubkey);
        return { table: 'target', key: targetPubkey, row: { ...before, headSeq: Math.max(before.headSeq, headSeq) } };
      });
    default:
      return [];
  }
}

/** The new key's queue counts the items from here on, and their places are taken; the rows follow. */
function reduceRotation(event: KeyRotated, rows: RowReader): RowChange[] {
  const { oldPubkey, newPubkey, firstSeq, moved: left, items, bytes } = event;
  const old = targetRow(rows, oldPubkey);
  const before = targetRow(rows, newPubkey);
  // Zero, unless a row was lost: that item is counted here until it is pushed again.
  const emptied = { ...old, queueItems: old.queueItems - items, queueBytes: old.queueBytes - bytes };
  const row = {
    headSeq: left > 0 ? firstSeq + left - 1 : before.headSeq,
    ackedThrough: before.ackedThrough,
    queueItems: before.queueItems + items,
    queueBytes: before.queueBytes + bytes,
  };
  return [
    { table: 'target', key: oldPubkey, row: emptied },
    { table: 'target', key: newPubkey, row },
    ...(left > 0 ? [{ table: 'move', key: oldPubkey, row: { newPubkey, nextSeq: firstSeq, left } } as const] : []),
  ];
}

/** The row of an item that is moved, before it is. Throws `BrokenQueue` when there is none. */
export function movedRow(rows: RowReader, oldPubkey: PublicKey, fromSeq: number): QueueRow {
  const row = rows.get('queue', rowKey.queue(oldPubkey, fromSeq));
  if (!row) throw new BrokenQueue(oldPubkey, 'invariant: an item that is moved is queued');
  return row;
}

function reduceMove({ oldPubkey, newPubkey, fromSeqs, firstSeq, left }: ItemsMoved, rows: RowReader): RowChange[] {
  const changes: RowChange[] = fromSeqs.flatMap((fromSeq, position): RowChange[] => {
    const key = rowKey.queue(oldPubkey, fromSeq);
    const before = movedRow(rows, oldPubkey, fromSeq);
    const seq = firstSeq + position;
    return [
      { table: 'queue', key, row: null, leavesPayload: true },
      { table: 'queue', key: rowKey.queue(newPubkey, seq), row: { ...before, targetPubkey: newPubkey, seq } },
    ];
  });
  const row = left > 0 ? { newPubkey, nextSeq: firstSeq + fromSeqs.length, left } : null;
  return [...changes, { table: 'move', key: oldPubkey, row }];
}

function reduceAcceptance(event: ItemAccepted, target: AcceptedTarget, rows: RowReader): RowChange[] {
  const { kind, itemId, senderPubkey, acceptedAtMs, expiresAtMs } = event;
  const { hostPubkey, seq, wireHash, bytes } = target;
  const before = targetRow(rows, hostPubkey);
  const queued: QueueRow = {
    targetPubkey: hostPubkey,
    seq,
    kind,
    itemId,
    senderPubkey,
    wireHash,
    bytes,
    acceptedAtMs,
    expiresAtMs,
    payloadTarget: hostPubkey,
    payloadSeq: seq,
    // Set when the batch is encoded: a member that is added to an object takes more memory than one that it has.
    payloadBound: undefined,
  };
  const row = {
    headSeq: seq,
    ackedThrough: before.ackedThrough,
    queueItems: before.queueItems + 1,
    queueBytes: before.queueBytes + bytes,
  };
  return [
    { table: 'queue', key: rowKey.queue(hostPubkey, seq), row: queued },
    { table: 'target', key: hostPubkey, row },
  ];
}

/** The items go; the notices come, each to the end of its sender's queue. */
function reduceExpiry(event: ItemsExpired, rows: RowReader): RowChange[] {
  const { targetPubkey, relayPubkey, items, notices, atMs } = event;
  const targets = new Map<PublicKey, TargetRow>();
  const before = targetRow(rows, targetPubkey);
  const charged = items.filter(({ kind }) => kind !== 'expired');
  targets.set(targetPubkey, {
    ...before,
    queueItems: before.queueItems - charged.length,
    queueBytes: charged.reduce((bytes, item) => bytes - item.bytes, before.queueBytes),
  });
  const changes: RowChange[] = items.map(({ seq }) => ({
    table: 'queue',
    key: rowKey.queue(targetPubkey, seq),
    row: null,
  }));
  for (const { targetPubkey: sender, seq, itemId, wire, wireHash, expiresAtMs } of notices) {
    targets.set(sender, { ...(targets.get(sender) ?? targetRow(rows, sender)), headSeq: seq });
    const row: QueueRow = {
      targetPubkey: sender,
      seq,
      kind: 'expired',
      itemId,
      senderPubkey: relayPubkey,
      wireHash,
      bytes: wire.length,
      acceptedAtMs: atMs,
      expiresAtMs,
      payloadTarget: sender,
      payloadSeq: seq,
    };
    changes.push({ table: 'queue', key: rowKey.queue(sender, seq), row });
  }
  for (const [key, row] of targets) changes.push({ table: 'target', key, row });
  return changes;
}
