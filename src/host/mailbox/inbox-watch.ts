/**
 * Watches a mailbox: answers as soon as the unread mail differs from what the caller knows. Marks nothing.
 *
 * The mark is the newest unread position and the number of unread messages. Positions only grow, and a read message
 * never becomes unread again, so the same mark means the same messages.
 */
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import {
  UNREAD_SHOWN_MAX,
  UNTRUSTED_NOTICE,
  type WatchInboxInput,
  type WatchInboxResult,
} from '../api/schemas/mail.ts';
import type { Reader } from '../store/host-store.ts';
import { summaryAt } from './inbox-pages.ts';
import { mailboxOf, refuseAbsentAgent } from './mailbox.ts';
import type { HostContext } from '../context.ts';
import type { Timers } from '../../lib/clock.ts';

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
  const endListening = context.subscribe((event) => {
    const isOfMailbox = event.type === 'mail-stored' || event.type === 'mail-handled';
    if (isOfMailbox && event.agentId === agentId) changed?.();
  });
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
