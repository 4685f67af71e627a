/** Inputs and results of the operations on agents and their sessions. */
import { type Static, Type } from 'typebox';
import { AGENT_NAME_PATTERN } from '../../protocol/names.ts';
import { DOORBELL_LINES_MAX } from '../core/doorbell.ts';
import { LIST_LIMIT_MAX } from './limits.ts';
import { SESSION_WAIT_MS_MAX, WAKE_ARGUMENT_CHARACTERS_MAX, WAKE_ARGUMENTS_MAX } from './socket-protocol.ts';
import { CLOSED, Count, ExactMoment, Moment, orNull } from '../../protocol/shapes.ts';

const ROLES_MAX = 20;

const name = Type.String({
  pattern: AGENT_NAME_PATTERN,
  description: 'Letters, digits, full stop, underscore and hyphen, at most 64; the first a letter or digit.',
});
const roles = Type.Array(name, { maxItems: ROLES_MAX, description: 'What role:<role> finds it by.' });

export const AgentAddInput = Type.Object({ name, roles: Type.Optional(roles) }, CLOSED);
export type AgentAddInput = Static<typeof AgentAddInput>;

export const AgentRenameInput = Type.Object({ name, new_name: name }, CLOSED);
export type AgentRenameInput = Static<typeof AgentRenameInput>;

/** Replaces all roles of the agent. */
export const AgentRolesInput = Type.Object({ name, roles }, CLOSED);
export type AgentRolesInput = Static<typeof AgentRolesInput>;

export const AgentRemoveInput = Type.Object({ name }, CLOSED);
export type AgentRemoveInput = Static<typeof AgentRemoveInput>;

export const AgentDocument = Type.Object({
  name: Type.String(),
  address: Type.String(),
  roles: Type.Array(Type.String()),
  /** Former names; mail to them is forwarded to it. */
  former_names: Type.Array(Type.String()),
  presence: Type.Enum(['live', 'offline']),
  unread: Type.Integer(),
  total: Type.Integer(),
  created_at: Moment,
});
export type AgentDocument = Static<typeof AgentDocument>;

export const AgentList = Type.Object({ agents: Type.Array(AgentDocument) });
export type AgentList = Static<typeof AgentList>;

export const AgentRemoved = Type.Object({
  name: Type.String(),
  /** The number of messages that its mailbox held, and how many of them were unread. */
  dropped: Type.Integer(),
  dropped_unread: Type.Integer(),
});
export type AgentRemoved = Static<typeof AgentRemoved>;

const WAKE_METHODS_MAX = 4;

const sessionId = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9._-]+$',
  description: 'What the session calls itself.',
});
// oxlint-disable-next-line no-control-regex -- no program can be given a NUL
const argument = Type.String({ maxLength: WAKE_ARGUMENT_CHARACTERS_MAX, pattern: '^[^\\u0000]*$' });
const absolutePath = Type.String({
  maxLength: WAKE_ARGUMENT_CHARACTERS_MAX,
  pattern: '^/[^\\u0000]*$',
  description: 'An absolute path.',
});

const WakeMethodInput = Type.Union([
  Type.Object({ type: Type.Literal('hook') }, CLOSED),
  Type.Object({ type: Type.Literal('claude-socket') }, CLOSED),
  Type.Object({ type: Type.Literal('codex-socket'), socket: absolutePath }, CLOSED),
  Type.Object(
    {
      type: Type.Literal('command'),
      /** Run without a shell; the doorbell's text comes as one more argument. */
      program: absolutePath,
      arguments: Type.Array(argument, { maxItems: WAKE_ARGUMENTS_MAX }),
    },
    CLOSED,
  ),
  Type.Object(
    {
      type: Type.Literal('tmux'),
      socket: Type.Union([absolutePath, Type.Null()]),
      pane: Type.String({ pattern: '^%[0-9]{1,9}$' }),
      /** The program's input line; `unknown` only where the owner asked for keys. Without it nothing is typed. */
      input: Type.Optional(Type.Enum(['gemini', 'qwen', 'unknown'])),
    },
    CLOSED,
  ),
]);

export const SessionRegisterInput = Type.Object({
  session_id: sessionId,
  /** The order does not count: the daemon knows which is best. */
  wake: Type.Optional(Type.Array(WakeMethodInput, { maxItems: WAKE_METHODS_MAX })),
  /** The agent's program: while it runs, the session is live. A tmux pane is typed into only while it shows it. */
  pid: Type.Optional(Type.Integer({ minimum: 2, maximum: 2 ** 31 - 1 })),
  /** The caller shows the answer's text to the agent now. */
  tell: Type.Optional(Type.Boolean()),
  /** The agent's state. `interrupted`: its user stopped the turn. `failed`: no model could be asked; it is idle. */
  doing: Type.Optional(Type.Enum(['work', 'idle', 'interrupted', 'failed'])),
  /** The caller reports every prompt of the session, and more than one may come. */
  reports_prompts: Type.Optional(Type.Boolean()),
  /** The program began the session now, or cleared or resumed it. */
  begins: Type.Optional(Type.Boolean()),
  /** The lines of doorbells that stand in the prompt which the agent gets now: the proof that it is woken. */
  lines: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { maxItems: DOORBELL_LINES_MAX })),
  /** One process at a time has the session: another one that runs keeps it, and this call is refused. */
  alone: Type.Optional(Type.Boolean()),
});
export type SessionRegisterInput = Static<typeof SessionRegisterInput>;

export const SessionHeartbeatInput = Type.Object({
  session_id: sessionId,
  tell: SessionRegisterInput.properties.tell,
  doing: SessionRegisterInput.properties.doing,
  lines: SessionRegisterInput.properties.lines,
  /** The messages of its mailbox that the session's program has now: each counts as notified, and proves a wake. */
  has: Type.Optional(Type.Array(Type.String({ maxLength: 128 }), { maxItems: LIST_LIMIT_MAX })),
});
export type SessionHeartbeatInput = Static<typeof SessionHeartbeatInput>;

export const SessionState = Type.Object(
  {
    session_id: Type.String(),
    /** The session is not live once it was silent for this long and its program does not run. */
    live_ms: Type.Integer(),
    unread: Count,
    /** The text for the agent; null when nothing is unread. */
    text: Type.Union([Type.String(), Type.Null()]),
  },
  CLOSED,
);
export type SessionState = Static<typeof SessionState>;

export const SessionEndInput = Type.Object({ session_id: sessionId });
export type SessionEndInput = Static<typeof SessionEndInput>;

export const SessionEndResult = Type.Object(
  {
    /** False when the session was unknown or had ended. */
    ended: Type.Boolean(),
  },
  CLOSED,
);
export type SessionEndResult = Static<typeof SessionEndResult>;

export const SessionWaitInput = Type.Object({
  session_id: sessionId,
  wait_ms: Type.Integer({ minimum: 0, maximum: SESSION_WAIT_MS_MAX }),
});
export type SessionWaitInput = Static<typeof SessionWaitInput>;

export const SessionWaitResult = Type.Object(
  {
    /** `released`: the session ended, or has a newer wait; do not wait again. */
    event: Type.Enum(['doorbell', 'nothing', 'released']),
    /** The id of the doorbell: send it back with `session-heard` before you give the text to the agent. */
    ring: Type.Union([Type.String(), Type.Null()]),
    text: Type.Union([Type.String(), Type.Null()]),
  },
  CLOSED,
);
export type SessionWaitResult = Static<typeof SessionWaitResult>;

export const SessionHeardInput = Type.Object({
  session_id: sessionId,
  ring: Type.String({ minLength: 1, maxLength: 64 }),
  /** The text cannot be given to the agent. */
  failed: Type.Optional(Type.Boolean()),
});
export type SessionHeardInput = Static<typeof SessionHeardInput>;

export const SessionHeardResult = Type.Object(
  {
    /** Says whether the doorbell still waited for it: then give the text to the agent. */
    counted: Type.Boolean(),
  },
  CLOSED,
);
export type SessionHeardResult = Static<typeof SessionHeardResult>;

const method = Type.Enum(['hook', 'claude-socket', 'codex-socket', 'command', 'tmux']);

export const SessionListResult = Type.Object(
  {
    sessions: Type.Array(
      Type.Object(
        {
          agent: Type.String(),
          session_id: Type.String(),
          presence: Type.Enum(['live', 'silent', 'ended']),
          registered_at: ExactMoment,
          seen_at: ExactMoment,
          ended_at: orNull(ExactMoment),
          pid: Type.Union([Type.Integer(), Type.Null()]),
          wake: Type.Array(method),
          /** The method that last woke it, by proof. */
          woken_by: Type.Union([method, Type.Null()]),
          woken_at: orNull(ExactMoment),
        },
        CLOSED,
      ),
    ),
  },
  CLOSED,
);
export type SessionListResult = Static<typeof SessionListResult>;
