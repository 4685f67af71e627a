/** The session operations of the daemon (`SessionService`), and the upkeep of sessions by the clock. */
import type { Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import {
  endSession,
  endWithProgram,
  heartbeatSession,
  listSessions,
  type Registration,
  registerSession,
  sessionsWithProgram,
  tidySessions,
} from '../agents/sessions.ts';
import type { SessionService } from '../api/handlers.ts';
import { badInput } from '../contract/parse-input.ts';
import type { SessionRegisterInput } from '../contract/agents.ts';
import type { HostContext } from '../base/context.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import type { ProcessMark, SessionRow, WakeMethod } from '../core/session-rows.ts';
import type { ClaudeSockets, Waiters } from './waiters.ts';
import { type FactsOf, isRunning } from './processes.ts';
import type { Rings } from './rings.ts';

interface SessionServiceParts {
  context: HostContext;
  waiters: Waiters;
  rings: Rings;
  claudeSockets: ClaudeSockets;
  factsOf: FactsOf;
  /** Aborts when the daemon stops. */
  signal: AbortSignal;
}

export function createSessionService(parts: SessionServiceParts): SessionService {
  const { context, waiters, rings, claudeSockets, factsOf, signal } = parts;
  const endGone = endingGone(parts);
  context.subscribe('sessions', {
    'session-ended': (session) => {
      waiters.release(session.agentId, session.sessionId);
      claudeSockets.forget(session);
    },
  });
  return {
    async register(agentId, input) {
      const { session_id: sessionId, pid, tell: showsText = false, begins, lines = [] } = input;
      const { doing, endTurn } = reportedTurn(context, agentId, input);
      const wake = wakeOf(input);
      if (isRefusal(wake)) return wake;
      const facts = pid === undefined ? undefined : await factsOf(pid, signal);
      if (pid !== undefined && !facts) return badInput('pid', 'names no process that runs');
      const process = typeof facts === 'object' ? facts.mark : null;
      // Before the mail counts as told: then there is no attempt left to prove.
      const seat = { agentId, sessionId, process };
      rings.reported(seat, lines);
      if (begins || lines.length > 0) claudeSockets.trust(seat);
      const reportsPrompts = input.reports_prompts ?? false;
      const alone = input.alone ? { gone: await goneHolder(parts, agentId, sessionId) } : undefined;
      const registration = { sessionId, wake, process, showsText, reportsPrompts, doing, ...(alone && { alone }) };
      const state = await registerSession(context, agentId, registration);
      endTurn();
      if (!isRefusal(state)) ringIfTyped(context, { agentId, sessionId, wake }, doing);
      return state;
    },
    async heartbeat(agentId, input) {
      const { session_id: sessionId, tell: showsText = false, lines = [], has = [] } = input;
      const { doing, endTurn } = reportedTurn(context, agentId, input);
      const session = await context.store.read((reader) => reader.get('session', agentId, sessionId));
      if (session) rings.reported(session, lines);
      const state = await heartbeatSession(context, agentId, { sessionId, showsText, doing, has });
      // After it: who waits for the proof then finds which messages were taken.
      if (session && has.length > 0) rings.hasTaken(session);
      endTurn();
      if (session && !isRefusal(state)) ringIfTyped(context, session, doing);
      return state;
    },
    end: (agentId, { session_id: sessionId }) => endSession(context, agentId, sessionId),
    async wait(agentId, { session_id: sessionId, wait_ms }, gone) {
      // A waiter may outlive the program that it was started for.
      await endGone(agentId);
      const seen = await heartbeatSession(context, agentId, { sessionId, showsText: false });
      if (isRefusal(seen)) return seen;
      const answer = waiters.wait(agentId, sessionId, wait_ms, gone);
      context.emit({ type: 'session-waits', agentId, sessionId });
      return answer;
    },
    heard: async (agentId, { session_id, ring, failed = false }) => {
      return { counted: waiters.heard(agentId, session_id, ring, failed ? 'unheard' : 'given') };
    },
    async usedTool(agentId, sessionId) {
      context.emit({ type: 'mail-tool-used', agentId });
      const session = await context.store.read((reader) => reader.get('session', agentId, sessionId));
      if (!session) return;
      rings.usedTool(session);
      claudeSockets.trust(session);
    },
    endGone,
    async list(agentId) {
      await endGone(agentId);
      return listSessions(context, agentId);
    },
  };
}

/** A terminal is left alone during a turn. Mail that came meanwhile is due when the turn is over. */
function ringIfTyped(
  context: HostContext,
  { agentId, sessionId, wake }: Pick<SessionRow, 'agentId' | 'sessionId' | 'wake'>,
  doing: Registration['doing'],
): void {
  const isTypedInto = wake.some(({ type }) => type === 'tmux');
  if (doing === 'idle' && isTypedInto) context.emit({ type: 'session-waits', agentId, sessionId });
}

/**
 * Returns what a hook says of its agent: a turn that failed leaves it idle, and `endTurn` tells those who rang in it.
 */
function reportedTurn(
  context: HostContext,
  agentId: AgentId,
  { session_id: sessionId, doing: said }: Pick<SessionRegisterInput, 'session_id' | 'doing'>,
): { doing: Registration['doing']; endTurn: () => void } {
  const hasFailed = said === 'failed';
  const doing = hasFailed ? 'idle' : said;
  const endTurn = (): void => {
    if (doing === 'idle') context.emit({ type: 'session-turn-ended', agentId, sessionId, hasFailed });
  };
  return { doing, endTurn };
}

/** The process that had the session, when it has ended; null when it runs, or there is none. */
async function goneHolder(
  { context, factsOf, signal }: SessionServiceParts,
  agentId: AgentId,
  sessionId: string,
): Promise<ProcessMark | null> {
  const holder = await context.store.read((reader) => reader.get('session', agentId, sessionId)?.process ?? null);
  return holder !== null && !(await isRunning(holder, factsOf, signal)) ? holder : null;
}

/** Looks which programs of sessions still run, of one agent or of all, and ends the sessions of the others. */
function endingGone({ context, factsOf, signal }: SessionServiceParts): SessionService['endGone'] {
  return async (agentId) => {
    const gone = [];
    for (const session of await sessionsWithProgram(context, agentId)) {
      if (!(await isRunning(session.process, factsOf, signal))) gone.push(session);
    }
    if (gone.length > 0 && !signal.aborted) await endWithProgram(context, gone);
  };
}

function wakeOf({ wake = [], pid }: SessionRegisterInput): WakeMethod[] | Refusal {
  if (pid === undefined && wake.some(({ type }) => type === 'tmux')) {
    return badInput('pid', 'is missing: a terminal is only typed into while it shows the program of the session');
  }
  return wake.map((method) =>
    method.type === 'command' ? { type: 'command', argv: [method.program, ...method.arguments] } : method,
  );
}

/** It comes several times within `SESSION_LIVE_MS`. */
export const SESSION_TIDY_MS = 60_000;

interface SessionKeeperParts {
  context: HostContext;
  timers: Timers;
  factsOf: FactsOf;
}

/**
 * Every minute: marks the sessions whose program runs as seen, ends those whose program has ended, and forgets sessions
 * that ended or fell silent long ago.
 */
export class SessionKeeper {
  readonly #parts: SessionKeeperParts;
  readonly #task: PeriodicTask;

  /** The first look is at once: sessions outlive a daemon that was started again. */
  constructor(parts: SessionKeeperParts) {
    const { context, timers } = parts;
    this.#parts = parts;
    this.#task = new PeriodicTask({
      timers,
      everyMs: SESSION_TIDY_MS,
      work: (signal) => this.#tidy(signal),
      onError: (error) => context.log('warn', 'sessions could not be looked after', { err: error }),
    });
    void this.#task.run();
  }

  /** Resolves when no look is under way. */
  idle(): Promise<void> {
    return this.#task.idle;
  }

  close(): Promise<void> {
    return this.#task.stop();
  }

  async #tidy(signal: AbortSignal): Promise<void> {
    const { context, factsOf } = this.#parts;
    const running: SessionRow[] = [];
    const gone: SessionRow[] = [];
    for (const session of await sessionsWithProgram(context, null)) {
      ((await isRunning(session.process, factsOf, signal)) ? running : gone).push(session);
    }
    if (signal.aborted) return;
    if (gone.length > 0) await endWithProgram(context, gone);
    await tidySessions(context, running);
  }
}
