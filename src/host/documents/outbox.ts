/** What the outbox and the quarantine show, and what is asked of them. */
import { type Static, Type } from 'typebox';
import { OUTBOX_STATES } from '../core/rows.ts';
import { QUARANTINE_REASONS } from '../core/quarantine-reasons.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';

export const OUTBOX_PAGE_MAX = 200;
export const QUARANTINE_PAGE_MAX = 200;

const count = Type.Integer({ minimum: 0 });
const time = Type.Integer({ description: 'Milliseconds since the Unix epoch.' });
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const number = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });

export const OutboxInput = Type.Object({
  /** `open`: what something is still to be done about. `undelivered`: what did not arrive. */
  show: Type.Optional(Type.Enum(['open', 'undelivered', 'all'], { description: 'open by default.' })),
  host: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Only rows for this host.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: OUTBOX_PAGE_MAX })),
  /** `next_before` of the page before. */
  before: Type.Optional(number),
});
export type OutboxInput = Static<typeof OutboxInput>;

export const OutboxRowView = Type.Object({
  row: number,
  kind: Type.Enum([...PUSHED_KINDS]),
  item_id: Type.String(),
  message_id: Type.String(),
  host: Type.String(),
  recipients: Type.Array(Type.String()),
  confirmed: Type.Array(Type.String()),
  state: Type.Enum([...OUTBOX_STATES]),
  created_at: time,
  next_at: orNull(time),
  lan_attempts: count,
  relay_attempts: count,
  alerted_at: orNull(time),
  last_error: orNull(Type.String()),
  bytes: count,
});
export type OutboxRowView = Static<typeof OutboxRowView>;

export const OutboxResult = Type.Object({
  /** Newest first. */
  rows: Type.Array(OutboxRowView),
  next_before: orNull(number),
});
export type OutboxResult = Static<typeof OutboxResult>;

export const CancelInput = Type.Object({ row: number });
export type CancelInput = Static<typeof CancelInput>;

export const CancelResult = Type.Object({
  cancelled: OutboxRowView,
  /** Whether it was tried before, or may be on its way just now: then it may have arrived nonetheless. */
  was_tried: Type.Boolean(),
});
export type CancelResult = Static<typeof CancelResult>;

export const QuarantineInput = Type.Object({
  host: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Only items of this paired host.' })),
  reason: Type.Optional(Type.Enum([...QUARANTINE_REASONS])),
  via: Type.Optional(Type.Enum(['lan', 'relay'])),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: QUARANTINE_PAGE_MAX })),
  /** `next_before` of the page before. */
  before: Type.Optional(number),
});
export type QuarantineInput = Static<typeof QuarantineInput>;

export const QuarantinedItem = Type.Object({
  number,
  via: Type.Enum(['lan', 'relay']),
  relay: orNull(Type.Object({ pubkey: Type.String(), epoch: Type.String(), seq: orNull(count) })),
  kind: Type.Enum([...ITEM_KINDS]),
  item_id: Type.String(),
  sender_pubkey: Type.String(),
  host: orNull(Type.String()),
  recipients: orNull(Type.Array(Type.String())),
  reason: Type.Enum([...QUARANTINE_REASONS]),
  detail: Type.String(),
  at: time,
  bytes: count,
});
export type QuarantinedItem = Static<typeof QuarantinedItem>;

export const QuarantineResult = Type.Object({
  items: Type.Array(QuarantinedItem),
  next_before: orNull(number),
  total_items: count,
  total_bytes: count,
  items_max: count,
  bytes_max: count,
});
export type QuarantineResult = Static<typeof QuarantineResult>;

export const QuarantineShowInput = Type.Object({ number });
export type QuarantineShowInput = Static<typeof QuarantineShowInput>;

export const QuarantineShowResult = Type.Object({
  item: QuarantinedItem,
  /** The bytes as they came, base64: a stranger's words, or sealed. */
  wire_b64: Type.String(),
});
export type QuarantineShowResult = Static<typeof QuarantineShowResult>;

/** All of the quarantine when no number is given. */
export const QuarantineRetryInput = Type.Object({ numbers: Type.Optional(Type.Array(number, { maxItems: 200 })) });
export type QuarantineRetryInput = Static<typeof QuarantineRetryInput>;

export const QuarantineRetryResult = Type.Object({
  accepted: Type.Array(number),
  /** Those that are there still, for what reason. */
  kept: Type.Array(Type.Object({ number, reason: Type.Enum([...QUARANTINE_REASONS]), detail: Type.String() })),
  not_found: Type.Array(number),
});
export type QuarantineRetryResult = Static<typeof QuarantineRetryResult>;

export const QuarantineDiscardInput = Type.Object({ numbers: Type.Array(number, { minItems: 1, maxItems: 200 }) });
export type QuarantineDiscardInput = Static<typeof QuarantineDiscardInput>;

export const QuarantineDiscardResult = Type.Object({
  discarded: Type.Array(number),
  not_found: Type.Array(number),
});
export type QuarantineDiscardResult = Static<typeof QuarantineDiscardResult>;
