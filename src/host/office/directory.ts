/** Who can be written to: the agents here and, as far as they told, at paired hosts. `mail_agents`. */
import { foldHostName } from '../../protocol/names.ts';
import { addressOf, foldName } from '../core/address.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { AgentId, DirectoryAgent } from '../core/rows.ts';
import { suggestions } from '../core/suggestions.ts';
import type { AgentsInput, AgentsResult } from '../documents/mail.ts';
import type { Reader } from '../store/host-store.ts';
import { pairedPeers } from './address-book.ts';
import { presentAgents } from './agents.ts';
import { nameOf } from './mailbox.ts';
import type { Office } from './office.ts';
import { hasLiveSession } from './presence.ts';
import { refuseAbsentAgent } from './known-messages.ts';

const SECOND_MS = 1000;

/** The agents here first, then those of each paired host, by name. `agentId` is whoever asks; null for the host's own. */
export async function listAgents(
  office: Office,
  agentId: AgentId | null,
  input: AgentsInput,
): Promise<AgentsResult | Refusal> {
  return office.store.read(async (reader) => {
    const absent = agentId === null ? undefined : refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const { hostName } = office.identity();
    const peers = await pairedPeers(reader);
    const hosts = [hostName, ...peers.map((peer) => peer.hostName)];
    const isWanted = (host: string) => input.host === undefined || foldHostName(host) === foldHostName(input.host);
    if (!hosts.some(isWanted)) {
      const near = suggestions(input.host ?? '', hosts);
      const message = `host: this host is not paired with ${input.host}; it knows ${hosts.join(', ')}.`;
      return refusal('NO_SUCH_PEER', message, { field: 'host', suggestions: near });
    }
    const agents = isWanted(hostName) ? await agentsHere(reader, office) : [];
    for (const peer of peers.filter((peer) => isWanted(peer.hostName))) {
      const { directory } = peer;
      if (!directory) continue;
      const ageSeconds = Math.max(0, Math.floor((office.nowMs() - directory.fetchedAtMs) / SECOND_MS));
      for (const { name, roles } of directory.agents.toSorted(byName)) {
        const address = addressOf(name, peer.hostName);
        const host = peer.hostName;
        agents.push({ address, name, host, roles, presence: 'remote', directory_age_seconds: ageSeconds });
      }
    }
    const role = input.role === undefined ? undefined : foldName(input.role);
    return {
      you: agentId === null ? null : addressOf(nameOf(reader, agentId), hostName),
      agents: agents.filter(({ roles }) => role === undefined || roles.some((one) => foldName(one) === role)),
    };
  });
}

async function agentsHere(reader: Reader, office: Office): Promise<AgentsResult['agents']> {
  const { hostName: host } = office.identity();
  const agents: AgentsResult['agents'] = [];
  for (const { agentId, name, roles } of await presentAgents(reader)) {
    const presence = (await hasLiveSession(reader, office, agentId)) ? 'live' : 'offline';
    agents.push({ address: addressOf(name, host), name, host, roles, presence, directory_age_seconds: null });
  }
  return agents;
}

function byName(a: DirectoryAgent, b: DirectoryAgent): number {
  return foldName(a.name) < foldName(b.name) ? -1 : 1;
}
