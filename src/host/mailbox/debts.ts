/**
 * The rows of debts: what each mailbox owes, and what each agent waits for. core/debts.ts has the rules.
 *
 * Invariants, kept in the transaction of what they follow from:
 *   - `owed` has a row exactly while the entry at its position is a question that its agent neither acked nor answered;
 *   - `owedDue` has a row exactly while a debt was not reminded, unless it is older than these tables;
 *   - `asked` has a row exactly while a sent question has recipients that owe an answer.
 */
import { type AskedRow, debtsOf, endsDebt, type OpenDebt, owesAnswer, settledBy } from '../core/debts.ts';
import type { AgentId, MessageRow, SentRow } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

/** Puts the debt of a question in a mailbox, if it is one; `isReminded`: no reminder is due of it. */
export function openOwed(
  tx: Transaction,
  agentId: AgentId,
  position: number,
  message: MessageRow,
  { sinceMs, isReminded }: { sinceMs: number; isReminded: boolean },
): void {
  if (!owesAnswer(message, agentId)) return;
  tx.put('owed', [agentId, position], { ref: message.ref, sinceMs, remindedAtMs: null });
  if (!isReminded) tx.put('owedDue', [sinceMs, agentId, position], true);
}

/** True when the entry is a question that the agent has neither answered nor acked. */
export function isOwed(reader: Reader, agentId: AgentId, position: number): boolean {
  return reader.get('owed', agentId, position) !== undefined;
}

export function closeOwed(tx: Transaction, agentId: AgentId, position: number): void {
  const owed = tx.get('owed', agentId, position);
  if (!owed) return;
  tx.delete('owed', [agentId, position]);
  tx.delete('owedDue', [owed.sinceMs, agentId, position]);
}

/** Ends the agent's debt of this question, if it has one. */
export function closeOwedOf(tx: Transaction, agentId: AgentId, { ref }: Pick<MessageRow, 'ref'>): void {
  const position = tx.get('place', agentId, ref);
  if (position !== undefined) closeOwed(tx, agentId, position);
}

/** A question was sent. `groups`: the places of recipients whom only a role or `*` meant. */
export function openAsked(tx: Transaction, question: MessageRow, sent: SentRow, groups: ReadonlySet<number>): void {
  const open = debtsOf(question, sent.recipients, groups);
  if (open.length > 0) putAsked(tx, sent, { sinceMs: sent.createdAtMs, open });
}

export function putAsked(tx: Transaction, { agentId, ref }: Pick<SentRow, 'agentId' | 'ref'>, row: AskedRow): void {
  if (row.open.length > 0) tx.put('asked', [agentId, ref], row);
  else tx.delete('asked', [agentId, ref]);
}

/** A message came to the asker that replies to its question. */
export function settleByAnswer(tx: Transaction, asker: AgentId, answer: MessageRow): void {
  const sent = answer.replyTo === null ? undefined : tx.get('sent', answer.replyTo);
  const asked = sent && tx.get('asked', asker, sent.ref);
  if (asked) closeDebts(tx, sent, settledBy(answer, sent.recipients, asked.open));
}

/** The recipients of a sent message changed. */
export function settleByStates(tx: Transaction, before: SentRow, after: SentRow): void {
  const isSettled = (at: number): boolean =>
    before.recipients[at] !== after.recipients[at] && endsDebt(after.recipients[at]?.state ?? 'pending');
  if (!after.recipients.some((_, at) => isSettled(at))) return;
  const asked = tx.get('asked', after.agentId, after.ref);
  if (asked)
    closeDebts(
      tx,
      after,
      asked.open.filter(({ at }) => isSettled(at)),
    );
}

/** Ends debts of a question at the asker, and of debtors of this host in their mailboxes. */
function closeDebts(tx: Transaction, sent: SentRow, closed: readonly OpenDebt[]): void {
  const asked = tx.get('asked', sent.agentId, sent.ref);
  if (!asked || closed.length === 0) return;
  const places = new Set(closed.map(({ at }) => at));
  putAsked(tx, sent, { ...asked, open: asked.open.filter(({ at }) => !places.has(at)) });
  for (const at of places) {
    const agentId = sent.recipients[at]?.agentId;
    if (agentId) closeOwedOf(tx, agentId, sent);
  }
}
