/**
 * `mail_send` begins a conversation, or continues one when `reply_to` names a message of it. `mail_reply` answers a
 * message of this agent's mailbox, or follows up on one that it sent, in the same thread.
 *
 * A reply goes to the agent that sent the message, whatever its present name; a follow-up goes to the recipients of
 * the agent's own message. With `to_all` it goes to the others too; those that cannot be reached any more are left out
 * and named in the result.
 *
 * What expanding addresses needs is loaded here, and near names are suggested for a recipient that does not exist.
 */
import type { WakeAgent } from '../agents/sessions.ts';
import type { HostContext } from '../base/context.ts';
import { SUBJECT_CHARACTERS_MAX } from '../contract/limits.ts';
import type { ReplyInput, SendInput, SendResult } from '../contract/mail.ts';
import { badInput } from '../contract/parse-input.ts';
import {
  type AddressForm,
  parseAddress,
  partsOfAddress,
  type AddressBook,
  agentById,
  decidingPeers,
  expandRecipients,
  merge,
  type Target,
  type Unresolved,
  OWNER_NAME,
  addressOf,
  foldName,
  type UnresolvedReason,
} from '../core/address.ts';
import { codeUnitAfter } from '../core/code-points.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { AgentId, MessageRow, PeerId, PeerRow, AgentNameRow, AgentRow } from '../core/rows.ts';
import { knownMessage, noSuchMessage } from '../mailbox/mailbox.ts';
import type { Directories } from '../agents/directory.ts';
import { pairedPeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import { wholeId } from './find-message.ts';
import { postMail } from './post.ts';
import { suggestions } from '../core/suggestions.ts';

const SECOND_MS = 1000;

/**
 * Sends a message for an agent. Resolves after the commit: that is acceptance, not delivery.
 * Refuses `BAD_INPUT`, `UNKNOWN_RECIPIENT`, `NO_SUCH_MESSAGE`, `IDEMPOTENCY_CONFLICT`, `TOO_LARGE` and `NO_SUCH_AGENT`;
 * then nothing is stored.
 */
export async function sendMail(
  context: HostContext,
  agentId: AgentId,
  input: SendInput,
  { wakeAgent, directories }: SendingParts = {},
): Promise<SendResult | Refusal> {
  const forms = parseRecipients(input.to);
  if (isRefusal(forms)) return forms;
  if (directories) await refreshDirectories(context, agentId, forms, directories);
  const { to, subject, body, kind = 'message', needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const named = { agentId, field: 'reply_to' };
  const reply_to = input.reply_to === undefined ? null : await wholeId(context, input.reply_to, named);
  if (isRefusal(reply_to)) return reply_to;
  const content = { operation: 'mail_send', to, subject, body, kind, reply_to, needs_reply, refs, origin };
  return postMail(context, agentId, { content, key: idempotency_key, wakeAgent }, async (tx) => {
    const answers = reply_to === null ? null : knownMessage(tx, agentId, reply_to);
    if (answers === undefined) return noSuchMessage('reply_to', reply_to ?? '');
    const book = await addressBook(tx, context, agentId, forms);
    const { targets, unresolved } = expandRecipients(forms, book);
    if (unresolved.length > 0) return refuseUnresolved(tx, context, agentId, unresolved);
    const directories = forms.some(({ type }) => type !== 'agent')
      ? book.peers.map((peer) => listAge(context, peer))
      : [];
    const words = { subject, body, kind, needsReply: needs_reply, refs, origin };
    return { answers, targets, leftOut: [], directories, ...words };
  });
}

/** The parts that wake recipients and ask paired hosts for their agents; without a part, that step is left out. */
interface SendingParts {
  wakeAgent?: WakeAgent;
  directories?: Directories;
}

/** Asks paired hosts for their agents again, so that a group includes an agent that was added a moment ago. */
async function refreshDirectories(
  context: HostContext,
  agentId: AgentId,
  forms: readonly AddressForm[],
  directories: Directories,
): Promise<void> {
  const deciding = await context.store.read(async (reader) => {
    const book = await addressBook(reader, context, agentId, forms);
    return decidingPeers(forms, { ...book, peers: await pairedPeers(reader) });
  });
  if (deciding.length > 0) await directories.freshenDirectories(new Set(deciding.map(({ peerId }) => peerId)));
}

function listAge(context: HostContext, { hostName, directory }: PeerRow): { host: string; age_seconds: number | null } {
  const ageMs = directory && context.nowMs() - directory.fetchedAtMs;
  return { host: hostName, age_seconds: ageMs === null ? null : Math.max(0, Math.floor(ageMs / SECOND_MS)) };
}

function parseRecipients(to: readonly string[]): AddressForm[] | Refusal {
  const forms: AddressForm[] = [];
  for (const [at, text] of to.entries()) {
    const form = parseAddress(text);
    if (!form) return badInput(`to[${at}]`, 'is no address: give an agent name, agent@host, role:<role>, * or owner');
    forms.push(form);
  }
  return forms;
}

/** Sends a reply for an agent. Resolves and refuses as `sendMail` does. */
export async function replyMail(
  context: HostContext,
  agentId: AgentId,
  input: ReplyInput,
  wakeAgent?: WakeAgent,
): Promise<SendResult | Refusal> {
  const { body, subject = null, kind = 'reply', to_all = false, needs_reply = false } = input;
  const { refs = [], origin = 'agent', idempotency_key } = input;
  const message_id = await wholeId(context, input.message_id, { agentId, field: 'message_id' });
  if (isRefusal(message_id)) return message_id;
  const content = { operation: 'mail_reply', message_id, body, subject, kind, to_all, needs_reply, refs, origin };
  return postMail(context, agentId, { content, key: idempotency_key, wakeAgent }, async (tx) => {
    const answers = knownMessage(tx, agentId, message_id);
    if (!answers) return noSuchMessage('message_id', message_id);
    const { targets, leftOut } = await replyTargets(tx, context, agentId, answers, to_all);
    if (targets.length === 0) {
      const refused = await refuseUnresolved(tx, context, agentId, leftOut, 'message_id');
      return { ...refused, message: `${refused.message}${adviceForReport(tx, agentId, answers)}` };
    }
    const text = subject ?? replySubject(answers.subject, SUBJECT_CHARACTERS_MAX);
    const named = leftOut.map(({ to, reason }) => ({ recipient: to, detail: WHY_UNRESOLVED[reason] }));
    return { subject: text, body, kind, needsReply: needs_reply, refs, origin, answers, targets, leftOut: named };
  });
}

/** A report of this host, as a reminder, is about a message that can be replied to. */
function adviceForReport(reader: Reader, agentId: AgentId, { fromAgent, fromPeer, replyTo }: MessageRow): string {
  const isReport = fromAgent === null && fromPeer === null && replyTo !== null;
  return isReport && knownMessage(reader, agentId, replyTo) ? ` Reply to message ${replyTo}, which it is about.` : '';
}

/** The sender or a recipient of a message, by agent id or peer id if known, and not by a name that may have changed. */
interface Party {
  text: string;
  agentId: AgentId | null;
  peerId: PeerId | null;
}

async function replyTargets(
  reader: Reader,
  context: HostContext,
  agentId: AgentId,
  answers: MessageRow,
  toAll: boolean,
): Promise<{ targets: Target[]; leftOut: Unresolved[] }> {
  const sender: Party = { text: answers.from, agentId: answers.fromAgent, peerId: answers.fromPeer };
  const isOwn = answers.fromAgent === agentId;
  const others = isOwn || toAll ? partiesOf(reader, answers) : [];
  const parties = isOwn ? others : [sender, ...others];
  const forms = parties.flatMap(({ text }) => parseAddress(text) ?? []);
  const ids = parties.flatMap((party) => party.agentId ?? []);
  const book = await addressBook(reader, context, agentId, forms, ids);
  const meant = new Map<string, Target>();
  const leftOut: Unresolved[] = [];
  for (const party of parties) {
    const found = resolve(party, book);
    if ('reason' in found) {
      // The sender cannot be left out of a reply.
      if (party === sender) return { targets: [], leftOut: [found] };
      leftOut.push(found);
    } else merge(meant, found, party.text);
  }
  const mine = meant.get(agentId);
  meant.delete(agentId);
  // A reply to a message to oneself goes to oneself.
  if (meant.size === 0 && mine) meant.set(agentId, mine);
  return { targets: [...meant.values()], leftOut };
}

function partiesOf(reader: Reader, { ref, to }: MessageRow): Party[] {
  const sent = reader.get('sent', ref);
  if (sent) return sent.recipients.map(({ address, agentId, peerId }) => ({ text: address, agentId, peerId }));
  return to.map((text) => ({ text, agentId: null, peerId: null }));
}

function resolve({ text, agentId, peerId }: Party, book: AddressBook): Target | Unresolved {
  if (agentId !== null) return agentById(agentId, book) ?? { to: text, reason: 'removed-agent' };
  const parts = partsOfAddress(text);
  if (!parts) return { to: text, reason: 'unknown-agent' };
  const host = peerId === null ? parts.host : book.peers.find((peer) => peer.peerId === peerId)?.hostName;
  if (host === undefined) return { to: text, reason: 'unknown-host' };
  const { targets, unresolved } = expandRecipients([{ type: 'agent', text, name: parts.name, host }], book);
  const [found = unresolved[0]] = targets;
  if (!found) throw new Error('invariant: an address means an agent or is refused');
  return found;
}

const RE = /^re:\s*/i;

/** The subject of a reply without one: one `Re: ` and the old subject, cut to `charactersMax` code points. */
export function replySubject(subject: string, charactersMax: number): string {
  const text = `Re: ${subject.replace(RE, '')}`;
  return text.slice(0, codeUnitAfter(text, charactersMax));
}

/** Loads only what these addresses and agents need: a few rows for names, all rows for a role or `*`. */
async function addressBook(
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

const WHY_UNRESOLVED: Readonly<Record<UnresolvedReason, string>> = {
  'unknown-agent': 'no agent of this host is or was called so',
  'removed-agent': 'that agent was removed',
  'unknown-host': 'this host is not paired with a host of that name',
  'empty-role': 'no other agent has that role',
  'nobody-else': 'there is no other agent',
  'nobody-reads': 'that is the host itself, which reads no mail',
};

/** Refuses a message with unknown recipients; `details.recipients` lists them with suggestions. */
async function refuseUnresolved(
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
    return `${to}: ${WHY_UNRESOLVED[reason]}${meant}`;
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
