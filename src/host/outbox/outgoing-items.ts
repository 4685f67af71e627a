/**
 * Queues for paired hosts what this host sends them: its messages, sealed once, and the delivery receipts that it
 * issues, signed, for the hosts that sent a message.
 *
 * A message shows its host what this host says of relays, what it has seen of those that both use and the other one has
 * not heard, and what it has heard of the other one.
 *
 * A receipt names the recipient as the envelope did, whatever the agent's present name. Of one (message, recipient) at
 * most one receipt waits to be sent: a higher one replaces a lower one.
 *
 * The first receipt of a message, and one that takes the place of a receipt that was not sent, shows the sender's host
 * what this host has seen of its relay (`rec.seen`), and what it says of relays (`rec.home`). Receipts are made in the
 * midst of transactions, which do not wait for a seal: `sealForReceipts` and `sealHomeForReceipts` come before. Any
 * receipt says what the sender's host has shown and this one has heard (`rec.heard`). A receipt that was written keeps
 * its bytes.
 */
import {
  type DeliveryReceipt,
  type DeliveryState,
  type ReceiptParties,
  signedRecordJson,
} from '../../protocol/documents.ts';
import { isObject } from '../../protocol/json.ts';
import type { ItemId } from '../../protocol/names.ts';
import { parseHeard } from '../../protocol/seen.ts';
import {
  answerToCopy,
  nextReceipt,
  noteBrought,
  type ReceiptClock,
  relaysOfArrival,
  type RelayedCopy,
  repeatedReceipt,
} from '../core/receipts.ts';
import type {
  Address,
  AgentId,
  ArrivalRow,
  MessageRef,
  OutboxRow,
  PeerId,
  ReceiptRow,
  MessageRow,
  PeerRow,
} from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';
import { addOutboxRow, afterAttempt, dropOutboxRow, outboxRowOf } from './outbox.ts';
import { homeForReceipt, sealHomeForReceipts, homeFor, noteTold } from './homes.ts';
import { marksToSay, sealForReceipts, seenForReceipt, nextSeen } from './seen.ts';
import { parseReceipt } from '../wire/parse.ts';
import { advanceEntry, type EntryChange, markLocalRecipient } from '../mailbox/mailbox.ts';
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { type EnvelopeHead, type SealedContent, sealedWire } from '../wire/sealing.ts';

/** Seals a message of this host for a paired one and queues it there. `recipients` live on that host, none twice. */
export async function queueEnvelope(
  tx: Transaction,
  context: HostContext,
  peer: PeerRow,
  message: MessageRow,
  body: string,
  recipients: readonly Address[],
): Promise<void> {
  const { signer } = context.identity();
  const head: EnvelopeHead = {
    created_at: message.createdAtMs,
    from: message.from,
    from_host_pubkey: signer.publicKey,
    id: message.id,
    subject: message.subject,
    to: [...recipients],
    to_host: peer.hostName,
    type: 'envelope',
    v: 1,
  };
  const seen = await nextSeen(tx, context, peer, { isUnheard: true });
  const heard = marksToSay(context, peer.peerId);
  const home = homeFor(tx, context, peer.peerId);
  // The members stand in the order of their names, which is how they are sealed.
  const content: SealedContent = {
    body,
    ...(heard && { heard }),
    ...(home && { home }),
    kind: message.kind,
    needs_reply: message.needsReply,
    origin: message.origin,
    refs: message.refs,
    reply_to: message.replyTo === null ? null : wireIdOf(tx, message.replyTo),
    ...(seen.length > 0 && { seen }),
    thread: message.thread === message.ref ? message.id : wireIdOf(tx, message.thread),
  };
  const seal = (sealed: SealedContent): Promise<Buffer> => sealedWire(head, sealed, peer.encKey.encPub, signer);
  let wire = await seal(content);
  if ((seen.length > 0 || heard || home) && wire.length > DEFAULT_LIMITS.max_item_bytes) {
    // A relay must take every message that it would take without.
    delete content.seen;
    delete content.heard;
    delete content.home;
    wire = await seal(content);
  } else if (home) noteTold(tx, context, peer.peerId, home);
  const { ref, id: itemId } = message;
  const { peerId } = peer;
  addOutboxRow(tx, context, { kind: 'envelope', itemId, ref, peerId, recipients: [...recipients], wire });
}

/** The name outside of a message of this host, or of one that came: not every reference is an id. */
function wireIdOf(reader: Reader, ref: MessageRef): string {
  return reader.get('message', ref)?.id ?? ref;
}

/**
 * Tells the sender's host that an agent here has a message (`delivered`), was notified of it, read it or acked it; when
 * the sender is on this host, updates the sent row instead. A state that the last receipt covers is not repeated.
 */
export function issueReceipt(
  tx: Transaction,
  context: HostContext,
  { ref, agentId }: { ref: MessageRef; agentId: AgentId },
  state: DeliveryState,
): void {
  const message = tx.get('message', ref);
  if (!message) return;
  if (message.fromPeer === null) {
    markLocalRecipient(tx, context, ref, agentId, state, context.nowMs());
    return;
  }
  const arrival = tx.get('arrival', message.fromPeer, message.id);
  if (!arrival) throw new Error('invariant: what a peer sent has arrived');
  for (const { address } of arrival.recipients.filter((recipient) => recipient.agentId === agentId)) {
    const last = tx.get('receipt', message.fromPeer, message.id, address);
    const receipt = nextReceipt(last, state, clockOf(tx, context));
    if (!receipt) continue;
    const before = last && outboxRowOf(tx, message.fromPeer, receiptItemId(message.id, address, last));
    const unsent = before?.state === 'pending' ? before : undefined;
    queueReceipt(tx, context, { peerId: message.fromPeer, msg: message.id, address, arrival }, receipt, unsent);
  }
}

/** Sends the last receipts where a copy of their message calls for it. `copy`: what one of several relays brought. */
export function repeatReceipts(
  tx: Transaction,
  context: HostContext,
  { peerId, msg, arrival }: { peerId: PeerId; msg: ItemId; arrival: ArrivalRow },
  copy: RelayedCopy | null,
): void {
  for (const { address } of arrival.recipients) {
    const last = tx.get('receipt', peerId, msg, address);
    if (!last) throw new Error('invariant: a delivered message has a receipt');
    const row = outboxRowOf(tx, peerId, receiptItemId(msg, address, last));
    const goesTo = row?.broughtBy ?? relaysOfArrival(arrival);
    const answer = answerToCopy({ atMs: context.momentMs(last.atMs), row, goesTo }, copy);
    if (answer === 'there-too' && row && copy) {
      afterAttempt(tx, context, row.rowId, { type: 'relay-brought', relayPubkey: copy.relayPubkey });
      tx.afterCommit(() => context.emit({ type: 'outbox-changed', peerId }));
    }
    if (answer !== 'next') continue;
    // It goes to where its sender proved not to know the last one.
    const subject = copy ? { ...arrival, broughtBy: [copy.relayPubkey] } : arrival;
    queueReceipt(
      tx,
      context,
      { peerId, msg, address, arrival: subject },
      repeatedReceipt(last, clockOf(tx, context)),
      row,
    );
  }
  const noted = copy ? noteBrought(arrival, copy.relayPubkey) : arrival;
  if (noted !== arrival) tx.put('arrival', [peerId, msg], noted);
}

/**
 * Reissues a receipt that a relay refused as not this host's: its key was rotated since, and a relay
 * that never knew the old key cannot attribute it. The new receipt has the present key and the next seq, and may go
 * by either transport. Returns false when the present key signed it: then nothing changes.
 */
export async function signReceiptAnew(tx: Transaction, context: HostContext, rowId: number): Promise<boolean> {
  const row = tx.get('outbox', rowId);
  const wire = tx.get('outboxWire', rowId);
  const address = row?.recipients[0];
  if (row?.kind !== 'receipt' || !wire || address === undefined) return false;
  const { rec } = parseReceipt(wire);
  const { seq, state, at: atMs, sender_host_pubkey: senderPubkey, wire_hash: wireHash } = rec;
  const msg = rec.msg as ItemId;
  if (rec.host_pubkey === context.identity().signer.publicKey) return false;
  const { peerId, ref } = row;
  const last = tx.get('receipt', peerId, msg, address) ?? { seq, state, atMs };
  // A later receipt includes this one's state.
  if (last.seq > seq) {
    dropOutboxRow(tx, row);
    return true;
  }
  const peer = tx.get('peer', peerId);
  const { broughtBy } = row;
  if (peer) {
    await sealForReceipts(tx, context, peer, senderPubkey, broughtBy?.[0]);
    await sealHomeForReceipts(tx, context, peer, senderPubkey);
  }
  const subject = { peerId, msg, address, arrival: { ref, senderPubkey, wireHash, ...(broughtBy && { broughtBy }) } };
  queueReceipt(tx, context, subject, repeatedReceipt(last, clockOf(tx, context)), row);
  return true;
}

interface ReceiptSubject {
  peerId: PeerId;
  msg: ItemId;
  address: Address;
  arrival: Pick<ArrivalRow, 'ref' | 'senderPubkey' | 'wireHash' | 'broughtBy'>;
}

/** `unsent`: the row whose place it takes. */
function queueReceipt(
  tx: Transaction,
  context: HostContext,
  { peerId, msg, address, arrival }: ReceiptSubject,
  receipt: ReceiptRow,
  unsent?: OutboxRow,
): void {
  const { signer } = context.identity();
  const peer = tx.get('peer', peerId);
  const parties = { host_pubkey: signer.publicKey, sender_host_pubkey: arrival.senderPubkey };
  const isShowing = peer?.unpairedAtMs === null && (unsent !== undefined || receipt.state === 'delivered');
  const before = isShowing ? shownIn(tx, unsent, parties) : {};
  const over = arrival.broughtBy?.[0];
  const seen = isShowing ? seenForReceipt(tx, context, peer, parties, { over, before: before.seen }) : undefined;
  const home = isShowing ? (homeForReceipt(tx, context, peer, parties) ?? before.home) : undefined;
  if (unsent) dropOutboxRow(tx, unsent);
  tx.put('receipt', [peerId, msg, address], receipt);
  if (peer?.unpairedAtMs !== null) return;
  const heard = marksToSay(context, peerId, before.heard);
  // In the order of the names, which is how it is signed.
  const rec: DeliveryReceipt = {
    at: receipt.atMs,
    ...(heard && { heard }),
    ...(home && { home }),
    host_pubkey: parties.host_pubkey,
    msg,
    recipient: address,
    ...(seen && { seen }),
    sender_host_pubkey: parties.sender_host_pubkey,
    seq: receipt.seq,
    state: receipt.state,
    type: 'receipt',
    v: 1,
    wire_hash: arrival.wireHash,
  };
  addOutboxRow(tx, context, {
    kind: 'receipt',
    itemId: receiptItemId(msg, address, receipt),
    ref: arrival.ref,
    peerId,
    recipients: [address],
    ...(arrival.broughtBy && { broughtBy: arrival.broughtBy }),
    wire: Buffer.from(signedRecordJson(signer, rec), 'utf8'),
  });
}

/** What a row shows that was made before the daemon was started; what another key signed is bound to that one. */
function shownIn(
  reader: Reader,
  unsent: OutboxRow | undefined,
  parties: ReceiptParties,
): { seen?: object; home?: object; heard?: string[] } {
  const wire = unsent && reader.get('outboxWire', unsent.rowId);
  const { host_pubkey: signed, seen, home, heard } = wire ? parseReceipt(wire).rec : {};
  if (signed !== parties.host_pubkey) return {};
  const marks = parseHeard(heard);
  const shown = { ...(isObject(seen) && { seen }), ...(isObject(home) && { home }) };
  return marks.length > 0 ? { ...shown, heard: marks } : shown;
}

export function receiptItemId(msg: ItemId, address: Address, { seq }: ReceiptRow): ItemId {
  return `receipt:${msg}:${address}:${seq}` as ItemId;
}

function clockOf(tx: Transaction, context: HostContext): ReceiptClock {
  return { nowMs: context.nowMs(), floor: tx.get('identity')?.receiptFloor ?? 0 };
}

/** The agent, or a program for it, was notified of these entries. Those that were notified before stay as they are. */
export function markNotified(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  positions: readonly number[],
): void {
  for (const position of positions) advance(tx, context, agentId, position, 'notified');
}

export function advance(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  position: number,
  to: EntryChange,
): boolean {
  if (!advanceEntry(tx, agentId, position, to, context.nowMs())) return false;
  const entry = tx.get('entry', agentId, position);
  if (entry) issueReceipt(tx, context, { ref: entry.ref, agentId }, to satisfies DeliveryState);
  return true;
}
