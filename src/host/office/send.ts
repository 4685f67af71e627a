/** `mail_send`: begins a conversation, or goes on with one when `reply_to` names a message of it. */
import { type AddressForm, parseAddress } from '../core/address.ts';
import { expandRecipients } from '../core/recipients.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import type { SendInput, SendResult } from '../documents/mail.ts';
import { badInput } from '../documents/parse-input.ts';
import { addressBook, refuseUnresolved } from './address-book.ts';
import { knownMessage, noSuchMessage, refuseAbsentAgent } from './known-messages.ts';
import type { Office } from './office.ts';
import { idempotencyOf, postAndRing, postMail, sentBefore } from './post.ts';
import type { Ring } from './ring.ts';

/**
 * Sends a message for an agent. Resolves after the commit: that is acceptance, not delivery.
 * Refuses `BAD_INPUT`, `UNKNOWN_RECIPIENT`, `NO_SUCH_MESSAGE`, `IDEMPOTENCY_CONFLICT`, `TOO_LARGE` and `NO_SUCH_AGENT`;
 * then nothing is stored.
 */
export async function sendMail(
  office: Office,
  agentId: AgentId,
  input: SendInput,
  ring?: Ring,
): Promise<SendResult | Refusal> {
  const forms = parseRecipients(input.to);
  if (isRefusal(forms)) return forms;
  const { to, subject, body, kind = 'message', reply_to = null, needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const content = { operation: 'mail_send', to, subject, body, kind, reply_to, needs_reply, refs, origin };
  const idempotency = idempotencyOf(idempotency_key, content);
  return postAndRing(office, agentId, ring, async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = sentBefore(tx, agentId, idempotency);
    if (before) return before;
    const answers = reply_to === null ? null : knownMessage(tx, agentId, reply_to);
    if (answers === undefined) return noSuchMessage('reply_to', reply_to ?? '');
    const { targets, unresolved } = expandRecipients(forms, await addressBook(tx, office, agentId, forms));
    if (unresolved.length > 0) return refuseUnresolved(tx, office, agentId, unresolved);
    const mail = { subject, body, kind, needsReply: needs_reply, refs, origin, answers, targets, leftOut: [] };
    return postMail(tx, office, agentId, mail, idempotency);
  });
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
