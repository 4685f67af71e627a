/** The unread mail of a mailbox as a doorbell needs it, and marking it notified once the agent was told of it. */
import { doorbellText, type WakingMail } from '../core/doorbell.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { markNotified } from '../outbox/outgoing-items.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';
import type { HostContext } from '../base/context.ts';

/** One transaction marks at most this many messages, the newest. */
const NOTIFIED_AT_ONCE_MAX = 500;

export interface Unread {
  waking: WakingMail;
  /** The newest unread message that wakes; null without one. */
  newest: MessageRef | null;
  unread: number;
  /** The text for the agent; null when nothing is unread. */
  text: string | null;
  /** One past the position of the newest message that `unread` counts. */
  until: number;
}

export async function unreadOf(reader: Reader, agentId: AgentId): Promise<Unread> {
  const { unread, unreadWaking, nextPosition } = mailboxOf(reader, agentId);
  const text = unread === 0 ? null : doorbellText(unread);
  const found = unreadWaking === 0 ? NONE : await newestWaking(reader, agentId);
  return { ...found, unread, text, until: nextPosition };
}

const NONE = { waking: { isUnread: false, isNotified: false, newest: 0 }, newest: null };

async function newestWaking(reader: Reader, agentId: AgentId): Promise<Pick<Unread, 'waking' | 'newest'>> {
  for await (const { key, row: wakes } of reader.range('unread', [agentId], { reverse: true })) {
    if (!wakes) continue;
    const entry = reader.get('entry', agentId, key[1]);
    if (!entry) throw new Error('invariant: what is unread is in the mailbox');
    const waking = { isUnread: true, isNotified: entry.notifiedAtMs !== null, newest: key[1] };
    return { waking, newest: entry.ref };
  }
  throw new Error('invariant: a mailbox counts what is unread');
}

/** The agent was told how many messages are unread: marks those before position `until` as notified. */
export async function markUnreadNotified(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  until: number,
): Promise<void> {
  const positions: number[] = [];
  const range = { reverse: true, limit: NOTIFIED_AT_ONCE_MAX, until: [agentId, until] as [AgentId, number] };
  for await (const { key } of tx.range('unread', [agentId], range)) positions.push(key[1]);
  markNotified(tx, context, agentId, positions);
}
