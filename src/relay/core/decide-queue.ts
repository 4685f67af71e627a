/**
 * Decides what leaves a queue: the page that a pull hands over, what an ack releases, which items expire and which
 * senders get a notice, and which dedup rows are forgotten.
 *
 * Invariants ("POST /v2/relay/ack"; "Item at the relay"; "Expiry notice"; "Dedup record"):
 *   - `acked_through` never goes back, never passes the head, and is only moved in the epoch its caller knows;
 *   - an ack that says nothing new changes nothing, nor does one that releases nothing short of the head: there are as
 *     many of those as milliseconds, and each would be a record that stays. Both answer what is recorded;
 *   - an expired envelope leaves a tombstone, and its sender gets one notice;
 *   - an expired receipt or notice is dropped without a notice;
 *   - nothing expires before its time, and nothing is forgotten before its horizon.
 */
import { sha256Hex } from '../../protocol/encodings.ts';
import { type ExpiryNotice, expiryNotice, signedRecordJson } from '../../protocol/documents.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ExpireItems, PurgeDedup, AckItems, ExtendDedup } from './command.ts';
import {
  type AckOutcome,
  type Decided,
  type Done,
  type Refusal,
  type RelaySettings,
  accountOf,
  decisionOf,
  presentKey,
  refusal,
  relayRow,
  targetRow,
  waitingRow,
} from './decision.ts';
import type { ExpiredItem, ItemsExpired, QueuedNotice } from './event.ts';
import type { Released } from './queue-index.ts';
import type { QueueRow, RowReader } from './rows.ts';

/** Items that one command expires at most: each notice is signed before others get their turn. */
export const EXPIRED_AT_ONCE = 100;

export interface UnsignedNotice extends Omit<QueuedNotice, 'wire' | 'wireHash'> {
  rec: ExpiryNotice;
}

export interface DecidedExpiry extends Omit<ItemsExpired, 'notices'> {
  notices: UnsignedNotice[];
}

export interface DueItems {
  /** The items that still wait and are past their time, in order. */
  due: QueueRow[];
  /** The live key of each sender, which gets the notice; absent when it is no host any more. */
  tellAt: ReadonlyMap<PublicKey, PublicKey>;
}

export function dueItems({ targetPubkey, seqs, nowMs }: ExpireItems, rows: RowReader): DueItems {
  const due = seqs.flatMap((seq) => {
    const row = waitingRow(rows, targetPubkey, seq);
    return row && row.expiresAtMs <= nowMs ? row : [];
  });
  const tellAt = new Map<PublicKey, PublicKey>();
  for (const { senderPubkey } of due) {
    const key = presentKey(rows, senderPubkey);
    if (rows.get('enrolment', key)?.revokedAtMs === null) tellAt.set(senderPubkey, key);
  }
  return { due, tellAt };
}

export function decideExpire(
  command: ExpireItems,
  rows: RowReader,
  { limits }: RelaySettings,
  { due, tellAt }: DueItems = dueItems(command, rows),
): DecidedExpiry | undefined {
  const { targetPubkey, nowMs } = command;
  if (due.length === 0) return undefined;
  const heads = new Map<PublicKey, number>();
  const notices = due.flatMap((row) => {
    const key = tellAt.get(row.senderPubkey);
    if (row.kind !== 'envelope' || !key) return [];
    const seq = Math.max((heads.get(key) ?? targetRow(rows, key).headSeq) + 1, nowMs);
    heads.set(key, seq);
    return notice(row, key, seq, nowMs, retentionMs(limits));
  });
  return {
    type: 'ItemsExpired',
    targetPubkey,
    relayPubkey: relayRow(rows).relayPubkey,
    items: due.map(expired),
    account: accountOf(rows, targetPubkey),
    dedupUntilMs: nowMs + dedupHorizonMs(limits),
    notices,
    atMs: nowMs,
  };
}

/** The notice as it is queued for its sender. `signer` is the relay's. */
export function signNotice({ rec, ...notice }: UnsignedNotice, signer: Signer): QueuedNotice {
  const wire = signedRecordJson(signer, rec);
  return { wire, wireHash: sha256Hex(wire), ...notice };
}

export function decidePurge({ beforeMs, senders, nowMs }: PurgeDedup): Decided<Done> {
  return decisionOf({ type: 'Done' }, { type: 'DedupPurged', beforeMs, senders, atMs: nowMs });
}

/** `target_pubkey` is the key that the sender pushed to, which its row holds, whatever was rotated since. */
function notice(row: QueueRow, targetPubkey: PublicKey, seq: number, nowMs: number, keptMs: number): UnsignedNotice {
  const { itemId, payloadTarget: pushedTo, acceptedAtMs } = row;
  return {
    targetPubkey,
    seq,
    itemId: `expired:${itemId}:${pushedTo}` as ItemId,
    expiresAtMs: nowMs + keptMs,
    rec: expiryNotice({ item_id: itemId, target_pubkey: pushedTo, accepted_at: acceptedAtMs, expired_at: nowMs }),
  };
}

function expired({ seq, kind, itemId, senderPubkey, payloadTarget, bytes }: QueueRow): ExpiredItem {
  return { seq, kind, itemId, senderPubkey, pushedTo: payloadTarget, bytes };
}

/** Dedup rows that one event extends: each is read and written. */
export const EXTENDED_AT_ONCE = 100;

/** An ack that releases the items of many senders is decided in steps; `released` says how far this one goes. */
export function decideAck(command: AckItems, rows: RowReader, released: Released): Decided<AckOutcome> | Refusal {
  const { through, targetPubkey } = command;
  const { headSeq, ackedThrough } = targetRow(rows, targetPubkey);
  const { epoch } = relayRow(rows);
  if (command.epoch !== epoch) return refusal('EPOCH_CHANGED', 'the store began a new epoch', { epoch });
  if (through > headSeq) {
    return refusal('BAD_ACK', 'through lies beyond the head', { head_seq: headSeq });
  }
  if (through <= ackedThrough || (released.items + released.notices === 0 && through < headSeq))
    return decisionOf<AckOutcome>({ type: 'Acked', ackedThrough, deleted: 0, headSeq });
  const outcome: AckOutcome = {
    type: 'Acked',
    ackedThrough: released.through,
    deleted: released.items + released.notices,
    headSeq,
  };
  const account = accountOf(rows, targetPubkey);
  return decisionOf(outcome, { type: 'ItemsAcked', targetPubkey, ...released, account, atMs: command.nowMs });
}

/** Before an ack of items whose deadline has passed. */
export function decideExtend(
  { targetPubkey, seqs, nowMs }: ExtendDedup,
  rows: RowReader,
  { limits }: RelaySettings,
): Decided<Done> {
  const done: Done = { type: 'Done' };
  const items = seqs
    .flatMap((seq) => waitingRow(rows, targetPubkey, seq) ?? [])
    .filter(({ kind }) => kind !== 'expired')
    .map(({ itemId, senderPubkey, payloadTarget: pushedTo }) => ({ itemId, senderPubkey, pushedTo }));
  if (items.length === 0) return decisionOf(done);
  const dedupUntilMs = nowMs + dedupHorizonMs(limits);
  return decisionOf(done, { type: 'DedupExtended', targetPubkey, items, dedupUntilMs, atMs: nowMs });
}

/** The page of a pull ("GET /v2/relay/items", rule 2): those of `rows` that fit; one beyond `limit` says more. */
export function pageRows(
  rows: readonly QueueRow[],
  limit: number,
  bytesMax: number,
): { rows: QueueRow[]; more: boolean } {
  let bytes = 0;
  let count = 0;
  for (const row of rows) {
    bytes += row.bytes;
    if (count === limit || (count > 0 && bytes > bytesMax)) break;
    count++;
  }
  return { rows: rows.slice(0, count), more: rows.length > count };
}
