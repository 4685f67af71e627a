/**
 * Waiting for a change of one mailbox: as a program that shows it (`watchInbox`), and as an agent that has nothing else
 * to do (`waitForPage`).
 *
 * What an agent waits for is marked notified when its caller says that it passed the answer on, and at the answer where
 * the caller says nothing of that kind. A wait leaves nothing behind, however it ends.
 */
import { type Timers, afterOrAborted } from '../../lib/clock.ts';
import { unreadOf } from '../agents/waking-mail.ts';
import type { HostContext } from '../base/context.ts';
import type { WaitingCall } from '../base/waiting-calls.ts';
import { UNREAD_SHOWN_MAX } from '../contract/limits.ts';
import type {
  InboxResult,
  WaitHeardInput,
  WaitHeardResult,
  WatchInboxInput,
  WatchInboxResult,
} from '../contract/mail.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import { UNTRUSTED_NOTICE } from '../core/untrusted-text.ts';
import { mailboxOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { markNotified } from '../outbox/outgoing-items.ts';
import type { Reader } from '../store/host-store.ts';
import { summaryAt } from './inbox-pages.ts';

/** The time between the answer to a call and what its caller says of it. */
export const PASSED_ON_MS = 3000;

/** The caller of a list that may wait. */
export interface Waiter {
  timers: Timers;
  /** Aborts when the caller has gone, also before it has the whole answer, and when the daemon stops. */
  signal: AbortSignal;
  /** The caller's name of the call: it says with `wait-heard` what became of the answer. */
  callId?: string | undefined;
}

export interface ListPage {
  result: InboxResult;
  /** The positions of entries that its agent was not notified of yet. */
  fresh: number[];
}

/** Resolves with a page that shows something, or with an empty one that says why. Refuses what `look` refuses. */
export async function waitForPage(
  context: HostContext,
  agentId: AgentId,
  waiter: Waiter,
  seconds: number,
  look: (reader: Reader) => Promise<ListPage | Refusal>,
): Promise<InboxResult | Refusal> {
  const { signal, callId } = waiter;
  const call = context.waits.begin(agentId, callId);
  if (!call) return refusal('UNAVAILABLE', 'too many calls wait for mail: end one of them, and call again');
  try {
    const hasCome = (page: ListPage | Refusal): boolean => isRefusal(page) || !isEmpty(page);
    const page = await lookUntil(context, agentId, { ...waiter, waitMs: seconds * 1000, call }, look, hasCome);
    if (isRefusal(page)) return page;
    const { result, fresh } = page;
    if (isEmpty(page)) return { ...result, wait: signal.aborted ? 'the daemon stops' : 'time is up' };
    if (fresh.length === 0) return result;
    if (callId !== undefined) hand(call, waiter, fresh);
    else await context.store.transact((tx) => markNotified(tx, context, agentId, fresh));
    return result;
  } finally {
    if (!call.isAnswered) call.end();
  }
}

/** An empty page with more behind it is no reason to wait: its caller goes on. */
function isEmpty({ result }: ListPage): boolean {
  return result.summaries?.length === 0 && result.next_cursor === undefined;
}

/** The call goes on until its caller says what became of the answer, has gone, or lets the time pass. */
function hand(call: WaitingCall, { timers, signal }: Waiter, fresh: readonly number[]): void {
  call.answer(
    fresh,
    afterOrAborted(timers, PASSED_ON_MS, signal, () => call.end()),
  );
}

/** The caller of a wait passed the answer on to its agent, or could not. */
export async function hearOfWait(
  context: HostContext,
  agentId: AgentId,
  { call: id, failed = false }: WaitHeardInput,
): Promise<WaitHeardResult> {
  const call = context.waits.findAnswered(agentId, id);
  if (!call) return { counted: false };
  const positions = call.take();
  try {
    if (failed) return { counted: true };
    await context.store.transact((tx) => markNotified(tx, context, agentId, positions));
    context.waits.noteBrought(agentId, positions);
    return { counted: true };
  } finally {
    call.end();
  }
}

interface Looking {
  timers: Timers;
  signal: AbortSignal;
  waitMs: number;
  /** The call of an agent that waits. */
  call?: WaitingCall;
}

/** Looks, and again at each change of the mailbox, until `isEnough`, `waitMs` have passed, or `signal` is aborted. */
async function lookUntil<T>(
  context: HostContext,
  agentId: AgentId,
  { timers, signal, waitMs, call }: Looking,
  look: (reader: Reader) => Promise<T>,
  isEnough: (seen: T) => boolean,
): Promise<T> {
  let hasChanged = false;
  let isOver = signal.aborted || waitMs === 0;
  let goOn: (() => void) | undefined;
  const cancel = afterOrAborted(timers, waitMs, signal, () => {
    isOver = true;
    goOn?.();
  });
  const ifOwn = (event: { agentId: AgentId }): void => {
    if (event.agentId !== agentId) return;
    call?.unsettle();
    hasChanged = true;
    goOn?.();
  };
  const endListening = context.subscribe('inbox', { 'mail-stored': ifOwn, 'mail-handled': ifOwn });
  try {
    for (;;) {
      hasChanged = false;
      const seen = await context.store.read(look);
      if (isOver || isEnough(seen)) return seen;
      // A change during the read is not missed.
      if (hasChanged) continue;
      call?.settle();
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
    }
  } finally {
    endListening();
    cancel();
  }
}

/**
 * Resolves when the unread mail differs from `mark`, after `wait_ms`, or when `signal` is aborted.
 * Refuses `NO_SUCH_AGENT`.
 */
export function watchInbox(
  context: HostContext,
  timers: Timers,
  agentId: AgentId,
  { mark, wait_ms = 0, oldest_first = false }: WatchInboxInput,
  signal: AbortSignal,
): Promise<WatchInboxResult | Refusal> {
  const look = (reader: Reader): Promise<WatchInboxResult | Refusal> => unreadSummary(reader, agentId, oldest_first);
  const isOther = (unread: WatchInboxResult | Refusal): boolean => isRefusal(unread) || unread.mark !== mark;
  return lookUntil(context, agentId, { timers, signal, waitMs: wait_ms }, look, isOther);
}

async function unreadSummary(
  reader: Reader,
  agentId: AgentId,
  isOldestFirst: boolean,
): Promise<WatchInboxResult | Refusal> {
  const absent = refuseAbsentAgent(reader, agentId);
  if (absent) return absent;
  const { unread, total } = mailboxOf(reader, agentId);
  const { newest: waking } = await unreadOf(reader, agentId);
  const unreadAt = async (options: { reverse?: boolean; limit: number }): Promise<number[]> => {
    const positions: number[] = [];
    for await (const { key } of reader.range('unread', [agentId], options)) positions.push(key[1]);
    return positions;
  };
  const shown = await unreadAt({ reverse: !isOldestFirst, limit: UNREAD_SHOWN_MAX });
  const [newest = 0] = isOldestFirst ? await unreadAt({ reverse: true, limit: 1 }) : shown;
  const summaries = shown.map((position) => summaryAt(reader, agentId, position).summary);
  const mark = `${newest}-${unread}`;
  return { mark, notice: UNTRUSTED_NOTICE, unread, total, ...(waking && { newest_waking: waking }), summaries };
}
