/**
 * The list of the owner's page: conversations, each at its newest message that was asked for, with what an overview
 * shows of it; and marking everything read that the list means.
 *
 * As a search, one answer looks at a bounded part of the mailbox, says how far it came, and its cursor goes on there.
 */
import { isoSecond } from '../../protocol/time.ts';
import { CONVERSATION_MESSAGES_MAX, PREVIEW_CHARACTERS_MAX } from '../contract/limits.ts';
import type {
  ConversationSummary,
  ConversationsInput,
  ConversationsResult,
  ReadAllInput,
  ReadAllResult,
} from '../contract/owner-page.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { badInput } from '../contract/parse-input.ts';
import type { HostContext } from '../base/context.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, EntryRow, MessageRow } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import { cursorOf, parseCursor, summaryOf } from './inbox-pages.ts';
import { advanceAll } from './inbox.ts';
import { markNotified } from '../outbox/receipts.ts';
import { isOwed } from '../mailbox/debts.ts';
import { mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { SEARCH_BYTES_MAX, SEARCH_MESSAGES_MAX, hasAll, wordsOf } from './search.ts';

const LIMIT_DEFAULT = 50;
/** One transaction marks this number of entries: others wait for it. */
const SLICE_ENTRIES = 100;
/** So much of a body may become its preview. */
const PREVIEW_SOURCE_CHARACTERS = 1000;
const TABLES = { unread: 'unread', unacked: 'unacked', all: 'entry' } as const;

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
    const look = filterOf(reader, agentId, input);
    return isRefusal(look) ? look : listPage(look, input, fresh);
  });
  if (input.text !== undefined) return result;
  for (let at = 0; at < fresh.length; at += SLICE_ENTRIES) {
    const slice = fresh.slice(at, at + SLICE_ENTRIES);
    await context.store.transact((tx) => markNotified(tx, context, agentId, slice));
  }
  return result;
}

async function listPage(
  look: MailboxFilter,
  { state = 'all', limit = LIMIT_DEFAULT, cursor }: ConversationsInput,
  fresh: number[],
): Promise<ConversationsResult | Refusal> {
  const { reader, agentId } = look;
  const action = `conversations ${state}`;
  const before = cursor === undefined ? undefined : parseCursor(action, cursor);
  if (isRefusal(before)) return before;
  const until = before === undefined ? {} : { until: [agentId, before] as [AgentId, number] };
  const conversations: ConversationSummary[] = [];
  const listed = new Set<string>();
  let last: number | null = null;
  let next: string | null = null;
  for await (const { key } of reader.range(TABLES[state], [agentId], { reverse: true, ...until })) {
    if (last !== null && (conversations.length === limit || look.isOver())) {
      next = cursorOf(action, last);
      break;
    }
    last = key[1];
    const found = look.at(last);
    if (!found || listed.has(found.entry.thread) || !look.isMeant(found)) continue;
    // Its newest message that is meant is in a page before.
    if (before !== undefined && (await look.isMeantFrom(found.entry, before, state))) continue;
    listed.add(found.entry.thread);
    conversations.push(await conversationOf(look, found, fresh));
  }
  const { unread, total, nextPosition } = mailboxOf(reader, agentId);
  return {
    notice: UNTRUSTED_NOTICE,
    unread,
    total,
    through: nextPosition - 1,
    conversations,
    looked_at: look.messages,
    looked_back_to: look.backToMs === null ? null : isoSecond(look.backToMs),
    next_cursor: next,
  };
}

/** Adds to `fresh` the positions of its entries that were not notified yet. */
async function conversationOf(
  { reader, agentId }: MailboxFilter,
  { entry: { thread }, message: newest, entry }: MailboxMessage,
  fresh: number[],
): Promise<ConversationSummary> {
  const senders = new Set<string>();
  const unread: string[] = [];
  const notDone: string[] = [];
  let messages = 0;
  let needsReply = false;
  const newestFirst = { reverse: true, limit: CONVERSATION_MESSAGES_MAX };
  for await (const { key, row } of reader.range('threadEntry', [agentId, thread], newestFirst)) {
    const message = messageOf(reader, row);
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
    newest: summaryOf(newest, entry),
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
  let changed = 0;
  for (let from: number | null = 0; from !== null; ) {
    const first: number = from;
    const slice = await context.store.transact<{ changed: number; next: number | null } | Refusal>(async (tx) => {
      const absent = refuseAbsentAgent(tx, agentId);
      if (absent) return absent;
      const look = filterOf(tx, agentId, filters);
      if (isRefusal(look)) return look;
      const meant: { message_id: string }[] = [];
      let next: number | null = null;
      const range = { from: [agentId, first], until: [agentId, through + 1] } as const;
      for await (const { key } of tx.range('unread', [agentId], { from: [...range.from], until: [...range.until] })) {
        if (look.messages >= SLICE_ENTRIES) {
          next = key[1];
          break;
        }
        const found = look.at(key[1]);
        if (found && look.isMeant(found)) meant.push({ message_id: found.message.ref });
      }
      return { changed: advanceAll(tx, context, agentId, meant, 'read').length, next };
    });
    if (isRefusal(slice)) return slice;
    changed += slice.changed;
    from = slice.next;
  }
  return { changed };
}

interface MailboxMessage {
  position: number;
  entry: EntryRow;
  message: MessageRow;
}

type Filters = Pick<ConversationsInput, 'text' | 'from' | 'kind' | 'needs_reply'>;

function filterOf(reader: Reader, agentId: AgentId, filters: Filters): MailboxFilter | Refusal {
  const words = filters.text === undefined ? [] : wordsOf(filters.text);
  if (filters.text !== undefined && words.length === 0) return badInput('text', 'holds no word');
  return new MailboxFilter(reader, agentId, filters, words);
}

/** One answer's look at a mailbox for messages that are meant. Counts what it reads. */
class MailboxFilter {
  readonly reader: Reader;
  readonly agentId: AgentId;
  readonly #filters: Filters;
  readonly #words: readonly string[];
  messages = 0;
  backToMs: number | null = null;
  #bytes = 0;

  constructor(reader: Reader, agentId: AgentId, filters: Filters, words: readonly string[]) {
    this.reader = reader;
    this.agentId = agentId;
    this.#filters = filters;
    this.#words = words;
  }

  /** Says whether this answer looked at as much as one may. */
  isOver(): boolean {
    return this.messages >= SEARCH_MESSAGES_MAX || this.#bytes >= SEARCH_BYTES_MAX;
  }

  at(position: number): MailboxMessage | undefined {
    const entry = this.reader.get('entry', this.agentId, position);
    if (!entry) return undefined;
    this.messages++;
    this.backToMs = entry.storedAtMs;
    return { position, entry, message: messageOf(this.reader, entry.ref) };
  }

  isMeant({ position, message }: MailboxMessage): boolean {
    const { from, kind, needs_reply: needsReply } = this.#filters;
    if (from !== undefined && message.from.toLowerCase() !== from.toLowerCase()) return false;
    if (kind !== undefined && message.kind !== kind) return false;
    if (needsReply !== undefined && needsReply !== isOwed(this.reader, this.agentId, position)) return false;
    if (this.#words.length === 0) return true;
    this.#bytes += message.bodyBytes;
    return hasAll(this.reader, message, this.#words);
  }

  /** Says whether a message of the same conversation is meant that stands at `position` or later. */
  async isMeantFrom({ thread }: EntryRow, position: number, state: keyof typeof TABLES): Promise<boolean> {
    const { reader, agentId } = this;
    for await (const { key } of reader.range('threadEntry', [agentId, thread], { from: [agentId, thread, position] })) {
      const entry = reader.get('entry', agentId, key[2]);
      if (!entry || !isInState(entry, state)) continue;
      this.messages++;
      if (this.isMeant({ position: key[2], entry, message: messageOf(reader, entry.ref) })) return true;
    }
    return false;
  }
}

function isInState({ state }: EntryRow, wanted: keyof typeof TABLES): boolean {
  return wanted === 'all' || (wanted === 'unread' ? state === 'unread' : state !== 'acked');
}

function messageOf(reader: Reader, ref: EntryRow['ref']): MessageRow {
  const message = reader.get('message', ref);
  if (!message) throw new Error('invariant: what is in a mailbox or a thread is kept');
  return message;
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
