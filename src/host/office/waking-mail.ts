/** What is unread in a mailbox, as a doorbell needs it, and what follows when its agent was told of it. */
import { doorbellText } from '../core/doorbell-text.ts';
import type { WakingMail } from '../core/doorbell.ts';
import type { AgentId } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { markNotified } from './inbox.ts';
import { mailboxOf } from './mailbox.ts';
import type { Office } from './office.ts';

/** One telling marks at most so many messages, the newest: a mailbox may hold more than one transaction should. */
const TOLD_MAX = 500;

export interface Unread {
  waking: WakingMail;
  unread: number;
  /** What to tell the agent; null when nothing is unread. */
  text: string | null;
  /** One behind the newest message: what comes later is not meant. */
  until: number;
}

export async function unreadOf(reader: Reader, agentId: AgentId): Promise<Unread> {
  const { unread, unreadWaking, nextPosition } = mailboxOf(reader, agentId);
  const waking = unreadWaking === 0 ? { isUnread: false, isTold: false } : await newestWaking(reader, agentId);
  return { waking, unread, text: unread === 0 ? null : doorbellText(unread), until: nextPosition };
}

async function newestWaking(reader: Reader, agentId: AgentId): Promise<WakingMail> {
  for await (const { key, row: wakes } of reader.range('unread', [agentId], { reverse: true })) {
    if (!wakes) continue;
    const entry = reader.get('entry', agentId, key[1]);
    if (!entry) throw new Error('invariant: what is unread is in the mailbox');
    return { isUnread: true, isTold: entry.notifiedAtMs !== null };
  }
  throw new Error('invariant: a mailbox counts what is unread');
}

/** The agent was told how many messages are unread: those that came before `until` count as notified. */
export async function markTold(tx: Transaction, office: Office, agentId: AgentId, until: number): Promise<void> {
  const positions: number[] = [];
  const range = { reverse: true, limit: TOLD_MAX, until: [agentId, until] as [AgentId, number] };
  for await (const { key } of tx.range('unread', [agentId], range)) positions.push(key[1]);
  markNotified(tx, office, agentId, positions);
}
