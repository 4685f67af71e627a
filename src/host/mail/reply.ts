/**
 * `mail_reply`: answers a message of this agent's mailbox, or follows up on one that it sent, in the same thread.
 *
 * The reply goes to the agent that sent the message, whatever its present name; a follow-up goes to the recipients of
 * the agent's own message. With `to_all` it goes to the others too; those that cannot be reached any more are left out
 * and named in the result.
 */
import { addressBook, refuseUnresolved, unresolvedInWords } from '../agents/address-book.ts';
import type { WakeAgent } from '../agents/sessions.ts';
import type { ReplyInput, SendResult } from '../contract/mail.ts';
import { SUBJECT_CHARACTERS_MAX } from '../contract/limits.ts';
import type { HostContext } from '../base/context.ts';
import { parseAddress, partsOfAddress } from '../core/address.ts';
import { codeUnitAfter } from '../core/code-points.ts';
import {
  type AddressBook,
  agentById,
  expandRecipients,
  merge,
  type Target,
  type Unresolved,
} from '../core/recipients.ts';
import type { Refusal } from '../core/refusal.ts';
import type { AgentId, MessageRow, PeerId } from '../core/rows.ts';
import { knownMessage, noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { Reader } from '../store/host-store.ts';
import { idempotencyOf, postAndWake, postMail, sentBefore } from './post.ts';

/** Sends a reply for an agent. Resolves and refuses as `sendMail` does. */
export async function replyMail(
  context: HostContext,
  agentId: AgentId,
  input: ReplyInput,
  wakeAgent?: WakeAgent,
): Promise<SendResult | Refusal> {
  const { message_id, body, subject = null, kind = 'reply', to_all = false, needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const content = { operation: 'mail_reply', message_id, body, subject, kind, to_all, needs_reply, refs, origin };
  const idempotency = idempotencyOf(idempotency_key, content);
  return postAndWake(context, agentId, wakeAgent, async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = sentBefore(tx, agentId, idempotency);
    if (before) return before;
    const answers = knownMessage(tx, agentId, message_id);
    if (!answers) return noSuchMessage('message_id', message_id);
    const { targets, leftOut } = await replyTargets(tx, context, agentId, answers, to_all);
    if (targets.length === 0) return refuseUnresolved(tx, context, agentId, leftOut, 'message_id');
    const text = subject ?? replySubject(answers.subject, SUBJECT_CHARACTERS_MAX);
    const named = leftOut.map(({ to, reason }) => ({ recipient: to, detail: unresolvedInWords(reason) }));
    const mail = { subject: text, body, kind, needsReply: needs_reply, refs, origin, answers, targets, leftOut: named };
    return postMail(tx, context, agentId, mail, idempotency);
  });
}

/** The sender or a recipient of a message, by agent id or peer id if known, and not by a name that may have changed. */
interface Party {
  text: string;
  agentId: AgentId | null;
  peerId: PeerId | null;
}

async function replyTargets(
  reader: Reader,
  context: HostContext,
  agentId: AgentId,
  answers: MessageRow,
  toAll: boolean,
): Promise<{ targets: Target[]; leftOut: Unresolved[] }> {
  const sender: Party = { text: answers.from, agentId: answers.fromAgent, peerId: answers.fromPeer };
  const isOwn = answers.fromAgent === agentId;
  const others = isOwn || toAll ? partiesOf(reader, answers) : [];
  const parties = isOwn ? others : [sender, ...others];
  const forms = parties.flatMap(({ text }) => parseAddress(text) ?? []);
  const ids = parties.flatMap((party) => party.agentId ?? []);
  const book = await addressBook(reader, context, agentId, forms, ids);
  const meant = new Map<string, Target>();
  const leftOut: Unresolved[] = [];
  for (const party of parties) {
    const found = resolve(party, book);
    if ('reason' in found) {
      // The sender cannot be left out of a reply.
      if (party === sender) return { targets: [], leftOut: [found] };
      leftOut.push(found);
    } else merge(meant, found, party.text);
  }
  const mine = meant.get(agentId);
  meant.delete(agentId);
  // A reply to a message to oneself goes to oneself.
  if (meant.size === 0 && mine) meant.set(agentId, mine);
  return { targets: [...meant.values()], leftOut };
}

function partiesOf(reader: Reader, { ref, to }: MessageRow): Party[] {
  const sent = reader.get('sent', ref);
  if (sent) return sent.recipients.map(({ address, agentId, peerId }) => ({ text: address, agentId, peerId }));
  return to.map((text) => ({ text, agentId: null, peerId: null }));
}

function resolve({ text, agentId, peerId }: Party, book: AddressBook): Target | Unresolved {
  if (agentId !== null) return agentById(agentId, book) ?? { to: text, reason: 'removed-agent' };
  const parts = partsOfAddress(text);
  if (!parts) return { to: text, reason: 'unknown-agent' };
  const host = peerId === null ? parts.host : book.peers.find((peer) => peer.peerId === peerId)?.hostName;
  if (host === undefined) return { to: text, reason: 'unknown-host' };
  const { targets, unresolved } = expandRecipients([{ type: 'agent', text, name: parts.name, host }], book);
  const [found = unresolved[0]] = targets;
  if (!found) throw new Error('invariant: an address means an agent or is refused');
  return found;
}

const RE = /^re:\s*/i;

/** The subject of a reply without one: one `Re: ` and the old subject, cut to `charactersMax` code points. */
export function replySubject(subject: string, charactersMax: number): string {
  const text = `Re: ${subject.replace(RE, '')}`;
  return text.slice(0, codeUnitAfter(text, charactersMax));
}
