/**
 * `mail_inbox`: lists, reads, marks and acks the messages of one mailbox, and shows its threads.
 *
 * Everything in an answer comes from one snapshot of the store. An action writes only when it changes something: `read`
 * marks the messages read that it showed to the end, unless it peeks; `list` marks new entries notified.
 */
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import type {
  InboxInput,
  InboxResult,
  MessageSummary,
  WholeMessage,
  WatchInboxInput,
  WatchInboxResult,
} from '../contract/mail.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { LIST_LIMIT_MAX, READ_BYTES_DEFAULT, UNREAD_SHOWN_MAX } from '../contract/limits.ts';
import { badInput } from '../contract/parse-input.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { BodyBudget, cursorOf, entryOf, parseCursor, summaryAt } from './inbox-pages.ts';
import { type EntryChange, knownMessage, mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';
import type { Timers } from '../../lib/clock.ts';
import { advance, markNotified } from '../outbox/receipts.ts';
import { outcomeOf, showSent } from './sent.ts';

const LIST_LIMIT_DEFAULT = 20;

type Action = NonNullable<InboxInput['action']>;
type Answer = Omit<InboxResult, 'notice' | 'unread' | 'total'>;

/** Which members each action takes besides `action`. */
const MEMBERS: Readonly<Record<Action, readonly (keyof InboxInput)[]>> = {
  list: ['state', 'limit', 'cursor'],
  read: ['message_ids', 'peek', 'max_bytes', 'body_offset', 'cursor'],
  mark_read: ['message_ids'],
  ack: ['message_ids'],
  thread: ['thread', 'limit', 'max_bytes', 'cursor'],
  sent: ['message_ids', 'limit', 'cursor'],
};
const NEEDED: Readonly<Partial<Record<Action, 'message_ids' | 'thread'>>> = {
  read: 'message_ids',
  mark_read: 'message_ids',
  ack: 'message_ids',
  thread: 'thread',
};

/** Refuses `BAD_INPUT` and `NO_SUCH_AGENT`. Ids that are not in this mailbox are named in `not_found`. */
export async function useInbox(
  context: HostContext,
  agentId: AgentId,
  input: InboxInput,
): Promise<InboxResult | Refusal> {
  const { action = 'list' } = input;
  const unfit = refuseUnfit(input, action);
  if (unfit) return unfit;
  switch (action) {
    case 'list':
      return list(context, agentId, input);
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
  }
}

function refuseUnfit(input: InboxInput, action: Action): Refusal | undefined {
  for (const [member, value] of Object.entries(input)) {
    const isFit = member === 'action' || MEMBERS[action].includes(member as keyof InboxInput);
    if (!isFit && value !== undefined) return badInput(member, `does not belong to action ${action}`);
  }
  const needed = NEEDED[action];
  if (needed !== undefined && input[needed] === undefined) return badInput(needed, `is missing: action ${action}`);
  if (action === 'sent' && input.message_ids && (input.limit ?? input.cursor) !== undefined) {
    return badInput('message_ids', 'goes with neither limit nor cursor');
  }
  if (input.body_offset !== undefined && input.message_ids?.length !== 1) {
    return badInput('body_offset', 'goes with one of message_ids');
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
  return { notice: UNTRUSTED_NOTICE, unread, total, ...answer };
}

async function list(context: HostContext, agentId: AgentId, input: InboxInput): Promise<InboxResult | Refusal> {
  const fresh: number[] = [];
  const result = await answerOf(context, agentId, (reader) => listPage(reader, agentId, input, fresh));
  if (fresh.length > 0) await context.store.transact((tx) => markNotified(tx, context, agentId, fresh));
  return result;
}

/** The newest first. Adds to `fresh` the positions of entries that were not notified yet. */
async function listPage(
  reader: Reader,
  agentId: AgentId,
  { state = 'unread', limit = LIST_LIMIT_DEFAULT, cursor }: InboxInput,
  fresh: number[],
): Promise<Answer | Refusal> {
  const before = cursor === undefined ? undefined : parseCursor(`list ${state}`, cursor);
  if (isRefusal(before)) return before;
  const table = ({ unread: 'unread', unacked: 'unacked', all: 'entry' } as const)[state];
  const until = before === undefined ? {} : { until: [agentId, before] as [AgentId, number] };
  const positions: number[] = [];
  for await (const { key } of reader.range(table, [agentId], { reverse: true, limit: limit + 1, ...until })) {
    positions.push(key[1]);
  }
  const shown = positions.slice(0, limit);
  const summaries: MessageSummary[] = [];
  for (const position of shown) {
    const { summary, entry } = summaryAt(reader, agentId, position);
    if (entry.notifiedAtMs === null) fresh.push(position);
    summaries.push(summary);
  }
  const last = shown.at(-1);
  const next = positions.length > limit && last !== undefined ? cursorOf(`list ${state}`, last) : null;
  return { summaries, next_cursor: next };
}

async function read(context: HostContext, agentId: AgentId, input: InboxInput): Promise<InboxResult | Refusal> {
  if (input.peek === true) return answerOf(context, agentId, (reader) => readPage(reader, agentId, input));
  return context.store.transact((tx) =>
    complete(tx, agentId, async () => {
      const page = await readPage(tx, agentId, input);
      if (isRefusal(page)) return page;
      const { messages = [] } = page;
      const ended = messages.filter(({ next_body_offset }) => next_body_offset === null);
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
    if (whole) messages.push({ ...outcomeOf(reader, agentId, message), ...whole });
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
    messages.push({ ...outcomeOf(reader, agentId, message), ...whole });
    last = key[2];
  }
  const not_found = messages.length === 0 && after === 0 ? [thread] : [];
  return { messages, not_found, next_cursor: next };
}

/**
 * Resolves when the unread mail differs from `mark`, after `wait_ms`, or when `signal` is aborted.
 * Refuses `NO_SUCH_AGENT`.
 */
export async function watchInbox(
  context: HostContext,
  timers: Timers,
  agentId: AgentId,
  { mark, wait_ms = 0 }: WatchInboxInput,
  signal: AbortSignal,
): Promise<WatchInboxResult | Refusal> {
  let changed: (() => void) | undefined;
  let isOver = signal.aborted;
  const end = (): void => {
    isOver = true;
    changed?.();
  };
  const cancel = timers.after(wait_ms, end);
  signal.addEventListener('abort', end);
  const ifOwn = (event: { agentId: AgentId }): void => {
    if (event.agentId === agentId) changed?.();
  };
  const endListening = context.subscribe('inbox', { 'mail-stored': ifOwn, 'mail-handled': ifOwn });
  try {
    for (;;) {
      // Before the read: a change during the read is then not missed.
      const change = new Promise<void>((resolve) => {
        changed = resolve;
      });
      const unread = await context.store.read((reader) => unreadSummary(reader, agentId));
      if (isRefusal(unread) || unread.mark !== mark || wait_ms === 0 || isOver) return unread;
      await change;
    }
  } finally {
    endListening();
    signal.removeEventListener('abort', end);
    cancel();
  }
}

async function unreadSummary(reader: Reader, agentId: AgentId): Promise<WatchInboxResult | Refusal> {
  const absent = refuseAbsentAgent(reader, agentId);
  if (absent) return absent;
  const { unread, total } = mailboxOf(reader, agentId);
  const positions: number[] = [];
  for await (const { key } of reader.range('unread', [agentId], { reverse: true, limit: UNREAD_SHOWN_MAX })) {
    positions.push(key[1]);
  }
  const summaries = positions.map((position) => summaryAt(reader, agentId, position).summary);
  return { mark: `${positions[0] ?? 0}-${unread}`, notice: UNTRUSTED_NOTICE, unread, total, summaries };
}
