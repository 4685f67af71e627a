/**
 * Whole ids of messages and threads for those that an input names, as people and agents give them: whole, or the first
 * characters, or else the last ones. Among what an agent may name, or among everything that this host knows, by the
 * ids of senders too. And the numbers of messages in a mailbox, which people type.
 */
import { FOUND_MAX } from '../contract/limits.ts';
import type { NumbersInput, NumbersResult } from '../contract/sent-mail.ts';
import type { HostContext } from '../base/context.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import { ID_END_CHARACTERS_MIN, ID_START_CHARACTERS_MIN, isIdEnd, severalIdsText } from '../core/short-ids.ts';
import type { Reader } from '../store/host-store.ts';
import { knownMessage, mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';

/** The length of the ids that this host makes: a text as long is whole. */
const ID_CHARACTERS = 26;

interface IdsNamed {
  /** Null for a message of anybody. */
  agentId: AgentId | null;
  /** The member of the input, for a refusal. */
  field: string;
  /** `thread`: threads of the agent too. */
  of?: 'message' | 'thread';
}

/**
 * The whole id of each text that begins exactly one, or that begins none and ends one. Any other text comes back as it
 * is, for the operation to refuse. Refuses `AMBIGUOUS_ID` with those that a text may mean.
 */
export async function wholeIds(
  context: HostContext,
  texts: readonly string[],
  named: IdsNamed,
): Promise<string[] | Refusal> {
  if (texts.every((text) => text.length >= ID_CHARACTERS)) return [...texts];
  return context.store.read(async (reader) => {
    const whole: string[] = [];
    for (const text of texts) {
      const found = await idsMeant(reader, text, named);
      const [id = text] = found.keys();
      if (found.size > 1) return ambiguous(reader, text, found, named.field);
      whole.push(id);
    }
    return whole;
  });
}

/** The same for one text. */
export async function wholeId(context: HostContext, text: string, named: IdsNamed): Promise<string | Refusal> {
  const whole = await wholeIds(context, [text], named);
  return isRefusal(whole) ? whole : (whole[0] ?? text);
}

type MeantMessages = ReadonlyMap<string, MessageRef>;

/** The ids that a text may mean, with the message that each stands for. */
async function idsMeant(reader: Reader, text: string, { agentId, of = 'message' }: IdsNamed): Promise<MeantMessages> {
  const found = new Map<string, MessageRef>();
  if (text.length >= ID_CHARACTERS) return found;
  const begun = agentId === null ? idsOfHost(reader, text) : idsOfAgent(reader, agentId, text, of);
  for await (const [id, ref] of begun) {
    // The whole id means this one, whatever else begins with it.
    if (id === text) return new Map([[id, ref]]);
    found.set(id, ref);
    if (found.size === FOUND_MAX) return found;
  }
  if (found.size > 0 || text.length < ID_END_CHARACTERS_MIN) return found;
  const all = agentId === null ? allOfHost(reader) : allOfAgent(reader, agentId, of);
  for await (const [id, ref] of all) {
    if (isIdEnd(text, id)) found.set(id, ref);
    if (found.size === FOUND_MAX) return found;
  }
  return found;
}

/** Says who wrote each, and nothing that others wrote: an agent reads it. */
function ambiguous(reader: Reader, text: string, found: MeantMessages, field: string): Refusal {
  const shown = [...found].map(([id, ref]) => `${id} (from ${reader.get('message', ref)?.from ?? 'nobody known'})`);
  const ids = [...found.keys()];
  return refusal('AMBIGUOUS_ID', severalIdsText(text, ids, shown), { field, candidates: ids });
}

/** An id, and the message that it stands for. */
type NamedMessage = [id: string, ref: MessageRef];

async function* idsOfAgent(
  reader: Reader,
  agentId: AgentId,
  text: string,
  of: 'message' | 'thread',
): AsyncGenerator<NamedMessage> {
  const ref = text as MessageRef;
  if (knownMessage(reader, agentId, text)) yield [text, ref];
  if (of === 'thread') {
    for await (const { key, row } of reader.range('threadEntry', [agentId, ref], { limit: 1 })) yield [key[1], row];
  }
  if (text.length < ID_START_CHARACTERS_MIN) return;
  for await (const { key } of reader.range('place', [agentId], { from: [agentId, ref] })) {
    if (!key[1].startsWith(text)) break;
    yield [key[1], key[1]];
  }
  for await (const { key, row } of reader.range('sent', [], { from: [ref] })) {
    if (!key[0].startsWith(text)) break;
    if (row.agentId === agentId) yield [key[0], key[0]];
  }
  if (of === 'message') return;
  for await (const { key, row } of reader.range('threadEntry', [agentId], { from: [agentId, ref] })) {
    if (!key[1].startsWith(text)) break;
    yield [key[1], row];
  }
}

async function* idsOfHost(reader: Reader, text: string): AsyncGenerator<NamedMessage> {
  const ref = text as MessageRef;
  if (reader.get('message', ref)) yield [text, ref];
  if (text.length < ID_START_CHARACTERS_MIN) return;
  for await (const { key } of reader.range('message', [], { from: [ref] })) {
    if (!key[0].startsWith(text)) break;
    yield [key[0], key[0]];
  }
  for await (const { row: peer } of reader.range('peer', [])) {
    const from: [typeof peer.peerId, string] = [peer.peerId, text];
    for await (const { key, row } of reader.range('arrival', [peer.peerId], { from })) {
      if (!key[1].startsWith(text)) break;
      // A message that came under the id that it has here was found above.
      if (key[1] !== row.ref && reader.get('message', row.ref)) yield [key[1], row.ref];
    }
  }
}

async function* allOfAgent(reader: Reader, agentId: AgentId, of: 'message' | 'thread'): AsyncGenerator<NamedMessage> {
  for await (const { key } of reader.range('place', [agentId])) yield [key[1], key[1]];
  for await (const { key } of reader.range('sentBy', [agentId])) yield [key[2], key[2]];
  if (of === 'message') return;
  for await (const { key, row } of reader.range('threadEntry', [agentId])) yield [key[1], row];
}

async function* allOfHost(reader: Reader): AsyncGenerator<NamedMessage> {
  for await (const { key } of reader.range('held', [])) yield [key[0], key[0]];
  for await (const { key, row } of reader.range('arrival', [])) {
    if (key[1] !== row.ref && reader.get('message', row.ref)) yield [key[1], row.ref];
  }
}

/**
 * The numbers of messages in the view of an agent, and the messages of numbers; what is unknown is left out. A number
 * is the position of a message that the agent received or sent: it never changes, and never means another message.
 */
export async function numberMessages(
  context: HostContext,
  agentId: AgentId,
  { message_ids = [], numbers = [] }: NumbersInput,
): Promise<NumbersResult | Refusal> {
  return context.store.read<NumbersResult | Refusal>(async (reader) => {
    const absent = refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const messages: NumbersResult['messages'] = [];
    for (const message_id of message_ids) {
      const number = numberOf(reader, agentId, message_id as MessageRef);
      if (number !== null) messages.push({ number, message_id });
    }
    const refs = await messagesAt(reader, agentId, numbers);
    for (const number of numbers) {
      const message_id = refs.get(number);
      if (message_id !== undefined) messages.push({ number, message_id });
    }
    return { messages };
  });
}

function numberOf(reader: Reader, agentId: AgentId, ref: MessageRef): number | null {
  const sent = reader.get('sent', ref);
  return reader.get('place', agentId, ref) ?? (sent?.agentId === agentId ? sent.threadPosition : null);
}

/** The messages at these positions. */
async function messagesAt(
  reader: Reader,
  agentId: AgentId,
  positions: readonly number[],
): Promise<ReadonlyMap<number, MessageRef>> {
  const refs = new Map<number, MessageRef>();
  const others = new Set<number>();
  for (const position of positions) {
    const entry = reader.get('entry', agentId, position);
    if (entry) refs.set(position, entry.ref);
    else if (position < mailboxOf(reader, agentId).nextPosition) others.add(position);
  }
  if (others.size === 0) return refs;
  // A message that the agent sent has its position in its thread alone: one look at all threads finds all of these.
  for await (const { key, row } of reader.range('threadEntry', [agentId]))
    if (others.has(key[2])) refs.set(key[2], row);
  return refs;
}
