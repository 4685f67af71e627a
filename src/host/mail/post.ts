/**
 * The one way to send a message of an agent of this host: store it, put it into mailboxes here, queue it for other
 * hosts, all in one transaction; then, once it is durable, wake idle recipients.
 *
 * Invariants: a refusal comes before any write; a known idempotency key sends nothing.
 */
import { canonicalBytes } from '../../protocol/documents.ts';
import { type Sha256Hex, sha256Hex } from '../../protocol/encodings.ts';
import { LAN_ITEM_BYTES_MAX } from '../../protocol/lan.ts';
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { liveSessions, type WakeAgent, type WakeResult } from '../agents/sessions.ts';
import type { SendResult } from '../contract/mail.ts';
import { RECIPIENTS_MAX } from '../contract/limits.ts';
import type { HostContext } from '../base/context.ts';
import {
  addressOf,
  isSameName,
  nameIn,
  OWNER_NAME,
  parseAddress,
  partsOfAddress,
  byPeer,
  type LocalTarget,
  type RemoteTarget,
  type Target,
} from '../core/address.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import {
  type AgentId,
  type IdempotencyRow,
  type MessageKind,
  type MessageRef,
  type MessageRow,
  type Origin,
  OWNER_ID,
  type PeerId,
  type SentRecipient,
  type SentRow,
} from '../core/rows.ts';
import { adviceToWake, mentionsIn, wakesRecipient } from '../core/waking.ts';
import { closeOwedOf, openAsked } from '../mailbox/debts.ts';
import { keepSent, nameOf, newMessage, refuseAbsentAgent, type StoredEntry, storeMessage } from '../mailbox/mailbox.ts';
import { homesOf } from '../outbox/homes.ts';
import { queueEnvelope } from '../outbox/outgoing-items.ts';
import { wayOfMail } from '../core/transport-choice.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

/** The message to send, with every default filled in. */
export interface Mail {
  subject: string;
  body: string;
  kind: MessageKind;
  needsReply: boolean;
  refs: string[];
  origin: Origin;
  answers: MessageRow | null;
  targets: readonly Target[];
  /** Recipients that a reply to all cannot reach any more. */
  leftOut: readonly { recipient: string; detail: string }[];
  /** The ages of the directories that its addresses were expanded with. */
  directories?: NonNullable<SendResult['directories']>;
}

/** An idempotency key, and the operation with its complete input that the key stands for. */
interface Idempotency {
  keyHash: Sha256Hex;
  contentHash: Sha256Hex;
}

interface StoredMail {
  result: SendResult;
  idempotency: Idempotency | null;
  /** The recipients on this host, with their index in `result.recipients` and their entry. */
  locals: { target: LocalTarget; at: number; entry: StoredEntry }[];
}

interface Posting {
  /** The operation with its complete input, a plain JSON value: an idempotency key stands for it. */
  content: object;
  key: string | undefined;
  wakeAgent: WakeAgent | undefined;
}

/**
 * Sends what `mailOf` makes of the store, or refuses as it does, in one transaction; wakes recipients once it is
 * durable. Refuses `NO_SUCH_AGENT` and `IDEMPOTENCY_CONFLICT` before it asks.
 */
export async function postMail(
  context: HostContext,
  senderId: AgentId,
  { content, key, wakeAgent }: Posting,
  mailOf: (tx: Transaction) => Promise<Mail | Refusal>,
): Promise<SendResult | Refusal> {
  // A model that fills in every parameter gives an empty key: two messages must not share it.
  const idempotency: Idempotency | null =
    key === undefined || key === ''
      ? null
      : { keyHash: sha256Hex(key), contentHash: sha256Hex(canonicalBytes(content)) };
  const posted = await context.store.transact<StoredMail | Refusal>(async (tx) => {
    const answered = refuseAbsentAgent(tx, senderId) ?? sentBefore(tx, senderId, idempotency);
    if (answered) return answered;
    const mail = await mailOf(tx);
    return isRefusal(mail) ? mail : storeMail(tx, context, senderId, mail, idempotency);
  });
  return isRefusal(posted) ? posted : wakeRecipients(context, senderId, posted, wakeAgent);
}

/** A `status` message of the owner of this host to the owner of a paired one, sent once under one key. */
export async function writeToOwner(
  context: HostContext,
  peerId: PeerId,
  { subject, body }: Pick<Mail, 'subject' | 'body'>,
  key: string,
): Promise<void> {
  const posting = { content: { operation: 'write-to-owner', key }, key, wakeAgent: undefined };
  await postMail(context, OWNER_ID, posting, async (tx) => {
    const peer = tx.get('peer', peerId);
    if (peer?.unpairedAtMs !== null) return refusal('NO_SUCH_PEER', 'That host is not paired any more.');
    const address = addressOf(OWNER_NAME, peer.hostName);
    const targets = [{ type: 'remote' as const, peer, address, addressedAs: [address], isListed: true }];
    const words = { subject, body, kind: 'status', needsReply: false, origin: 'agent' } as const;
    return { ...words, refs: [], answers: null, targets, leftOut: [] };
  });
}

/** The result of the key's first use, or a refusal when that had other content. `undefined` for a new key. */
function sentBefore(
  reader: Reader,
  agentId: AgentId,
  idempotency: Idempotency | null,
): StoredMail | Refusal | undefined {
  const known = idempotency && reader.get('idempotency', agentId, idempotency.keyHash);
  if (!known) return undefined;
  if (known.contentHash !== idempotency.contentHash) {
    return refusal(
      'IDEMPOTENCY_CONFLICT',
      'idempotency_key was used for other content: nothing was sent. Take another key for another message.',
      { field: 'idempotency_key', message_id: known.ref },
    );
  }
  return { result: { ...(known.result as SendResult), duplicate: true }, idempotency: null, locals: [] };
}

/** Writes a message with its entries, outbox rows and sent row. Refuses first what no transport can carry. */
async function storeMail(
  tx: Transaction,
  context: HostContext,
  senderId: AgentId,
  mail: Mail,
  idempotency: Idempotency | null,
): Promise<StoredMail | Refusal> {
  const { subject, body, kind, needsReply, refs, origin, answers, targets } = mail;
  const from = addressOf(nameOf(tx, senderId), context.identity().hostName);
  const to = targets.map(({ address }) => address);
  const replyTo = answers?.ref ?? null;
  const given = { from, fromAgent: senderId, to, subject, kind, needsReply, origin, refs, replyTo };
  const message = newMessage(tx, context, given, body, answers?.thread ?? null);
  const isLocal = targets.every(({ type }) => type === 'local');
  const wireBytes = isLocal ? 0 : envelopeBytesMax(message, body);
  const tooLarge = refuseTooLarge(wireBytes, targets);
  if (tooLarge) return tooLarge;

  const locals = targets.filter((target) => target.type === 'local');
  const entries = storeMessage(tx, context, message, body, locals);
  const threadPosition = keepSent(tx, senderId, message, body);
  const sent: SentRow = {
    ref: message.ref,
    agentId: senderId,
    createdAtMs: message.createdAtMs,
    recipients: targets.map((target) => sentRecipient(target, message.createdAtMs)),
    threadPosition,
  };
  tx.put('sent', [message.ref], sent);
  openAsked(tx, message, sent, new Set(targets.flatMap((target, at) => (isOfGroup(target) ? [at] : []))));
  if (answers && targets.some((target) => isSenderOf(target, answers))) closeOwedOf(tx, senderId, answers);
  tx.put('sentBy', [senderId, message.createdAtMs, message.ref], true);
  tx.afterCommit(() => context.emit({ type: 'sent-changed', agentId: senderId }));
  for (const { peer, recipients } of byPeer(targets)) {
    await queueEnvelope(tx, context, peer, message, body, recipients);
  }

  const recipients: SendResult['recipients'] = [];
  const entryOfAgent = new Map(entries.map((entry) => [entry.agentId, entry]));
  const here: StoredMail['locals'] = [];
  for (const [at, target] of targets.entries()) {
    const entry = target.type === 'local' ? entryOfAgent.get(target.agentId) : undefined;
    if (target.type === 'local' && entry) here.push({ target, at, entry });
    const note =
      target.type === 'local' ? await noteLocal(tx, context, target) : noteRemote(tx, context, target, wireBytes);
    recipients.push({ recipient: target.address, addressed_as: target.addressedAs, ...note });
  }
  if (!entries.some(({ wakes }) => wakes)) adviseToWake(mail, recipients);
  const result: SendResult = {
    message_id: message.id,
    thread: message.thread,
    duplicate: false,
    recipients,
    ...(mail.directories && mail.directories.length > 0 && { directories: mail.directories }),
    ...(mail.leftOut.length > 0 && { left_out: [...mail.leftOut] }),
  };
  if (idempotency) remember(tx, context, senderId, idempotency, result, message);
  return { result, idempotency, locals: here };
}

/**
 * Tells the sender once how to wake, in the detail of the first recipient, where the message woke nobody here and wakes
 * nobody elsewhere. Nothing wakes the owner.
 */
function adviseToWake(mail: Mail, recipients: SendResult['recipients']): void {
  const { kind, body, answers, targets } = mail;
  const advice = adviceToWake(kind);
  const recipient = recipients[targets.findIndex((target) => target.type === 'remote' || target.agentId !== OWNER_ID)];
  if (advice === undefined || !recipient) return;
  const mentioned = mentionsIn(body);
  const wakes = ({ peer, address }: RemoteTarget): boolean => {
    const names = [partsOfAddress(address)?.name ?? address];
    // Only its host knows the agent that asked.
    const answered = answers?.fromPeer === peer.peerId ? { ...answers, fromAgent: null } : undefined;
    return wakesRecipient(mail, () => mentioned, { agentId: null, names, host: peer.hostName }, answered);
  };
  if (!targets.some((target) => target.type === 'remote' && wakes(target))) recipient.detail += ` ${advice}`;
}

/** `wireBytes`: the size of the sealed envelope; 0 when the message stays on this host. */
function refuseTooLarge(wireBytes: number, targets: readonly Target[]): Refusal | undefined {
  if (targets.length > RECIPIENTS_MAX) {
    return refusal(
      'TOO_LARGE',
      `to means ${targets.length} agents; one message goes to at most ${RECIPIENTS_MAX}: nothing was sent. Name fewer.`,
      { field: 'to', recipients: targets.length, recipients_max: RECIPIENTS_MAX },
    );
  }
  if (wireBytes <= LAN_ITEM_BYTES_MAX) return undefined;
  return refusal(
    'TOO_LARGE',
    `body becomes ${wireBytes} bytes when it is sealed for another host, which takes at most ` +
      `${LAN_ITEM_BYTES_MAX}: nothing was sent. Send it in parts, or put it where refs can point to it.`,
    { field: 'body', bytes: wireBytes, bytes_max: LAN_ITEM_BYTES_MAX },
  );
}

/** Only a role or `*` meant it. */
function isOfGroup({ addressedAs }: Target): boolean {
  return addressedAs.every((text) => parseAddress(text)?.type !== 'agent');
}

function isSenderOf(target: Target, { from, fromAgent, fromPeer }: MessageRow): boolean {
  if (target.type === 'local') return target.agentId === fromAgent;
  return target.peer.peerId === fromPeer && isSameName(nameIn(target.address), nameIn(from));
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
  context: HostContext,
  senderId: AgentId,
  { keyHash, contentHash }: Idempotency,
  result: SendResult,
  { ref }: MessageRow,
): void {
  const row: IdempotencyRow = { contentHash, ref, atMs: context.nowMs(), result };
  tx.put('idempotency', [senderId, keyHash], row);
  tx.put('idempotencyDue', [row.atMs, senderId, keyHash], true);
}

type RecipientNote = Pick<SendResult['recipients'][number], 'status' | 'detail' | 'way'>;

/** Only hooks that report prompts tell the agent of its mail at the next one. */
const SEES_NEXT_PROMPT = 'a session of it is live and sees it on its next prompt.';
const SEES_WHEN_IT_LOOKS = 'its mail tools run; it sees the mail when it looks.';
const WAITS = 'no session of it is live, the message waits.';

async function noteLocal(reader: Reader, context: HostContext, target: LocalTarget): Promise<RecipientNote> {
  const live = await liveSessions(reader, context, target.agentId);
  const isPrompted = live.some(({ reportsPrompts }) => reportsPrompts);
  const hasTools = live.length > 0 || context.waits.isWaiting(target.agentId);
  const waits = `In its mailbox; ${isPrompted ? SEES_NEXT_PROMPT : hasTools ? SEES_WHEN_IT_LOOKS : WAITS}`;
  if (target.forwardedFrom !== null) {
    return { status: 'forwarded', detail: `${target.forwardedFrom} is called ${target.address} now. ${waits}` };
  }
  return { status: isPrompted ? 'live-next-prompt' : 'offline', detail: waits };
}

function noteRemote(
  reader: Reader,
  context: HostContext,
  { peer, isListed }: RemoteTarget,
  wireBytes: number,
): RecipientNote {
  const isForLan = wireBytes > DEFAULT_LIMITS.max_item_bytes;
  const hasNoWay = wayOfMail(peer, null) === 'none' && homesOf(reader, peer).isNoneShared;
  const way = hasNoWay ? ' The LAN does not reach it, and no relay is common: it waits until one of both does.' : '';
  const size = isForLan ? ' It is too large for a relay: it goes over the LAN, or in parts.' : '';
  const queued = `Queued for ${peer.hostName}; not delivered yet.${way}${size}`;
  if (isListed) return { status: 'remote', detail: queued, ...(hasNoWay && { way: 'none' }) };
  const doubt = peer.directory
    ? `Its list of agents, from ${ageInWords(context.nowMs() - peer.directory.fetchedAtMs)} ago, ` +
      'does not have this one.'
    : 'It has not sent its list of agents yet, so the name is not checked.';
  return { status: 'remote', detail: `${queued} ${doubt}`, ...(hasNoWay && { way: 'none' }) };
}

const MINUTE_MS = 60_000;

function ageInWords(ageMs: number): string {
  const minutes = Math.max(0, Math.floor(ageMs / MINUTE_MS));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}

/** The message answered a call of its recipient, which said so. */
const ANSWERED_WAIT: WakeResult = {
  isWoken: true,
  detail: 'It waits for mail in mail_inbox: this answered its call.',
};

/**
 * Wakes the recipients that the message wakes and whose wait it does not answer, and puts the outcome into the result,
 * also into the stored result of the idempotency key. Without proof the status says what its sessions are after the
 * attempt, which may have ended some.
 */
async function wakeRecipients(
  context: HostContext,
  senderId: AgentId,
  { result, idempotency, locals }: StoredMail,
  wakeAgent: WakeAgent | undefined,
): Promise<SendResult> {
  const outcomes = await Promise.all(
    locals.map(async ({ target, at, entry }) => {
      const { agentId, position, wakes } = entry;
      // Both from now on. A doorbell rings only when no wait was answered.
      const waking = wakes ? wakeAgent?.(agentId, result.message_id as MessageRef) : undefined;
      const isBrought = await context.waits.hasBrought(agentId, position);
      const outcome = isBrought ? ANSWERED_WAIT : await waking;
      if (!outcome) return undefined;
      return { at, outcome, note: await context.store.read((reader) => noteLocal(reader, context, target)) };
    }),
  );
  const known = outcomes.filter((outcome) => outcome !== undefined);
  if (known.length === 0) return result;
  const recipients = result.recipients.map((recipient) => ({ ...recipient }));
  for (const { at, outcome, note } of known) {
    const recipient = recipients[at];
    if (!recipient) throw new Error('invariant: who is woken is a recipient');
    const isWoken = outcome.isWoken && note.status !== 'forwarded';
    recipient.status = isWoken ? 'live-wake' : note.status;
    recipient.detail = isWoken ? outcome.detail : `${note.detail} ${outcome.detail}`;
  }
  const woken = { ...result, recipients };
  if (idempotency) {
    await context.store.transact((tx) => {
      const row = tx.get('idempotency', senderId, idempotency.keyHash);
      if (row?.ref === result.message_id) {
        tx.put('idempotency', [senderId, idempotency.keyHash], { ...row, result: woken });
      }
    });
  }
  return woken;
}

/** The tag of ChaCha20-Poly1305. */
const TAG_BYTES = 16;
/** A bound on what names, keys, hashes and the signature of an envelope take. */
const FRAME_BYTES = 1024;

/** In JSON a UTF-16 unit takes no more: `\u001f`. */
const BYTES_A_CHARACTER_MAX = 6;
/** The parts that are sealed besides the body and the refs, names, keys and ids, are shorter than this. */
const CONTENT_BYTES_MAX = 1024;

/** An upper bound of the size of the sealed envelope with this message; close to it where it matters. */
function envelopeBytesMax(message: MessageRow, body: string): number {
  const { id, from, to, subject, kind, needsReply, origin, refs, replyTo, thread } = message;
  const characters = [subject, body, ...to, ...refs].reduce((sum, text) => sum + text.length, to.length + refs.length);
  const roughly = FRAME_BYTES + (CONTENT_BYTES_MAX + characters * BYTES_A_CHARACTER_MAX) * 2;
  if (roughly <= DEFAULT_LIMITS.max_item_bytes) return roughly;
  const head = canonicalBytes({ id, from, to, subject });
  const content = canonicalBytes({ kind, needs_reply: needsReply, origin, refs, reply_to: replyTo, thread, body });
  return FRAME_BYTES + head.length + Math.ceil((content.length + TAG_BYTES) / 3) * 4;
}
