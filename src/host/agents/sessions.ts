/**
 * Sessions of agents: which are live, since when, and how each can be woken.
 *
 * A session is live while it calls (`register`, `heartbeat`, a wait for a doorbell) or while its program runs. One that
 * is silent for `SESSION_LIVE_MS` is not live, and neither is one that ended, by its own word or with its program.
 */
import { isoTime } from '../../protocol/time.ts';
import type { SessionEndResult, SessionListResult, SessionState } from '../contract/agents.ts';
import type { HostClock, HostContext } from '../base/context.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { AgentId, MessageRef } from '../core/rows.ts';
import type { ProcessMark, SessionDoing, SessionRow, WakeMethod, WakeMethodName } from '../core/session-rows.ts';
import { nameOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { markNotified } from '../outbox/outgoing-items.ts';
import { markUnreadNotified, unreadOf } from './waking-mail.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

/** Sessions of one agent, ended and silent ones included. */
export const SESSIONS_PER_AGENT_MAX = 100;

export interface Registration {
  sessionId: string;
  wake: WakeMethod[];
  process: ProcessMark | null;
  /** The caller shows the answer's text to the agent now. */
  showsText: boolean;
  /** Hooks report its prompts. */
  reportsPrompts?: boolean;
  /** The doing of its agent now; absent when the caller does not know it. */
  doing?: SessionDoing | 'idle' | undefined;
  /** Absent: any process may have the session. Else one that runs keeps it, but for this one, which has ended. */
  alone?: { gone: ProcessMark | null };
}

/**
 * Registers a session, or marks it as seen when it is live and can be woken as before. Emits
 * `session-registered` when anything about it is new, unless this answer already shows the unread mail.
 * Refuses `NO_SUCH_AGENT`, `UNAVAILABLE` when the agent has as many live sessions as it may, and `NAME_TAKEN` when it
 * wants to be alone and another process has the session.
 */
export function registerSession(
  context: HostContext,
  agentId: AgentId,
  { sessionId, wake, process, showsText, reportsPrompts, doing, alone }: Registration,
): Promise<SessionState | Refusal> {
  const nowMs = context.nowMs();
  return context.store.transact(async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = tx.get('session', agentId, sessionId);
    const taken = before && alone && refuseTaken(before, process, alone.gone);
    if (taken) return taken;
    const isKnown = before !== undefined && isLive(before, context) && isSame(before, wake, process);
    if (!before) {
      const full = await makeRoom(tx, context, agentId);
      if (full) return full;
    }
    const row: SessionRow = {
      agentId,
      sessionId,
      registeredAtMs: isKnown ? before.registeredAtMs : nowMs,
      seenAtMs: nowMs,
      endedAtMs: null,
      wake,
      process,
      woken: before?.woken ?? null,
    };
    if (reportsPrompts || (isKnown && before.reportsPrompts)) row.reportsPrompts = true;
    putDoing(tx, row, doing ?? (isKnown ? before.doing : undefined));
    if (!isKnown && !showsText) tx.afterCommit(() => context.emit({ type: 'session-registered', agentId, sessionId }));
    return stateOf(tx, context, agentId, sessionId, showsText);
  });
}

function refuseTaken(
  { sessionId, endedAtMs, process: holder }: SessionRow,
  process: ProcessMark | null,
  gone: ProcessMark | null,
): Refusal | undefined {
  const isFree = endedAtMs !== null || holder === null || isSameProcess(holder, process) || isSameProcess(holder, gone);
  if (isFree) return undefined;
  const message = `process ${holder.pid} has the session ${sessionId} of this agent: end that one first`;
  return refusal('NAME_TAKEN', message, { session_id: sessionId, pid: holder.pid });
}

interface Heartbeat extends Pick<Registration, 'sessionId' | 'showsText' | 'doing'> {
  /** The messages that the session's program has now. */
  has?: readonly string[];
}

/**
 * Marks a session as seen, and as notified what its program has; emits `mail-taken` then. Refuses `NO_SUCH_SESSION`
 * when it is unknown or ended.
 */
export function heartbeatSession(
  context: HostContext,
  agentId: AgentId,
  { sessionId, showsText, doing, has = [] }: Heartbeat,
): Promise<SessionState | Refusal> {
  return context.store.transact<SessionState | Refusal>((tx) => {
    const refused = markSeen(tx, context, agentId, sessionId, showsText);
    if (isRefusal(refused)) return refused;
    const session = tx.get('session', agentId, sessionId);
    if (session && doing !== undefined) putDoing(tx, session, doing);
    if (has.length > 0) take(tx, context, agentId, has as readonly MessageRef[]);
    return stateOf(tx, context, agentId, sessionId, showsText);
  });
}

function take(tx: Transaction, context: HostContext, agentId: AgentId, refs: readonly MessageRef[]): void {
  const positions = refs.flatMap((ref) => tx.get('place', agentId, ref) ?? []);
  markNotified(tx, context, agentId, positions);
  tx.afterCommit(() => context.emit({ type: 'mail-taken', agentId, refs }));
}

function putDoing(tx: Transaction, session: SessionRow, doing: Registration['doing']): void {
  const { doing: _before, ...row } = session;
  tx.put('session', [row.agentId, row.sessionId], doing === undefined || doing === 'idle' ? row : { ...row, doing });
}

export function endSession(context: HostContext, agentId: AgentId, sessionId: string): Promise<SessionEndResult> {
  return context.store.transact((tx) => {
    const session = tx.get('session', agentId, sessionId);
    if (!session || session.endedAtMs !== null) return { ended: false };
    tx.put('session', [agentId, sessionId], { ...session, endedAtMs: context.nowMs() });
    tx.afterCommit(() => context.emit({ type: 'session-ended', agentId, sessionId }));
    return { ended: true };
  });
}

/** The sessions of one agent, or of all; the last seen first. */
export function listSessions(context: HostContext, agentId: AgentId | null): Promise<SessionListResult> {
  return context.store.read(async (reader) => {
    const found: SessionRow[] = [];
    const start: [] | [AgentId] = agentId === null ? [] : [agentId];
    for await (const { row } of reader.range('session', start)) found.push(row);
    const sessions = found
      .toSorted((a, b) => b.seenAtMs - a.seenAtMs)
      .map((row) => ({
        agent: nameOf(reader, row.agentId),
        session_id: row.sessionId,
        presence: presenceOf(row, context),
        registered_at: isoTime(row.registeredAtMs),
        seen_at: isoTime(row.seenAtMs),
        ended_at: row.endedAtMs === null ? null : isoTime(row.endedAtMs),
        pid: row.process?.pid ?? null,
        wake: row.wake.map(({ type }) => type),
        woken_by: row.woken?.method ?? null,
        woken_at: row.woken ? isoTime(row.woken.atMs) : null,
      }));
    return { sessions };
  });
}

/** The last seen first. */
export async function liveSessions(reader: Reader, clock: HostClock, agentId: AgentId): Promise<SessionRow[]> {
  const live: SessionRow[] = [];
  for await (const { row } of reader.range('session', [agentId])) if (isLive(row, clock)) live.push(row);
  return live.toSorted((a, b) => b.seenAtMs - a.seenAtMs);
}

/** The agents that have a live session. */
export function agentsPresent(context: HostContext): Promise<Set<AgentId>> {
  return context.store.read(async (reader) => {
    const present = new Set<AgentId>();
    for await (const { row } of reader.range('session', [])) if (isLive(row, context)) present.add(row.agentId);
    return present;
  });
}

/** Records the method that woke this session, by proof. */
export function recordWoken(tx: Transaction, context: HostContext, session: SessionRow, method: WakeMethodName): void {
  const { agentId, sessionId } = session;
  const present = tx.get('session', agentId, sessionId);
  if (!present) return;
  tx.put('session', [agentId, sessionId], { ...present, woken: { method, atMs: context.nowMs() } });
}

/** Sessions of one agent, or of all, that did not end and name their program: they are live while it runs. */
export function sessionsWithProgram(
  context: HostContext,
  agentId: AgentId | null,
): Promise<(SessionRow & { process: ProcessMark })[]> {
  return context.store.read(async (reader) => {
    const found: (SessionRow & { process: ProcessMark })[] = [];
    for await (const { row } of reader.range('session', agentId === null ? [] : [agentId])) {
      if (row.endedAtMs === null && row.process !== null) found.push({ ...row, process: row.process });
    }
    return found;
  });
}

/** Ends those of these sessions that still have the program that they had: it has ended. */
export async function endWithProgram(context: HostContext, sessions: readonly SessionRow[]): Promise<void> {
  await context.store.transact((tx) => {
    for (const { agentId, sessionId, process } of sessions) {
      const session = tx.get('session', agentId, sessionId);
      if (session?.endedAtMs !== null || !isSameProcess(session.process, process)) continue;
      tx.put('session', [agentId, sessionId], { ...session, endedAtMs: context.nowMs() });
      tx.afterCommit(() => context.emit({ type: 'session-ended', agentId, sessionId }));
    }
  });
}

/** Says whether both are known, and the same. */
export function isSameProcess(a: ProcessMark | null, b: ProcessMark | null): boolean {
  return a !== null && b !== null && a.pid === b.pid && a.startedAt === b.startedAt;
}

/** Marks the sessions of `running` as seen, and deletes the rows of old sessions. */
export function tidySessions(context: HostContext, running: readonly SessionRow[]): Promise<void> {
  return context.store.transact(async (tx) => {
    for (const { agentId, sessionId, process } of running) {
      const session = tx.get('session', agentId, sessionId);
      if (session?.endedAtMs === null && isSameProcess(session.process, process)) {
        markSeen(tx, context, agentId, sessionId, false);
      }
    }
    for await (const { key, row } of tx.range('session', [])) if (isForgotten(row, context)) tx.delete('session', key);
  });
}

function markSeen(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  sessionId: string,
  showsText: boolean,
): Refusal | undefined {
  const session = tx.get('session', agentId, sessionId);
  if (!session || session.endedAtMs !== null) {
    return refusal(
      'NO_SUCH_SESSION',
      `there is no session ${sessionId} of this agent, or it ended: register it with poste session register`,
      { session_id: sessionId },
    );
  }
  tx.put('session', [agentId, sessionId], { ...session, seenAtMs: context.nowMs() });
  // Mail that came while it was silent could not wake it.
  const isBack = !isLive(session, context) && !showsText;
  if (isBack) tx.afterCommit(() => context.emit({ type: 'session-registered', agentId, sessionId }));
  return undefined;
}

async function stateOf(
  tx: Transaction,
  context: HostContext,
  agentId: AgentId,
  sessionId: string,
  showsText: boolean,
): Promise<SessionState> {
  const { unread, text, until } = await unreadOf(tx, agentId);
  if (showsText) {
    if (unread > 0) await markUnreadNotified(tx, context, agentId, until);
    tx.afterCommit(() => context.emit({ type: 'session-notified', agentId, sessionId }));
  }
  return { session_id: sessionId, live_ms: SESSION_LIVE_MS, unread, text };
}

function isSame(session: SessionRow, wake: readonly WakeMethod[], process: ProcessMark | null): boolean {
  return JSON.stringify([session.wake, session.process]) === JSON.stringify([wake, process]);
}

/** Deletes the session that was silent for the longest time when there are too many. */
async function makeRoom(tx: Transaction, context: HostContext, agentId: AgentId): Promise<Refusal | undefined> {
  const sessions: SessionRow[] = [];
  for await (const { row } of tx.range('session', [agentId])) sessions.push(row);
  if (sessions.length < SESSIONS_PER_AGENT_MAX) return undefined;
  const [oldest] = sessions.filter((row) => !isLive(row, context)).toSorted((a, b) => a.seenAtMs - b.seenAtMs);
  if (!oldest) {
    return refusal(
      'UNAVAILABLE',
      `this agent has ${SESSIONS_PER_AGENT_MAX} live sessions, and may have no more: end one with poste session end`,
    );
  }
  tx.delete('session', [agentId, oldest.sessionId]);
  return undefined;
}

/** Says whether the agent has a live session, or waits for mail. */
export async function isAgentLive(reader: Reader, context: HostContext, agentId: AgentId): Promise<boolean> {
  if (context.waits.isWaiting(agentId)) return true;
  for await (const { row } of reader.range('session', [agentId])) if (isLive(row, context)) return true;
  return false;
}

export interface WakeResult {
  /** True only on proof: the recipient was woken now. */
  isWoken: boolean;
  /** One sentence that says what woke it, or why nothing did. */
  detail: string;
}

/** Wakes a recipient whose new message `ref` wakes. It runs after the commit, is bounded in time and does not throw. */
export type WakeAgent = (agentId: AgentId, ref?: MessageRef) => Promise<WakeResult>;

/** A session that is silent for this long is not live. */
export const SESSION_LIVE_MS = 180_000;

/** An ended session is shown this long. */
export const ENDED_KEPT_MS = 86_400_000;
/** A session that fell silent without an end is kept this long. */
export const SILENT_KEPT_MS = 7 * 86_400_000;

function presenceOf(session: SessionRow, clock: HostClock): 'live' | 'silent' | 'ended' {
  if (session.endedAtMs !== null) return 'ended';
  return isLive(session, clock) ? 'live' : 'silent';
}

/** Says whether its row can be deleted. */
function isForgotten({ seenAtMs, endedAtMs }: SessionRow, clock: HostClock): boolean {
  const sinceMs = clock.nowMs() - clock.momentMs(endedAtMs ?? seenAtMs);
  return sinceMs >= (endedAtMs === null ? SILENT_KEPT_MS : ENDED_KEPT_MS);
}

export function isLive({ seenAtMs, endedAtMs }: SessionRow, clock: HostClock): boolean {
  // Seen in the future: the clock was set back, and a live session calls again soon.
  return endedAtMs === null && Math.abs(clock.nowMs() - clock.momentMs(seenAtMs)) < SESSION_LIVE_MS;
}
