/** What does the operations of the socket: each a function of the office, by the name that operations.ts gives it. */
import type { Refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { type DaemonFacts, readStatus } from '../office/status.ts';
import type { InputOf, OPERATIONS, OperationName, OutputOf } from './operations.ts';

export interface Caller {
  /** In whose name. */
  agentId: AgentId | null;
  /** Aborted when whoever asked has gone, and when the daemon stops. */
  signal: AbortSignal;
}

type CallerOf<N extends OperationName> = (typeof OPERATIONS)[N]['acting'] extends 'agent'
  ? Caller & { agentId: AgentId }
  : Caller;

export type Handlers = {
  readonly [N in OperationName]: (caller: CallerOf<N>, input: InputOf<N>) => Promise<OutputOf<N> | Refusal>;
};

/** What handlers work with besides the office. */
export interface HandlerParts {
  office: Office;
  facts: DaemonFacts;
}

export function handlersOf({ office, facts }: HandlerParts): Handlers {
  return {
    status: () => readStatus(office, facts),
  };
}
