/** `mail_send`: begins a conversation, or continues one when `reply_to` names a message of it. */
import { type AddressForm, parseAddress } from '../core/address.ts';
import { decidingPeers, expandRecipients } from '../core/recipients.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, PeerRow } from '../core/rows.ts';
import type { SendInput, SendResult } from '../contract/mail.ts';
import { badInput } from '../contract/parse-input.ts';
import { type Directories, addressBook, pairedPeers, refuseUnresolved } from '../agents/address-book.ts';
import { knownMessage, noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';
import { idempotencyOf, postAndWake, postMail, sentBefore } from './post.ts';
import type { WakeAgent } from '../agents/sessions.ts';

const SECOND_MS = 1000;

/**
 * Sends a message for an agent. Resolves after the commit: that is acceptance, not delivery.
 * Refuses `BAD_INPUT`, `UNKNOWN_RECIPIENT`, `NO_SUCH_MESSAGE`, `IDEMPOTENCY_CONFLICT`, `TOO_LARGE` and `NO_SUCH_AGENT`;
 * then nothing is stored.
 */
export async function sendMail(
  context: HostContext,
  agentId: AgentId,
  input: SendInput,
  { wakeAgent, directories }: SendingParts = {},
): Promise<SendResult | Refusal> {
  const forms = parseRecipients(input.to);
  if (isRefusal(forms)) return forms;
  if (directories) await refreshDirectories(context, agentId, forms, directories);
  const { to, subject, body, kind = 'message', reply_to = null, needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const content = { operation: 'mail_send', to, subject, body, kind, reply_to, needs_reply, refs, origin };
  const idempotency = idempotencyOf(idempotency_key, content);
  return postAndWake(context, agentId, wakeAgent, async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = sentBefore(tx, agentId, idempotency);
    if (before) return before;
    const answers = reply_to === null ? null : knownMessage(tx, agentId, reply_to);
    if (answers === undefined) return noSuchMessage('reply_to', reply_to ?? '');
    const book = await addressBook(tx, context, agentId, forms);
    const { targets, unresolved } = expandRecipients(forms, book);
    if (unresolved.length > 0) return refuseUnresolved(tx, context, agentId, unresolved);
    const directories = forms.some(({ type }) => type !== 'agent')
      ? book.peers.map((peer) => listAge(context, peer))
      : [];
    const words = { subject, body, kind, needsReply: needs_reply, refs, origin };
    const mail = { answers, targets, leftOut: [], directories, ...words };
    return postMail(tx, context, agentId, mail, idempotency);
  });
}

/** The parts that wake recipients and ask paired hosts for their agents; without a part, that step is left out. */
interface SendingParts {
  wakeAgent?: WakeAgent;
  directories?: Directories;
}

/** Asks paired hosts for their agents again, so that a group includes an agent that was added a moment ago. */
async function refreshDirectories(
  context: HostContext,
  agentId: AgentId,
  forms: readonly AddressForm[],
  directories: Directories,
): Promise<void> {
  const deciding = await context.store.read(async (reader) => {
    const book = await addressBook(reader, context, agentId, forms);
    return decidingPeers(forms, { ...book, peers: await pairedPeers(reader) });
  });
  if (deciding.length > 0) await directories.freshenDirectories(new Set(deciding.map(({ peerId }) => peerId)));
}

function listAge(context: HostContext, { hostName, directory }: PeerRow): { host: string; age_seconds: number | null } {
  const ageMs = directory && context.nowMs() - directory.fetchedAtMs;
  return { host: hostName, age_seconds: ageMs === null ? null : Math.max(0, Math.floor(ageMs / SECOND_MS)) };
}

function parseRecipients(to: readonly string[]): AddressForm[] | Refusal {
  const forms: AddressForm[] = [];
  for (const [at, text] of to.entries()) {
    const form = parseAddress(text);
    if (!form) return badInput(`to[${at}]`, 'is no address: give an agent name, agent@host, role:<role>, * or owner');
    forms.push(form);
  }
  return forms;
}
