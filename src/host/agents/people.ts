/** The owner's page shows whom the owner can write to: agents with their presence, hosts with the way there. */
import type { PeopleResult } from '../contract/owner-page.ts';
import type { HostContext } from '../base/context.ts';
import { OWNER_NAME, addressOf } from '../core/address.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import { wayOfMail } from '../core/transport-choice.ts';
import type { RelayTransport } from '../outbox/peer-work.ts';
import { livePeers, peerView } from '../peers/peers.ts';
import type { Directories } from './address-book.ts';
import { listAgents } from './directory.ts';
import { listSessions } from './sessions.ts';

export interface PeopleParts {
  directories: Directories;
  carrier: Pick<RelayTransport, 'factsFor'>;
}

export async function listPeople(
  context: HostContext,
  { directories, carrier }: PeopleParts,
): Promise<PeopleResult | Refusal> {
  const listed = await listAgents(context, null, {}, directories);
  if (isRefusal(listed)) return listed;
  const { sessions } = await listSessions(context, null);
  // Ordered by when they were last seen: the first one of an agent counts.
  const seenAt = new Map<string, number>();
  for (const { agent, seen_at } of sessions) if (!seenAt.has(agent)) seenAt.set(agent, seen_at);
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
    return { host, way: wayOfMail(peer, carrier.factsFor(peer)), reached_at, agents: known, directory_age_seconds };
  });
  return { you: addressOf(OWNER_NAME, hostName), agents, hosts: [here, ...hosts] };
}
