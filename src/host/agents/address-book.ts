/** Loads what expanding addresses needs, and suggests near names for a recipient that does not exist. */
import {
  type AddressForm,
  OWNER_NAME,
  addressOf,
  foldName,
  type AddressBook,
  type Unresolved,
  type UnresolvedReason,
} from '../core/address.ts';
import type { AgentId, AgentNameRow, AgentRow, PeerId, PeerRow } from '../core/rows.ts';
import { suggestions } from '../core/suggestions.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { Reader } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';

/** Asks paired hosts for the names of their agents (`LanService.freshenDirectories`). */
export interface Directories {
  freshenDirectories(peerIds: ReadonlySet<PeerId>): Promise<void>;
}

/** Loads only what these addresses and agents need: a few rows for names, all rows for a role or `*`. */
export async function addressBook(
  reader: Reader,
  context: HostContext,
  senderId: AgentId,
  forms: readonly AddressForm[],
  agentIds: readonly AgentId[] = [],
): Promise<AddressBook> {
  if (forms.some((form) => form.type !== 'agent')) return wholeBook(reader, context, senderId);
  const names = new Map<string, AgentNameRow>();
  const agents = new Map<AgentId, AgentRow>();
  const addAgent = (agentId: AgentId): void => {
    const agent = reader.get('agent', agentId);
    if (agent) agents.set(agentId, agent);
  };
  for (const form of forms) {
    const name = form.type === 'agent' ? reader.get('agentName', foldName(form.name)) : undefined;
    if (!name) continue;
    names.set(foldName(name.name), name);
    addAgent(name.agentId);
  }
  for (const agentId of agentIds) addAgent(agentId);
  const isLocal = forms.every((form) => form.type === 'agent' && form.host === null);
  const peers = isLocal ? [] : await pairedPeers(reader);
  return { hostName: context.identity().hostName, senderId, names, agents, peers };
}

async function wholeBook(reader: Reader, context: HostContext, senderId: AgentId): Promise<AddressBook> {
  const names = new Map<string, AgentNameRow>();
  const agents = new Map<AgentId, AgentRow>();
  for await (const { key, row } of reader.range('agentName', [])) names.set(key[0], row);
  for await (const { row } of reader.range('agent', [])) agents.set(row.agentId, row);
  return { hostName: context.identity().hostName, senderId, names, agents, peers: await pairedPeers(reader) };
}

export async function pairedPeers(reader: Reader): Promise<PeerRow[]> {
  const peers: PeerRow[] = [];
  for await (const { row } of reader.range('peer', [])) if (row.unpairedAtMs === null) peers.push(row);
  return peers.toSorted((a, b) => (a.hostName < b.hostName ? -1 : 1));
}

const SENTENCES: Readonly<Record<UnresolvedReason, string>> = {
  'unknown-agent': 'no agent of this host is or was called so',
  'removed-agent': 'that agent was removed',
  'unknown-host': 'this host is not paired with a host of that name',
  'empty-role': 'no other agent has that role',
  'nobody-else': 'there is no other agent',
  'nobody-reads': 'that is the host itself, which reads no mail',
};

export function unresolvedInWords(reason: UnresolvedReason): string {
  return SENTENCES[reason];
}

/** Refuses a message with unknown recipients; `details.recipients` lists them with suggestions. */
export async function refuseUnresolved(
  reader: Reader,
  context: HostContext,
  senderId: AgentId,
  unresolved: readonly Unresolved[],
  field: 'to' | 'message_id' = 'to',
): Promise<Refusal> {
  const known = knownAddresses(await wholeBook(reader, context, senderId));
  const recipients = unresolved.map(({ to, reason }) => ({
    to,
    reason,
    suggestions: suggestions(to, to.includes('@') ? [...known.elsewhere, ...known.hereInFull] : known.short),
  }));
  const sentences = recipients.map(({ to, reason, suggestions }) => {
    const meant = suggestions.length > 0 ? ` (did you mean ${suggestions.join(' or ')}?)` : '';
    return `${to}: ${SENTENCES[reason]}${meant}`;
  });
  return refusal('UNKNOWN_RECIPIENT', `Nothing was sent. ${sentences.join('; ')}.`, {
    field,
    recipients,
  });
}

function knownAddresses(book: AddressBook): { short: string[]; elsewhere: string[]; hereInFull: string[] } {
  const here = [...book.agents.values()].filter(({ removedAtMs }) => removedAtMs === null);
  const elsewhere = book.peers.flatMap(({ hostName, directory }) =>
    [OWNER_NAME, ...(directory?.agents ?? []).map(({ name }) => name)].map((name) => addressOf(name, hostName)),
  );
  const roles = [...here, ...book.peers.flatMap(({ directory }) => directory?.agents ?? [])].flatMap(
    ({ roles }) => roles,
  );
  const names = [OWNER_NAME, ...here.map(({ name }) => name)];
  return {
    short: [...names, ...elsewhere, ...roles.map((role) => `role:${role}`)],
    elsewhere,
    hereInFull: names.map((name) => addressOf(name, book.hostName)),
  };
}
