/**
 * The list of the owner's page: conversations, each at its newest message that was asked for, with what an overview
 * shows of it; and marking everything read that the list means.
 */
import { CONVERSATION_MESSAGES_MAX, PREVIEW_CHARACTERS_MAX } from '../contract/limits.ts';
import type {
  ConversationSummary,
  ConversationsInput,
  ConversationsResult,
  ReadAllInput,
  ReadAllResult,
} from '../contract/owner-page.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import type { HostContext } from '../base/context.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import { type MailQuery, type MailState, addAddress, addKind, addState } from '../core/mail-query.ts';
import { cursorOf, messageSummary, parseCursor } from './inbox-pages.ts';
import { advanceAll } from './inbox.ts';
import { markNotified } from '../outbox/outgoing-items.ts';
import { isOwed } from '../mailbox/debts.ts';
import { mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { type FoundMessage, MailLook, foundPage, queryOf } from './search.ts';

const LIMIT_DEFAULT = 50;
/** One transaction marks this number of entries: others wait for it. */
const SLICE_ENTRIES = 100;
/** So much of a body may become its preview. */
const PREVIEW_SOURCE_CHARACTERS = 1000;

/** Refuses `BAD_INPUT` and `NO_SUCH_AGENT`. Marks the messages of the list as notified, unless it is a search. */
export async function listConversations(
  context: HostContext,
  agentId: AgentId,
  input: ConversationsInput,
): Promise<ConversationsResult | Refusal> {
  const fresh: number[] = [];
  const result = await context.store.read<ConversationsResult | Refusal>(async (reader) => {
    const absent = refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const query = filterOf(input, input.state ?? 'all');
    return isRefusal(query) ? query : listPage(new MailLook(context, reader, agentId, query), input, fresh);
  });
  if (input.text !== undefined) return result;
  for (let at = 0; at < fresh.length; at += SLICE_ENTRIES) {
    const slice = fresh.slice(at, at + SLICE_ENTRIES);
    await context.store.transact((tx) => markNotified(tx, context, agentId, slice));
  }
  return result;
}

async function listPage(
  look: MailLook,
  { state = 'all', limit = LIMIT_DEFAULT, cursor }: ConversationsInput,
  fresh: number[],
): Promise<ConversationsResult | Refusal> {
  const action = `conversations ${state}`;
  const before = cursor === undefined ? undefined : parseCursor(action, cursor);
  if (isRefusal(before)) return before;
  const threads = new Set<string>();
  const page = await foundPage(look, { before, limit }, async ({ entry }) => {
    if (threads.has(entry.thread)) return true;
    threads.add(entry.thread);
    // Its newest message that is meant is in a page before.
    return before !== undefined && look.isMeantFrom(entry, before);
  });
  const conversations: ConversationSummary[] = [];
  for (const found of page.found) conversations.push(await conversationOf(look, found, fresh));
  const { unread, total, nextPosition } = mailboxOf(look.reader, look.agentId);
  return {
    notice: UNTRUSTED_NOTICE,
    unread,
    total,
    through: nextPosition - 1,
    conversations,
    next_cursor: page.next === null ? null : cursorOf(action, page.next),
  };
}

/** Adds to `fresh` the positions of its entries that were not notified yet. */
async function conversationOf(
  { reader, agentId }: MailLook,
  { entry: { thread }, message: newest, entry }: FoundMessage,
  fresh: number[],
): Promise<ConversationSummary> {
  const senders = new Set<string>();
  const unread: string[] = [];
  const notDone: string[] = [];
  let messages = 0;
  let needsReply = false;
  const newestFirst = { reverse: true, limit: CONVERSATION_MESSAGES_MAX };
  for await (const { key, row } of reader.range('threadEntry', [agentId, thread], newestFirst)) {
    const message = reader.get('message', row);
    if (!message) throw new Error('invariant: what is in a thread is kept');
    const own = reader.get('entry', agentId, key[2]);
    messages++;
    // A set keeps the place of the first: the oldest message comes last.
    senders.delete(message.from);
    senders.add(message.from);
    if (!own) continue;
    if (own.notifiedAtMs === null) fresh.push(key[2]);
    if (own.state === 'unread') unread.push(row);
    if (own.state === 'acked') continue;
    notDone.push(row);
    needsReply ||= isOwed(reader, agentId, key[2]);
  }
  // A message that is older than those that were counted.
  if (entry.state === 'unread' && !unread.includes(newest.ref)) unread.push(newest.ref);
  if (entry.state !== 'acked' && !notDone.includes(newest.ref)) notDone.push(newest.ref);
  return {
    newest: messageSummary(newest, entry),
    preview: previewOf(reader.get('body', newest.ref) ?? ''),
    messages,
    senders: [...senders].toReversed(),
    unread,
    not_done: notDone,
    needs_reply: needsReply,
  };
}

/**
 * Marks read what is unread and meant, as far as `through`, in slices: each is a transaction of its own.
 * Refuses `BAD_INPUT` and `NO_SUCH_AGENT`.
 */
export async function markAllRead(
  context: HostContext,
  agentId: AgentId,
  { through, ...filters }: ReadAllInput,
): Promise<ReadAllResult | Refusal> {
  const query = filterOf(filters, 'unread');
  if (isRefusal(query)) return query;
  let changed = 0;
  for (let before: number | null = through + 1; before !== null; ) {
    const end: number = before;
    const slice = await context.store.transact<{ changed: number; next: number | null } | Refusal>(async (tx) => {
      const absent = refuseAbsentAgent(tx, agentId);
      if (absent) return absent;
      const look = new MailLook(context, tx, agentId, query, SLICE_ENTRIES);
      const { found, next } = await foundPage(look, { before: end, limit: SLICE_ENTRIES });
      const meant = found.map(({ message }) => ({ message_id: message.ref }));
      return { changed: advanceAll(tx, context, agentId, meant, 'read').length, next };
    });
    if (isRefusal(slice)) return slice;
    changed += slice.changed;
    before = slice.next;
  }
  return { changed };
}

type Filters = Pick<ConversationsInput, 'text' | 'from' | 'kind' | 'needs_reply'>;

function filterOf({ text, from, kind, needs_reply }: Filters, state: MailState): MailQuery | Refusal {
  const query = queryOf('text', text);
  if (isRefusal(query)) return query;
  addState(query, state);
  if (from !== undefined) addAddress(query, 'from', from);
  if (kind !== undefined) addKind(query, kind);
  if (needs_reply !== undefined) query.needsReply = needs_reply;
  return query;
}

/** The beginning of a body on one line, without the marks of Markdown and the addresses of its links. */
export function previewOf(body: string): string {
  const text = body
    .slice(0, PREVIEW_SOURCE_CHARACTERS)
    .replaceAll(/^[ \t]*(?:`{3,}.*$|[#>]+[ \t]|[*+-][ \t])/gmu, '')
    .replaceAll(/!?\[([^[\]\n]*)\]\([^()\n]*\)/gu, '$1')
    .replaceAll(/\s+/gu, ' ')
    .replaceAll(/\*\*|`/gu, '')
    .trim();
  // The cut must not leave half of a surrogate pair.
  return text.slice(0, PREVIEW_CHARACTERS_MAX).replace(/[\uD800-\uDBFF]$/, '');
}
