/** The handlers of the daemon's operations, and the way from a request's bytes to a handler's answer. */
import type { Timers } from '../../lib/clock.ts';
import { type JsonBounds, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { replyMail, sendMail } from '../mail/send.ts';
import { addAgent, listOwnAgents, removeAgent, renameAgent, setAgentRoles } from '../agents/agents.ts';
import { type Directories, listAgents, listPeople } from '../agents/directory.ts';
import type { RelayReach } from '../outbox/peer-work.ts';
import type { WakeAgent } from '../agents/sessions.ts';
import type { HostContext } from '../base/context.ts';
import { isRefusal, type Refusal, refusal, type RefusalCode } from '../core/refusal.ts';
import type { AgentId } from '../core/rows.ts';
import { discardQuarantined, listQuarantine, retryQuarantine, showQuarantined } from '../inbound/quarantine.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';
import { numberMessages } from '../mail/find-message.ts';
import { listSent } from '../mail/sent.ts';
import { listConversations, markAllRead } from '../mail/conversations.ts';
import { useInbox } from '../mail/inbox.ts';
import { hearOfWait, watchInbox } from '../mail/inbox-waits.ts';
import { searchMail } from '../mail/search.ts';
import { listWaiting } from '../mail/waiting.ts';
import { cancelOutbox, listOutbox } from '../outbox/outbox-list.ts';
import { dismissEvidence, listEvidence, showEvidence } from '../outbox/relay-evidence.ts';
import { renameHost, rotateOwnKey } from '../peers/identity.ts';
import type { PairingInvite } from '../peers/pairing-invite.ts';
import { listPeers, refuseStranger, setAddress, unpair } from '../peers/peers.ts';
import { type InputOf, type OperationContract, type OperationName, OPERATIONS, type OutputOf } from './operations.ts';
import { parseInput } from '../contract/parse-input.ts';
import { tolerantInput } from '../contract/tolerant-input.ts';

/** The HTTP status of each refusal. */
export const STATUS_OF: Readonly<Record<RefusalCode, number>> = {
  BAD_INPUT: 400,
  UNKNOWN_RECIPIENT: 404,
  NO_SUCH_AGENT: 404,
  NAME_TAKEN: 409,
  NO_SUCH_MESSAGE: 404,
  AMBIGUOUS_ID: 409,
  NO_SUCH_SESSION: 404,
  IDEMPOTENCY_CONFLICT: 409,
  TOO_LARGE: 413,
  NO_SUCH_PEER: 404,
  ALREADY_PAIRED: 409,
  PAIRING_REFUSED: 403,
  PEER_UNREACHABLE: 503,
  NO_SUCH_ROW: 404,
  NOT_CANCELLABLE: 409,
  NOT_CONFIGURED: 409,
  NO_RELAY: 404,
  RELAY_KEY_MISMATCH: 403,
  RELAY_UNREACHABLE: 503,
  RELAY_KNOWN: 409,
  RELAY_NEEDED: 409,
  TOO_MANY_RELAYS: 409,
  MOVE_UNDER_WAY: 409,
  NO_MOVE: 404,
  UNAVAILABLE: 503,
};

const INPUT_JSON_BOUNDS: JsonBounds = { depthMax: 16, valuesMax: 10_000, membersMax: 200 };

/** Parses the input of an operation by its schema. Refuses `BAD_INPUT`. */
export function parseOperationInput(name: OperationName, bytes: Buffer): object | Refusal {
  const given = parseJsonBounded(bytes, INPUT_JSON_BOUNDS);
  if (!isObject(given)) return refusal('BAD_INPUT', 'the input must be a JSON object', { field: null });
  const { input, isTolerant }: OperationContract = OPERATIONS[name];
  // Every operation takes an object.
  return parseInput(input, isTolerant ? tolerantInput(input, given) : given) as object;
}

/** Calls the handler. `input` was parsed for this operation, and `caller` is one that it allows. */
export function perform(
  handlers: Handlers,
  name: OperationName,
  caller: Caller,
  input: object,
): Promise<object | Refusal> {
  // The table types each handler by its own input and caller.
  const handle = handlers[name] as (asker: Caller, value: object) => Promise<object>;
  return handle(caller, input);
}

export interface Caller {
  /** The acting agent; null when the operation needs none. */
  agentId: AgentId | null;
  /** The session that calls, where it says so. */
  sessionId?: string | undefined;
  /** The caller's name of this call, where it gives one. */
  callId?: string | undefined;
  /** Aborts when the client disconnects, and when the daemon stops. */
  signal: AbortSignal;
}

type CallerOf<N extends OperationName> = (typeof OPERATIONS)[N]['acting'] extends 'agent'
  ? Caller & { agentId: AgentId }
  : Caller;

export type Handlers = {
  readonly [N in OperationName]: (caller: CallerOf<N>, input: InputOf<N>) => Promise<OutputOf<N> | Refusal>;
};

type Answer<N extends OperationName> = ReturnType<Handlers[N]>;

/** The parts of the daemon that handlers call. */
export interface HandlerParts {
  context: HostContext;
  timers: Timers;
  /** Pairs hosts and calls them, over the LAN. */
  pairing: Directories & {
    readonly invitation: Pick<PairingInvite, 'acceptor' | 'confirm' | 'decline'>;
    invite(input: InputOf<'pair-invite'>): Answer<'pair-invite'>;
    accept(input: InputOf<'pair-accept'>, signal: AbortSignal): Answer<'pair-accept'>;
  };
  /** Sets and shows the relays of this host. */
  relay: {
    set(input: InputOf<'relay-set'>): Answer<'relay-set'>;
    unset(): Answer<'relay-unset'>;
    add(input: InputOf<'relay-add'>): Answer<'relay-add'>;
    list(): Answer<'relay-list'>;
    remove(input: InputOf<'relay-remove'>): Answer<'relay-remove'>;
    prefer(input: InputOf<'relay-prefer'>): Answer<'relay-prefer'>;
    status(): Answer<'relay-status'>;
  };
  relayMove: {
    begin(input: InputOf<'relay-move'>): Answer<'relay-move'>;
    status(): Promise<OutputOf<'relay-move-status'>['move']>;
    cancel(): Answer<'relay-move-cancel'>;
  };
  reach: RelayReach;
  health: {
    /** The host at a glance; calls nobody. */
    status(): Promise<OutputOf<'status'>>;
    /** Checks the whole host, or traces one message; asks paired hosts and the relay, for a bounded time. */
    doctor(signal: AbortSignal): Promise<OutputOf<'doctor'>>;
    trace(input: InputOf<'trace'>, signal: AbortSignal): Answer<'trace'>;
  };
  /** Makes links to the owner's page; the first one starts its listener. */
  web: { link(): Answer<'web-link'> };
  sessions: SessionService;
  wakeAgent: WakeAgent;
}

export function handlersOf(parts: HandlerParts): Handlers {
  const { context, timers, health, pairing, relay, reach, web, sessions, wakeAgent } = parts;
  return {
    status: () => health.status(),
    doctor: ({ signal }) => health.doctor(signal),
    trace: ({ signal }, input) => health.trace(input, signal),
    'add-agent': (_, input) => addAgent(context, input),
    'rename-agent': (_, input) => renameAgent(context, input),
    'set-agent-roles': (_, input) => setAgentRoles(context, input),
    'remove-agent': (_, input) => removeAgent(context, input),
    'list-agents': async () => {
      await sessions.endGone(null);
      return listOwnAgents(context);
    },
    'mail-agents': async ({ agentId }, input) => {
      await sessions.endGone(null);
      return withUnread(context, agentId, await listAgents(context, agentId, input, pairing));
    },
    'known-agents': ({ agentId }) => listAgents(context, agentId, {}),
    'mail-send': async ({ agentId }, input) => {
      await sessions.endGone(null);
      const sent = await sendMail(context, agentId, input, { wakeAgent, directories: pairing });
      return withUnread(context, agentId, sent);
    },
    'mail-reply': async ({ agentId, sessionId }, input) => {
      if (sessionId !== undefined) await sessions.usedTool(agentId, sessionId);
      await sessions.endGone(null);
      return withUnread(context, agentId, await replyMail(context, agentId, input, wakeAgent));
    },
    'mail-inbox': async ({ agentId, sessionId, callId, signal }, input) => {
      if (sessionId !== undefined) await sessions.usedTool(agentId, sessionId);
      return useInbox(context, agentId, input, { timers, signal, callId }, reach);
    },
    'wait-heard': ({ agentId }, input) => hearOfWait(context, agentId, input),
    'watch-inbox': ({ agentId, signal }, input) => watchInbox(context, timers, agentId, input, signal),
    'message-numbers': ({ agentId }, input) => numberMessages(context, agentId, input),
    'mail-sent': ({ agentId }, input) => listSent(context, agentId, input),
    waiting: async ({ agentId }, { all, limit }) => {
      await sessions.endGone(null);
      return listWaiting(context, all ? null : agentId, limit === undefined ? {} : { limit }, reach);
    },
    'mail-search': ({ agentId }, input) => searchMail(context, agentId, input),
    'mail-conversations': ({ agentId }, input) => listConversations(context, agentId, input),
    'mail-read-all': ({ agentId }, input) => markAllRead(context, agentId, input),
    people: async () => {
      await sessions.endGone(null);
      return listPeople(context, { directories: pairing, relay, reach });
    },
    'web-link': () => web.link(),
    peers: () => listPeers(context, (peer) => reach.factsFor(peer)),
    'pair-invite': (_caller, input) => pairing.invite(input),
    'pair-wait': ({ signal }, input) => pairing.invitation.acceptor(input, signal),
    'pair-confirm': (_caller, input) => pairing.invitation.confirm(input),
    'pair-decline': async (_caller, input) => pairing.invitation.decline(input),
    'pair-accept': ({ signal }, input) => pairing.accept(input, signal),
    'peer-address': (_caller, { host, address }) => setAddress(context, host, address),
    unpair: (_caller, { host }) => unpair(context, host),
    'rename-host': (_caller, input) => renameHost(context, input),
    'rotate-key': (_caller, input) => rotateOwnKey(context, input),
    ...relayHandlersOf(parts),
    outbox: async (_caller, input) => (await refuseStranger(context, input.host)) ?? listOutbox(context, input),
    'outbox-cancel': (_caller, input) => cancelOutbox(context, input),
    quarantine: async (_caller, input) => (await refuseStranger(context, input.host)) ?? listQuarantine(context, input),
    'quarantine-show': (_caller, input) => showQuarantined(context, input),
    'quarantine-retry': (_caller, input) => retryQuarantine(context, input),
    'quarantine-discard': (_caller, input) => discardQuarantined(context, input),
    'session-register': ({ agentId }, input) => sessions.register(agentId, input),
    'session-heartbeat': ({ agentId }, input) => sessions.heartbeat(agentId, input),
    'session-end': ({ agentId }, input) => sessions.end(agentId, input),
    'session-wait': ({ agentId, signal }, input) => sessions.wait(agentId, input, signal),
    'session-heard': ({ agentId }, input) => sessions.heard(agentId, input),
    'session-list': ({ agentId }) => sessions.list(agentId),
  };
}

type RelayOperation = Extract<OperationName, `relay-${string}`>;

function relayHandlersOf({ context, relay, relayMove }: HandlerParts): Pick<Handlers, RelayOperation> {
  return {
    'relay-set': (_caller, input) => relay.set(input),
    'relay-unset': () => relay.unset(),
    'relay-add': (_caller, input) => relay.add(input),
    'relay-list': () => relay.list(),
    'relay-remove': (_caller, input) => relay.remove(input),
    'relay-prefer': (_caller, input) => relay.prefer(input),
    'relay-status': () => relay.status(),
    'relay-move': (_caller, input) => relayMove.begin(input),
    'relay-move-status': async () => ({ move: await relayMove.status() }),
    'relay-move-cancel': () => relayMove.cancel(),
    'relay-evidence': () => listEvidence(context),
    'relay-evidence-show': (_caller, input) => showEvidence(context, input),
    'relay-evidence-dismiss': (_caller, input) => dismissEvidence(context, input),
  };
}

/** An agent that is told of mail in every answer need not look for it. */
async function withUnread<T extends { unread?: number }>(
  context: HostContext,
  agentId: AgentId | null,
  answer: T | Refusal,
): Promise<T | Refusal> {
  if (isRefusal(answer) || agentId === null) return answer;
  const { unread } = await context.store.read((reader) => mailboxOf(reader, agentId));
  return unread === 0 ? answer : { ...answer, unread };
}

/** The session operations: rows of the store, and the hooks that wait in this process. */
export interface SessionService {
  register(agentId: AgentId, input: InputOf<'session-register'>): Promise<OutputOf<'session-register'> | Refusal>;
  heartbeat(agentId: AgentId, input: InputOf<'session-heartbeat'>): Promise<OutputOf<'session-register'> | Refusal>;
  end(agentId: AgentId, input: InputOf<'session-end'>): Promise<OutputOf<'session-end'>>;
  /** Resolves with a doorbell, or when `wait_ms` have passed, or `signal` is aborted. */
  wait(
    agentId: AgentId,
    input: InputOf<'session-wait'>,
    signal: AbortSignal,
  ): Promise<OutputOf<'session-wait'> | Refusal>;
  /** A waiter confirms that it got its doorbell, and gives it to its agent. */
  heard(agentId: AgentId, input: InputOf<'session-heard'>): Promise<OutputOf<'session-heard'>>;
  /** The agent used a mail tool of the `poste mcp` that is this session. */
  usedTool(agentId: AgentId, sessionId: string): Promise<void>;
  /** Ends the sessions of one agent, or of all, whose program has ended. */
  endGone(agentId: AgentId | null): Promise<void>;
  /** The sessions of one agent, or of all. */
  list(agentId: AgentId | null): Promise<OutputOf<'session-list'>>;
}

/** The facts that daemon.ts knows of this process. */
export interface DaemonFacts {
  version: string;
  pid: number;
  startedAtMs: number;
  store: string;
  config: string;
  socket: string;
  /** The number of lines of its log that could not be written. */
  linesLost: () => number;
}
