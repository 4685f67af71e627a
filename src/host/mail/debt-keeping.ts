/**
 * Does what happens to debts without a request: the debtor is reminded once, the asker is told that its debtor is gone,
 * and a store from before debts were kept gets the rows of those that are open.
 *
 * A reminder or a report is stored in the transaction that changes the row of its debt, so a crash neither doubles nor
 * loses it. Every transaction decides anew.
 */
import { LAN_AGENTS_MAX } from '../../protocol/lan.ts';
import type { Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { presentAgents } from '../agents/agents.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import {
  debtsOf,
  type Gone,
  goneText,
  howGone,
  isWithDebtor,
  type OpenDebt,
  reminderText,
  settledBy,
} from '../core/debts.ts';
import { type AgentId, type MessageRef, type MessageRow, OWNER_ID, type SentRow } from '../core/rows.ts';
import { closeOwed, openOwed, putAsked } from '../mailbox/debts.ts';
import { reportToAgent } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { RangeOptions } from '../store/tables.ts';

const LOOK_EVERY_MS = 60_000;
const LISTS_EVERY_MS = 3_600_000;
/** One transaction reads this number of rows: others wait for it. */
const SLICE_ROWS = 200;
const REMINDED_AT_ONCE = 50;

/** Reminds debtors and tells askers, from now on; without reminders when `remindAfterMs` (whole milliseconds) is 0. */
export function keepDebts(
  context: HostContext,
  timers: Timers,
  remindAfterMs: number,
): Pick<PeriodicTask, 'idle' | 'stop'> {
  let mayBeGone = true;
  let lookedAtMs = context.monotonicMs();
  const task = new PeriodicTask({
    timers,
    everyMs: LOOK_EVERY_MS,
    work: async (signal) => {
      if (remindAfterMs > 0) await remindDebtors(context, remindAfterMs, signal);
      // The list of agents of another host may have changed.
      if (!mayBeGone && context.monotonicMs() - lookedAtMs < LISTS_EVERY_MS) return;
      mayBeGone = false;
      lookedAtMs = context.monotonicMs();
      await tellOfGone(context, signal);
    },
    onError: (error) => {
      mayBeGone = true;
      if (!isStoreFailure(error)) context.log('error', 'unanswered messages were not looked at', { err: error });
    },
  });
  const look = (): void => {
    mayBeGone = true;
    void task.rerun();
  };
  const stopListening = context.subscribe('debts', { 'agents-changed': look, 'peers-changed': look });
  task.signal.addEventListener('abort', stopListening);
  look();
  return task;
}

/** Reminds of each debt that is old enough and was not reminded. Returns how many. */
export async function remindDebtors(
  context: HostContext,
  remindAfterMs: number,
  signal?: Pick<AbortSignal, 'aborted'>,
): Promise<number> {
  let reminded = 0;
  for (let isOver = false; !isOver; ) {
    if (signal?.aborted === true) break;
    isOver = await context.store.transact(async (tx) => {
      const due = await dueDebts(tx, context, remindAfterMs);
      for (const [sinceMs, agentId, position] of due) {
        tx.delete('owedDue', [sinceMs, agentId, position]);
        if (remind(tx, context, agentId, position)) reminded++;
      }
      return due.length < REMINDED_AT_ONCE;
    });
  }
  return reminded;
}

type DueKey = [sinceMs: number, AgentId, position: number];

/** After a jump of the clock, one that is dated as due may not be due, and one that is dated ahead of now may be. */
async function dueDebts(reader: Reader, context: HostContext, remindAfterMs: number): Promise<DueKey[]> {
  const nowMs = context.nowMs();
  const keys: DueKey[] = [];
  const dated: RangeOptions<'owedDue'>[] = [{ until: [nowMs - remindAfterMs + 1] }, { from: [nowMs + 1] }];
  for (const bounds of dated) {
    for await (const { key } of reader.range('owedDue', [], bounds)) {
      if (keys.length === REMINDED_AT_ONCE) return keys;
      if (context.momentMs(key[0]) + remindAfterMs <= nowMs) keys.push(key);
    }
  }
  return keys;
}

/** False when there is nobody to remind, or nobody to answer any more. */
function remind(tx: Transaction, context: HostContext, agentId: AgentId, position: number): boolean {
  const owed = tx.get('owed', agentId, position);
  const question = owed && tx.get('message', owed.ref);
  if (!question || isRemoved(tx, agentId) || isAskerGone(tx, question)) return false;
  const nowMs = context.nowMs();
  tx.put('owed', [agentId, position], { ...owed, remindedAtMs: nowMs });
  const report = reminderText(question, nowMs - context.momentMs(owed.sinceMs));
  reportToAgent(tx, context, agentId, { ...report, kind: 'alert', about: question });
  return true;
}

function isRemoved(reader: Reader, agentId: AgentId): boolean {
  return agentId !== OWNER_ID && reader.get('agent', agentId)?.removedAtMs !== null;
}

function isAskerGone(reader: Reader, { fromAgent, fromPeer }: MessageRow): boolean {
  if (fromPeer !== null) return reader.get('peer', fromPeer)?.unpairedAtMs !== null;
  return fromAgent === null || isRemoved(reader, fromAgent);
}

/** Tells each asker of debtors that are gone, once. Ends their debts, and those to an asker that is gone. */
export async function tellOfGone(context: HostContext, signal?: Pick<AbortSignal, 'aborted'>): Promise<void> {
  await endOwedToNobody(context);
  const concerned = await context.store.read(async (reader) => {
    const found: [AgentId, MessageRef][] = [];
    for await (const { key, row } of reader.range('asked', [])) {
      const sent = reader.get('sent', key[1]);
      if (!sent || isRemoved(reader, key[0]) || goneDebts(reader, sent, row.open).length > 0) found.push(key);
    }
    return found;
  });
  for (const [agentId, ref] of concerned) {
    if (signal?.aborted === true) return;
    await context.store.transact((tx) => tellAsker(tx, context, agentId, ref));
  }
}

/** Ends debts to askers that are gone, and what older software left here when it acked or deleted the question. */
async function endOwedToNobody({ store }: HostContext): Promise<void> {
  const ended = await store.read(async (reader) => {
    const found: [AgentId, number][] = [];
    for await (const { key, row } of reader.range('owed', [])) {
      const entry = reader.get('entry', ...key);
      const question = entry && reader.get('message', row.ref);
      if (!question || entry.state === 'acked' || isAskerGone(reader, question)) found.push(key);
    }
    return found;
  });
  for (let at = 0; at < ended.length; at += SLICE_ROWS) {
    const slice = ended.slice(at, at + SLICE_ROWS);
    await store.transact((tx) => {
      for (const [agentId, position] of slice) closeOwed(tx, agentId, position);
    });
  }
}

function tellAsker(tx: Transaction, context: HostContext, agentId: AgentId, ref: MessageRef): void {
  const asked = tx.get('asked', agentId, ref);
  const sent = tx.get('sent', ref);
  const question = tx.get('message', ref);
  if (!asked) return;
  if (!sent || !question || isRemoved(tx, agentId)) {
    tx.delete('asked', [agentId, ref]);
    return;
  }
  const gone = goneDebts(tx, sent, asked.open);
  putAsked(tx, sent, { ...asked, open: afterTold(asked.open, gone) });
  for (const [{ how, hostName }, debtors] of groupsOf(tx, context, sent, gone)) {
    const report = goneText(how, { debtors, ref, hostName });
    reportToAgent(tx, context, agentId, { ...report, kind: 'alert', about: question });
  }
}

interface GoneDebt {
  debt: OpenDebt;
  how: Gone;
}

/** The debts that are left of the open ones when the asker knows that some of their debtors are gone. */
function afterTold(open: readonly OpenDebt[], gone: readonly GoneDebt[]): OpenDebt[] {
  const isGone = new Map(gone.map(({ debt, how }) => [debt.at, how]));
  return open.flatMap((debt): OpenDebt[] => {
    const how = isGone.get(debt.at);
    if (how === undefined) return [debt];
    return how === 'unlisted' ? [{ isToldGone: true, at: debt.at, isGroup: debt.isGroup }] : [];
  });
}

function goneDebts(
  reader: Reader,
  { recipients, createdAtMs: askedAtMs }: SentRow,
  open: readonly OpenDebt[],
): GoneDebt[] {
  return open.flatMap((debt) => {
    const recipient = recipients[debt.at];
    if (!recipient || debt.isToldGone) return [];
    const { agentId, peerId } = recipient;
    const peer = peerId === null ? null : (reader.get('peer', peerId) ?? null);
    const isLost = agentId !== null && isRemoved(reader, agentId);
    const how = howGone(recipient, { isRemoved: isLost, peer, listMax: LAN_AGENTS_MAX, askedAtMs });
    return how ? [{ debt, how }] : [];
  });
}

/** The debtors to report together. Of those that never got the question its sender was told by the outbox. */
function groupsOf(
  reader: Reader,
  context: HostContext,
  { recipients }: SentRow,
  gone: readonly GoneDebt[],
): [{ how: Gone; hostName: string }, SentRow['recipients'][number]['address'][]][] {
  const groups = new Map<string, [{ how: Gone; hostName: string }, SentRow['recipients'][number]['address'][]]>();
  for (const { debt, how } of gone) {
    const recipient = recipients[debt.at];
    if (!recipient || !isWithDebtor(recipient.state)) continue;
    const { address, peerId } = recipient;
    const peer = peerId === null ? undefined : reader.get('peer', peerId);
    const hostName = peer?.hostName ?? context.identity().hostName;
    const group = groups.get(`${how} ${hostName}`) ?? [{ how, hostName }, []];
    group[1].push(address);
    groups.set(`${how} ${hostName}`, group);
  }
  return [...groups.values()];
}

/**
 * Puts the rows of debts that were open in a store from before they were kept, once. Nobody is reminded of those, or
 * told that their debtors had gone by now: they may be old and many. Run it before anything else writes.
 */
export async function findOlderDebts(context: HostContext): Promise<void> {
  const { store } = context;
  const isKept = await store.read((reader) => reader.get('debtsKept') !== undefined);
  if (isKept) return;
  // A run that was ended, or older software since, may have left rows.
  for (const table of ['owed', 'owedDue', 'asked'] as const) await clear(context, table);
  const agents = await store.read(presentAgents);
  for (const agentId of [OWNER_ID, ...agents.map((agent) => agent.agentId)]) {
    for (let from: number | null = 0; from !== null; ) from = await findOwed(context, agentId, from);
    for (let from: number | null = 0; from !== null; ) from = await findAsked(context, agentId, from);
  }
  await store.transact((tx) => tx.put('debtsKept', [], { sinceMs: context.nowMs() }));
}

async function clear({ store }: HostContext, table: 'owed' | 'owedDue' | 'asked'): Promise<void> {
  for (let isOver = false; !isOver; ) {
    isOver = await store.transact(async (tx) => {
      const keys = await tx.keys(table, [], { limit: SLICE_ROWS });
      for (const key of keys) tx.delete(table, key);
      return keys.length < SLICE_ROWS;
    });
  }
}

/** The first entries from a position on. Returns where the next ones begin; null when there are none. */
function findOwed({ store }: HostContext, agentId: AgentId, from: number): Promise<number | null> {
  return store.transact(async (tx) => {
    const repliesIn = repliesByThread(tx, agentId);
    const keys = await tx.keys('unacked', [agentId], { from: [agentId, from], limit: SLICE_ROWS });
    for (const [, position] of keys) {
      const entry = tx.get('entry', agentId, position);
      const question = entry && tx.get('message', entry.ref);
      if (!entry || !question?.needsReply) continue;
      const answers = (await repliesIn(question.thread)).filter(({ replyTo }) => replyTo === question.ref);
      if (answers.some(({ fromAgent }) => fromAgent === agentId)) continue;
      openOwed(tx, agentId, position, question, { sinceMs: entry.storedAtMs, isReminded: true });
    }
    const last = keys.at(-1);
    return keys.length < SLICE_ROWS || !last ? null : last[1] + 1;
  });
}

/** The first sent messages from a time on, as `findOwed`. A slice ends where the time changes. */
function findAsked({ store }: HostContext, agentId: AgentId, from: number): Promise<number | null> {
  return store.transact(async (tx) => {
    const repliesIn = repliesByThread(tx, agentId);
    let seen = 0;
    let last = from;
    for await (const { key } of tx.range('sentBy', [agentId], { from: [agentId, from] })) {
      const [, createdAtMs, ref] = key;
      if (seen >= SLICE_ROWS && createdAtMs > last) return createdAtMs;
      seen++;
      last = createdAtMs;
      const question = tx.get('message', ref);
      const sent = tx.get('sent', ref);
      if (!question?.needsReply || !sent) continue;
      const answers = (await repliesIn(question.thread)).filter(({ replyTo }) => replyTo === ref);
      const all = debtsOf(question, sent.recipients);
      const settled = new Set(answers.flatMap((answer) => settledBy(answer, sent.recipients, all)));
      const open = all.filter((debt) => !settled.has(debt));
      putAsked(tx, sent, { sinceMs: createdAtMs, open: afterTold(open, goneDebts(tx, sent, open)) });
    }
    return null;
  });
}

/** The replies in the agent's view of a thread; each thread is read once. */
function repliesByThread(reader: Reader, agentId: AgentId): (thread: MessageRef) => Promise<MessageRow[]> {
  const known = new Map<MessageRef, MessageRow[]>();
  return async (thread) => {
    let replies = known.get(thread);
    if (!replies) {
      replies = [];
      for await (const { row } of reader.range('threadEntry', [agentId, thread])) {
        const message = reader.get('message', row);
        if (message && message.replyTo !== null) replies.push(message);
      }
      known.set(thread, replies);
    }
    return replies;
  };
}
