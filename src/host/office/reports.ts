/** What the host itself has to say to an agent: mail from `poste@<host>`, that nobody can answer. */
import { HOST_VOICE, addressOf } from '../core/address.ts';
import { type AgentId, type MessageKind, type MessageRef, type MessageRow, OWNER_ID } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';
import { nameOf, storeMessage } from './mailbox.ts';
import { newMessage } from './new-message.ts';
import type { Office } from './office.ts';

export interface Report {
  subject: string;
  body: string;
  /** `alert` wakes the agent. */
  kind: MessageKind;
  /** The message it is about; the report joins its thread. */
  about?: Pick<MessageRow, 'ref' | 'thread'>;
}

/** Stores a report. What concerned an agent that was removed goes to the owner. */
export function reportToAgent(tx: Transaction, office: Office, agentId: AgentId, report: Report): MessageRef {
  const agent = tx.get('agent', agentId);
  const readerId = agent && agent.removedAtMs === null ? agentId : OWNER_ID;
  const { hostName } = office.identity();
  const { subject, body, kind, about } = report;
  const message = newMessage(
    tx,
    office,
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
  storeMessage(tx, office, message, body, [{ agentId: readerId, forwardedFrom: null }]);
  return message.ref;
}
