/** In whose name an operation is asked for. */
import { type Refusal, refusal } from '../core/refusal.ts';
import { type AgentId, OWNER_ID } from '../core/rows.ts';
import type { Office } from './office.ts';

/** The agent of this name, or of this former name: who it is does not change with it. `owner` is the person. */
export async function actingAgent({ store }: Office, name: string): Promise<AgentId | Refusal> {
  const folded = name.toLowerCase();
  if (folded === OWNER_ID) return OWNER_ID;
  const agentId = await store.read((reader) => {
    const found = reader.get('agentName', folded)?.agentId;
    const agent = found === undefined ? undefined : reader.get('agent', found);
    return agent?.removedAtMs === null ? agent.agentId : undefined;
  });
  return (
    agentId ??
    refusal('NO_SUCH_AGENT', `there is no agent ${name} on this host: poste agent list shows who there is`, {
      suggestions: [],
    })
  );
}
