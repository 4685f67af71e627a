/**
 * Agents of this host: added, renamed, given roles, removed, found by name.
 *
 * An agent is an id; names point to it. After a rename the old name still points to the same agent, and mail to it
 * is forwarded until another agent takes the name. A removed agent keeps its row and its names, so that mail to it is
 * refused with the real reason; its mailbox closes at once, and retention empties it.
 */
import { LAN_AGENTS_MAX } from '../../protocol/lan.ts';
import { isoSecond } from '../../protocol/time.ts';
import type {
  AgentAddInput,
  AgentDocument,
  AgentList,
  AgentRemoved,
  AgentRemoveInput,
  AgentRenameInput,
  AgentRolesInput,
} from '../contract/agents.ts';
import type { HostContext } from '../base/context.ts';
import { addressOf, foldName, OWNER_NAME } from '../core/address.ts';
import { isAgentLive, isLive } from './sessions.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import { type AgentId, type AgentRow, type DirectoryAgent, OWNER_ID, RESERVED_NAMES } from '../core/rows.ts';
import { suggestions } from '../core/suggestions.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

const AGENT_ID_BYTES = 16;

/** Adds an agent. Refuses `NAME_TAKEN`. */
export async function addAgent(context: HostContext, input: AgentAddInput): Promise<AgentDocument | Refusal> {
  return context.store.transact(async (tx) => {
    const taken = refuseTaken(tx, input.name);
    if (taken) return taken;
    const agentId = context.randomBytes(AGENT_ID_BYTES).toString('hex') as AgentId;
    const { name, roles = [] } = input;
    const agent = { agentId, name, roles: distinct(roles), createdAtMs: context.nowMs(), removedAtMs: null };
    tx.put('agent', [agentId], agent);
    tx.put('agentName', [foldName(name)], { agentId, name, retiredAtMs: null });
    emitAgentsChanged(tx, context);
    return agentDocument(tx, context, agent, []);
  });
}

/** Gives an agent another name. Refuses `NO_SUCH_AGENT` and `NAME_TAKEN`. */
export async function renameAgent(context: HostContext, input: AgentRenameInput): Promise<AgentDocument | Refusal> {
  return context.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const { agentId, name: oldName } = agent;
    const taken = refuseTaken(tx, input.new_name, agentId);
    if (taken) return taken;
    tx.put('agentName', [foldName(oldName)], { agentId, name: oldName, retiredAtMs: context.nowMs() });
    tx.put('agentName', [foldName(input.new_name)], { agentId, name: input.new_name, retiredAtMs: null });
    const renamed = { ...agent, name: input.new_name };
    tx.put('agent', [agentId], renamed);
    emitAgentsChanged(tx, context);
    return agentDocument(tx, context, renamed, await formerNames(tx, agentId));
  });
}

/** Replaces all roles of an agent. Refuses `NO_SUCH_AGENT`. */
export async function setAgentRoles(context: HostContext, input: AgentRolesInput): Promise<AgentDocument | Refusal> {
  return context.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const changed = { ...agent, roles: distinct(input.roles) };
    tx.put('agent', [agent.agentId], changed);
    emitAgentsChanged(tx, context);
    return agentDocument(tx, context, changed, await formerNames(tx, agent.agentId));
  });
}

/** Removes an agent with its mailbox; its sessions end. Refuses `NO_SUCH_AGENT`. */
export async function removeAgent(context: HostContext, input: AgentRemoveInput): Promise<AgentRemoved | Refusal> {
  return context.store.transact(async (tx) => {
    const agent = await agentNamed(tx, input.name);
    if (isRefusal(agent)) return agent;
    const { agentId, name } = agent;
    tx.put('agent', [agentId], { ...agent, removedAtMs: context.nowMs() });
    await endSessions(tx, context, agentId);
    emitAgentsChanged(tx, context);
    const { total, unread } = mailboxOf(tx, agentId);
    return { name, dropped: total, dropped_unread: unread };
  });
}

/** The LAN service then sends the new list of agents to paired hosts. */
function emitAgentsChanged(tx: Transaction, context: HostContext): void {
  tx.afterCommit(() => context.emit({ type: 'agents-changed' }));
}

/** The agents of this host, by name. */
export async function listOwnAgents(context: HostContext): Promise<AgentList> {
  return context.store.read(async (reader) => {
    const agents: AgentDocument[] = [];
    for (const agent of await presentAgents(reader)) {
      agents.push(await agentDocument(reader, context, agent, await formerNames(reader, agent.agentId)));
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

/** The agent with this present name; a former name is refused. Refuses `NO_SUCH_AGENT`. */
async function agentNamed(reader: Reader, name: string): Promise<AgentRow | Refusal> {
  const known = reader.get('agentName', foldName(name));
  const agent = known && reader.get('agent', known.agentId);
  if (!agent || agent.removedAtMs !== null) return refuseUnknown(reader, name, agent !== undefined);
  if (known.retiredAtMs === null) return agent;
  const message = `${known.name} is called ${agent.name} now: name it so.`;
  return refusal('NO_SUCH_AGENT', message, { field: 'name', suggestions: [agent.name] });
}

/** `NO_SUCH_AGENT`, with the names that may be meant. */
async function refuseUnknown(reader: Reader, name: string, wasRemoved: boolean): Promise<Refusal> {
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

async function endSessions(tx: Transaction, context: HostContext, agentId: AgentId): Promise<void> {
  const nowMs = context.nowMs();
  for await (const { key, row } of tx.range('session', [agentId])) {
    if (row.endedAtMs !== null) continue;
    tx.put('session', key, { ...row, endedAtMs: nowMs });
    if (!isLive(row, context)) continue;
    tx.afterCommit(() => context.emit({ type: 'session-ended', agentId, sessionId: row.sessionId }));
  }
}

async function agentDocument(
  reader: Reader,
  context: HostContext,
  agent: AgentRow,
  former_names: string[],
): Promise<AgentDocument> {
  const { agentId, name, roles, createdAtMs } = agent;
  const { unread, total } = mailboxOf(reader, agentId);
  const presence = (await isAgentLive(reader, context, agentId)) ? 'live' : 'offline';
  const address = addressOf(name, context.identity().hostName);
  return { name, address, roles, former_names, presence, unread, total, created_at: isoSecond(createdAtMs) };
}

function distinct(roles: readonly string[]): string[] {
  return [...new Map(roles.map((role) => [foldName(role), role])).values()];
}

/** The id of the agent that an operation acts for, by its present or a former name. `owner` is the person. */
export async function actingAgent({ store }: HostContext, name: string): Promise<AgentId | Refusal> {
  const folded = foldName(name);
  if (folded === OWNER_NAME) return OWNER_ID;
  return store.read<AgentId | Refusal>((reader) => {
    const found = reader.get('agentName', folded)?.agentId;
    const agent = found === undefined ? undefined : reader.get('agent', found);
    return agent?.removedAtMs === null ? agent.agentId : refuseUnknown(reader, name, agent !== undefined);
  });
}

/** This host's agents as paired hosts see them: names and roles, by name, as many as one answer carries. */
export async function ownDirectory({ store }: HostContext): Promise<DirectoryAgent[]> {
  const agents = await store.read(presentAgents);
  return agents.slice(0, LAN_AGENTS_MAX).map(({ name, roles }) => ({ name, roles }));
}
