/** What sessions ask of the daemon: their rows, and the doorbells and waiters of this process. */
import { type Refusal, isRefusal } from '../core/refusal.ts';
import type { WakeMethod } from '../core/rows.ts';
import type { SessionRegisterInput } from '../documents/sessions.ts';
import { badInput } from '../documents/parse-input.ts';
import type { Office } from '../office/office.ts';
import type { SessionDesk } from '../office/session-desk.ts';
import { endSession, heartbeatSession, listSessions, registerSession } from '../office/sessions.ts';
import type { HookWaiters } from './hook-waiters.ts';
import type { FactsOf } from './processes.ts';

export interface SessionDeskParts {
  office: Office;
  waiters: HookWaiters;
  factsOf: FactsOf;
  /** Aborted when the daemon stops. */
  signal: AbortSignal;
}

export function sessionDesk({ office, waiters, factsOf, signal }: SessionDeskParts): SessionDesk {
  return {
    async register(agentId, input) {
      const { session_id: sessionId, pid, tell = false, at_work = false } = input;
      const wake = wakeOf(input);
      if (isRefusal(wake)) return wake;
      const facts = pid === undefined ? undefined : await factsOf(pid, signal);
      if (pid !== undefined && !facts) return badInput('pid', 'names no process that runs');
      const process = facts?.mark ?? null;
      const state = await registerSession(office, agentId, { sessionId, wake, process, tells: tell });
      if (at_work && !isRefusal(state)) waiters.release(agentId, sessionId);
      return state;
    },
    async heartbeat(agentId, { session_id: sessionId, tell = false, at_work = false }) {
      const state = await heartbeatSession(office, agentId, { sessionId, tells: tell });
      if (at_work && !isRefusal(state)) waiters.release(agentId, sessionId);
      return state;
    },
    async end(agentId, { session_id: sessionId }) {
      const result = await endSession(office, agentId, sessionId);
      waiters.release(agentId, sessionId);
      return result;
    },
    async wait(agentId, { session_id: sessionId, wait_ms }, gone) {
      const seen = await heartbeatSession(office, agentId, { sessionId, tells: false });
      if (isRefusal(seen)) return seen;
      const answer = waiters.wait(agentId, sessionId, wait_ms, gone);
      office.tell({ type: 'session-waits', agentId, sessionId });
      return answer;
    },
    heard: async (agentId, { session_id, ring }) => ({ counted: waiters.heard(agentId, session_id, ring) }),
    list: (agentId) => listSessions(office, agentId),
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
