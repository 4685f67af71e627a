/** What the daemon's socket asks for sessions: rows are one half of it, whoever waits and rings in this process the other. */
import type { Refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import type {
  SessionEndInput,
  SessionEndResult,
  SessionHeardInput,
  SessionHeardResult,
  SessionHeartbeatInput,
  SessionListResult,
  SessionRegisterInput,
  SessionState,
  SessionWaitInput,
  SessionWaitResult,
} from '../documents/sessions.ts';

export interface SessionDesk {
  register(agentId: AgentId, input: SessionRegisterInput): Promise<SessionState | Refusal>;
  heartbeat(agentId: AgentId, input: SessionHeartbeatInput): Promise<SessionState | Refusal>;
  end(agentId: AgentId, input: SessionEndInput): Promise<SessionEndResult>;
  /** Resolves with a doorbell, or when `wait_ms` have passed, or `signal` is aborted. */
  wait(agentId: AgentId, input: SessionWaitInput, signal: AbortSignal): Promise<SessionWaitResult | Refusal>;
  /** The doorbell of a wait arrived: proof that the agent is woken. */
  heard(agentId: AgentId, input: SessionHeardInput): Promise<SessionHeardResult>;
  /** Of one agent, or of all. */
  list(agentId: AgentId | null): Promise<SessionListResult>;
}
