/**
 * The outbox: what is queued for paired hosts, what an attempt makes of it, and whether a peer answers over the LAN.
 *
 * A message is sealed once for each host, when it is sent; every attempt over every transport carries these bytes.
 *
 * Invariants of the rows, which only this file writes: a row is in `outboxDue` under its peer and `nextAtMs` exactly
 * when it has one; `outboxItem` finds the row of an item; one peer has at most one row for an item.
 */
import { alertText, type OutboxAlert, type OutboxEvent } from '../core/outbox-event.ts';
import { stepOutbox } from '../core/outbox.ts';
import { type Address, type MessageRef, OWNER_ID, type OutboxRow, type PeerId, type PeerRow } from '../core/rows.ts';
import { copiesOf, copyAt, clockNow } from '../core/outbox-row.ts';
import { bySending, sendOrder } from '../core/transport-choice.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { RangeOptions } from '../store/tables.ts';
import { putRelayRow, relayRowOf, elsewhereSentence, reportNoCommonRelay } from './homes.ts';
import type { HostContext } from '../base/context.ts';
import { markRecipients, reportToAgent } from '../mailbox/mailbox.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import { type ItemId, MESSAGE_ID_RANDOM_BYTES, messageIdFrom } from '../../protocol/names.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { PushedKind } from '../../protocol/items.ts';

/** Waiting rows of a peer that are read to keep the order: behind more than these, a message may overtake another. */
const WAITING_MAX = 2000;

/**
 * The rows of a peer that are due, at most `limit` of the longest due, in the order in which they were queued. Messages
 * leave in the order in which they were sent, and are put off or brought forward for that (`core/transport-choice.ts`).
 * `taken`: rows whose answer is being stored; once it is, they are due no more.
 */
export async function dueRows(
  context: HostContext,
  peerId: PeerId,
  limit: number,
  taken: ReadonlySet<number> = new Set(),
): Promise<OutboxRow[]> {
  const nowMs = context.nowMs();
  const open = (reader: Reader): Promise<OpenRows> => openNow(reader, context, { peerId, nowMs, limit, taken });
  const found = await context.store.read(open);
  const { sooner, later } = sendOrder(found.due, found.waiting);
  if (sooner.length === 0 && later.length === 0) return found.due.toSorted(bySending);
  return context.store.transact(async (tx) => {
    const { due, waiting } = await open(tx);
    const order = sendOrder(due, waiting);
    const dueSinceMs = due[0]?.nextAtMs ?? nowMs;
    const reschedule = ({ rowId }: OutboxRow, atMs: number): void =>
      void afterAttempt(tx, context, rowId, { type: 'rescheduled', atMs });
    for (const row of order.sooner) reschedule(row, dueSinceMs);
    for (const { row, untilMs } of order.later) reschedule(row, untilMs);
    return (await open(tx)).due.toSorted(bySending);
  });
}

interface OpenRows {
  due: OutboxRow[];
  /** Those that may wait for another try: no longer than the longest wait between two, and `WAITING_MAX` of them. */
  waiting: OutboxRow[];
}

async function openNow(
  reader: Reader,
  { retry }: HostContext,
  { peerId, nowMs, limit, taken }: { peerId: PeerId; nowMs: number; limit: number; taken: ReadonlySet<number> },
): Promise<OpenRows> {
  const untilMs = nowMs + retry.longestMs;
  const keysMax = limit + WAITING_MAX;
  const keys = await openKeys(reader, peerId, { untilMs, limit: keysMax });
  const dueKeys = keys.filter(([, nextAtMs]) => nextAtMs <= nowMs);
  const due = dueKeys.filter(([, , rowId]) => !taken.has(rowId));
  // They matter for those that are due.
  if (due.length === 0) return { due: [], waiting: [] };
  let waiting = keys.slice(dueKeys.length, dueKeys.length + WAITING_MAX);
  if (keys.length === keysMax && waiting.length < WAITING_MAX)
    waiting = await openKeys(reader, peerId, { fromMs: nowMs + 1, untilMs, limit: WAITING_MAX });
  const rows = (those: readonly DueKey[]): OutboxRow[] => those.map((key) => openRow(reader, key));
  return { due: rows(due.slice(0, limit)), waiting: rows(waiting) };
}

/** The first row of a peer that is due after `nowMs`. */
export async function nextOpenRow(reader: Reader, peerId: PeerId, nowMs: number): Promise<OutboxRow | undefined> {
  const [key] = await openKeys(reader, peerId, { fromMs: nowMs + 1, limit: 1 });
  return key && openRow(reader, key);
}

/** The bytes to send. Throws when the row is not one to be sent any more. */
export function wireOf(reader: Reader, rowId: number): Buffer {
  const wire = reader.get('outboxWire', rowId);
  if (!wire) throw new Error('invariant: a row that is tried has its wire bytes');
  return wire;
}

/**
 * Applies `event` to a row, with all that follows: indexes, wire bytes, the sender's record, alerts. Returns the
 * row as it is now; undefined when it is gone, or was already (another receipt took its place).
 */
export function afterAttempt(
  tx: Transaction,
  context: HostContext,
  rowId: number,
  event: OutboxEvent,
): OutboxRow | undefined {
  const row = tx.get('outbox', rowId);
  const peer = row && tx.get('peer', row.peerId);
  if (!row || !peer) return undefined;
  const clock = clockNow(context);
  const { nowMs } = clock;
  const { hasConfirmed: hasPeerConfirmed } = peer;
  const facts = { ...clock, jitter: diceOf(context), retry: context.retry, hasPeerConfirmed };
  const step = stepOutbox(row, event, facts);
  for (const effect of step.effects) {
    switch (effect.type) {
      case 'Alert':
        alertSender(tx, context, row, peer, effect);
        break;
      case 'MarkRecipients':
        markRecipients(tx, context, row.ref, row.peerId, { atMs: nowMs, ...effect });
        break;
      case 'DropWire':
        tx.delete('outboxWire', [row.rowId]);
        break;
    }
  }
  if (!step.row) {
    dropOutboxRow(tx, row);
    return undefined;
  }
  const isWithoutWay = event.type === 'time-passed' || event.type === 'lan-failed';
  const after = isWithoutWay ? reportNoCommonRelay(tx, context, step.row, peer) : step.row;
  if (!isSameRow(row, after)) putOutboxRow(tx, row, after);
  if (event.type === 'expired') noteWrongNotice(tx, nowMs, event.relayPubkey, { before: row, after });
  return after;
}

/** A notice before its time counts against its relay: mail for every host avoids it for a while. */
function noteWrongNotice(
  tx: Transaction,
  nowMs: number,
  relayPubkey: PublicKey,
  { before, after }: { before: OutboxRow; after: OutboxRow },
): void {
  const relay = relayRowOf(tx, relayPubkey);
  const isWrong = (row: OutboxRow): boolean => copyAt(row, relayPubkey)?.wrongAtMs !== undefined;
  if (relay && isWrong(after) && !isWrong(before)) putRelayRow(tx, { ...relay, wrongNoticeAtMs: nowMs });
}

/** An event that happens to all rows of a peer. */
export type PeerEvent = Extract<
  OutboxEvent,
  {
    type:
      | 'peer-reached'
      | 'peer-unpaired'
      | 'clock-jumped'
      | 'new-epoch'
      | 'relay-rewound'
      | 'relay-ready'
      | 'relay-removed';
  }
>;

/** Something happened to the peer itself: every row of it that is open takes note. */
export async function afterPeerChange(
  tx: Transaction,
  context: HostContext,
  peerId: PeerId,
  event: PeerEvent,
): Promise<void> {
  const rowIds: number[] = [];
  for await (const { rowId } of openRows(tx, peerId)) rowIds.push(rowId);
  for (const rowId of rowIds) afterAttempt(tx, context, rowId, event);
  tx.afterCommit(() => context.emit({ type: 'outbox-changed', peerId }));
}

/** A random number from 0 to below 1. */
function diceOf(context: HostContext): number {
  return context.randomBytes(4).readUInt32BE() / 2 ** 32;
}

function alertSender(
  tx: Transaction,
  context: HostContext,
  row: OutboxRow,
  peer: PeerRow,
  { alert, recipients }: { alert: OutboxAlert; recipients: Address[] },
): void {
  const message = tx.get('message', row.ref);
  const agentId = tx.get('sent', row.ref)?.agentId ?? message?.fromAgent ?? OWNER_ID;
  const subject = message?.subject ?? row.itemId;
  const relays = copiesOf(row).map(({ acceptance: { relayPubkey } }) => relayName(tx, relayPubkey));
  const { rowId, tried } = row;
  const elsewhere = alert === 'undelivered' ? elsewhereSentence(tx, peer) : '';
  const facts = {
    hostName: peer.hostName,
    elsewhere,
    subject,
    recipients,
    rowId,
    relays,
    isOneOfMany: tried !== undefined,
  };
  const report = alertText(alert, facts);
  reportToAgent(tx, context, agentId, { ...report, kind: 'alert', ...(message && { about: message }) });
}

/** Its address, or the fingerprint of one that is not in use any more. */
function relayName(reader: Reader, relayPubkey: PublicKey): string {
  return relayRowOf(reader, relayPubkey)?.url ?? `a relay of before (${displayFingerprint(relayPubkey)})`;
}

function isSameRow(a: OutboxRow, b: OutboxRow): boolean {
  const areSame = (name: string): boolean => a[name as keyof OutboxRow] === b[name as keyof OutboxRow];
  return Object.keys(a).every(areSame) && Object.keys(b).every(areSame);
}

interface NewOutboxItem {
  kind: PushedKind;
  itemId: ItemId;
  /** The message it carries, or that it is a receipt for. */
  ref: MessageRef;
  peerId: PeerId;
  recipients: Address[];
  wire: Buffer;
  broughtBy?: readonly PublicKey[];
}

/** Adds a row that is due at once. Throws when the peer has one for this item. */
export function addOutboxRow(tx: Transaction, context: HostContext, item: NewOutboxItem): OutboxRow {
  const { wire, ...named } = item;
  if (outboxRowOf(tx, item.peerId, item.itemId)) throw new Error('invariant: an item is queued once for a peer');
  const nowMs = context.nowMs();
  const row: OutboxRow = {
    rowId: tx.next('outbox'),
    wireHash: sha256Hex(wire),
    wireBytes: wire.length,
    state: 'pending',
    createdAtMs: nowMs,
    nextAtMs: nowMs,
    lanAttempts: 0,
    relayAttempts: 0,
    firstPushAtMs: null,
    lanAcceptedAtMs: null,
    acceptance: null,
    alertedAtMs: null,
    lastError: null,
    confirmed: [],
    ...named,
  };
  tx.put('outbox', [row.rowId], row);
  tx.put('outboxWire', [row.rowId], wire);
  tx.put('outboxItem', [row.peerId, row.itemId], row.rowId);
  putDue(tx, row);
  tx.afterCommit(() => context.emit({ type: 'outbox-changed', peerId: row.peerId }));
  return row;
}

/** Puts what became of a row; the due index follows. */
export function putOutboxRow(tx: Transaction, before: OutboxRow, after: OutboxRow): void {
  tx.put('outbox', [after.rowId], after);
  if (after.nextAtMs === before.nextAtMs) return;
  dropDue(tx, before);
  putDue(tx, after);
}

export function dropOutboxRow(tx: Transaction, row: OutboxRow): void {
  dropDue(tx, row);
  tx.delete('outbox', [row.rowId]);
  tx.delete('outboxWire', [row.rowId]);
  tx.delete('outboxItem', [row.peerId, row.itemId]);
}

/** The row of an item for a peer. */
export function outboxRowOf(reader: Reader, peerId: PeerId, itemId: string): OutboxRow | undefined {
  const rowId = reader.get('outboxItem', peerId, itemId);
  return rowId === undefined ? undefined : reader.get('outbox', rowId);
}

/** The time of the last message to a peer, by this host's clock then; `sinceMs` when none is later. */
export async function lastSentMs(reader: Reader, peerId: PeerId, sinceMs: number): Promise<number> {
  let lastMs = sinceMs;
  // Ids of messages sort by time, and all their letters are before a small one.
  const options: RangeOptions<'outboxItem'> = {
    from: [peerId, messageIdFrom(sinceMs, new Uint8Array(MESSAGE_ID_RANDOM_BYTES))],
    until: [peerId, 'a'],
  };
  for await (const { row: rowId } of reader.range('outboxItem', [peerId], options))
    lastMs = Math.max(lastMs, reader.get('outbox', rowId)?.createdAtMs ?? 0);
  return lastMs;
}

/** The rows of a peer that something is still to be done about, soonest first. */
export async function* openRows(reader: Reader, peerId: PeerId): AsyncGenerator<OutboxRow> {
  for await (const { key } of reader.range('outboxDue', [peerId])) yield openRow(reader, key);
}

type DueKey = [PeerId, nextAtMs: number, rowId: number];

/** The keys of `openRows` that are due in a time, both ends included. */
function openKeys(
  reader: Reader,
  peerId: PeerId,
  { fromMs = 0, untilMs, limit }: { fromMs?: number; untilMs?: number; limit: number },
): Promise<DueKey[]> {
  const until = untilMs === undefined ? {} : { until: [peerId, untilMs + 1] as [PeerId, number] };
  return reader.keys('outboxDue', [peerId], { from: [peerId, fromMs], limit, ...until });
}

function openRow(reader: Reader, [, , rowId]: DueKey): OutboxRow {
  const row = reader.get('outbox', rowId);
  if (!row) throw new Error('invariant: a due row is in the outbox');
  return row;
}

function putDue(tx: Transaction, row: OutboxRow): void {
  if (row.nextAtMs !== null) tx.put('outboxDue', [row.peerId, row.nextAtMs, row.rowId], true);
}

function dropDue(tx: Transaction, row: OutboxRow): void {
  if (row.nextAtMs !== null) tx.delete('outboxDue', [row.peerId, row.nextAtMs, row.rowId]);
}

/** A peer that answers again and again is noted in its row no more often than this, as most reads take that row. */
const NOTE_REACHED_MS = 1_000;

/** Records that the peer answered over the LAN, or called from `address`: what waits for it goes out. */
export async function markReached(
  tx: Transaction,
  context: HostContext,
  peerId: PeerId,
  address?: string,
): Promise<void> {
  const peer = tx.get('peer', peerId);
  if (!peer || peer.unpairedAtMs !== null) return;
  const isNews = peer.lanFailures > 0 || (address !== undefined && address !== peer.address);
  const sinceMs = context.nowMs() - (peer.reachedAtMs ?? 0);
  if (!isNews && sinceMs >= 0 && sinceMs < NOTE_REACHED_MS) return;
  tx.put('peer', [peerId], {
    ...peer,
    reachedAtMs: context.nowMs(),
    lanFailures: 0,
    ...(address !== undefined && { address }),
  });
  if (isNews) await afterPeerChange(tx, context, peerId, { type: 'peer-reached' });
}

export function markUnreached(tx: Transaction, peerId: PeerId): void {
  const peer = tx.get('peer', peerId);
  if (peer) tx.put('peer', [peerId], { ...peer, lanFailures: peer.lanFailures + 1 });
}

/** Records what became of a request with mail over the LAN. */
export function noteMailOverLan(tx: Transaction, peerId: PeerId, became: 'taken' | 'failed' | 'unreached'): void {
  const peer = tx.get('peer', peerId);
  if (!peer || (became === 'taken' && !peer.mailFailed)) return;
  const { mailFailed, ...others } = peer;
  if (became === 'taken') tx.put('peer', [peerId], others);
  else
    tx.put('peer', [peerId], {
      ...peer,
      mailFailed: { count: (mailFailed?.count ?? 0) + 1, isAnswered: became === 'failed' },
    });
}
