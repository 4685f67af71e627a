/**
 * Drops what was kept long enough, in slices, so that no transaction holds up others for long: entries of mailboxes,
 * what agents sent, idempotency keys, and all that a removed agent's mailbox holds.
 *
 * Every slice decides again inside its transaction. What is not reached, because the daemon stops, is reached next time.
 */
import type { PeerId, OutboxRow } from '../core/rows.ts';
import { type AgentId, type MessageRef, OWNER_ID, type SentRow } from '../core/rows.ts';
import { isEntryDue, isSentDue } from '../core/retention.ts';
import { IDEMPOTENCY_MS } from '../documents/mail.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { dropEntry, release } from './mailbox.ts';
import type { Office } from './office.ts';
import { dropOutboxRow, outboxRowOf } from './outbox-rows.ts';

/** How many rows one transaction looks at. */
const SLICE_ROWS = 200;

export interface Dropped {
  entries: number;
  sent: number;
  idempotencyKeys: number;
}

/** One sweep over everything. `signal` ends it between two slices. */
export async function sweepRetention(office: Office, retentionMs: number, signal?: AbortSignal): Promise<Dropped> {
  const dropped: Dropped = { entries: 0, sent: 0, idempotencyKeys: 0 };
  for (const { agentId, isRemoved } of await mailboxHolders(office)) {
    const keptMs = isRemoved ? null : retentionMs;
    dropped.entries += await inSlices(signal, (from) => sweepEntries(office, agentId, keptMs, from));
    dropped.sent += await inSlices(signal, (from) => sweepSent(office, agentId, retentionMs, from));
  }
  dropped.idempotencyKeys = await inSlices(signal, () => sweepIdempotency(office));
  return dropped;
}

/** What a slice did, and where the next one begins; null when there is none. */
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

async function mailboxHolders({ store }: Office): Promise<{ agentId: AgentId; isRemoved: boolean }[]> {
  return store.read(async (reader) => {
    const holders = [{ agentId: OWNER_ID, isRemoved: false }];
    for await (const { row } of reader.range('agent', [])) {
      holders.push({ agentId: row.agentId, isRemoved: row.removedAtMs !== null });
    }
    return holders;
  });
}

/** Entries from a position on. `retentionMs` is null for a mailbox that is given up. */
async function sweepEntries(
  office: Office,
  agentId: AgentId,
  retentionMs: number | null,
  from: number,
): Promise<Slice> {
  const nowMs = office.nowMs();
  return office.store.transact(async (tx) => {
    let dropped = 0;
    let seen = 0;
    let last = from;
    for await (const { key, row } of tx.range('entry', [agentId], { from: [agentId, from], limit: SLICE_ROWS })) {
      const isTooYoung = retentionMs !== null && row.storedAtMs + retentionMs > nowMs;
      // None was read before it was stored, and what follows was stored later, unless the clock was ahead then.
      if (isTooYoung && row.storedAtMs <= nowMs) return { dropped, next: null };
      seen++;
      last = key[1];
      if (retentionMs !== null && !isEntryDue(row, nowMs, retentionMs)) continue;
      dropEntry(tx, agentId, last, row);
      dropped++;
    }
    return { dropped, next: seen < SLICE_ROWS ? null : last + 1 };
  });
}

/** Sent messages from a time on. */
async function sweepSent(office: Office, agentId: AgentId, retentionMs: number, from: number): Promise<Slice> {
  const nowMs = office.nowMs();
  return office.store.transact(async (tx) => {
    let dropped = 0;
    let seen = 0;
    let last = from;
    for await (const { key } of tx.range('sentBy', [agentId], { from: [agentId, from] })) {
      const [, createdAtMs, ref] = key;
      // A slice ends where the time changes: the next one begins at a time.
      if (seen >= SLICE_ROWS && createdAtMs > last) return { dropped, next: createdAtMs };
      if (createdAtMs + retentionMs > nowMs) return { dropped, next: null };
      seen++;
      last = createdAtMs;
      if (dropSentIfDue(tx, agentId, ref, nowMs, retentionMs)) dropped++;
    }
    return { dropped, next: null };
  });
}

function dropSentIfDue(
  tx: Transaction,
  agentId: AgentId,
  ref: MessageRef,
  nowMs: number,
  retentionMs: number,
): boolean {
  const sent = tx.get('sent', ref);
  const message = tx.get('message', ref);
  if (!sent || !message) throw new Error('invariant: what was sent is kept with its message');
  const outbox = outboxOf(tx, sent, message.id);
  if (!isSentDue(sent, outbox, nowMs, retentionMs)) return false;
  for (const row of outbox) dropOutboxRow(tx, row);
  tx.delete('sent', [ref]);
  tx.delete('sentBy', [agentId, sent.createdAtMs, ref]);
  if (sent.threadPosition !== null) tx.delete('threadEntry', [agentId, message.thread, sent.threadPosition]);
  release(tx, ref);
  return true;
}

function outboxOf(reader: Reader, { recipients }: SentRow, itemId: string): OutboxRow[] {
  const peerIds = new Set<PeerId>(recipients.flatMap(({ peerId }) => peerId ?? []));
  return [...peerIds].flatMap((peerId) => outboxRowOf(reader, peerId, itemId) ?? []);
}

async function sweepIdempotency(office: Office): Promise<Slice> {
  const nowMs = office.nowMs();
  return office.store.transact(async (tx) => {
    let dropped = 0;
    for await (const { key } of tx.range('idempotencyDue', [], { limit: SLICE_ROWS })) {
      const [atMs, agentId, keyHash] = key;
      if (atMs + IDEMPOTENCY_MS > nowMs) return { dropped, next: null };
      tx.delete('idempotencyDue', key);
      tx.delete('idempotency', [agentId, keyHash]);
      dropped++;
    }
    return { dropped, next: dropped < SLICE_ROWS ? null : 0 };
  });
}
