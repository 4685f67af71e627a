/**
 * Deletes what was kept long enough, in slices, so that no transaction delays others for long: entries of mailboxes,
 * sent messages, idempotency keys, and the whole mailbox of a removed agent.
 *
 * Every slice decides anew inside its transaction. The next sweep takes what a stop of the daemon leaves.
 */
import { IDEMPOTENCY_MS } from '../contract/limits.ts';
import type { HostContext } from '../base/context.ts';
import {
  type AgentId,
  type EntryRow,
  type MessageRef,
  type OutboxRow,
  OWNER_ID,
  type PeerId,
  type SentRow,
} from '../core/rows.ts';
import { dropOutboxRow, outboxRowOf } from '../outbox/outbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { dropEntry, release } from '../mailbox/mailbox.ts';

/** One transaction reads this number of rows. */
const SLICE_ROWS = 200;

interface DroppedCounts {
  entries: number;
  sent: number;
  idempotencyKeys: number;
}

/** One sweep over everything. `signal` ends it between two slices. */
export async function sweepRetention(
  context: HostContext,
  retentionMs: number,
  signal?: AbortSignal,
): Promise<DroppedCounts> {
  const dropped: DroppedCounts = { entries: 0, sent: 0, idempotencyKeys: 0 };
  for (const { agentId, isRemoved } of await mailboxHolders(context)) {
    const keptMs = isRemoved ? null : retentionMs;
    dropped.entries += await inSlices(signal, (from) => sweepEntries(context, agentId, keptMs, from));
    dropped.sent += await inSlices(signal, (from) => sweepSent(context, agentId, retentionMs, from));
  }
  dropped.idempotencyKeys = await inSlices(signal, () => sweepIdempotency(context));
  return dropped;
}

/** A slice says how many rows it deleted, and where the next one begins; null when there is none. */
interface Slice {
  dropped: number;
  next: number | null;
}

async function inSlices(signal: AbortSignal | undefined, slice: (from: number) => Promise<Slice>): Promise<number> {
  let dropped = 0;
  for (let from: number | null = 0; from !== null; ) {
    if (signal?.aborted === true) break;
    const done: Slice = await slice(from);
    dropped += done.dropped;
    from = done.next;
  }
  return dropped;
}

async function mailboxHolders({ store }: HostContext): Promise<{ agentId: AgentId; isRemoved: boolean }[]> {
  return store.read(async (reader) => {
    const holders = [{ agentId: OWNER_ID, isRemoved: false }];
    for await (const { row } of reader.range('agent', [])) {
      holders.push({ agentId: row.agentId, isRemoved: row.removedAtMs !== null });
    }
    return holders;
  });
}

/** Sweeps entries from a position on. `retentionMs` is null for the mailbox of a removed agent. */
async function sweepEntries(
  context: HostContext,
  agentId: AgentId,
  retentionMs: number | null,
  from: number,
): Promise<Slice> {
  const nowMs = context.nowMs();
  return context.store.transact(async (tx) => {
    let dropped = 0;
    let seen = 0;
    let last = from;
    for await (const { key, row } of tx.range('entry', [agentId], { from: [agentId, from], limit: SLICE_ROWS })) {
      const isTooYoung = retentionMs !== null && context.momentMs(row.storedAtMs) + retentionMs > nowMs;
      // An entry is read after it is stored, and later entries were stored later, unless the clock was ahead then.
      if (isTooYoung && row.storedAtMs <= nowMs) return { dropped, next: null };
      seen++;
      last = key[1];
      if (retentionMs !== null && !isEntryDue(row, context, retentionMs)) continue;
      dropEntry(tx, agentId, last, row);
      dropped++;
    }
    return { dropped, next: seen < SLICE_ROWS ? null : last + 1 };
  });
}

/** Sweeps sent messages from a time on. */
async function sweepSent(context: HostContext, agentId: AgentId, retentionMs: number, from: number): Promise<Slice> {
  const nowMs = context.nowMs();
  return context.store.transact(async (tx) => {
    let dropped = 0;
    let seen = 0;
    let last = from;
    for await (const { key } of tx.range('sentBy', [agentId], { from: [agentId, from] })) {
      const [, createdAtMs, ref] = key;
      // A slice ends where the time changes: the next one begins at a time.
      if (seen >= SLICE_ROWS && createdAtMs > last) return { dropped, next: createdAtMs };
      if (context.momentMs(createdAtMs) + retentionMs > nowMs) return { dropped, next: null };
      seen++;
      last = createdAtMs;
      if (dropSentIfDue(tx, context, agentId, ref, retentionMs)) dropped++;
    }
    return { dropped, next: null };
  });
}

function dropSentIfDue(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  ref: MessageRef,
  retentionMs: number,
): boolean {
  const sent = tx.get('sent', ref);
  const message = tx.get('message', ref);
  if (!sent || !message) throw new Error('invariant: what was sent is kept with its message');
  const outbox = outboxOf(tx, sent, message.id);
  if (!isSentDue(sent, outbox, context, retentionMs)) return false;
  for (const row of outbox) dropOutboxRow(tx, row);
  const identity = tx.get('identity');
  if (identity && (identity.sentForgottenMs ?? 0) < sent.createdAtMs) {
    tx.put('identity', [], { ...identity, sentForgottenMs: sent.createdAtMs });
  }
  tx.delete('sent', [ref]);
  tx.delete('asked', [agentId, ref]);
  tx.delete('sentBy', [agentId, sent.createdAtMs, ref]);
  if (sent.threadPosition !== null) tx.delete('threadEntry', [agentId, message.thread, sent.threadPosition]);
  release(tx, ref);
  return true;
}

function outboxOf(reader: Reader, { recipients }: SentRow, itemId: string): OutboxRow[] {
  const peerIds = new Set<PeerId>(recipients.flatMap(({ peerId }) => peerId ?? []));
  return [...peerIds].flatMap((peerId) => outboxRowOf(reader, peerId, itemId) ?? []);
}

async function sweepIdempotency(context: HostContext): Promise<Slice> {
  const nowMs = context.nowMs();
  return context.store.transact(async (tx) => {
    let dropped = 0;
    for await (const { key } of tx.range('idempotencyDue', [], { limit: SLICE_ROWS })) {
      const [atMs, agentId, keyHash] = key;
      if (context.momentMs(atMs) + IDEMPOTENCY_MS > nowMs) return { dropped, next: null };
      tx.delete('idempotencyDue', key);
      tx.delete('idempotency', [agentId, keyHash]);
      dropped++;
    }
    return { dropped, next: dropped < SLICE_ROWS ? null : 0 };
  });
}

/**
 * Says whether an entry may be deleted. Unread mail never is; read or acked mail is kept for `retentionMs` after that.
 * The ids of received mail are kept for ever (`ArrivalRow`), so that a repeat is never new.
 */
function isEntryDue({ state, readAtMs, ackedAtMs }: EntryRow, context: HostContext, retentionMs: number): boolean {
  if (state === 'unread') return false;
  const handledAtMs = [readAtMs, ackedAtMs].filter((atMs) => atMs !== null).map((atMs) => context.momentMs(atMs));
  return Math.max(0, ...handledAtMs) + retentionMs <= context.nowMs();
}

/** `outbox`: the rows that carry the message; a finished row has no next time. */
function isSentDue(
  { createdAtMs }: SentRow,
  outbox: readonly OutboxRow[],
  context: HostContext,
  retentionMs: number,
): boolean {
  return (
    context.momentMs(createdAtMs) + retentionMs <= context.nowMs() && outbox.every(({ nextAtMs }) => nextAtMs === null)
  );
}
