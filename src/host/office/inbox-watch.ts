/**
 * Watches a mailbox: answers what is unread as soon as it is something else than whoever asks knows. Nothing is marked.
 *
 * The mark is the newest unread position and how many are unread. Positions only grow, and what was read is never unread
 * again: so the same mark means the same messages.
 */
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import { UNREAD_SHOWN_MAX, type WatchInboxInput, type WatchInboxResult } from '../documents/inbox-watch.ts';
import { UNTRUSTED_NOTICE } from '../documents/mail.ts';
import type { Reader } from '../store/host-store.ts';
import { summaryAt } from './inbox-pages.ts';
import { refuseAbsentAgent } from './known-messages.ts';
import { mailboxOf } from './mailbox.ts';
import type { Office } from './office.ts';
import type { Timers } from './timers.ts';

/**
 * Resolves when something else is unread than at `mark`, when `wait_ms` are over, or when `signal` is aborted.
 * Refuses `NO_SUCH_AGENT`.
 */
export async function watchInbox(
  office: Office,
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
  const endListening = office.listen((happening) => {
    const isOfMailbox = happening.type === 'mail-stored' || happening.type === 'mail-handled';
    if (isOfMailbox && happening.agentId === agentId) changed?.();
  });
  try {
    for (;;) {
      // Before the look: what changes meanwhile is looked at again.
      const change = new Promise<void>((resolve) => {
        changed = resolve;
      });
      const unread = await office.store.read((reader) => unreadSummary(reader, agentId));
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
