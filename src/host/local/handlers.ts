/** What does the operations of the socket: each a function of the office, by the name that operations.ts gives it. */
import type { Refusal } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import { addAgent, listOwnAgents, removeAgent, renameAgent, setAgentRoles } from '../office/agents.ts';
import { listAgents } from '../office/directory.ts';
import { useInbox } from '../office/inbox.ts';
import { watchInbox } from '../office/inbox-watch.ts';
import type { DoctorResult } from '../documents/doctor.ts';
import type { TraceInput, TraceResult } from '../documents/trace.ts';
import type { RelaySetInput, RelaySetResult, RelayStatusResult, RelayUnsetResult } from '../documents/relay.ts';
import type { WebLinkResult } from '../documents/web.ts';
import type { Office } from '../office/office.ts';
import type { Ring } from '../office/ring.ts';
import { replyMail } from '../office/reply.ts';
import { sendMail } from '../office/send.ts';
import { searchMail } from '../office/search.ts';
import { listSent } from '../office/sent-list.ts';
import type { AcceptInput, InviteResult, PeerView } from '../documents/peers.ts';
import { cancelOutbox, listOutbox } from '../office/outbox-list.ts';
import { rotateOwnKey } from '../office/own-key.ts';
import { listPeers, setAddress, unpair } from '../office/peers.ts';
import { discardQuarantined, listQuarantine, retryQuarantine, showQuarantined } from '../office/quarantine.ts';
import type { SessionDesk } from '../office/session-desk.ts';
import { type DaemonFacts, readStatus } from '../office/status.ts';
import type { Timers } from '../office/timers.ts';
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
  timers: Timers;
  facts: DaemonFacts;
  pairing: Pairing;
  relay: RelaySetting;
  diagnosis: Diagnosis;
  web: WebDoor;
  sessions: SessionDesk;
  ring: Ring;
}

/** What serves the owner's page, from the first link on. */
export interface WebDoor {
  link(): Promise<WebLinkResult | Refusal>;
}

/** What pairs hosts: it listens and calls. */
export interface Pairing {
  invite(): Promise<InviteResult | Refusal>;
  accept(input: AcceptInput): Promise<PeerView | Refusal>;
}

/** What uses a relay: it calls. */
export interface RelaySetting {
  set(input: RelaySetInput): Promise<RelaySetResult | Refusal>;
  unset(): Promise<RelayUnsetResult | Refusal>;
  status(): Promise<RelayStatusResult>;
}

/** What looks at the host and follows one message: it calls, for a bounded time. */
export interface Diagnosis {
  doctor(signal: AbortSignal): Promise<DoctorResult>;
  trace(input: TraceInput, signal: AbortSignal): Promise<TraceResult | Refusal>;
}

export function handlersOf(parts: HandlerParts): Handlers {
  const { office, timers, facts, pairing, relay, diagnosis, web, sessions, ring } = parts;
  return {
    status: () => readStatus(office, facts),
    doctor: ({ signal }) => diagnosis.doctor(signal),
    trace: ({ signal }, input) => diagnosis.trace(input, signal),
    'add-agent': (_, input) => addAgent(office, input),
    'rename-agent': (_, input) => renameAgent(office, input),
    'set-agent-roles': (_, input) => setAgentRoles(office, input),
    'remove-agent': (_, input) => removeAgent(office, input),
    'list-agents': () => listOwnAgents(office),
    'mail-agents': ({ agentId }, input) => listAgents(office, agentId, input),
    'mail-send': ({ agentId }, input) => sendMail(office, agentId, input, ring),
    'mail-reply': ({ agentId }, input) => replyMail(office, agentId, input, ring),
    'mail-inbox': ({ agentId }, input) => useInbox(office, agentId, input),
    'watch-inbox': ({ agentId, signal }, input) => watchInbox(office, timers, agentId, input, signal),
    'mail-sent': ({ agentId }, input) => listSent(office, agentId, input),
    'mail-search': ({ agentId }, input) => searchMail(office, agentId, input),
    'web-link': () => web.link(),
    peers: () => listPeers(office),
    'pair-invite': () => pairing.invite(),
    'pair-accept': (_caller, input) => pairing.accept(input),
    'peer-address': (_caller, { host, address }) => setAddress(office, host, address),
    unpair: (_caller, { host }) => unpair(office, host),
    'rotate-key': () => rotateOwnKey(office),
    'relay-set': (_caller, input) => relay.set(input),
    'relay-unset': () => relay.unset(),
    'relay-status': () => relay.status(),
    outbox: (_caller, input) => listOutbox(office, input),
    'outbox-cancel': (_caller, input) => cancelOutbox(office, input),
    quarantine: (_caller, input) => listQuarantine(office, input),
    'quarantine-show': (_caller, input) => showQuarantined(office, input),
    'quarantine-retry': (_caller, input) => retryQuarantine(office, input),
    'quarantine-discard': (_caller, input) => discardQuarantined(office, input),
    'session-register': ({ agentId }, input) => sessions.register(agentId, input),
    'session-heartbeat': ({ agentId }, input) => sessions.heartbeat(agentId, input),
    'session-end': ({ agentId }, input) => sessions.end(agentId, input),
    'session-wait': ({ agentId, signal }, input) => sessions.wait(agentId, input, signal),
    'session-heard': ({ agentId }, input) => sessions.heard(agentId, input),
    'session-list': ({ agentId }) => sessions.list(agentId),
  };
}
