/** Which messages an agent may name: those in its mailbox, and those it sent. Others do not exist for it. */
import { type Refusal, refusal } from '../core/refusal.ts';
import { type AgentId, type MessageRef, type MessageRow, OWNER_ID } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';

export function knownMessage(reader: Reader, agentId: AgentId, messageId: string): MessageRow | undefined {
  const ref = messageId as MessageRef;
  const isMine = reader.get('place', agentId, ref) !== undefined || reader.get('sent', ref)?.agentId === agentId;
  return isMine ? reader.get('message', ref) : undefined;
}

export function noSuchMessage(field: string, messageId: string): Refusal {
  const message = `${field}: there is no message ${messageId} in this mailbox or among what this agent sent. See mail_inbox.`;
  return refusal('NO_SUCH_MESSAGE', message, { field, message_id: messageId });
}

/** A refusal when no agent has this id, or it was removed. */
export function refuseAbsentAgent(reader: Reader, agentId: AgentId): Refusal | undefined {
  if (agentId === OWNER_ID) return undefined;
  const agent = reader.get('agent', agentId);
  if (agent && agent.removedAtMs === null) return undefined;
  const name = agent ? `${agent.name} was removed` : 'there is no such agent';
  return refusal('NO_SUCH_AGENT', `${name}: add it with poste agent add.`, { suggestions: [] });
}
