/**
 * Agents of this host: added, renamed, given roles, removed, found by name.
 *
 * An agent is an id; names point to it. A rename leaves the old name pointing to the same agent, and what comes for it
 * is forwarded until another agent takes the name. A removed agent keeps its row and its names, so that mail for it is
 * refused with the truth; its mailbox is closed at once and emptied by retention.
 */
import { addressOf, foldName } from '../core/address.ts';
import { isLive } from '../core/presence.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import { type AgentId, type AgentRow, RESERVED_NAMES } from '../core/rows.ts';
import { suggestions } from '../core/suggestions.ts';
import type {
  AgentAddInput,
  AgentDocument,
  AgentList,
  AgentRemoveInput,
  AgentRemoved,
  AgentRenameInput,
  AgentRolesInput,
} from '../documents/agents.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { mailboxOf } from './mailbox.ts';
import type { Office } from './office.ts';
import { hasLiveSession } from './presence.ts';

const AGENT_ID_BYTES = 16;

/** Adds an agent. Refuses `NAME_TAKEN`. */
export async function addAgent(office: Office, input: AgentAddInput): Promise<AgentDocument | Refusal> {
  return office.store.transact(async (tx) => {
    const taken = refuseTaken(tx, input.name);
    if (taken) return taken;
    const agentId = office.randomBytes(AGENT_ID_BYTES).toString('hex') as AgentId;
    const { name, roles = [] } = input;
    const agent = { agentId, name, roles: distinct(roles), createdAtMs: office.nowMs(), removedAtMs: null };
    tx.put('agent', [agentId], agent);
    tx.put('agentName', [foldName(name)], { agentId, name, retiredAtMs: null });
    return agentDocument(tx, office, agent, []);
  });
}

/** Gives an agent another name. Refuses `NO_SUCH_AGENT` and `NAME_TAKEN`. */
export async function renameAgent(office: Office, input: AgentRenameInput): Promise<AgentDocument | Refusal> {
  return office.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const { agentId, name: oldName } = agent;
    const taken = refuseTaken(tx, input.new_name, agentId);
    if (taken) return taken;
    tx.put('agentName', [foldName(oldName)], { agentId, name: oldName, retiredAtMs: office.nowMs() });
    tx.put('agentName', [foldName(input.new_name)], { agentId, name: input.new_name, retiredAtMs: null });
    const renamed = { ...agent, name: input.new_name };
    tx.put('agent', [agentId], renamed);
    return agentDocument(tx, office, renamed, await formerNames(tx, agentId));
  });
}

/** Gives an agent the roles it has from now on. Refuses `NO_SUCH_AGENT`. */
export async function setAgentRoles(office: Office, input: AgentRolesInput): Promise<AgentDocument | Refusal> {
  return office.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const changed = { ...agent, roles: distinct(input.roles) };
    tx.put('agent', [agent.agentId], changed);
    return agentDocument(tx, office, changed, await formerNames(tx, agent.agentId));
  });
}

/** Removes an agent with its mailbox; its sessions end. Refuses `NO_SUCH_AGENT`. */
export async function removeAgent(office: Office, input: AgentRemoveInput): Promise<AgentRemoved | Refusal> {
  return office.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const { agentId, name } = agent;
    tx.put('agent', [agentId], { ...agent, removedAtMs: office.nowMs() });
    await endSessions(tx, office, agentId);
    const { total, unread } = mailboxOf(tx, agentId);
    return { name, dropped: total, dropped_unread: unread };
  });
}

/** The agents of this host, by name. */
export async function listOwnAgents(office: Office): Promise<AgentList> {
  return office.store.read(async (reader) => {
    const agents: AgentDocument[] = [];
    for (const agent of await presentAgents(reader)) {
      agents.push(await agentDocument(reader, office, agent, await formerNames(reader, agent.agentId)));
    }
    return { agents };
  });
}

/** Agents that were not removed, by name. */
export async function presentAgents(reader: Reader): Promise<AgentRow[]> {
  const agents: AgentRow[] = [];
  for await (const { row } of reader.range('agent', [])) if (row.removedAtMs === null) agents.push(row);
  return agents.toSorted((a, b) => (foldName(a.name) < foldName(b.name) ? -1 : 1));
}

/** The agent that is called so now; what it was called before is no name to manage it by. Refuses `NO_SUCH_AGENT`. */
async function agentNamed(reader: Reader, name: string): Promise<AgentRow | Refusal> {
  const known = reader.get('agentName', foldName(name));
  const agent = known && reader.get('agent', known.agentId);
  if (!agent || agent.removedAtMs !== null) return refuseUnknown(reader, name, agent !== undefined);
  if (known.retiredAtMs === null) return agent;
  const message = `${known.name} is called ${agent.name} now: name it so.`;
  return refusal('NO_SUCH_AGENT', message, { field: 'name', suggestions: [agent.name] });
}

/** `NO_SUCH_AGENT`, with the names that may have been meant. */
export async function refuseUnknown(reader: Reader, name: string, wasRemoved: boolean): Promise<Refusal> {
  const near = suggestions(
    name,
    (await presentAgents(reader)).map((present) => present.name),
  );
  const problem = wasRemoved ? `${name} was removed` : `no agent of this host is called ${name}`;
  const meant = near.length > 0 ? `did you mean ${near.join(' or ')}?` : 'add one with poste agent add.';
  return refusal('NO_SUCH_AGENT', `${problem}; ${meant}`, { field: 'name', suggestions: near });
}

function refuseTaken(reader: Reader, name: string, byOtherThan?: AgentId): Refusal | undefined {
  const details = { field: byOtherThan === undefined ? 'name' : 'new_name', name };
  if (RESERVED_NAMES.has(foldName(name))) {
    return refusal('NAME_TAKEN', `${name} means the owner or the host itself: take another name.`, details);
  }
  const known = reader.get('agentName', foldName(name));
  if (!known || known.retiredAtMs !== null || known.agentId === byOtherThan) return undefined;
  const holder = reader.get('agent', known.agentId);
  if (!holder || holder.removedAtMs !== null) return undefined;
  return refusal('NAME_TAKEN', `an agent of this host is called ${holder.name}: take another name.`, details);
}

async function formerNames(reader: Reader, agentId: AgentId): Promise<string[]> {
  const names: string[] = [];
  for await (const { row } of reader.range('agentName', [])) {
    if (row.agentId === agentId && row.retiredAtMs !== null) names.push(row.name);
  }
  return names;
}

async function endSessions(tx: Transaction, office: Office, agentId: AgentId): Promise<void> {
  const nowMs = office.nowMs();
  for await (const { key, row } of tx.range('session', [agentId])) {
    if (row.endedAtMs !== null) continue;
    tx.put('session', key, { ...row, endedAtMs: nowMs });
    if (!isLive(row, nowMs)) continue;
    tx.afterCommit(() => office.tell({ type: 'session-ended', agentId, sessionId: row.sessionId }));
  }
}

async function agentDocument(
  reader: Reader,
  office: Office,
  agent: AgentRow,
  former_names: string[],
): Promise<AgentDocument> {
  const { agentId, name, roles, createdAtMs } = agent;
  const { unread, total } = mailboxOf(reader, agentId);
  const presence = (await hasLiveSession(reader, office, agentId)) ? 'live' : 'offline';
  const address = addressOf(name, office.identity().hostName);
  return { name, address, roles, former_names, presence, unread, total, created_at: createdAtMs };
}

function distinct(roles: readonly string[]): string[] {
  return [...new Map(roles.map((role) => [foldName(role), role])).values()];
}
