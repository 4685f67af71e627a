/**
 * The forms of an address ("What the service does", 2): an agent name; `agent@host`; `role:<role>`; `*`; `owner`.
 * Names, roles and hosts are compared without case. `owner@host` is a form of `agent@host`.
 *
 * Addresses are expanded to concrete agents, here and at paired hosts, before anything is stored or sent (rules 2
 * and 5):
 *   - `*` is every agent here and at every paired host except the sender; the owner, a person, is not among them;
 *   - `role:<role>` is every agent with that role except the sender; a role that no agent has is refused;
 *   - a former name means the agent that was renamed, until another agent takes the name;
 *   - a name that never existed here, a removed agent and a host that is not paired are refused;
 *   - a name at a paired host is accepted even when that host's directory, which may be old, does not list it;
 *   - an agent that several addresses mean is one recipient.
 */
import { type HostName, foldHostName, isAgentName, parseHostName } from '../../protocol/names.ts';
import { type Address, type AgentId, type AgentNameRow, type AgentRow, OWNER_ID, type PeerRow } from './rows.ts';

export const OWNER_NAME = 'owner';
/** The sender of the host's own reports; mail to it is read by nobody. */
export const HOST_VOICE = 'poste';

export type AddressForm =
  | { type: 'agent'; text: string; name: string; host: HostName | null }
  | { type: 'role'; text: string; role: string }
  | { type: 'everyone'; text: string };

/** Parses an address; `undefined` when it has no valid form. Nothing is trimmed or guessed. */
export function parseAddress(text: string): AddressForm | undefined {
  if (text === '*') return { type: 'everyone', text };
  if (text.startsWith('role:')) {
    const role = text.slice('role:'.length);
    return isAgentName(role) ? { type: 'role', text, role } : undefined;
  }
  const at = text.indexOf('@');
  const name = at < 0 ? text : text.slice(0, at);
  if (!isAgentName(name)) return undefined;
  if (at < 0) return { type: 'agent', text, name, host: null };
  const host = parseHostName(text.slice(at + 1));
  return host === undefined ? undefined : { type: 'agent', text, name, host };
}

/** A concrete sender or recipient. */
export function addressOf(name: string, host: HostName): Address {
  return `${name}@${host}` as Address;
}

/** The parts of a concrete address; `undefined` when it has no valid form. */
export function partsOfAddress(address: string): { name: string; host: HostName } | undefined {
  const form = parseAddress(address);
  return form?.type === 'agent' && form.host !== null ? { name: form.name, host: form.host } : undefined;
}

/** The name in a concrete address; empty when it has no valid form. */
export function nameIn(address: string): string {
  return partsOfAddress(address)?.name ?? '';
}

/** Names of agents and roles are compared lowercased. */
export function foldName(name: string): string {
  return name.toLowerCase();
}

export function isSameName(a: string, b: string): boolean {
  return foldName(a) === foldName(b);
}

export function isSameHost(a: string, b: string): boolean {
  return foldHostName(a) === foldHostName(b);
}

/** The names that this host knows when it expands addresses. */
export interface AddressBook {
  hostName: HostName;
  senderId: AgentId;
  /** By folded name: the rows that the addresses need, or all. */
  names: ReadonlyMap<string, AgentNameRow>;
  /** The agents that the names and groups need, removed ones included. */
  agents: ReadonlyMap<AgentId, AgentRow>;
  /** Hosts that are paired now. */
  peers: readonly PeerRow[];
}

export interface LocalTarget {
  type: 'local';
  agentId: AgentId;
  address: Address;
  /** The addresses that mean it, as written. */
  addressedAs: string[];
  /** The former name that was written, if it was one. */
  forwardedFrom: string | null;
}

export interface RemoteTarget {
  type: 'remote';
  peer: PeerRow;
  address: Address;
  addressedAs: string[];
  /** Says whether the known directory of the peer lists it. */
  isListed: boolean;
}

export type Target = LocalTarget | RemoteTarget;

const UNRESOLVED_REASONS = [
  'unknown-agent',
  'removed-agent',
  'unknown-host',
  'empty-role',
  'nobody-else',
  'nobody-reads',
] as const;
export type UnresolvedReason = (typeof UNRESOLVED_REASONS)[number];

export interface Unresolved {
  /** As it was written. */
  to: string;
  reason: UnresolvedReason;
}

export interface Expansion {
  /** In the order of the first address that means each. */
  targets: Target[];
  unresolved: Unresolved[];
}

export function expandRecipients(forms: readonly AddressForm[], book: AddressBook): Expansion {
  const meant = new Map<string, Target>();
  const unresolved: Unresolved[] = [];
  for (const form of forms) {
    const found = targetsOf(form, book);
    if (typeof found === 'string') unresolved.push({ to: form.text, reason: found });
    else for (const target of found) merge(meant, target, form.text);
  }
  return { targets: [...meant.values()], unresolved };
}

/** The paired hosts whose directories decide what these addresses mean: all of them for a group. */
export function decidingPeers(forms: readonly AddressForm[], book: AddressBook): PeerRow[] {
  if (forms.some(({ type }) => type !== 'agent')) return [...book.peers];
  const found = forms.map((form) => targetsOf(form, book));
  // A name that is unknown here may be an agent's name at a paired host: suggest it.
  if (found.includes('unknown-agent')) return [...book.peers];
  const targets = found.flatMap((one) => (typeof one === 'string' ? [] : one));
  const unlisted = targets.flatMap((target) => (target.type === 'remote' && !target.isListed ? [target.peer] : []));
  return [...new Set(unlisted)];
}

function targetsOf(form: AddressForm, book: AddressBook): Target[] | UnresolvedReason {
  switch (form.type) {
    case 'agent':
      return agentTarget(form, book);
    case 'role': {
      const role = foldName(form.role);
      const members = membersOf(book, ({ roles }) => roles.some((one) => foldName(one) === role));
      return members.length > 0 ? members : 'empty-role';
    }
    case 'everyone': {
      const members = membersOf(book, () => true);
      return members.length > 0 ? members : 'nobody-else';
    }
  }
}

type AgentForm = Extract<AddressForm, { type: 'agent' }>;

function agentTarget({ name, host }: AgentForm, book: AddressBook): Target[] | UnresolvedReason {
  const folded = foldName(name);
  if (folded === HOST_VOICE) return 'nobody-reads';
  if (host === null || foldHostName(host) === foldHostName(book.hostName)) return namedHere(folded, book);
  const peer = book.peers.find(({ hostName }) => foldHostName(hostName) === foldHostName(host));
  if (!peer) return 'unknown-host';
  const listed = peer.directory?.agents.find((agent) => foldName(agent.name) === folded);
  const isListed = folded === OWNER_NAME || listed !== undefined;
  return [remoteTarget(peer, listed?.name ?? name, isListed)];
}

function namedHere(folded: string, book: AddressBook): Target[] | UnresolvedReason {
  if (folded === OWNER_NAME) return [localTarget(OWNER_ID, OWNER_NAME, book)];
  const known = book.names.get(folded);
  const agent = known && book.agents.get(known.agentId);
  if (!agent) return 'unknown-agent';
  if (agent.removedAtMs !== null) return 'removed-agent';
  const target = localTarget(agent.agentId, agent.name, book);
  return [{ ...target, forwardedFrom: known.retiredAtMs === null ? null : known.name }];
}

/** The recipient of a reply: the agent with this id, whatever its present name. */
export function agentById(agentId: AgentId, book: AddressBook): LocalTarget | undefined {
  if (agentId === OWNER_ID) return localTarget(OWNER_ID, OWNER_NAME, book);
  const agent = book.agents.get(agentId);
  return agent && agent.removedAtMs === null ? localTarget(agentId, agent.name, book) : undefined;
}

function localTarget(agentId: AgentId, name: string, { hostName }: AddressBook): LocalTarget {
  return { type: 'local', agentId, address: addressOf(name, hostName), addressedAs: [], forwardedFrom: null };
}

function remoteTarget(peer: PeerRow, name: string, isListed: boolean): RemoteTarget {
  return { type: 'remote', peer, address: addressOf(name, peer.hostName), addressedAs: [], isListed };
}

/** The agents of a group, here and at paired hosts, without the sender, by host and name. */
function membersOf(book: AddressBook, belongs: (agent: { name: string; roles: string[] }) => boolean): Target[] {
  const here = [...book.agents.values()]
    .filter((agent) => agent.removedAtMs === null && agent.agentId !== book.senderId && belongs(agent))
    .toSorted(byName)
    .map(({ agentId, name }) => localTarget(agentId, name, book));
  const elsewhere = book.peers.flatMap((peer) =>
    (peer.directory?.agents ?? [])
      .filter((agent) => !isReserved(agent.name) && belongs(agent))
      .toSorted(byName)
      .map(({ name }) => remoteTarget(peer, name, true)),
  );
  return [...here, ...elsewhere];
}

function isReserved(name: string): boolean {
  return [OWNER_NAME, HOST_VOICE].includes(foldName(name));
}

function byName(a: { name: string }, b: { name: string }): number {
  return foldName(a.name) < foldName(b.name) ? -1 : 1;
}

/** Adds a target, or another address to a known one. A present name outweighs a forwarded one. */
export function merge(meant: Map<string, Target>, target: Target, addressedAs: string): void {
  const key = target.type === 'local' ? target.agentId : foldName(target.address);
  const before = meant.get(key) ?? target;
  if (before.type === 'local' && target.type === 'local' && target.forwardedFrom === null) before.forwardedFrom = null;
  if (!before.addressedAs.includes(addressedAs)) before.addressedAs.push(addressedAs);
  meant.set(key, before);
}

/** Remote targets by the host that they live on. */
export function byPeer(targets: readonly Target[]): { peer: PeerRow; recipients: Address[] }[] {
  const groups = new Map<string, { peer: PeerRow; recipients: Address[] }>();
  for (const target of targets) {
    if (target.type === 'local') continue;
    const group = groups.get(target.peer.peerId) ?? { peer: target.peer, recipients: [] };
    group.recipients.push(target.address);
    groups.set(target.peer.peerId, group);
  }
  return [...groups.values()];
}
