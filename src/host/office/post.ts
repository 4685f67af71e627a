/**
 * The one way a message of an agent of this host is sent: stored, put into mailboxes here, queued for hosts elsewhere,
 * in one transaction; then, when it is durable, idle recipients are woken.
 *
 * Invariants: a refusal is found before anything is written; an idempotency key that is known sends nothing.
 */
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/digest.ts';
import { addressOf } from '../core/address.ts';
import { envelopeBytesMax } from '../core/envelope-size.ts';
import { type LocalTarget, type RemoteTarget, type Target, byPeer } from '../core/recipients.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { AgentId, IdempotencyRow, MessageKind, MessageRow, Origin, SentRecipient } from '../core/rows.ts';
import { RECIPIENTS_MAX, type SendResult } from '../documents/mail.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { keepSent, nameOf, storeMessage } from './mailbox.ts';
import { newMessage } from './new-message.ts';
import type { Office } from './office.ts';
import { queueEnvelope } from './outbox.ts';
import { hasLiveSession } from './presence.ts';
import type { Ring } from './ring.ts';

/** What is sent, with every default filled in. */
export interface Mail {
  subject: string;
  body: string;
  kind: MessageKind;
  needsReply: boolean;
  refs: string[];
  origin: Origin;
  answers: MessageRow | null;
  targets: readonly Target[];
  /** Whom a reply to all cannot reach any more. */
  leftOut: readonly { recipient: string; detail: string }[];
}

/** An idempotency key and what it stands for: the operation and its input with defaults filled in. */
export interface Idempotency {
  keyHash: Sha256Hex;
  contentHash: Sha256Hex;
}

export interface Posted {
  result: SendResult;
  idempotency: Idempotency | null;
  /** Recipients whose message wakes, by their place among `result.recipients`. */
  toWake: { agentId: AgentId; at: number }[];
}

/** `content` is a plain JSON value. */
export function idempotencyOf(key: string | undefined, content: object): Idempotency | null {
  if (key === undefined) return null;
  return { keyHash: sha256Hex(key), contentHash: sha256Hex(canonicalBytes(content)) };
}

/** What the key stood for before: the same result again, or a refusal. `undefined` when it is new. */
export function sentBefore(
  reader: Reader,
  agentId: AgentId,
  idempotency: Idempotency | null,
): Posted | Refusal | undefined {
  const known = idempotency && reader.get('idempotency', agentId, idempotency.keyHash);
  if (!known) return undefined;
  if (known.contentHash !== idempotency.contentHash) {
    return refusal(
      'IDEMPOTENCY_CONFLICT',
      'idempotency_key was used for other content: nothing was sent. Take another key for another message.',
      { field: 'idempotency_key', message_id: known.ref },
    );
  }
  return { result: { ...(known.result as SendResult), duplicate: true }, idempotency: null, toWake: [] };
}

/** Writes a message and whatever follows from it. Refuses, having written nothing, what no transport could carry. */
export async function postMail(
  tx: Transaction,
  office: Office,
  senderId: AgentId,
  mail: Mail,
  idempotency: Idempotency | null,
): Promise<Posted | Refusal> {
  const { subject, body, kind, needsReply, refs, origin, answers, targets } = mail;
  const from = addressOf(nameOf(tx, senderId), office.identity().hostName);
  const to = targets.map(({ address }) => address);
  const replyTo = answers?.ref ?? null;
  const given = { from, fromAgent: senderId, to, subject, kind, needsReply, origin, refs, replyTo };
  const message = newMessage(tx, office, given, body, answers?.thread ?? null);
  const tooLarge = refuseTooLarge(message, body, targets);
  if (tooLarge) return tooLarge;

  const locals = targets.filter((target) => target.type === 'local');
  const entries = storeMessage(tx, office, message, body, locals);
  const threadPosition = keepSent(tx, senderId, message, body);
  tx.put('sent', [message.ref], {
    ref: message.ref,
    agentId: senderId,
    createdAtMs: message.createdAtMs,
    recipients: targets.map((target) => sentRecipient(target, message.createdAtMs)),
    threadPosition,
  });
  tx.put('sentBy', [senderId, message.createdAtMs, message.ref], true);
  tx.afterCommit(() => office.tell({ type: 'sent-changed', agentId: senderId }));
  for (const { peer, recipients } of byPeer(targets)) {
    await queueEnvelope(tx, office, peer, message, body, recipients);
  }

  const recipients: SendResult['recipients'] = [];
  const waking = new Set(entries.filter(({ wakes }) => wakes).map(({ agentId }) => agentId));
  const toWake: Posted['toWake'] = [];
  for (const [at, target] of targets.entries()) {
    if (target.type === 'local' && waking.has(target.agentId)) toWake.push({ agentId: target.agentId, at });
    const said = target.type === 'local' ? await sayLocal(tx, office, target) : sayRemote(office, target);
    recipients.push({ recipient: target.address, addressed_as: target.addressedAs, ...said });
  }
  const result: SendResult = {
    message_id: message.id,
    thread: message.thread,
    duplicate: false,
    recipients,
    ...(mail.leftOut.length > 0 && { left_out: [...mail.leftOut] }),
  };
  if (idempotency) remember(tx, office, senderId, idempotency, result, message);
  return { result, idempotency, toWake };
}

function refuseTooLarge(message: MessageRow, body: string, targets: readonly Target[]): Refusal | undefined {
  if (targets.length > RECIPIENTS_MAX) {
    return refusal(
      'TOO_LARGE',
      `to means ${targets.length} agents; one message goes to at most ${RECIPIENTS_MAX}: nothing was sent. Name fewer.`,
      { field: 'to', recipients: targets.length, recipients_max: RECIPIENTS_MAX },
    );
  }
  if (targets.every(({ type }) => type === 'local')) return undefined;
  const bytes = envelopeBytesMax(message, body);
  const bytesMax = DEFAULT_LIMITS.max_item_bytes;
  if (bytes <= bytesMax) return undefined;
  return refusal(
    'TOO_LARGE',
    `body becomes ${bytes} bytes when it is sealed for another host, which takes at most ${bytesMax}: nothing was sent. Send it in parts, or put it where refs can point to it.`,
    { field: 'body', bytes, bytes_max: bytesMax },
  );
}

function sentRecipient(target: Target, atMs: number): SentRecipient {
  const { address } = target;
  return target.type === 'local'
    ? { address, agentId: target.agentId, peerId: null, ...atFirst('delivered', atMs) }
    : { address, agentId: null, peerId: target.peer.peerId, ...atFirst('pending', atMs) };
}

function atFirst(
  state: 'delivered' | 'pending',
  atMs: number,
): Pick<SentRecipient, 'state' | 'atMs' | 'seq' | 'steps'> {
  return { state, atMs, seq: 0, steps: [{ state, atMs }] };
}

function remember(
  tx: Transaction,
  office: Office,
  senderId: AgentId,
  { keyHash, contentHash }: Idempotency,
  result: SendResult,
  { ref }: MessageRow,
): void {
  const row: IdempotencyRow = { contentHash, ref, atMs: office.nowMs(), result };
  tx.put('idempotency', [senderId, keyHash], row);
  tx.put('idempotencyDue', [row.atMs, senderId, keyHash], true);
}

type Said = Pick<SendResult['recipients'][number], 'status' | 'detail'>;

async function sayLocal(reader: Reader, office: Office, target: LocalTarget): Promise<Said> {
  const hasSession = await hasLiveSession(reader, office, target.agentId);
  const waits = hasSession
    ? 'In its mailbox; a session of it is live and sees it on its next prompt.'
    : 'In its mailbox; no session of it is live, the message waits.';
  if (target.forwardedFrom !== null) {
    return { status: 'forwarded', detail: `${target.forwardedFrom} is called ${target.address} now. ${waits}` };
  }
  return { status: hasSession ? 'live-next-prompt' : 'offline', detail: waits };
}

function sayRemote(office: Office, { peer, isListed }: RemoteTarget): Said {
  const queued = `Queued for ${peer.hostName}; not delivered yet.`;
  if (isListed) return { status: 'remote', detail: queued };
  const doubt = peer.directory
    ? `When it last told its agents, ${ageInWords(office.nowMs() - peer.directory.fetchedAtMs)} ago, this one was not among them.`
    : 'It has not told its agents yet, so the name is not checked.';
  return { status: 'remote', detail: `${queued} ${doubt}` };
}

const MINUTE_MS = 60_000;

function ageInWords(ageMs: number): string {
  const minutes = Math.max(0, Math.floor(ageMs / MINUTE_MS));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}

/**
 * Wakes whom the message wakes, and says so in the result. What a doorbell cannot prove stays as it was said; a key
 * that is used again answers with what is known in the end.
 */
export async function ringRecipients(
  office: Office,
  senderId: AgentId,
  { result, idempotency, toWake }: Posted,
  ring: Ring | undefined,
): Promise<SendResult> {
  if (!ring || toWake.length === 0) return result;
  const outcomes = await Promise.all(toWake.map(async ({ agentId, at }) => ({ at, outcome: await ring(agentId) })));
  const recipients = result.recipients.map((recipient) => ({ ...recipient }));
  for (const { at, outcome } of outcomes) {
    const recipient = recipients[at];
    if (!recipient) throw new Error('invariant: who is woken is a recipient');
    recipient.detail = `${recipient.detail} ${outcome.detail}`;
    if (outcome.isWoken && recipient.status !== 'forwarded') {
      recipient.status = 'live-wake';
      recipient.detail = outcome.detail;
    }
  }
  const rung = { ...result, recipients };
  if (idempotency) {
    await office.store.transact((tx) => {
      const known = tx.get('idempotency', senderId, idempotency.keyHash);
      if (known?.ref === result.message_id) {
        tx.put('idempotency', [senderId, idempotency.keyHash], { ...known, result: rung });
      }
    });
  }
  return rung;
}

/** Runs `work`, which posts or refuses, as one transaction, and rings when it is durable. */
export async function postAndRing(
  office: Office,
  senderId: AgentId,
  ring: Ring | undefined,
  work: (tx: Transaction) => Promise<Posted | Refusal>,
): Promise<SendResult | Refusal> {
  const posted = await office.store.transact(work);
  return isRefusal(posted) ? posted : ringRecipients(office, senderId, posted, ring);
}
