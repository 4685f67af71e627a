/**
 * Judges what came: an envelope and a delivery receipt of a peer, and a relay's notice that an item expired; and says
 * what it changes here.
 *
 * Of an envelope it checks, in this order ("Receiving host rules", 2 to 4): form, id, whose key signed it, signature
 * (these four in verify.ts), that the sender lives on that host and the recipients here, what came under its id before,
 * the seal, the content, and each recipient. What fails is kept in quarantine with its reason.
 *
 * Judging only reads. The expensive checks come before the transaction (`checkEnvelope`); `Inspection` keeps their
 * results.
 */
import {
  type ItemId,
  parseMessageId,
  MESSAGE_ID_RANDOM_BYTES,
  messageIdFrom,
  messageIdTimeMs,
} from '../../protocol/names.ts';
import { parseHeard, parseSeen } from '../../protocol/seen.ts';
import { HOST_VOICE, OWNER_NAME, foldName, isSameHost, isSameName, nameIn, partsOfAddress } from '../core/address.ts';
import {
  type Address,
  type AgentId,
  type ArrivalRow,
  type MessageKind,
  type MessageRef,
  type MessageRow,
  OWNER_ID,
  type Origin,
  type PeerRow,
  type SealKey,
} from '../core/rows.ts';
import { type QuarantineRow, relaysOfRow } from '../core/quarantine.ts';
import { noteBrought } from '../core/receipts.ts';
import { quarantinedRow } from './quarantine-rows.ts';
import {
  accept,
  duplicate,
  ENVELOPE,
  type Inspection,
  type Judgement,
  keep,
  keepFor,
  RECEIPT,
  signedByHost,
  signedByRelay,
} from './verify.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { applyToSent, type Delivery, storeMessage } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';
import { clockNow, isExpiryInTime } from '../core/outbox-row.ts';
import { noteKnowsOurKey, peerOfKey } from '../peers/peers.ts';
import { issueReceipt, repeatReceipts } from '../outbox/outgoing-items.ts';
import { openedHome, sealHomeForReceipts } from '../outbox/homes.ts';
import { openedSeen, sealForReceipts } from '../outbox/seen.ts';
import type { ParsedEnvelope } from '../wire/parse.ts';
import { type Envelope, type SealedContent, sealKeyId } from '../wire/sealing.ts';
import type { ShownHome } from '../core/home-documents.ts';
import { retiredAt } from '../core/peer-keys.ts';
import { outboxRowOf, afterAttempt } from '../outbox/outbox.ts';

/** The time for which a retired encryption key still opens mail. */
const RETIRED_SEAL_KEY_MS = 60 * 86_400_000;

/** `quarantined`: its row, if it is in quarantine. */
export async function judgeEnvelope(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
  quarantined: QuarantineRow | undefined,
): Promise<Judgement> {
  const signed = signedByHost(reader, context, inspection, ENVELOPE);
  if ('status' in signed) return signed;
  const { envelope, contentHash } = signed.rec;
  const { peer } = signed;
  const misaddressed = judgeAddresses(context, envelope, peer);
  if (misaddressed) return misaddressed;
  await sealForReceipts(reader, context, peer, envelope.from_host_pubkey, inspection.copy?.relayPubkey);
  const arrival = reader.get('arrival', peer.peerId, envelope.id);
  if (arrival && arrival.contentHash !== contentHash) {
    return keep('id-conflict', `${peer.hostName} sent other content under this id before`);
  }
  // The recipients that it is still in quarantine for, if others got it before.
  const only = quarantined?.recipients ?? null;
  const { copy } = inspection;
  const repeat = (tx: Transaction): void => {
    if (arrival) repeatReceipts(tx, context, { peerId: peer.peerId, msg: envelope.id as ItemId, arrival }, copy);
  };
  if (arrival && only === null) {
    await sealHomeForReceipts(reader, context, peer, envelope.from_host_pubkey);
    return duplicate(repeat);
  }
  const content = await openContent(reader, context, inspection, signed.rec);
  if (!isContent(content)) return content;
  const home = homeShown(inspection, content.home, { type: 'message' });
  await sealHomeForReceipts(reader, context, peer, envelope.from_host_pubkey, home);
  const first = arrival ?? { contentHash, ...arrivalOf(reader, context, envelope, inspection) };
  const known = copy ? [...relaysOfRow(quarantined), copy.relayPubkey].reduce(noteBrought, first) : first;
  const judged = judgeRecipients(reader, context, { envelope, content, home, peer, arrival: known, only });
  if (!copy) return judged;
  // Those who got it before are answered over this relay, too.
  return {
    ...judged,
    apply: (tx) => {
      repeat(tx);
      judged.apply(tx);
    },
  };
}

/** Verifies an envelope, opens it unless it came before, and seals what its receipts show. */
export async function checkEnvelope(reader: Reader, context: HostContext, inspection: Inspection): Promise<void> {
  const signed = signedByHost(reader, context, inspection, ENVELOPE);
  if ('status' in signed) return;
  const { peer } = signed;
  const { envelope } = signed.rec;
  await sealForReceipts(reader, context, peer, envelope.from_host_pubkey, inspection.copy?.relayPubkey);
  const isKnown = reader.get('arrival', peer.peerId, envelope.id) !== undefined;
  // What came before may still be in quarantine for some of its recipients.
  if (isKnown && !quarantinedRow(reader, inspection.item, inspection.wireHash)) {
    await sealHomeForReceipts(reader, context, peer, envelope.from_host_pubkey);
    return;
  }
  const content = await openContent(reader, context, inspection, signed.rec);
  if (!isContent(content)) return;
  const home = homeShown(inspection, content.home, { type: 'message' });
  await sealHomeForReceipts(reader, context, peer, envelope.from_host_pubkey, home);
}

/** Verifies a receipt, and opens what it shows of relays. */
export async function checkReceipt(reader: Reader, context: HostContext, inspection: Inspection): Promise<void> {
  const signed = signedByHost(reader, context, inspection, RECEIPT);
  if ('status' in signed) return;
  const { rec, peer } = signed;
  const keys = sealKeysOf(reader, context);
  if (rec.seen !== undefined) inspection.seen = await openedSeen(context, peer.peerId, rec, keys);
  if (rec.home !== undefined) inspection.home = await openedHome(context, peer.peerId, rec, keys);
}

function homeShown({ item }: Inspection, home: unknown, by: ShownHome['by']): ShownHome {
  return { home, via: item.relay?.pubkey ?? 'lan', by };
}

function judgeAddresses(context: HostContext, envelope: Envelope, peer: PeerRow): Judgement | undefined {
  const { hostName } = context.identity();
  if (!livesOn(envelope.from, peer.hostName))
    return keep('wrong-from', `${envelope.from} does not live on ${peer.hostName}`);
  if (isSameName(nameIn(envelope.from), HOST_VOICE))
    return keep('wrong-from', `${envelope.from} is no agent: it is how a host speaks to its own agents`);
  if (!isSameHost(envelope.to_host, hostName)) return keep('wrong-target', `it is for the host ${envelope.to_host}`);
  const elsewhere = envelope.to.find((address) => !livesOn(address, hostName));
  return elsewhere === undefined ? undefined : keep('wrong-target', `${elsewhere} does not live here`);
}

function livesOn(address: string, hostName: string): boolean {
  const parts = partsOfAddress(address);
  return parts !== undefined && isSameHost(parts.host, hostName);
}

async function openContent(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
  parsed: ParsedEnvelope,
): Promise<SealedContent | Judgement> {
  const { key_id: keyId } = parsed.envelope.sealed;
  const key = sealKeysOf(reader, context).find(({ encPub }) => sealKeyId(encPub) === keyId);
  if (!key) return keep('no-seal-key', `it is sealed to the key ${keyId}, which this host has not or no longer`);
  const opened = await inspection.content(parsed, key);
  return 'reason' in opened ? keep(opened.reason, opened.detail) : opened;
}

function sealKeysOf(reader: Reader, context: HostContext): SealKey[] {
  const keys = reader.get('identity')?.sealKeys ?? [context.identity().sealKey];
  const sinceMs = context.nowMs() - RETIRED_SEAL_KEY_MS;
  return keys.filter(({ retiredAtMs }) => retiredAtMs === null || context.momentMs(retiredAtMs) > sinceMs);
}

/** The new `ArrivalRow` of an envelope that comes for the first time, with its id on this host. */
function arrivalOf(
  reader: Reader,
  context: HostContext,
  envelope: Envelope,
  { item, wireHash }: Inspection,
): Omit<ArrivalRow, 'contentHash'> {
  return {
    ref: freeRef(reader, context, envelope.id),
    wireHash,
    senderPubkey: envelope.from_host_pubkey,
    via: item.via,
    relay: item.relay,
    recipients: [],
    atMs: context.nowMs(),
  };
}

/** The envelope's id, unless another message here has it: a peer must not replace another sender's message. */
function freeRef(reader: Reader, context: HostContext, id: string): MessageRef {
  const isTaken = (ref: MessageRef): boolean =>
    reader.get('held', ref) !== undefined || reader.get('sent', ref) !== undefined;
  let ref = id as MessageRef;
  while (isTaken(ref)) {
    ref = messageIdFrom(context.nowMs(), context.randomBytes(MESSAGE_ID_RANDOM_BYTES)) as string as MessageRef;
  }
  return ref;
}

interface Opened {
  envelope: Envelope;
  content: SealedContent;
  home: ShownHome;
  peer: PeerRow;
  arrival: ArrivalRow;
  only: readonly Address[] | null;
}

function judgeRecipients(reader: Reader, context: HostContext, opened: Opened): Judgement {
  const addresses = opened.only ?? (opened.envelope.to as Address[]);
  const found = addresses.map((address) => ({ address, delivery: mailboxFor(reader, address) }));
  const known = found.flatMap(({ address, delivery }) => (delivery ? [{ address, delivery }] : []));
  const unknown = found.filter(({ delivery }) => !delivery).map(({ address }) => address);
  const apply = (tx: Transaction): void => deliver(tx, context, opened, known);
  const { seen, heard } = opened.content;
  const said = { entries: parseSeen(seen), heard: parseHeard(heard), home: opened.home };
  const shown = { peerId: opened.peer.peerId, ...said };
  if (unknown.length === 0) return { ...accept(apply), shown };
  const detail = `no agent of this host is or was called so: ${unknown.join(', ')}`;
  if (known.length > 0) return { ...keepFor(unknown, 'unknown-agent', detail, apply), shown };
  if (opened.only) return keepFor(unknown, 'unknown-agent', detail, apply);
  return keep('unknown-agent', detail);
}

/** The mailbox that an address of this host means now; a former name is forwarded. */
function mailboxFor(reader: Reader, address: Address): Delivery | undefined {
  const name = foldName(nameIn(address));
  if (name === OWNER_NAME) return { agentId: OWNER_ID, forwardedFrom: null };
  const named = reader.get('agentName', name);
  const agent = named && reader.get('agent', named.agentId);
  if (!named || !agent || agent.removedAtMs !== null) return undefined;
  return { agentId: agent.agentId, forwardedFrom: named.retiredAtMs === null ? null : named.name };
}

function deliver(
  tx: Transaction,
  context: HostContext,
  { envelope, content, peer, arrival }: Opened,
  known: { address: Address; delivery: Delivery }[],
): void {
  if (known.length === 0) return;
  const message = messageOf(tx, context, envelope, content, peer, arrival);
  // Senders know this host's encryption key only by its signature, so a key that it rotated away retires with it.
  if (envelope.sealed.key_id === sealKeyId(context.identity().sealKey.encPub))
    noteKnowsOurKey(tx, context, peer.peerId);
  const recipients = [
    ...arrival.recipients,
    ...known.map(({ address, delivery: { agentId } }) => ({ address, agentId })),
  ];
  tx.put('arrival', [peer.peerId, envelope.id], { ...arrival, recipients });
  const heard = { peerId: peer.peerId, over: arrival.relay?.pubkey ?? null, wroteAtMs: envelope.created_at };
  tx.afterCommit(() => context.emit({ type: 'peer-heard', ...heard, rowId: 0, copies: 0, isDone: false }));
  storeMessage(
    tx,
    context,
    message,
    content.body,
    known.map(({ delivery }) => delivery),
  );
  for (const agentId of new Set<AgentId>(known.map(({ delivery }) => delivery.agentId))) {
    issueReceipt(tx, context, { ref: arrival.ref, agentId }, 'delivered');
  }
}

function messageOf(
  reader: Reader,
  context: HostContext,
  envelope: Envelope,
  content: SealedContent,
  { peerId }: PeerRow,
  { ref }: ArrivalRow,
): MessageRow {
  const refOf = (id: string): MessageRef => {
    if (id === envelope.id) return ref;
    return reader.get('arrival', peerId, id)?.ref ?? (id as MessageRef);
  };
  const id = parseMessageId(envelope.id);
  if (id === undefined) throw new Error('invariant: the id of an envelope was checked');
  return {
    ref,
    id,
    thread: refOf(content.thread),
    from: envelope.from as Address,
    fromAgent: null,
    fromPeer: peerId,
    to: envelope.to as Address[],
    subject: envelope.subject,
    kind: content.kind as MessageKind,
    needsReply: content.needs_reply,
    origin: (content.origin ?? 'agent') as Origin,
    refs: content.refs,
    replyTo: content.reply_to === null ? null : refOf(content.reply_to),
    createdAtMs: envelope.created_at,
    storedAtMs: context.nowMs(),
    bodyBytes: Buffer.byteLength(content.body, 'utf8'),
  };
}

function isContent(value: SealedContent | Judgement): value is SealedContent {
  return 'body' in value;
}

/**
 * A receipt counts when the recipient's host signed it, by a present or retired key, and it is for a message that this
 * host sent there, to that recipient, in these bytes ("Receiving host rules", 2). A retired key counts under the rules
 * of core/peer-keys.ts, and for no message that was sent after it was given up.
 */
export function judgeReceipt(reader: Reader, context: HostContext, inspection: Inspection): Judgement {
  const signed = signedByHost(reader, context, inspection, RECEIPT);
  if ('status' in signed) return signed;
  const { rec, peer } = signed;
  const { msg, recipient, seq, state, at: atMs } = rec;
  const address = recipient as Address;
  const row = outboxRowOf(reader, peer.peerId, msg);
  // It was applied before, or its message was deleted since: nothing to apply it to.
  if (!row && isForgotten(reader, msg)) return duplicate();
  if (!row) return keep('unknown-message', `no message of this id was sent to ${peer.hostName}`);
  const retiredAtMs = retiredAt(peer, rec.host_pubkey);
  if (retiredAtMs !== null && row.createdAtMs > retiredAtMs) {
    return keep('retired-key', `${peer.hostName} gave up the key that signed it before the message was sent`);
  }
  // By the name that its host had then: it may be paired under another since.
  if (!row.recipients.includes(address)) {
    return keep('wrong-recipient', `the message was not sent to ${recipient}`);
  }
  if (!isOwnKey(reader, context, rec.sender_host_pubkey))
    return keep('wrong-target', 'it is for a key that this host never had');
  if (rec.wire_hash !== row.wireHash) return keep('wrong-hash', 'it is for other bytes than were sent');
  const over = inspection.item.relay && { relayPubkey: inspection.item.relay.pubkey };
  const event = { type: 'receipt', recipient: address, state, ...over } as const;
  const heard = { peerId: peer.peerId, over: over?.relayPubkey ?? null, wroteAtMs: atMs, rowId: row.rowId };
  const note = (tx: Transaction): void => {
    const now = afterAttempt(tx, context, row.rowId, event);
    const copies = now?.copies?.length ?? 0;
    const isDone = now?.state === 'done';
    if (now?.tried) tx.afterCommit(() => context.emit({ type: 'peer-heard', ...heard, copies, isDone }));
  };
  const apply = (tx: Transaction): void => {
    if (!peer.hasConfirmed) tx.put('peer', [peer.peerId], { ...peer, hasConfirmed: true });
    if (rec.sender_host_pubkey === context.identity().signer.publicKey) noteKnowsOurKey(tx, context, peer.peerId);
    applyToSent(tx, context, row.ref, { peerId: peer.peerId, address }, { state, seq, atMs });
    note(tx);
  };
  const known = reader
    .get('sent', row.ref)
    ?.recipients.find((sent) => sent.peerId === peer.peerId && sent.address === address);
  const isKnown = known?.seq === seq && known.state === state && row.confirmed.includes(address);
  if (!isKnown) {
    const isFirst = !row.confirmed.includes(address);
    const by: ShownHome['by'] = isFirst ? { type: 'confirmation', sentMs: row.createdAtMs } : { type: 'other' };
    const home = homeShown(inspection, inspection.home, by);
    const shown = { peerId: peer.peerId, entries: inspection.seen, heard: parseHeard(rec.heard), home };
    return { ...accept(apply), shown };
  }
  // Which of several relays bring what the peer confirms is worth knowing.
  return row.copies ? duplicate(note) : duplicate();
}

export function judgeNotice(reader: Reader, context: HostContext, inspection: Inspection): Judgement {
  const signed = signedByRelay(inspection);
  if ('status' in signed) return signed;
  const { rec, relayPubkey } = signed;
  const peer = peerOfKey(reader, rec.target_pubkey);
  const row = peer && outboxRowOf(reader, peer.peerId, rec.item_id);
  if (!row && isForgotten(reader, rec.item_id)) return duplicate();
  if (!row) return keep('unknown-message', 'no message of this id was sent to that key');
  // What one of several relays says too early counts against it (core/outbox-at-relays.ts).
  const isOnly = row.state === 'relay-accepted' && !row.tried && row.acceptance?.relayPubkey === relayPubkey;
  if (isOnly && !isExpiryInTime(row, relayPubkey, clockNow(context)))
    return keep('too-early', 'the relay said that it keeps items longer than it can have had this one');
  const notice = { type: 'expired', relayPubkey, expiredAtMs: rec.expired_at } as const;
  return accept((tx) => void afterAttempt(tx, context, row.rowId, notice));
}

function isOwnKey(reader: Reader, context: HostContext, key: string): boolean {
  const { publicKey } = context.identity().signer;
  return key === publicKey || reader.get('identity')?.keys.some((known) => known.publicKey === key) === true;
}

/** Tells whether a message of this id may have been sent here and deleted by retention since. */
function isForgotten(reader: Reader, id: string): boolean {
  const sentAtMs = messageIdTimeMs(id);
  return sentAtMs !== undefined && sentAtMs <= (reader.get('identity')?.sentForgottenMs ?? 0);
}
