/**
 * `mail_inbox`: lists, reads, marks and acks the messages of one mailbox, and shows its threads.
 *
 * Everything in an answer comes from one snapshot of the store. An action writes only when it changes something: `read`
 * marks the messages read that it showed to the end, and `list` marks new entries notified, unless they peek.
 */
import { type MailState, addState, isInState } from '../core/mail-query.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, MessageRef, MessageRow } from '../core/rows.ts';
import type { InboxInput, InboxResult, WholeMessage } from '../contract/mail.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { LIST_LIMIT_MAX, READ_BYTES_DEFAULT } from '../contract/limits.ts';
import { badInput } from '../contract/parse-input.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { BodyBudget, cursorOf, entryOf, messageSummary, parseCursor } from './inbox-pages.ts';
import { type EntryChange, knownMessage, mailboxOf, noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';
import { advance, markNotified } from '../outbox/outgoing-items.ts';
import { type ListPage, type Waiter, waitForPage } from './inbox-waits.ts';
import { type FoundMessage, MailLook, foundPage, queryOf } from './search.ts';
import { outcomeOf, showSent } from './sent.ts';
import type { RelayReach } from '../outbox/peer-work.ts';
import { showWaiting } from './waiting.ts';
import { wholeId, wholeIds } from './find-message.ts';

const LIST_LIMIT_DEFAULT = 20;

type Action = NonNullable<InboxInput['action']>;
/** The answer of an action; what is null or empty of it is left out at last. */
type Answer = Pick<InboxResult, 'summaries' | 'messages' | 'sent' | 'waiting' | 'changed' | 'not_found'> & {
  next_cursor: string | null;
};

/** The members that each action takes besides `action`. */
const MEMBERS: Readonly<Record<Action, readonly (keyof InboxInput)[]>> = {
  list: ['state', 'search', 'limit', 'cursor', 'wait_seconds', 'reply_to', 'peek'],
  read: ['message_ids', 'peek', 'max_bytes', 'body_offset', 'cursor'],
  mark_read: ['message_ids'],
  ack: ['message_ids'],
  thread: ['thread', 'limit', 'max_bytes', 'cursor'],
  sent: ['message_ids', 'limit', 'cursor'],
  waiting: ['limit'],
};
const NEEDED: Readonly<Partial<Record<Action, 'message_ids' | 'thread'>>> = {
  read: 'message_ids',
  mark_read: 'message_ids',
  ack: 'message_ids',
  thread: 'thread',
};

/**
 * Refuses `BAD_INPUT` and `NO_SUCH_AGENT`. Ids that are not in this mailbox are named in `not_found`. Without `waiter`
 * a list does not wait.
 */
export async function useInbox(
  context: HostContext,
  agentId: AgentId,
  given: InboxInput,
  waiter?: Waiter,
  reach?: RelayReach,
): Promise<InboxResult | Refusal> {
  const { action = 'list' } = given;
  const unfit = refuseUnfit(given, action);
  if (unfit) return unfit;
  const input = await withWholeIds(context, agentId, given);
  if (isRefusal(input)) return input;
  switch (action) {
    case 'list':
      return list(context, agentId, input, waiter);
    case 'read':
      return read(context, agentId, input);
    case 'mark_read':
      return change(context, agentId, input, 'read');
    case 'ack':
      return change(context, agentId, input, 'acked');
    case 'thread':
      return answerOf(context, agentId, (reader) => showThread(reader, agentId, input));
    case 'sent':
      return answerOf(context, agentId, (reader) => showSent(reader, agentId, input));
    case 'waiting':
      return answerOf(context, agentId, async (reader) => ({
        waiting: await showWaiting(reader, context, agentId, input.limit ?? LIST_LIMIT_DEFAULT, reach),
        next_cursor: null,
      }));
  }
}

/** The input with whole ids, where it has the first characters of some. */
async function withWholeIds(context: HostContext, agentId: AgentId, given: InboxInput): Promise<InboxInput | Refusal> {
  const input = { ...given };
  if (input.message_ids) {
    const ids = await wholeIds(context, input.message_ids, { agentId, field: 'message_ids' });
    if (isRefusal(ids)) return ids;
    input.message_ids = ids;
  }
  for (const field of ['thread', 'reply_to'] as const) {
    const text = input[field];
    if (text === undefined) continue;
    const id = await wholeId(context, text, { agentId, field, of: field === 'thread' ? 'thread' : 'message' });
    if (isRefusal(id)) return id;
    input[field] = id;
  }
  return input;
}

function refuseUnfit(input: InboxInput, action: Action): Refusal | undefined {
  for (const [member, value] of Object.entries(input)) {
    const isFit = member === 'action' || MEMBERS[action].includes(member as keyof InboxInput);
    if (!isFit && value !== undefined) {
      return badInput(member, `does not belong to action ${action}, which takes ${MEMBERS[action].join(', ')}`);
    }
  }
  const needed = NEEDED[action];
  if (needed !== undefined && input[needed] === undefined) return badInput(needed, `is missing: action ${action}`);
  if (action === 'sent' && input.message_ids && (input.limit ?? input.cursor) !== undefined) {
    return badInput('message_ids', 'goes with neither limit nor cursor');
  }
  if (input.body_offset !== undefined && input.message_ids?.length !== 1) {
    return badInput('body_offset', 'goes with one of message_ids');
  }
  if (input.search !== undefined && input.reply_to !== undefined)
    return badInput('search', 'does not go with reply_to');
  if (input.cursor !== undefined && input.wait_seconds !== undefined) {
    return badInput('wait_seconds', 'does not go with cursor: what follows a page is there already');
  }
  return undefined;
}

/** Adds the counts of the same snapshot to the answer of `work`. */
async function answerOf(
  context: HostContext,
  agentId: AgentId,
  work: (reader: Reader) => Promise<Answer | Refusal>,
): Promise<InboxResult | Refusal> {
  return context.store.read((reader) => complete(reader, agentId, work));
}

async function complete(
  reader: Reader,
  agentId: AgentId,
  work: (reader: Reader) => Promise<Answer | Refusal>,
): Promise<InboxResult | Refusal> {
  const absent = refuseAbsentAgent(reader, agentId);
  if (absent) return absent;
  const answer = await work(reader);
  if (isRefusal(answer)) return answer;
  const { unread, total } = mailboxOf(reader, agentId);
  const { changed = [], not_found = [], next_cursor, ...shown } = answer;
  return {
    notice: UNTRUSTED_NOTICE,
    unread,
    total,
    ...shown,
    ...(changed.length > 0 && { changed }),
    ...(not_found.length > 0 && { not_found }),
    ...(next_cursor !== null && { next_cursor }),
  };
}

async function list(
  context: HostContext,
  agentId: AgentId,
  input: InboxInput,
  waiter: Waiter | undefined,
): Promise<InboxResult | Refusal> {
  const look = async (reader: Reader): Promise<ListPage | Refusal> => {
    const fresh: number[] = [];
    const result = await complete(reader, agentId, () => listPage(context, reader, agentId, input, fresh));
    return isRefusal(result) ? result : { result, fresh: input.peek === true ? [] : fresh };
  };
  const { wait_seconds = 0 } = input;
  if (waiter && wait_seconds > 0) return waitForPage(context, agentId, waiter, wait_seconds, look);
  const page = await context.store.read(look);
  if (isRefusal(page)) return page;
  const { result, fresh } = page;
  if (fresh.length > 0) await context.store.transact((tx) => markNotified(tx, context, agentId, fresh));
  return result;
}

/** The newest first. Adds to `fresh` the positions of entries that were not notified yet. */
async function listPage(
  context: HostContext,
  reader: Reader,
  agentId: AgentId,
  input: InboxInput,
  fresh: number[],
): Promise<Answer | Refusal> {
  const { limit = LIST_LIMIT_DEFAULT, cursor, search, reply_to } = input;
  const { state = search === undefined && reply_to === undefined ? 'unread' : 'all' } = input;
  const kind = search === undefined ? `list ${state}` : `search ${state}`;
  const name = reply_to === undefined ? kind : 'list answers';
  const before = cursor === undefined ? undefined : parseCursor(name, cursor);
  if (isRefusal(before)) return before;
  const query = queryOf('search', search);
  if (isRefusal(query)) return query;
  addState(query, state);
  const page =
    reply_to === undefined
      ? await foundPage(new MailLook(context, reader, agentId, query), { before, limit })
      : await answersPage(reader, agentId, reply_to, { state, before, limit });
  if (isRefusal(page)) return page;
  for (const { position, entry } of page.found) if (entry.notifiedAtMs === null) fresh.push(position);
  const summaries = page.found.map(({ message, entry }) => messageSummary(message, entry));
  return { summaries, next_cursor: page.next === null ? null : cursorOf(name, page.next) };
}

interface PageChoice {
  state: MailState;
  /** Positions from this one on are left out. */
  before: number | undefined;
  limit: number;
}

/** Does as `foundPage` for the answers to one question. An answer stands behind it, in the same thread. */
async function answersPage(
  reader: Reader,
  agentId: AgentId,
  questionId: string,
  { state, before, limit }: PageChoice,
): Promise<{ found: FoundMessage[]; next: number | null } | Refusal> {
  const question = knownMessage(reader, agentId, questionId);
  if (!question) return noSuchMessage('reply_to', questionId);
  const { ref, thread } = question;
  const asked = reader.get('place', agentId, ref) ?? reader.get('sent', ref)?.threadPosition ?? 0;
  const until = before === undefined ? {} : { until: [agentId, thread, before] as [AgentId, MessageRef, number] };
  const from: [AgentId, MessageRef, number] = [agentId, thread, asked + 1];
  const found: FoundMessage[] = [];
  for await (const { key, row } of reader.range('threadEntry', [agentId, thread], { from, reverse: true, ...until })) {
    const message = reader.get('message', row);
    if (message?.replyTo !== ref) continue;
    // The agent has no entry of what it sent itself.
    const entry = reader.get('entry', agentId, key[2]);
    if (!entry || !isInState(entry, state)) continue;
    if (found.length === limit) return { found, next: key[2] + 1 };
    found.push({ position: key[2], entry, message });
  }
  return { found, next: null };
}

async function read(context: HostContext, agentId: AgentId, input: InboxInput): Promise<InboxResult | Refusal> {
  if (input.peek === true) return answerOf(context, agentId, (reader) => readPage(reader, agentId, input));
  return context.store.transact((tx) =>
    complete(tx, agentId, async () => {
      const page = await readPage(tx, agentId, input);
      if (isRefusal(page)) return page;
      const { messages = [] } = page;
      const ended = messages.filter(({ next_body_offset }) => next_body_offset === undefined);
      const changed = advanceAll(tx, context, agentId, ended, 'read');
      for (const message of messages) if (changed.includes(message.message_id)) message.state = 'read';
      return { ...page, changed };
    }),
  );
}

async function readPage(
  reader: Reader,
  agentId: AgentId,
  { message_ids = [], max_bytes = READ_BYTES_DEFAULT, body_offset, cursor }: InboxInput,
): Promise<Answer | Refusal> {
  const first = cursor === undefined ? 0 : parseCursor('read', cursor);
  if (isRefusal(first)) return first;
  const budget = new BodyBudget(max_bytes);
  const messages: WholeMessage[] = [];
  const not_found: string[] = [];
  let next: string | null = null;
  for (const [at, id] of message_ids.entries()) {
    if (at < first) continue;
    const message = knownMessage(reader, agentId, id);
    const whole = message && budget.show(reader, message, entryOf(reader, agentId, message.ref), body_offset);
    if (whole) messages.push(withOutcome(reader, agentId, message, whole));
    else if (!message) not_found.push(id);
    else {
      next = cursorOf('read', at);
      break;
    }
  }
  return { messages, not_found, next_cursor: next };
}

async function change(
  context: HostContext,
  agentId: AgentId,
  { message_ids = [] }: InboxInput,
  to: Exclude<EntryChange, 'notified'>,
): Promise<InboxResult | Refusal> {
  return context.store.transact((tx) =>
    complete(tx, agentId, async () => {
      const isHere = (id: string) => tx.get('place', agentId, id as MessageRef) !== undefined;
      const here = [...new Set(message_ids)].filter(isHere).map((message_id) => ({ message_id }));
      const changed = advanceAll(tx, context, agentId, here, to);
      return { changed, not_found: message_ids.filter((id) => !isHere(id)), next_cursor: null };
    }),
  );
}

/** Returns the ids of the messages that changed. Emits `mail-handled` when any did. */
export function advanceAll(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  messages: readonly { message_id: string }[],
  to: EntryChange,
): string[] {
  const changed = messages.flatMap(({ message_id }) => {
    const position = tx.get('place', agentId, message_id as MessageRef);
    return position !== undefined && advance(tx, context, agentId, position, to) ? [message_id] : [];
  });
  if (changed.length > 0) tx.afterCommit(() => context.emit({ type: 'mail-handled', agentId }));
  return changed;
}

/** A message of the agent itself says of each recipient what became of it, instead of the addresses alone. */
function withOutcome(reader: Reader, agentId: AgentId, message: MessageRow, whole: WholeMessage): WholeMessage {
  const outcome = outcomeOf(reader, agentId, message);
  if (!outcome) return whole;
  const { to: _to, to_count: _count, ...rest } = whole;
  return { ...rest, ...outcome };
}

/** Oldest first, with the messages that the agent sent. The id of any message names its thread. */
async function showThread(
  reader: Reader,
  agentId: AgentId,
  { thread = '', limit = LIST_LIMIT_MAX, max_bytes = READ_BYTES_DEFAULT, cursor }: InboxInput,
): Promise<Answer | Refusal> {
  const after = cursor === undefined ? 0 : parseCursor('thread', cursor);
  if (isRefusal(after)) return after;
  const ref = knownMessage(reader, agentId, thread)?.thread ?? (thread as MessageRef);
  const budget = new BodyBudget(max_bytes);
  const messages: WholeMessage[] = [];
  let last = after;
  let next: string | null = null;
  for await (const { key, row } of reader.range('threadEntry', [agentId, ref], { from: [agentId, ref, after + 1] })) {
    const message = reader.get('message', row);
    if (!message) throw new Error('invariant: what is in a thread is kept');
    const whole = messages.length < limit && budget.show(reader, message, entryOf(reader, agentId, row));
    if (!whole) {
      next = cursorOf('thread', last);
      break;
    }
    messages.push(withOutcome(reader, agentId, message, whole));
    last = key[2];
  }
  const not_found = messages.length === 0 && after === 0 ? [thread] : [];
  return { messages, not_found, next_cursor: next };
}
