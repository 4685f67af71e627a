/**
 * Sessions of agents: who is there, since when, and how each can be woken.
 *
 * A session says that it is there (`register`, `heartbeat`, a wait for a doorbell); its program may say so for it, by
 * running. One that is silent for `SESSION_LIVE_MS` is not live, and neither is one that ended.
 */
import { SESSION_LIVE_MS, isForgotten, isLive, presenceOf } from '../core/presence.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import type { AgentId, ProcessMark, SessionRow, WakeMethod, WakeMethodName } from '../core/rows.ts';
import type { SessionEndResult, SessionListResult, SessionState } from '../documents/sessions.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { refuseAbsentAgent } from './known-messages.ts';
import { nameOf } from './mailbox.ts';
import type { Office } from './office.ts';
import { markTold, unreadOf } from './waking-mail.ts';

/** Of one agent, ended and silent ones included. */
export const SESSIONS_PER_AGENT_MAX = 100;

export interface Registration {
  sessionId: string;
  wake: WakeMethod[];
  process: ProcessMark | null;
  /** Whoever asks shows the answer's text to the agent now. */
  tells: boolean;
}

/**
 * A session is there, or is there again. One that is live and can be woken as before is only heard of. Tells
 * `session-registered` when it is new in any way, unless it is told what is unread by this very answer.
 * Refuses `NO_SUCH_AGENT`, and `UNAVAILABLE` when the agent has as many live sessions as it may.
 */
export function registerSession(
  office: Office,
  agentId: AgentId,
  { sessionId, wake, process, tells }: Registration,
): Promise<SessionState | Refusal> {
  const nowMs = office.nowMs();
  return office.store.transact(async (tx) => {
    const absent = refuseAbsentAgent(tx, agentId);
    if (absent) return absent;
    const before = tx.get('session', agentId, sessionId);
    const isKnown = before !== undefined && isLive(before, nowMs) && isSame(before, wake, process);
    if (!before) {
      const full = await makeRoom(tx, agentId, nowMs);
      if (full) return full;
    }
    tx.put('session', [agentId, sessionId], {
      agentId,
      sessionId,
      registeredAtMs: isKnown ? before.registeredAtMs : nowMs,
      seenAtMs: nowMs,
      endedAtMs: null,
      wake,
      process,
      woken: before?.woken ?? null,
    });
    if (!isKnown && !tells) tx.afterCommit(() => office.tell({ type: 'session-registered', agentId, sessionId }));
    return stateOf(tx, office, agentId, sessionId, tells);
  });
}

/** A session is still there. Refuses `NO_SUCH_SESSION` when it is unknown or ended. */
export function heartbeatSession(
  office: Office,
  agentId: AgentId,
  { sessionId, tells }: Pick<Registration, 'sessionId' | 'tells'>,
): Promise<SessionState | Refusal> {
  return office.store.transact<SessionState | Refusal>((tx) => {
    const refused = markSeen(tx, office, agentId, sessionId, tells);
    return isRefusal(refused) ? refused : stateOf(tx, office, agentId, sessionId, tells);
  });
}

export function endSession(office: Office, agentId: AgentId, sessionId: string): Promise<SessionEndResult> {
  return office.store.transact((tx) => {
    const session = tx.get('session', agentId, sessionId);
    if (!session || session.endedAtMs !== null) return { ended: false };
    tx.put('session', [agentId, sessionId], { ...session, endedAtMs: office.nowMs() });
    tx.afterCommit(() => office.tell({ type: 'session-ended', agentId, sessionId }));
    return { ended: true };
  });
}

/** Of one agent, or of all; those heard of last come first. */
export function listSessions(office: Office, agentId: AgentId | null): Promise<SessionListResult> {
  return office.store.read(async (reader) => {
    const found: SessionRow[] = [];
    const start: [] | [AgentId] = agentId === null ? [] : [agentId];
    for await (const { row } of reader.range('session', start)) found.push(row);
    const nowMs = office.nowMs();
    const sessions = found
      .toSorted((a, b) => b.seenAtMs - a.seenAtMs)
      .map((row) => ({
        agent: nameOf(reader, row.agentId),
        session_id: row.sessionId,
        presence: presenceOf(row, nowMs),
        registered_at: row.registeredAtMs,
        seen_at: row.seenAtMs,
        ended_at: row.endedAtMs,
        pid: row.process?.pid ?? null,
        wake: row.wake.map(({ type }) => type),
        woken_by: row.woken?.method ?? null,
        woken_at: row.woken?.atMs ?? null,
      }));
    return { sessions };
  });
}

/** Those heard of last come first. */
export async function liveSessions(reader: Reader, agentId: AgentId, nowMs: number): Promise<SessionRow[]> {
  const live: SessionRow[] = [];
  for await (const { row } of reader.range('session', [agentId])) if (isLive(row, nowMs)) live.push(row);
  return live.toSorted((a, b) => b.seenAtMs - a.seenAtMs);
}

/** The agents that have a live session. */
export function agentsPresent(office: Office): Promise<Set<AgentId>> {
  return office.store.read(async (reader) => {
    const present = new Set<AgentId>();
    for await (const { row } of reader.range('session', [])) if (isLive(row, office.nowMs())) present.add(row.agentId);
    return present;
  });
}

/** A doorbell was proven to have been heard by this session. */
export function recordWoken(tx: Transaction, office: Office, session: SessionRow, method: WakeMethodName): void {
  const { agentId, sessionId } = session;
  const present = tx.get('session', agentId, sessionId);
  if (!present) return;
  tx.put('session', [agentId, sessionId], { ...present, woken: { method, atMs: office.nowMs() } });
}

/** Those that did not end and name their program: whether it runs says whether they are there. */
export function sessionsWithProgram(office: Office): Promise<(SessionRow & { process: ProcessMark })[]> {
  return office.store.read(async (reader) => {
    const found: (SessionRow & { process: ProcessMark })[] = [];
    for await (const { row } of reader.range('session', [])) {
      if (row.endedAtMs === null && row.process !== null) found.push({ ...row, process: row.process });
    }
    return found;
  });
}

/** What was heard of sessions by their programs, and what nobody wants to know any more. */
export function tidySessions(office: Office, running: readonly SessionRow[]): Promise<void> {
  return office.store.transact(async (tx) => {
    for (const { agentId, sessionId, process } of running) {
      const session = tx.get('session', agentId, sessionId);
      const isSameProgram = session?.process?.startedAt === process?.startedAt;
      if (session?.endedAtMs === null && isSameProgram) markSeen(tx, office, agentId, sessionId, false);
    }
    const nowMs = office.nowMs();
    for await (const { key, row } of tx.range('session', [])) if (isForgotten(row, nowMs)) tx.delete('session', key);
  });
}

function markSeen(
  tx: Transaction,
  office: Office,
  agentId: AgentId,
  sessionId: string,
  tells: boolean,
): Refusal | undefined {
  const session = tx.get('session', agentId, sessionId);
  if (!session || session.endedAtMs !== null) {
    return refusal(
      'NO_SUCH_SESSION',
      `there is no session ${sessionId} of this agent, or it ended: register it with poste session register`,
      { session_id: sessionId },
    );
  }
  const nowMs = office.nowMs();
  tx.put('session', [agentId, sessionId], { ...session, seenAtMs: nowMs });
  // What came while it was silent could not wake it.
  const isBack = !isLive(session, nowMs) && !tells;
  if (isBack) tx.afterCommit(() => office.tell({ type: 'session-registered', agentId, sessionId }));
  return undefined;
}

async function stateOf(
  tx: Transaction,
  office: Office,
  agentId: AgentId,
  sessionId: string,
  tells: boolean,
): Promise<SessionState> {
  const { unread, text, until } = await unreadOf(tx, agentId);
  if (tells) {
    if (unread > 0) await markTold(tx, office, agentId, until);
    tx.afterCommit(() => office.tell({ type: 'session-told', agentId, sessionId }));
  }
  return { session_id: sessionId, live_ms: SESSION_LIVE_MS, unread, text };
}

function isSame(session: SessionRow, wake: readonly WakeMethod[], process: ProcessMark | null): boolean {
  return JSON.stringify([session.wake, session.process]) === JSON.stringify([wake, process]);
}

/** Forgets the session that was not heard of for the longest time when there are too many. */
async function makeRoom(tx: Transaction, agentId: AgentId, nowMs: number): Promise<Refusal | undefined> {
  const sessions: SessionRow[] = [];
  for await (const { row } of tx.range('session', [agentId])) sessions.push(row);
  if (sessions.length < SESSIONS_PER_AGENT_MAX) return undefined;
  const [oldest] = sessions.filter((row) => !isLive(row, nowMs)).toSorted((a, b) => a.seenAtMs - b.seenAtMs);
  if (!oldest) {
    return refusal(
      'UNAVAILABLE',
      `this agent has ${SESSIONS_PER_AGENT_MAX} live sessions, and may have no more: end one with poste session end`,
    );
  }
  tx.delete('session', [agentId, oldest.sessionId]);
  return undefined;
}
