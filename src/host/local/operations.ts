/**
 * Every operation of the daemon, as its socket, the commands and the tools know it: `POST /v1/<name>`, what it takes
 * and what it gives.
 *
 * What does them is in handlers.ts; an operation without a handler does not compile.
 */
import { type Static, type TSchema, Type } from 'typebox';
import {
  AgentAddInput,
  AgentDocument,
  AgentList,
  AgentRemoved,
  AgentRemoveInput,
  AgentRenameInput,
  AgentRolesInput,
} from '../documents/agents.ts';
import {
  AgentsInput,
  AgentsResult,
  InboxInput,
  InboxResult,
  ReplyInput,
  SendInput,
  SendResult,
} from '../documents/mail.ts';
import { WatchInboxInput, WatchInboxResult } from '../documents/inbox-watch.ts';
import { DoctorResult } from '../documents/doctor.ts';
import { SearchInput, SearchResult } from '../documents/search.ts';
import { SentInput, SentResult } from '../documents/sent.ts';
import {
  CancelInput,
  CancelResult,
  OutboxInput,
  OutboxResult,
  QuarantineDiscardInput,
  QuarantineDiscardResult,
  QuarantineInput,
  QuarantineResult,
  QuarantineRetryInput,
  QuarantineRetryResult,
  QuarantineShowInput,
  QuarantineShowResult,
} from '../documents/outbox.ts';
import {
  AcceptInput,
  InviteResult,
  PeerAddressInput,
  PeerView,
  PeersResult,
  RotateKeyResult,
  UnpairInput,
} from '../documents/peers.ts';
import { RelaySetInput, RelaySetResult, RelayStatusResult, RelayUnsetResult } from '../documents/relay.ts';
import {
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
import { TraceInput, TraceResult } from '../documents/trace.ts';
import { StatusResult } from '../documents/status.ts';
import { WebLinkResult } from '../documents/web.ts';

/** In the name of whom: an agent (or the owner), or nobody in particular. */
export type Acting = 'agent' | 'anybody';

export interface OperationContract {
  acting: Acting;
  input: TSchema;
  output: TSchema;
}

/** An operation that is only asked. */
const Nothing = Type.Object({});

export const OPERATIONS = {
  status: { acting: 'anybody', input: Nothing, output: StatusResult },
  doctor: { acting: 'anybody', input: Nothing, output: DoctorResult },
  trace: { acting: 'anybody', input: TraceInput, output: TraceResult },
  'add-agent': { acting: 'anybody', input: AgentAddInput, output: AgentDocument },
  'rename-agent': { acting: 'anybody', input: AgentRenameInput, output: AgentDocument },
  'set-agent-roles': { acting: 'anybody', input: AgentRolesInput, output: AgentDocument },
  'remove-agent': { acting: 'anybody', input: AgentRemoveInput, output: AgentRemoved },
  'list-agents': { acting: 'anybody', input: Nothing, output: AgentList },
  'mail-agents': { acting: 'anybody', input: AgentsInput, output: AgentsResult },
  'mail-send': { acting: 'agent', input: SendInput, output: SendResult },
  'mail-reply': { acting: 'agent', input: ReplyInput, output: SendResult },
  'mail-inbox': { acting: 'agent', input: InboxInput, output: InboxResult },
  /** Answers late: a client asks for it again and again. */
  'watch-inbox': { acting: 'agent', input: WatchInboxInput, output: WatchInboxResult },
  'mail-sent': { acting: 'agent', input: SentInput, output: SentResult },
  'mail-search': { acting: 'agent', input: SearchInput, output: SearchResult },
  'web-link': { acting: 'anybody', input: Nothing, output: WebLinkResult },
  peers: { acting: 'anybody', input: Nothing, output: PeersResult },
  'pair-invite': { acting: 'anybody', input: Nothing, output: InviteResult },
  'pair-accept': { acting: 'anybody', input: AcceptInput, output: PeerView },
  'peer-address': { acting: 'anybody', input: PeerAddressInput, output: PeerView },
  unpair: { acting: 'anybody', input: UnpairInput, output: PeerView },
  'rotate-key': { acting: 'anybody', input: Nothing, output: RotateKeyResult },
  'relay-set': { acting: 'anybody', input: RelaySetInput, output: RelaySetResult },
  'relay-unset': { acting: 'anybody', input: Nothing, output: RelayUnsetResult },
  'relay-status': { acting: 'anybody', input: Nothing, output: RelayStatusResult },
  outbox: { acting: 'anybody', input: OutboxInput, output: OutboxResult },
  'outbox-cancel': { acting: 'anybody', input: CancelInput, output: CancelResult },
  quarantine: { acting: 'anybody', input: QuarantineInput, output: QuarantineResult },
  'quarantine-show': { acting: 'anybody', input: QuarantineShowInput, output: QuarantineShowResult },
  'quarantine-retry': { acting: 'anybody', input: QuarantineRetryInput, output: QuarantineRetryResult },
  'quarantine-discard': { acting: 'anybody', input: QuarantineDiscardInput, output: QuarantineDiscardResult },
  'session-register': { acting: 'agent', input: SessionRegisterInput, output: SessionState },
  'session-heartbeat': { acting: 'agent', input: SessionHeartbeatInput, output: SessionState },
  'session-end': { acting: 'agent', input: SessionEndInput, output: SessionEndResult },
  'session-wait': { acting: 'agent', input: SessionWaitInput, output: SessionWaitResult },
  'session-heard': { acting: 'agent', input: SessionHeardInput, output: SessionHeardResult },
  /** Of the acting agent, or of all. */
  'session-list': { acting: 'anybody', input: Nothing, output: SessionListResult },
} as const satisfies Readonly<Record<string, OperationContract>>;

export type OperationName = keyof typeof OPERATIONS;
export type InputOf<N extends OperationName> = Static<(typeof OPERATIONS)[N]['input']>;
export type OutputOf<N extends OperationName> = Static<(typeof OPERATIONS)[N]['output']>;

export function isOperation(name: string): name is OperationName {
  return Object.hasOwn(OPERATIONS, name);
}

/** The header that names the acting agent; `owner` is the person. */
export const AGENT_HEADER = 'x-poste-agent';

/** An answer that is no success: a refusal, or what keeps the daemon from doing anything. */
export interface ProblemAnswer {
  /** Stable, for programs: a `RefusalCode` or one of `SERVER_CODES`. */
  code: string;
  /** One sentence for people. */
  message: string;
  details: Readonly<Record<string, unknown>>;
}

export const SERVER_CODES = ['UNKNOWN_OPERATION', 'STORE_FAILED', 'INTERNAL'] as const;

/** What a request may hold: the longest body with every character escaped, and room for the rest. */
export const REQUEST_BYTES_MAX = 4 << 20;

export function operationTarget(name: OperationName): string {
  return `/v1/${name}`;
}

/** Everything the host holds, as a backup. */
export const BACKUP_TARGET = '/v1/backup';
