/** Sessions of agents: how they say that they are there, and how they can be woken. */
import { type Static, Type } from 'typebox';
import { CLOSED, Count, Time } from '../../protocol/shapes.ts';

/** A wait for a doorbell ends after this long, and may be asked for again: well inside the window of liveness. */
export const SESSION_WAIT_MS_MAX = 55_000;
export const WAKE_METHODS_MAX = 4;
export const WAKE_ARGUMENTS_MAX = 64;
export const WAKE_ARGUMENT_CHARACTERS_MAX = 4096;

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

export const WakeMethodInput = Type.Union([
  Type.Object({ type: Type.Literal('hook') }, CLOSED),
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
    },
    CLOSED,
  ),
]);

export const SessionRegisterInput = Type.Object({
  session_id: sessionId,
  /** In any order: the daemon knows which is best. */
  wake: Type.Optional(Type.Array(WakeMethodInput, { maxItems: WAKE_METHODS_MAX })),
  /** The agent's program: as long as it runs the session is live. A tmux pane is only typed into while it shows it. */
  pid: Type.Optional(Type.Integer({ minimum: 2, maximum: 2 ** 31 - 1 })),
  /** Whoever asks shows the answer's text to the agent now. */
  tell: Type.Optional(Type.Boolean()),
  /** The agent works: it need not be woken, and its hook waits no longer. */
  at_work: Type.Optional(Type.Boolean()),
});
export type SessionRegisterInput = Static<typeof SessionRegisterInput>;

export const SessionHeartbeatInput = Type.Object({
  session_id: sessionId,
  tell: SessionRegisterInput.properties.tell,
  at_work: SessionRegisterInput.properties.at_work,
});
export type SessionHeartbeatInput = Static<typeof SessionHeartbeatInput>;

export const SessionState = Type.Object(
  {
    session_id: Type.String(),
    /** It counts as gone when it says nothing for so long and its program does not run. */
    live_ms: Type.Integer(),
    unread: Count,
    /** What to tell the agent; null when nothing is unread. */
    text: Type.Union([Type.String(), Type.Null()]),
  },
  CLOSED,
);
export type SessionState = Static<typeof SessionState>;

export const SessionEndInput = Type.Object({ session_id: sessionId });
export type SessionEndInput = Static<typeof SessionEndInput>;

export const SessionEndResult = Type.Object(
  {
    /** False when it was unknown or had ended. */
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
    /** `released`: the session ended, works, or waits elsewhere now, and this wait is not to be asked for again. */
    event: Type.Enum(['doorbell', 'nothing', 'released']),
    /** Of a doorbell: to be given back with `session-heard` before the agent is woken. */
    ring: Type.Union([Type.String(), Type.Null()]),
    text: Type.Union([Type.String(), Type.Null()]),
  },
  CLOSED,
);
export type SessionWaitResult = Static<typeof SessionWaitResult>;

export const SessionHeardInput = Type.Object({
  session_id: sessionId,
  ring: Type.String({ minLength: 1, maxLength: 64 }),
});
export type SessionHeardInput = Static<typeof SessionHeardInput>;

export const SessionHeardResult = Type.Object(
  {
    /** Whether the doorbell still waited for it: then the agent is to be woken. */
    counted: Type.Boolean(),
  },
  CLOSED,
);
export type SessionHeardResult = Static<typeof SessionHeardResult>;

const nullableTime = Type.Union([Time, Type.Null()]);
const method = Type.Enum(['hook', 'command', 'tmux']);

export const SessionListResult = Type.Object(
  {
    sessions: Type.Array(
      Type.Object(
        {
          agent: Type.String(),
          session_id: Type.String(),
          presence: Type.Enum(['live', 'silent', 'ended']),
          registered_at: Time,
          seen_at: Time,
          ended_at: nullableTime,
          pid: Type.Union([Type.Integer(), Type.Null()]),
          wake: Type.Array(method),
          /** What woke it last, by proof. */
          woken_by: Type.Union([method, Type.Null()]),
          woken_at: nullableTime,
        },
        CLOSED,
      ),
    ),
  },
  CLOSED,
);
export type SessionListResult = Static<typeof SessionListResult>;
