/** What paired hosts are told of the agents here: names and roles, never sessions. */
import { LAN_AGENTS_MAX } from '../../protocol/lan.ts';
import type { DirectoryAgent } from '../core/rows.ts';
import { presentAgents } from './agents.ts';
import type { Office } from './office.ts';

/** By name; of more agents than one answer carries, the first. */
export async function ownDirectory({ store }: Office): Promise<DirectoryAgent[]> {
  const agents = await store.read(presentAgents);
  return agents.slice(0, LAN_AGENTS_MAX).map(({ name, roles }) => ({ name, roles }));
}
