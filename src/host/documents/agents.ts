/** Agents of this host as its owner manages them: what those operations take and give. */
import { type Static, Type } from 'typebox';
import { AGENT_NAME_PATTERN } from '../../protocol/names.ts';

export const ROLES_MAX = 20;
const CLOSED = { additionalProperties: false } as const;

const name = Type.String({
  pattern: AGENT_NAME_PATTERN,
  description: 'Letters, digits, full stop, underscore and hyphen, at most 64; the first a letter or digit.',
});
const roles = Type.Array(name, { maxItems: ROLES_MAX, description: 'What role:<role> finds it by.' });

export const AgentAddInput = Type.Object({ name, roles: Type.Optional(roles) }, CLOSED);
export type AgentAddInput = Static<typeof AgentAddInput>;

export const AgentRenameInput = Type.Object({ name, new_name: name }, CLOSED);
export type AgentRenameInput = Static<typeof AgentRenameInput>;

/** All its roles, instead of those it had. */
export const AgentRolesInput = Type.Object({ name, roles }, CLOSED);
export type AgentRolesInput = Static<typeof AgentRolesInput>;

export const AgentRemoveInput = Type.Object({ name }, CLOSED);
export type AgentRemoveInput = Static<typeof AgentRemoveInput>;

export const AgentDocument = Type.Object({
  name: Type.String(),
  address: Type.String(),
  roles: Type.Array(Type.String()),
  /** Mail to these is forwarded to it. */
  former_names: Type.Array(Type.String()),
  presence: Type.Enum(['live', 'offline']),
  unread: Type.Integer(),
  total: Type.Integer(),
  /** Milliseconds since the Unix epoch. */
  created_at: Type.Integer(),
});
export type AgentDocument = Static<typeof AgentDocument>;

export const AgentList = Type.Object({ agents: Type.Array(AgentDocument) });
export type AgentList = Static<typeof AgentList>;

export const AgentRemoved = Type.Object({
  name: Type.String(),
  /** How many messages its mailbox held, and how many of them nobody read. */
  dropped: Type.Integer(),
  dropped_unread: Type.Integer(),
});
export type AgentRemoved = Static<typeof AgentRemoved>;
