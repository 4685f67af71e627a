/**
 * `mail_reply`: answers a message of this agent's mailbox, or goes on after one that it sent, in the same thread.
 *
 * It goes to whoever sent the message, whatever that agent is called now; a message of one's own is followed up to
 * those it went to. With `to_all` it goes to the others too; whoever of them cannot be reached any more is left out and
 * named in the result.
 */
import { parseAddress, partsOfAddress } from '../core/address.ts';
import {
  type AddressBook,
  type Target,
  type Unresolved,
  agentById,
  expandRecipients,
  merge,
} from '../core/recipients.ts';
import type { Refusal } from '../core/refusal.ts';
import { replySubject } from '../core/reply-subject.ts';
import type { AgentId, MessageRow, PeerId } from '../core/rows.ts';
import { type ReplyInput, SUBJECT_CHARACTERS_MAX, type SendResult } from '../documents/mail.ts';
import type { Reader } from '../store/host-store.ts';
import { addressBook, refuseUnresolved, unresolvedInWords } from './address-book.ts';
import { knownMessage, noSuchMessage, refuseAbsentAgent } from './known-messages.ts';
import type { Office } from './office.ts';
import { idempotencyOf, postAndRing, postMail, sentBefore } from './post.ts';
import type { Ring } from './ring.ts';

/** Sends a reply for an agent. Resolves and refuses as `sendMail` does. */
export async function replyMail(
  office: Office,
  agentId: AgentId,
  input: ReplyInput,
  ring?: Ring,
): Promise<SendResult | Refusal> {
  const { message_id, body, subject = null, kind = 'reply', to_all = false, needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const content = { operation: 'mail_reply', message_id, body, subject, kind, to_all, needs_reply, refs, origin };
  const idempotency = idempotencyOf(idempotency_key, content);
  return postAndRing(office, agentId, ring, async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = sentBefore(tx, agentId, idempotency);
    if (before) return before;
    const answers = knownMessage(tx, agentId, message_id);
    if (!answers) return noSuchMessage('message_id', message_id);
    const { targets, leftOut } = await replyTargets(tx, office, agentId, answers, to_all);
    if (targets.length === 0) return refuseUnresolved(tx, office, agentId, leftOut, 'message_id');
    const text = subject ?? replySubject(answers.subject, SUBJECT_CHARACTERS_MAX);
    const named = leftOut.map(({ to, reason }) => ({ recipient: to, detail: unresolvedInWords(reason) }));
    const mail = { subject: text, body, kind, needsReply: needs_reply, refs, origin, answers, targets, leftOut: named };
    return postMail(tx, office, agentId, mail, idempotency);
  });
}

/** Somebody a message came from or went to, by who it is where that is known, whatever it or its host is called now. */
interface Party {
  text: string;
  agentId: AgentId | null;
  peerId: PeerId | null;
}

async function replyTargets(
  reader: Reader,
  office: Office,
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
  const book = await addressBook(reader, office, agentId, forms, ids);
  const meant = new Map<string, Target>();
  const leftOut: Unresolved[] = [];
  for (const party of parties) {
    const found = resolve(party, book);
    if ('reason' in found) {
      // Without the one whom it answers there is no reply.
      if (party === sender) return { targets: [], leftOut: [found] };
      leftOut.push(found);
    } else merge(meant, found, party.text);
  }
  const mine = meant.get(agentId);
  meant.delete(agentId);
  // A note to oneself is answered to oneself.
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
  if (!found) throw new Error('invariant: an address means somebody or is refused');
  return found;
}
