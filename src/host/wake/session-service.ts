/** The session operations of the daemon (`SessionService`), and the upkeep of sessions by the clock. */
import type { Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import {
  endSession,
  heartbeatSession,
  listSessions,
  registerSession,
  sessionsWithProgram,
  tidySessions,
} from '../agents/sessions.ts';
import type { SessionService } from '../api/handlers.ts';
import { badInput } from '../api/schemas/parse-input.ts';
import type { SessionRegisterInput } from '../api/schemas/agents.ts';
import type { HostContext } from '../context.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { WakeMethod } from '../core/rows.ts';
import type { HookWaiters } from './hook-waiters.ts';
import { type FactsOf, isRunning } from './processes.ts';

export interface SessionServiceParts {
  context: HostContext;
  waiters: HookWaiters;
  factsOf: FactsOf;
  /** Aborted when the daemon stops. */
  signal: AbortSignal;
}

export function createSessionService({ context, waiters, factsOf, signal }: SessionServiceParts): SessionService {
  return {
    async register(agentId, input) {
      const { session_id: sessionId, pid, tell = false, at_work = false } = input;
      const wake = wakeOf(input);
      if (isRefusal(wake)) return wake;
      const facts = pid === undefined ? undefined : await factsOf(pid, signal);
      if (pid !== undefined && !facts) return badInput('pid', 'names no process that runs');
      const process = facts?.mark ?? null;
      const state = await registerSession(context, agentId, { sessionId, wake, process, showsText: tell });
      if (at_work && !isRefusal(state)) waiters.release(agentId, sessionId);
      return state;
    },
    async heartbeat(agentId, { session_id: sessionId, tell = false, at_work = false }) {
      const state = await heartbeatSession(context, agentId, { sessionId, showsText: tell });
      if (at_work && !isRefusal(state)) waiters.release(agentId, sessionId);
      return state;
    },
    async end(agentId, { session_id: sessionId }) {
      const result = await endSession(context, agentId, sessionId);
      waiters.release(agentId, sessionId);
      return result;
    },
    async wait(agentId, { session_id: sessionId, wait_ms }, gone) {
      const seen = await heartbeatSession(context, agentId, { sessionId, showsText: false });
      if (isRefusal(seen)) return seen;
      const answer = waiters.wait(agentId, sessionId, wait_ms, gone);
      context.emit({ type: 'session-waits', agentId, sessionId });
      return answer;
    },
    heard: async (agentId, { session_id, ring }) => ({ counted: waiters.heard(agentId, session_id, ring) }),
    list: (agentId) => listSessions(context, agentId),
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

/** Several times within `SESSION_LIVE_MS`. */
export const SESSION_TIDY_MS = 60_000;

interface SessionKeeperParts {
  context: HostContext;
  timers: Timers;
  factsOf: FactsOf;
}

/** Every minute: marks the sessions whose program runs as seen, and forgets sessions that ended or fell silent long ago. */
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
    const running = [];
    for (const session of await sessionsWithProgram(context)) {
      if (await isRunning(session.process, factsOf, signal)) running.push(session);
    }
    if (!signal.aborted) await tidySessions(context, running);
  }
}
