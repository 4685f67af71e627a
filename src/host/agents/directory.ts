/**
 * The agents and hosts that one can write to: for `mail_agents` the agents of this host, and of paired hosts as far as
 * those sent their lists; for the owner's page also their presence, and the way to each host.
 */
import { isoSecond, timeMsOf } from '../../protocol/time.ts';
import type { HostContext } from '../base/context.ts';
import type { AgentsInput, AgentsResult } from '../contract/mail.ts';
import type { PeopleResult } from '../contract/owner-page.ts';
import { addressOf, foldName, isSameHost, OWNER_NAME } from '../core/address.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { AgentId, DirectoryAgent, PeerId } from '../core/rows.ts';
import { wayOfMail } from '../core/transport-choice.ts';
import { nameOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { RelayReach } from '../outbox/peer-work.ts';
import { livePeers, noSuchHost, pairedPeers, peerView } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import { presentAgents } from './agents.ts';
import { isAgentLive, listSessions } from './sessions.ts';

/** Asks paired hosts for the names of their agents (`LanService.freshenDirectories`). */
export interface Directories {
  freshenDirectories(peerIds: ReadonlySet<PeerId>): Promise<void>;
}

const SECOND_MS = 1000;

/** This host's agents first, then those of each paired host, by name. `agentId`: the caller; null for the owner. */
export async function listAgents(
  context: HostContext,
  agentId: AgentId | null,
  input: AgentsInput,
  directories?: Directories,
): Promise<AgentsResult | Refusal> {
  await directories?.freshenDirectories(await context.store.read((reader) => peerIdsOf(reader, input.host)));
  return context.store.read(async (reader) => {
    const absent = agentId === null ? undefined : refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const { hostName } = context.identity();
    const peers = await pairedPeers(reader);
    const hosts = [hostName, ...peers.map((peer) => peer.hostName)];
    const isWanted = (host: string) => input.host === undefined || isSameHost(host, input.host);
    if (!hosts.some(isWanted)) return noSuchHost(input.host ?? '', hosts);
    const agents = isWanted(hostName) ? await agentsHere(reader, context) : [];
    for (const peer of peers.filter((peer) => isWanted(peer.hostName))) {
      const { directory } = peer;
      if (!directory) continue;
      const ageSeconds = Math.max(0, Math.floor((context.nowMs() - directory.fetchedAtMs) / SECOND_MS));
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

async function peerIdsOf(reader: Reader, host: string | undefined): Promise<Set<PeerId>> {
  const peers = (await pairedPeers(reader)).filter((peer) => host === undefined || isSameHost(peer.hostName, host));
  return new Set(peers.map(({ peerId }) => peerId));
}

async function agentsHere(reader: Reader, context: HostContext): Promise<AgentsResult['agents']> {
  const { hostName: host } = context.identity();
  const agents: AgentsResult['agents'] = [];
  for (const { agentId, name, roles } of await presentAgents(reader)) {
    const presence = (await isAgentLive(reader, context, agentId)) ? 'live' : 'offline';
    agents.push({ address: addressOf(name, host), name, host, roles, presence, directory_age_seconds: null });
  }
  return agents;
}

function byName(a: DirectoryAgent, b: DirectoryAgent): number {
  return foldName(a.name) < foldName(b.name) ? -1 : 1;
}

/** The state of one relay in `relay-status`. */
type OneRelay = Pick<NonNullable<PeopleResult['relay']>, 'state'>;
type RelayState = OneRelay & { relay: { url: string } | null; relays?: (OneRelay & { relay: { url: string } })[] };

interface PeopleParts {
  directories: Directories;
  relay: { status: () => Promise<RelayState | Refusal> };
  reach: RelayReach;
}

export async function listPeople(
  context: HostContext,
  { directories, relay, reach }: PeopleParts,
): Promise<PeopleResult | Refusal> {
  const listed = await listAgents(context, null, {}, directories);
  if (isRefusal(listed)) return listed;
  const status = await relay.status();
  if (isRefusal(status)) return status;
  const pinned = status.relay && { url: status.relay.url, state: status.state };
  const relays = status.relays?.map(({ relay: { url }, state }) => ({ url, state }));
  const { sessions } = await listSessions(context, null);
  // Ordered by when they were last seen: the first one of an agent counts.
  const seenAt = new Map<string, string>();
  for (const { agent, seen_at } of sessions) if (!seenAt.has(agent)) seenAt.set(agent, isoSecond(timeMsOf(seen_at)));
  const agents = listed.agents.map(({ address, name, host, roles, presence }) => {
    const seen_at = presence === 'remote' ? null : (seenAt.get(name) ?? null);
    return { address, name, host, roles, presence, seen_at };
  });
  const { hostName } = context.identity();
  const here = {
    host: hostName,
    way: 'here' as const,
    reached_at: null,
    agents: agents.filter(({ presence }) => presence !== 'remote').length,
    directory_age_seconds: null,
  };
  const peers = await context.store.read(livePeers);
  const hosts = peers.map((peer) => {
    const { host, reached_at, agents: known, directory_age_seconds } = peerView(context, peer);
    return { host, way: wayOfMail(peer, reach.factsFor(peer)), reached_at, agents: known, directory_age_seconds };
  });
  return {
    you: addressOf(OWNER_NAME, hostName),
    agents,
    hosts: [here, ...hosts],
    relay: pinned,
    ...(relays && { relays }),
  };
}
