/**
 * Finds messages by the beginning of their id, as a person types it: among what an agent may name, or among everything
 * that this host knows, by the ids of senders too.
 */
import type { FindMessageInput, FindMessageResult } from '../contract/mail.ts';
import { FIND_CHARACTERS_MIN, FOUND_MAX } from '../contract/limits.ts';
import type { HostContext } from '../base/context.ts';
import type { Refusal } from '../core/refusal.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import { knownMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';

type MessageMatch = FindMessageResult['found'][number];

/** `agentId` is null for a message of anybody. Refuses `NO_SUCH_AGENT`. */
export function findMessage(
  context: HostContext,
  agentId: AgentId | null,
  { text, of = 'message' }: FindMessageInput,
): Promise<FindMessageResult | Refusal> {
  return context.store.read(async (reader) => {
    const absent = agentId === null ? undefined : refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const ids = agentId === null ? idsOfHost(reader, text) : idsOfAgent(reader, agentId, text, of);
    const found = new Map<string, MessageMatch>();
    for await (const [id, ref] of ids) {
      // The whole id means this one, whatever else begins with it.
      if (id === text) return { found: [matchOf(reader, id, ref)] };
      found.set(id, matchOf(reader, id, ref));
      if (found.size === FOUND_MAX) break;
    }
    return { found: [...found.values()] };
  });
}

/** An id, and the message that it stands for. */
type Named = [id: string, ref: MessageRef];

async function* idsOfAgent(
  reader: Reader,
  agentId: AgentId,
  text: string,
  of: 'message' | 'thread',
): AsyncGenerator<Named> {
  const ref = text as MessageRef;
  if (knownMessage(reader, agentId, text)) yield [text, ref];
  if (of === 'thread') {
    for await (const { key, row } of reader.range('threadEntry', [agentId, ref], { limit: 1 })) yield [key[1], row];
  }
  if (text.length < FIND_CHARACTERS_MIN) return;
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

async function* idsOfHost(reader: Reader, text: string): AsyncGenerator<Named> {
  const ref = text as MessageRef;
  if (reader.get('message', ref)) yield [text, ref];
  if (text.length < FIND_CHARACTERS_MIN) return;
  for await (const { key } of reader.range('message', [], { from: [ref] })) {
    if (!key[0].startsWith(text)) break;
    yield [key[0], key[0]];
  }
  for await (const { row: peer } of reader.range('peer', [])) {
    const from: [typeof peer.peerId, string] = [peer.peerId, text];
    for await (const { key, row } of reader.range('arrival', [peer.peerId], { from })) {
      if (!key[1].startsWith(text)) break;
      // What came under the id that it has here was found above.
      if (key[1] !== row.ref && reader.get('message', row.ref)) yield [key[1], row.ref];
    }
  }
}

function matchOf(reader: Reader, id: string, ref: MessageRef): MessageMatch {
  const message = reader.get('message', ref);
  return { id, from: message?.from ?? '', subject: message?.subject ?? '' };
}
