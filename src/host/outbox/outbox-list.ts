/** The list of the outbox for its owner, who may take items back from it. */
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import { isSameHost } from '../core/address.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { OutboxRow, OutboxState } from '../core/rows.ts';
import type { CancelInput, CancelResult, OutboxInput, OutboxResult, OutboxRowView } from '../contract/outbox.ts';
import { OUTBOX_PAGE_MAX } from '../contract/limits.ts';
import type { Reader } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';
import { openRows, afterAttempt } from './outbox.ts';

const UNDELIVERED_STATES: ReadonlySet<OutboxState> = new Set(['quarantined', 'expired', 'unconfirmed', 'undelivered']);

/** Newest first. */
export function listOutbox(context: HostContext, input: OutboxInput): Promise<OutboxResult> {
  return context.store.read(async (reader) => {
    const limit = input.limit ?? OUTBOX_PAGE_MAX;
    const rows: OutboxRowView[] = [];
    for await (const row of input.show === undefined || input.show === 'open'
      ? allOpen(reader)
      : allRows(reader, input)) {
      if (input.before !== undefined && row.rowId >= input.before) continue;
      const view = rowView(reader, row);
      if (!isAskedFor(row, view, input)) continue;
      if (rows.length >= limit) return { rows, next_before: rows.at(-1)?.row ?? null };
      rows.push(view);
    }
    return { rows, next_before: null };
  });
}

/** Ends what no other host has accepted yet; a row that was tried may have arrived nonetheless. */
export function cancelOutbox(context: HostContext, { row: rowId }: CancelInput): Promise<CancelResult | Refusal> {
  return context.store.transact((tx) => {
    const row = tx.get('outbox', rowId);
    if (!row) return refusal('NO_SUCH_ROW', `The outbox has no row ${rowId}: see poste outbox.`, { row: rowId });
    if (row.kind === 'receipt')
      return refusal('NOT_CANCELLABLE', 'A delivery receipt cannot be cancelled.', { row: rowId });
    if (row.state !== 'pending') {
      const message = `Row ${rowId} is ${row.state}: only what no other host has accepted can be cancelled.`;
      return refusal('NOT_CANCELLABLE', message, { row: rowId, state: row.state });
    }
    const after = afterAttempt(tx, context, rowId, { type: 'cancelled' });
    if (!after) throw new Error('invariant: a row of the outbox belongs to a peer');
    // One that is due is under way, as far as anybody can tell: an attempt leaves its mark when it has ended.
    const isDue = row.nextAtMs !== null && row.nextAtMs <= context.nowMs();
    const wasTried = isDue || row.lanAttempts > 0 || row.relayAttempts > 0 || row.firstPushAtMs !== null;
    return { cancelled: rowView(tx, after), was_tried: wasTried };
  });
}

/** Open rows of all peers; they are few enough to sort. */
async function* allOpen(reader: Reader): AsyncGenerator<OutboxRow> {
  const rows: OutboxRow[] = [];
  for await (const { row: peer } of reader.range('peer', [])) {
    for await (const row of openRows(reader, peer.peerId)) rows.push(row);
  }
  yield* rows.toSorted((a, b) => b.rowId - a.rowId);
}

async function* allRows(reader: Reader, { before }: OutboxInput): AsyncGenerator<OutboxRow> {
  const until = before === undefined ? {} : { until: [before] as [number] };
  for await (const { row } of reader.range('outbox', [], { ...until, reverse: true })) yield row;
}

function isAskedFor(row: OutboxRow, view: OutboxRowView, { show, host, receipts }: OutboxInput): boolean {
  if (row.kind === 'receipt' && receipts !== true) return false;
  if (show === 'undelivered' && !isUndelivered(row)) return false;
  return host === undefined || isSameHost(view.host, host);
}

/** Its sender was told, and nothing has corrected that. */
function isUndelivered({ state, alertedAtMs }: OutboxRow): boolean {
  return UNDELIVERED_STATES.has(state) || (state === 'pending' && alertedAtMs !== null);
}

export function rowView(reader: Reader, row: OutboxRow): OutboxRowView {
  return {
    row: row.rowId,
    kind: row.kind,
    item_id: row.itemId,
    message_id: row.ref,
    host: reader.get('peer', row.peerId)?.hostName ?? '',
    recipients: row.recipients,
    confirmed: row.confirmed,
    state: row.state,
    created_at: isoTime(row.createdAtMs),
    next_at: isoTimeOrNull(row.nextAtMs),
    lan_attempts: row.lanAttempts,
    relay_attempts: row.relayAttempts,
    alerted_at: isoTimeOrNull(row.alertedAtMs),
    last_error: row.lastError,
    bytes: row.wireBytes,
  };
}
