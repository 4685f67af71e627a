/** In whose name an operation is asked for. */
import { OWNER_NAME, foldName } from '../core/address.ts';
import type { Refusal } from '../core/refusal.ts';
import { type AgentId, OWNER_ID } from '../core/rows.ts';
import { refuseUnknown } from './agents.ts';
import type { Office } from './office.ts';

/** The agent of this name, or of this former name: who it is does not change with it. `owner` is the person. */
export async function actingAgent({ store }: Office, name: string): Promise<AgentId | Refusal> {
  const folded = foldName(name);
  if (folded === OWNER_NAME) return OWNER_ID;
  return store.read<AgentId | Refusal>((reader) => {
    const found = reader.get('agentName', folded)?.agentId;
    const agent = found === undefined ? undefined : reader.get('agent', found);
    return agent?.removedAtMs === null ? agent.agentId : refuseUnknown(reader, name, agent !== undefined);
  });
}
