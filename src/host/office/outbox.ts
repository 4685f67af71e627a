/**
 * The outbox: what is queued for paired hosts, what an attempt makes of it, and what the owner may see and cancel.
 *
 * A message is sealed once for each host, when it is sent; every attempt over every transport carries these bytes.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { alertText } from '../core/outbox-alerts.ts';
import { type OutboxAlert, type OutboxHappening, stepOutbox } from '../core/outbox.ts';
import {
  type Address,
  type MessageRef,
  type MessageRow,
  OWNER_ID,
  type OutboxRow,
  type PeerId,
  type PeerRow,
} from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { Office } from './office.ts';
import { addOutboxRow, dropOutboxRow, dropOutboxWire, openRows, putOutboxRow } from './outbox-rows.ts';
import { reportToAgent } from './reports.ts';
import { sealEnvelope } from './sealing.ts';
import { markRecipients } from './sent.ts';

/** Seals a message of this host for a paired one and queues it there. `recipients` live on that host, none twice. */
export async function queueEnvelope(
  tx: Transaction,
  office: Office,
  peer: PeerRow,
  message: MessageRow,
  body: string,
  recipients: readonly Address[],
): Promise<void> {
  const { signer } = office.identity();
  const envelope = await sealEnvelope(
    {
      v: 1,
      type: 'envelope',
      id: message.id,
      from: message.from,
      from_host_pubkey: signer.publicKey,
      to: [...recipients],
      to_host: peer.hostName,
      subject: message.subject,
      created_at: message.createdAtMs,
    },
    {
      kind: message.kind,
      needs_reply: message.needsReply,
      origin: message.origin,
      refs: message.refs,
      reply_to: message.replyTo === null ? null : wireIdOf(tx, message.replyTo),
      thread: message.thread === message.ref ? message.id : wireIdOf(tx, message.thread),
      body,
    },
    peer.encKey.encPub,
    signer,
  );
  const { ref, id: itemId } = message;
  const { peerId } = peer;
  const wire = canonicalBytes(envelope);
  addOutboxRow(tx, office, { kind: 'envelope', itemId, ref, peerId, recipients: [...recipients], wire });
}

/** The rows of a peer that are due, at most `limit`, longest due first. */
export async function dueRows(reader: Reader, peerId: PeerId, nowMs: number, limit: number): Promise<OutboxRow[]> {
  const rows: OutboxRow[] = [];
  for await (const row of openRows(reader, peerId, nowMs)) {
    rows.push(row);
    if (rows.length >= limit) break;
  }
  return rows;
}

/** When the next row of a peer is due; null when none will be. */
export async function nextDueMs(reader: Reader, peerId: PeerId): Promise<number | null> {
  for await (const { key } of reader.range('outboxDue', [peerId], { limit: 1 })) return key[1];
  return null;
}

/** The bytes to send. Throws when the row is not one to be sent any more. */
export function wireOf(reader: Reader, rowId: number): Buffer {
  const wire = reader.get('outboxWire', rowId);
  if (!wire) throw new Error('invariant: a row that is tried has its wire bytes');
  return wire;
}

/**
 * What `happening` makes of a row, with all that follows: indexes, wire bytes, the sender's record, alerts. Returns the
 * row as it is now; undefined when it is gone, or was already (another receipt took its place).
 */
export function afterAttempt(
  tx: Transaction,
  office: Office,
  rowId: number,
  happening: OutboxHappening,
): OutboxRow | undefined {
  const row = tx.get('outbox', rowId);
  const peer = row && tx.get('peer', row.peerId);
  if (!row || !peer) return undefined;
  const nowMs = office.nowMs();
  const facts = { nowMs, jitter: diceOf(office), hasPeerConfirmed: peer.hasConfirmed };
  const step = stepOutbox(row, happening, facts);
  for (const effect of step.effects) {
    switch (effect.type) {
      case 'Alert':
        alertSender(tx, office, row, peer, effect);
        break;
      case 'MarkRecipients':
        markRecipients(tx, office, row.ref, row.peerId, { ...effect, atMs: nowMs });
        break;
      case 'DropWire':
        dropOutboxWire(tx, row);
        break;
    }
  }
  if (!step.row) {
    dropOutboxRow(tx, row);
    return undefined;
  }
  if (!isSameRow(row, step.row)) putOutboxRow(tx, row, step.row);
  return step.row;
}

/** Something happened to the peer itself: every row of it that is open takes note. */
export async function afterPeerChange(
  tx: Transaction,
  office: Office,
  peerId: PeerId,
  happening: Extract<OutboxHappening, { type: 'peer-reached' | 'peer-unpaired' | 'new-epoch' }>,
): Promise<void> {
  const rowIds: number[] = [];
  for await (const { rowId } of openRows(tx, peerId)) rowIds.push(rowId);
  for (const rowId of rowIds) afterAttempt(tx, office, rowId, happening);
  tx.afterCommit(() => office.tell({ type: 'outbox-changed', peerId }));
}

/** How a message of this host, or one that came, is called outside: not every reference is an id. */
function wireIdOf(reader: Reader, ref: MessageRef): string {
  return reader.get('message', ref)?.id ?? ref;
}

/** From 0 to below 1. */
function diceOf(office: Office): number {
  return office.randomBytes(4).readUInt32BE() / 2 ** 32;
}

function alertSender(
  tx: Transaction,
  office: Office,
  row: OutboxRow,
  { hostName }: PeerRow,
  { alert, recipients }: { alert: OutboxAlert; recipients: Address[] },
): void {
  const message = tx.get('message', row.ref);
  const agentId = tx.get('sent', row.ref)?.agentId ?? message?.fromAgent ?? OWNER_ID;
  const subject = message?.subject ?? row.itemId;
  const report = alertText(alert, { hostName, subject, recipients, rowId: row.rowId });
  reportToAgent(tx, office, agentId, { ...report, kind: 'alert', ...(message && { about: message }) });
}

function isSameRow(a: OutboxRow, b: OutboxRow): boolean {
  return (Object.keys(a) as (keyof OutboxRow)[]).every((name) => a[name] === b[name]);
}
