/** What paired hosts are told of the agents here: names and roles, never sessions. */
import { LAN_AGENTS_MAX } from '../../protocol/lan.ts';
import { OWNER_ID, type DirectoryAgent } from '../core/rows.ts';
import type { Office } from './office.ts';

export function ownDirectory({ store }: Office): Promise<DirectoryAgent[]> {
  return store.read(async (reader) => {
    const agents: DirectoryAgent[] = [];
    for await (const { row } of reader.range('agent', [])) {
      if (row.removedAtMs !== null || row.agentId === OWNER_ID) continue;
      agents.push({ name: row.name, roles: row.roles });
      if (agents.length >= LAN_AGENTS_MAX) break;
    }
    return agents;
  });
}
