/**
 * Every operation of the daemon, for its socket, the commands and the tools: `POST /v1/<name>`, its input
 * and its output.
 *
 * handlers.ts has the handlers; an operation without a handler does not compile.
 */
import { type Static, type TSchema, Type } from 'typebox';
import * as agents from '../contract/agents.ts';
import * as mail from '../contract/mail.ts';
import * as daemon from '../contract/daemon.ts';
import * as outbox from '../contract/outbox.ts';
import * as page from '../contract/owner-page.ts';
import * as peers from '../contract/peers.ts';
import * as relayMove from '../contract/relay-move.ts';
import * as relays from '../contract/relays.ts';
import * as sent from '../contract/sent-mail.ts';
import * as waiting from '../contract/waiting.ts';

export interface OperationContract {
  /** An operation acts for an agent (or the owner), or for nobody in particular. */
  acting: 'agent' | 'anybody';
  input: TSchema;
  output: TSchema;
  /** Agents write the input: what can mean only one thing is taken as that. */
  isTolerant?: true;
}

/** The input of an operation that takes none. */
const Nothing = Type.Object({});

export const OPERATIONS = {
  status: { acting: 'anybody', input: Nothing, output: daemon.StatusResult },
  doctor: { acting: 'anybody', input: Nothing, output: daemon.DoctorResult },
  trace: { acting: 'anybody', input: outbox.TraceInput, output: outbox.TraceResult },
  'add-agent': { acting: 'anybody', input: agents.AgentAddInput, output: agents.AgentDocument },
  'rename-agent': { acting: 'anybody', input: agents.AgentRenameInput, output: agents.AgentDocument },
  'set-agent-roles': { acting: 'anybody', input: agents.AgentRolesInput, output: agents.AgentDocument },
  'remove-agent': { acting: 'anybody', input: agents.AgentRemoveInput, output: agents.AgentRemoved },
  'list-agents': { acting: 'anybody', input: Nothing, output: agents.AgentList },
  'mail-agents': { acting: 'anybody', input: mail.AgentsInput, output: mail.AgentsResult, isTolerant: true },
  /** The same without a question to another host: of hosts whose lists are old, what they sent last. */
  'known-agents': { acting: 'anybody', input: Nothing, output: mail.AgentsResult },
  'mail-send': { acting: 'agent', input: mail.SendInput, output: mail.SendResult, isTolerant: true },
  'mail-reply': { acting: 'agent', input: mail.ReplyInput, output: mail.SendResult, isTolerant: true },
  'mail-inbox': { acting: 'agent', input: mail.InboxInput, output: mail.InboxResult, isTolerant: true },
  /** The caller says what became of the answer to a `mail-inbox` that waited. */
  'wait-heard': { acting: 'agent', input: mail.WaitHeardInput, output: mail.WaitHeardResult },
  /** A long poll: the answer may wait, and clients ask again. */
  'watch-inbox': { acting: 'agent', input: mail.WatchInboxInput, output: mail.WatchInboxResult },
  /** People on a terminal type a number instead of an id. */
  'message-numbers': { acting: 'agent', input: sent.NumbersInput, output: sent.NumbersResult },
  'mail-sent': { acting: 'agent', input: sent.SentInput, output: sent.SentResult },
  /** The debts of the acting agent, or of all. */
  waiting: { acting: 'anybody', input: waiting.WaitingInput, output: waiting.WaitingResult },
  'mail-search': { acting: 'agent', input: mail.SearchInput, output: mail.SearchResult },
  'mail-conversations': { acting: 'agent', input: page.ConversationsInput, output: page.ConversationsResult },
  'mail-read-all': { acting: 'agent', input: page.ReadAllInput, output: page.ReadAllResult },
  people: { acting: 'anybody', input: Nothing, output: page.PeopleResult },
  'web-link': { acting: 'anybody', input: Nothing, output: daemon.WebLinkResult },
  peers: { acting: 'anybody', input: Nothing, output: peers.PeersResult },
  'pair-invite': { acting: 'anybody', input: peers.InviteInput, output: peers.InviteResult },
  /** A long poll of who accepts; a caller that goes ends the invitation. */
  'pair-wait': { acting: 'anybody', input: peers.PairWaitInput, output: peers.PairWaitResult },
  'pair-confirm': { acting: 'anybody', input: peers.ConfirmInput, output: peers.PeerView },
  'pair-decline': { acting: 'anybody', input: peers.DeclineInput, output: Nothing },
  'pair-accept': { acting: 'anybody', input: peers.AcceptInput, output: peers.PeerView },
  'peer-address': { acting: 'anybody', input: peers.PeerAddressInput, output: peers.PeerView },
  unpair: { acting: 'anybody', input: peers.UnpairInput, output: peers.PeerView },
  'rename-host': { acting: 'anybody', input: peers.RenameHostInput, output: peers.RenameHostResult },
  'rotate-key': { acting: 'anybody', input: peers.RotateKeyInput, output: peers.RotateKeyResult },
  'relay-set': { acting: 'anybody', input: relays.RelaySetInput, output: relays.RelaySetResult },
  'relay-unset': { acting: 'anybody', input: Nothing, output: relays.RelayUnsetResult },
  'relay-add': { acting: 'anybody', input: relays.RelayAddInput, output: relays.RelayAddResult },
  'relay-list': { acting: 'anybody', input: Nothing, output: relays.RelayListResult },
  'relay-remove': { acting: 'anybody', input: relays.RelayRemoveInput, output: relays.RelayRemoveResult },
  'relay-prefer': { acting: 'anybody', input: relays.RelayPreferInput, output: relays.RelayListResult },
  'relay-status': { acting: 'anybody', input: Nothing, output: relays.RelayStatusResult },
  'relay-move': { acting: 'anybody', input: relayMove.RelayMoveInput, output: relayMove.RelayMoveStarted },
  'relay-move-status': { acting: 'anybody', input: Nothing, output: relayMove.RelayMoveStatus },
  'relay-move-cancel': { acting: 'anybody', input: Nothing, output: relayMove.RelayMoveCancelled },
  'relay-evidence': { acting: 'anybody', input: Nothing, output: relays.EvidenceResult },
  'relay-evidence-show': { acting: 'anybody', input: relays.EvidenceInput, output: relays.EvidenceShowResult },
  'relay-evidence-dismiss': { acting: 'anybody', input: relays.EvidenceInput, output: relays.EvidenceView },
  outbox: { acting: 'anybody', input: outbox.OutboxInput, output: outbox.OutboxResult },
  'outbox-cancel': { acting: 'anybody', input: outbox.CancelInput, output: outbox.CancelResult },
  quarantine: { acting: 'anybody', input: outbox.QuarantineInput, output: outbox.QuarantineResult },
  'quarantine-show': { acting: 'anybody', input: outbox.QuarantineShowInput, output: outbox.QuarantineShowResult },
  'quarantine-retry': { acting: 'anybody', input: outbox.QuarantineRetryInput, output: outbox.QuarantineRetryResult },
  'quarantine-discard': {
    acting: 'anybody',
    input: outbox.QuarantineDiscardInput,
    output: outbox.QuarantineDiscardResult,
  },
  'session-register': { acting: 'agent', input: agents.SessionRegisterInput, output: agents.SessionState },
  'session-heartbeat': { acting: 'agent', input: agents.SessionHeartbeatInput, output: agents.SessionState },
  'session-end': { acting: 'agent', input: agents.SessionEndInput, output: agents.SessionEndResult },
  'session-wait': { acting: 'agent', input: agents.SessionWaitInput, output: agents.SessionWaitResult },
  'session-heard': { acting: 'agent', input: agents.SessionHeardInput, output: agents.SessionHeardResult },
  /** The sessions of the acting agent, or of all. */
  'session-list': { acting: 'anybody', input: Nothing, output: agents.SessionListResult },
} as const satisfies Readonly<Record<string, OperationContract>>;

export type OperationName = keyof typeof OPERATIONS;
export type InputOf<N extends OperationName> = Static<(typeof OPERATIONS)[N]['input']>;
export type OutputOf<N extends OperationName> = Static<(typeof OPERATIONS)[N]['output']>;

/** The body of every answer that is not 200: a refusal, or a fault of the request or the daemon. */
export interface ProblemAnswer {
  /**
   * Stable, for programs: a `RefusalCode`, the `ProblemCode` of a refused HTTP request, or one of the daemon's own:
   * `UNKNOWN_OPERATION`, `STORE_FAILED` and `INTERNAL`.
   */
  code: string;
  /** One sentence for people. */
  message: string;
  details: Readonly<Record<string, unknown>>;
}
