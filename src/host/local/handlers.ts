/** What does the operations of the socket: each a function of the office, by the name that operations.ts gives it. */
import type { Refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import type { AcceptInput, InviteResult, PeerView } from '../documents/peers.ts';
import type { Office } from '../office/office.ts';
import { cancelOutbox, listOutbox } from '../office/outbox-list.ts';
import { rotateOwnKey } from '../office/own-key.ts';
import { listPeers, setAddress, unpair } from '../office/peers.ts';
import { discardQuarantined, listQuarantine, retryQuarantine, showQuarantined } from '../office/quarantine.ts';
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
  pairing: Pairing;
}

/** What pairs hosts: it listens and calls. */
export interface Pairing {
  invite(): Promise<InviteResult | Refusal>;
  accept(input: AcceptInput): Promise<PeerView | Refusal>;
}

export function handlersOf({ office, facts, pairing }: HandlerParts): Handlers {
  return {
    status: () => readStatus(office, facts),
    peers: () => listPeers(office),
    'pair-invite': () => pairing.invite(),
    'pair-accept': (_caller, input) => pairing.accept(input),
    'peer-address': (_caller, { host, address }) => setAddress(office, host, address),
    unpair: (_caller, { host }) => unpair(office, host),
    'rotate-key': () => rotateOwnKey(office),
    outbox: (_caller, input) => listOutbox(office, input),
    'outbox-cancel': (_caller, input) => cancelOutbox(office, input),
    quarantine: (_caller, input) => listQuarantine(office, input),
    'quarantine-show': (_caller, input) => showQuarantined(office, input),
    'quarantine-retry': (_caller, input) => retryQuarantine(office, input),
    'quarantine-discard': (_caller, input) => discardQuarantined(office, input),
  };
}
