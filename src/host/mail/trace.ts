/** The store's knowledge of one message: origin, recipients, mailboxes that hold it, outbox rows and receipts. */
import type { Epoch } from '../../protocol/names.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { isoSecond, isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import { displayFingerprint, parsePublicKey, type PublicKey } from '../../protocol/public-key.ts';
import { receiptSignatureOf } from '../../protocol/receipt-tree.ts';
import type { TraceInput, TraceResult, TraceRow } from '../contract/outbox.ts';
import type { HostContext } from '../base/context.ts';
import { checkAcceptReceipt, type ReceiptFault } from '../core/receipts.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { RelayAcceptance, RelayCopy } from '../core/relay-acceptance.ts';
import { type AgentId, type MessageRef, type MessageRow, type OutboxRow, OWNER_ID, type PeerId } from '../core/rows.ts';
import { nameOf } from '../mailbox/mailbox.ts';
import { rowView } from '../outbox/outbox-list.ts';
import { outboxRowOf } from '../outbox/outbox.ts';
import type { Reader } from '../store/host-store.ts';
import { relayRowOf } from '../outbox/homes.ts';
import { receiptItemId } from '../outbox/outgoing-items.ts';
import { wholeId } from './find-message.ts';
import { recipientViews } from './sent.ts';

/** Refuses `NO_SUCH_MESSAGE` and `AMBIGUOUS_ID`. Asks no relay. */
export async function traceMessage(context: HostContext, { message_id }: TraceInput): Promise<TraceResult | Refusal> {
  const messageId = await wholeId(context, message_id, { agentId: null, field: 'message_id' });
  if (isRefusal(messageId)) return messageId;
  return context.store.read(async (reader) => {
    const message = await messageNamed(reader, messageId);
    if (!message) return refuseUnknown(reader, messageId);
    const sent = reader.get('sent', message.ref);
    return {
      message_id: message.ref,
      sender_id: message.id,
      thread: message.thread,
      subject: message.subject,
      kind: message.kind,
      from: message.from,
      to: message.to,
      created_at: isoSecond(message.createdAtMs),
      stored_at: isoSecond(message.storedAtMs),
      direction: message.fromPeer !== null ? 'received' : message.fromAgent === null ? 'reported' : 'sent',
      recipients: sent ? recipientViews(reader, sent, message.id) : [],
      mailboxes: await mailboxesWith(reader, message.ref),
      rows: rowsOf(reader, context, message, sent?.recipients.map(({ peerId }) => peerId) ?? []),
      arrival: arrivalView(reader, message),
    };
  });
}

/** Finds a message by its id on this host, or by the id that its sender gave it. */
async function messageNamed(reader: Reader, messageId: string): Promise<MessageRow | undefined> {
  const named = reader.get('message', messageId as MessageRef);
  if (named) return named;
  for await (const { row } of reader.range('peer', [])) {
    const arrival = reader.get('arrival', row.peerId, messageId);
    const message = arrival && reader.get('message', arrival.ref);
    if (message) return message;
  }
  return undefined;
}

async function refuseUnknown(reader: Reader, messageId: string): Promise<Refusal> {
  for await (const { row } of reader.range('quarantine', [])) {
    if (row.itemId !== messageId) continue;
    const { number } = row;
    const message = `The message ${messageId} came and is in quarantine: poste quarantine show ${number} says why.`;
    return refusal('NO_SUCH_MESSAGE', message, { message_id: messageId, quarantine: number });
  }
  const message = `This host knows no message ${messageId}: it was never here, or was kept long enough.`;
  return refusal('NO_SUCH_MESSAGE', message, { message_id: messageId });
}

async function mailboxesWith(reader: Reader, ref: MessageRef): Promise<TraceResult['mailboxes']> {
  const owners: AgentId[] = [OWNER_ID];
  for await (const { row } of reader.range('agent', [])) owners.push(row.agentId);
  return owners.flatMap((agentId) => {
    const position = reader.get('place', agentId, ref);
    const entry = position === undefined ? undefined : reader.get('entry', agentId, position);
    if (!entry) return [];
    return [
      {
        agent: nameOf(reader, agentId),
        state: entry.state,
        stored_at: isoTime(entry.storedAtMs),
        notified_at: isoTimeOrNull(entry.notifiedAtMs),
        read_at: isoTimeOrNull(entry.readAtMs),
        acked_at: isoTimeOrNull(entry.ackedAtMs),
        forwarded_from: entry.forwardedFrom,
      },
    ];
  });
}

function rowsOf(
  reader: Reader,
  context: HostContext,
  message: MessageRow,
  recipientPeers: readonly (PeerId | null)[],
): TraceRow[] {
  const peers = new Set(recipientPeers.filter((peerId) => peerId !== null));
  return [...peers].flatMap((peerId) => {
    const row = outboxRowOf(reader, peerId, message.id);
    return row ? [traceRow(reader, context, row)] : [];
  });
}

function traceRow(reader: Reader, context: HostContext, row: OutboxRow): TraceRow {
  const own = reader.get('identity')?.keys.map(({ publicKey }) => publicKey) ?? [];
  const peer = reader.get('peer', row.peerId)?.keys.map(({ publicKey }) => publicKey) ?? [];
  const { acceptance } = row;
  return {
    ...rowView(reader, row),
    wire_hash: row.wireHash,
    first_push_at: isoTimeOrNull(row.firstPushAtMs),
    lan_accepted_at: isoTimeOrNull(row.lanAcceptedAtMs),
    acceptance: acceptance && {
      relay_pubkey: acceptance.relayPubkey,
      fingerprint: displayFingerprint(acceptance.relayPubkey),
      epoch: acceptance.epoch,
      seq: acceptance.seq,
      accepted_at: isoTime(acceptance.acceptedAtMs),
      kept_until: isoTime(acceptance.acceptedAtMs + acceptance.retentionMs),
      may_be_lost: acceptance.mayBeLost === true,
      accept: acceptance.accept,
      ...receiptSignatureOf(acceptance),
      fault: keptAcceptanceFault(row, acceptance, { own, peer }),
      must_know: mustKnowItem(acceptance, relayRowOf(reader, acceptance.relayPubkey)?.epoch ?? null, context.nowMs()),
    },
    ...(row.copies && { relays: row.copies.map((copy) => copyView(reader, copy)) }),
    own_keys: own,
    host_keys: peer,
    proof: null,
  };
}

function copyView(
  reader: Reader,
  { acceptance: { relayPubkey, acceptedAtMs }, state, why, expiredAtMs }: RelayCopy,
): NonNullable<TraceRow['relays']>[number] {
  return {
    relay_pubkey: relayPubkey,
    fingerprint: displayFingerprint(relayPubkey),
    url: relayRowOf(reader, relayPubkey)?.url ?? null,
    accepted_at: isoTime(acceptedAtMs),
    reason: why ?? null,
    state,
    expired_at: isoTimeOrNull(expiredAtMs ?? null),
  };
}

function arrivalView(reader: Reader, message: MessageRow): TraceResult['arrival'] {
  const { fromPeer, id } = message;
  const arrival = fromPeer === null ? undefined : reader.get('arrival', fromPeer, id);
  if (!arrival || fromPeer === null) return null;
  return {
    host: reader.get('peer', fromPeer)?.hostName ?? '',
    item_id: id,
    sender_pubkey: arrival.senderPubkey,
    fingerprint: parsePublicKey(arrival.senderPubkey) ? displayFingerprint(arrival.senderPubkey) : '',
    wire_hash: arrival.wireHash,
    at: isoTime(arrival.atMs),
    via: arrival.via ?? null,
    relay: arrival.relay ?? null,
    receipts: arrival.recipients.flatMap(({ address }) => {
      const receipt = reader.get('receipt', fromPeer, id, address);
      if (!receipt) return [];
      const row = outboxRowOf(reader, fromPeer, receiptItemId(id, address, receipt));
      const { state, atMs, seq } = receipt;
      return [{ recipient: address, state, at: isoTime(atMs), seq, row: row ? rowView(reader, row) : null }];
    }),
  };
}

/** All present and former keys of this host and of the row's host: either may have rotated since. */
interface RowKeys {
  own: readonly PublicKey[];
  peer: readonly PublicKey[];
}

/** Null when the relay's receipt verifies for this row; else the part that does not. */
export function keptAcceptanceFault(
  row: Pick<OutboxRow, 'itemId' | 'wireHash'>,
  acceptance: RelayAcceptance,
  { own, peer }: RowKeys,
): ReceiptFault | null {
  const { relayPubkey, epoch, accept } = acceptance;
  const senderPubkey = own.find((key) => key === accept.sender_pubkey);
  if (!senderPubkey) return 'sender';
  const targetPubkey = peer.find((key) => accept.targets.some(({ host_pubkey: host }) => host === key));
  if (!targetPubkey) return 'target';
  const { itemId, wireHash } = row;
  const pushed = { relayPubkey, epoch, senderPubkey, itemId, targetPubkey, wireHash };
  const checked = checkAcceptReceipt(accept, acceptance, pushed);
  return 'fault' in checked ? checked.fault : null;
}

/**
 * Says whether the relay must still know the item that it signed for: in the same epoch, until twice its retention and
 * 7 days after it accepted the item.
 */
export function mustKnowItem(acceptance: RelayAcceptance, epoch: Epoch | null, nowMs: number): boolean {
  const { acceptedAtMs, retentionMs, mayBeLost } = acceptance;
  return acceptance.epoch === epoch && !mayBeLost && nowMs < acceptedAtMs + 2 * retentionMs + 7 * DAY_MS;
}
