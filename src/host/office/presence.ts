/** Whether anybody is there to see an agent's mail now. */
import { isLive } from '../core/presence.ts';
import type { AgentId } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import type { Office } from './office.ts';

/** Whether any session of an agent was heard of lately. */
export async function hasLiveSession(reader: Reader, office: Office, agentId: AgentId): Promise<boolean> {
  for await (const { row } of reader.range('session', [agentId])) if (isLive(row, office.nowMs())) return true;
  return false;
}
