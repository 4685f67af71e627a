/** What the store knows of one message: where it came from, where it went, who has it, and what was confirmed. */
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { keptAcceptanceFault, mustKnowItem } from '../core/kept-acceptance.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import { type AgentId, type MessageRef, type MessageRow, OWNER_ID, type OutboxRow, type PeerId } from '../core/rows.ts';
import type { TraceInput, TraceResult, TraceRow } from '../documents/trace.ts';
import type { Reader } from '../store/host-store.ts';
import { nameOf } from './mailbox.ts';
import type { Office } from './office.ts';
import { rowView } from './outbox-list.ts';
import { outboxRowOf } from './outbox-rows.ts';
import { receiptItemId } from './receipts.ts';
import { recipientViews } from './sent-list.ts';

/** Refuses `NO_SUCH_MESSAGE`. No relay was asked yet. */
export function traceMessage(office: Office, { message_id: messageId }: TraceInput): Promise<TraceResult | Refusal> {
  return office.store.read(async (reader) => {
    const message = await messageNamed(reader, messageId);
    if (!message) return unknown(reader, messageId);
    const sent = reader.get('sent', message.ref);
    return {
      message_id: message.ref,
      sender_id: message.id,
      thread: message.thread,
      subject: message.subject,
      kind: message.kind,
      from: message.from,
      to: message.to,
      created_at: message.createdAtMs,
      stored_at: message.storedAtMs,
      direction: message.fromPeer !== null ? 'received' : message.fromAgent === null ? 'reported' : 'sent',
      recipients: sent ? recipientViews(sent) : [],
      mailboxes: await mailboxesWith(reader, message.ref),
      rows: rowsOf(reader, office, message, sent?.recipients.map(({ peerId }) => peerId) ?? []),
      arrival: arrivalView(reader, message),
    };
  });
}

/** By its name here, or by the id that its sender gave it. */
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

async function unknown(reader: Reader, messageId: string): Promise<Refusal> {
  for await (const { row } of reader.range('quarantine', [])) {
    if (row.itemId !== messageId) continue;
    const { number } = row;
    const message = `The message ${messageId} came and was not let in: poste quarantine show ${number} says why.`;
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
        stored_at: entry.storedAtMs,
        notified_at: entry.notifiedAtMs,
        read_at: entry.readAtMs,
        acked_at: entry.ackedAtMs,
        forwarded_from: entry.forwardedFrom,
      },
    ];
  });
}

function rowsOf(
  reader: Reader,
  office: Office,
  message: MessageRow,
  recipientPeers: readonly (PeerId | null)[],
): TraceRow[] {
  const peers = new Set(recipientPeers.filter((peerId) => peerId !== null));
  return [...peers].flatMap((peerId) => {
    const row = outboxRowOf(reader, peerId, message.id);
    return row ? [traceRow(reader, office, row)] : [];
  });
}

function traceRow(reader: Reader, office: Office, row: OutboxRow): TraceRow {
  const own = reader.get('identity')?.keys.map(({ publicKey }) => publicKey) ?? [];
  const peer = reader.get('peer', row.peerId)?.keys.map(({ publicKey }) => publicKey) ?? [];
  const { acceptance } = row;
  return {
    ...rowView(reader, row),
    wire_hash: row.wireHash,
    first_push_at: row.firstPushAtMs,
    lan_accepted_at: row.lanAcceptedAtMs,
    acceptance: acceptance && {
      relay_pubkey: acceptance.relayPubkey,
      fingerprint: displayFingerprint(acceptance.relayPubkey),
      epoch: acceptance.epoch,
      seq: acceptance.seq,
      accepted_at: acceptance.acceptedAtMs,
      kept_until: acceptance.acceptedAtMs + acceptance.retentionMs,
      may_be_lost: acceptance.mayBeLost === true,
      accept: acceptance.accept,
      sig: acceptance.sig,
      fault: keptAcceptanceFault(row, acceptance, { own, peer }),
      must_know: mustKnowItem(acceptance, reader.get('relay')?.epoch ?? null, office.nowMs()),
    },
    own_keys: own,
    host_keys: peer,
    proof: null,
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
    at: arrival.atMs,
    via: arrival.via ?? null,
    relay: arrival.relay ?? null,
    receipts: arrival.recipients.flatMap(({ address }) => {
      const receipt = reader.get('receipt', fromPeer, id, address);
      if (!receipt) return [];
      const row = outboxRowOf(reader, fromPeer, receiptItemId(id, address, receipt));
      const { state, atMs, seq } = receipt;
      return [{ recipient: address, state, at: atMs, seq, row: row ? rowView(reader, row) : null }];
    }),
  };
}
