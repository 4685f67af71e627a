/** The host's own reports to an agent: mail from `poste@<host>`, which cannot be answered. */
import { HOST_VOICE, addressOf } from '../core/address.ts';
import { type AgentId, type MessageKind, type MessageRef, type MessageRow, OWNER_ID } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';
import { nameOf, newMessage, storeMessage } from './mailbox.ts';
import type { HostContext } from '../base/context.ts';

export interface Report {
  subject: string;
  body: string;
  /** `alert` wakes the agent. */
  kind: MessageKind;
  /** The message it is about; the report joins its thread. */
  about?: Pick<MessageRow, 'ref' | 'thread'>;
}

/** Stores a report. A report for a removed agent goes to the owner. */
export function reportToAgent(tx: Transaction, context: HostContext, agentId: AgentId, report: Report): MessageRef {
  const agent = tx.get('agent', agentId);
  const readerId = agent && agent.removedAtMs === null ? agentId : OWNER_ID;
  const { hostName } = context.identity();
  const { subject, body, kind, about } = report;
  const message = newMessage(
    tx,
    context,
    {
      from: addressOf(HOST_VOICE, hostName),
      fromAgent: null,
      to: [addressOf(nameOf(tx, readerId), hostName)],
      subject,
      kind,
      needsReply: false,
      origin: 'agent',
      refs: [],
      replyTo: about?.ref ?? null,
    },
    body,
    about?.thread ?? null,
  );
  storeMessage(tx, context, message, body, [{ agentId: readerId, forwardedFrom: null }]);
  return message.ref;
}
