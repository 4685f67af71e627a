/** Inputs and results of the operations on the outbox and the quarantine, and of `trace`. */
import { type Static, Type } from 'typebox';
import { DELIVERY_STATES } from '../../protocol/documents.ts';
import { PUSHED_KINDS } from '../../protocol/items.ts';
import { AcceptReceiptShape, AcceptTreeShape, ReceiptPath } from '../../protocol/responses.ts';
import { EpochText, ExactMoment, Moment, orNull, PublicKeyText, Seq, Signature } from '../../protocol/shapes.ts';
import { QUARANTINE_REASONS, QUARANTINE_ROOMS } from '../core/quarantine.ts';
import { COPY_REASONS } from '../core/relay-acceptance.ts';
import { MESSAGE_KINDS, OUTBOX_STATES } from '../core/rows.ts';
import { OUTBOX_PAGE_MAX, QUARANTINE_PAGE_MAX } from './limits.ts';
import { SentMessage } from './sent-mail.ts';

const count = Type.Integer({ minimum: 0 });
const number = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });

export const OutboxInput = Type.Object({
  /** `open`: rows with a next step. `undelivered`: rows that did not arrive. */
  show: Type.Optional(Type.Enum(['open', 'undelivered', 'all'], { description: 'open by default.' })),
  host: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Only rows for this host.' })),
  /** Lists delivery receipts too. No receipt confirms them, so those at a relay stay open for its retention. */
  receipts: Type.Optional(Type.Boolean({ description: 'Delivery receipts too.' })),
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
  created_at: ExactMoment,
  next_at: orNull(ExactMoment),
  lan_attempts: count,
  relay_attempts: count,
  alerted_at: orNull(ExactMoment),
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
  /** Says whether an attempt was made or is under way: then it may have arrived all the same. */
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

const PlaceAtRelay = Type.Object({ pubkey: Type.String(), epoch: Type.String(), seq: orNull(count) });

export const QuarantinedItem = Type.Object({
  number,
  via: Type.Enum(['lan', 'relay']),
  relay: orNull(PlaceAtRelay),
  /** Others of this host's relays that brought it since; absent where none did. */
  relays: Type.Optional(Type.Array(PlaceAtRelay)),
  kind: Type.String({ description: '`envelope`, `receipt` or `expired`, or the text that a relay gave instead.' }),
  item_id: Type.String(),
  sender_pubkey: Type.String(),
  host: orNull(Type.String()),
  recipients: orNull(Type.Array(Type.String())),
  reason: Type.Enum([...QUARANTINE_REASONS]),
  detail: Type.String(),
  at: Moment,
  bytes: count,
  /** Lowercase hexadecimal SHA-256 of the bytes. */
  wire_hash: Type.String(),
  /** Null in rows from before there were rooms. */
  room: orNull(Type.Enum([...QUARANTINE_ROOMS])),
  /** Without its bytes it must come again before it can be accepted. */
  has_bytes: Type.Boolean(),
});
export type QuarantinedItem = Static<typeof QuarantinedItem>;

export const QuarantineResult = Type.Object({
  items: Type.Array(QuarantinedItem),
  next_before: orNull(number),
  total_items: count,
  total_bytes: count,
  /** The rooms: for paired hosts over the LAN, for relays, and for strangers. */
  rooms: Type.Array(
    Type.Object({
      room: Type.Enum([...QUARANTINE_ROOMS]),
      items: count,
      bytes: count,
      items_max: count,
      bytes_max: count,
      /** Items kept without their bytes: for want of room, or as a key that was never paired brought them. */
      without_bytes: count,
      /** Items of which nothing is left: they made room for newer ones, or too many came in a minute. */
      dropped: count,
    }),
  ),
});
export type QuarantineResult = Static<typeof QuarantineResult>;

export const QuarantineShowInput = Type.Object({ number });
export type QuarantineShowInput = Static<typeof QuarantineShowInput>;

export const QuarantineShowResult = Type.Object({
  item: QuarantinedItem,
  /** The bytes as they came, in base64: untrusted, or sealed. Null when there was no room for them. */
  wire_b64: orNull(Type.String()),
});
export type QuarantineShowResult = Static<typeof QuarantineShowResult>;

/** Without `numbers` it asks for the whole quarantine. */
export const QuarantineRetryInput = Type.Object({ numbers: Type.Optional(Type.Array(number, { maxItems: 200 })) });
export type QuarantineRetryInput = Static<typeof QuarantineRetryInput>;

export const QuarantineRetryResult = Type.Object({
  accepted: Type.Array(number),
  /** Items that are still in quarantine, with the reason. */
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

export const TraceInput = Type.Object({
  message_id: Type.String({ minLength: 1, maxLength: 128, description: 'As it is called here, or as its sender did.' }),
});
export type TraceInput = Static<typeof TraceInput>;

/** The answer of a relay that was asked for the proof of a row's item. */
export const AskedProof = Type.Union([
  /** The receiver verifies it, and the daemon does not. */
  Type.Object({ state: Type.Literal('served'), document: Type.Object({}) }),
  /** The relay signed that it accepted the item, and now says that it knows none. */
  Type.Object({ state: Type.Literal('denied'), reason: Type.String() }),
  Type.Object({ state: Type.Literal('none'), reason: Type.String() }),
]);
export type AskedProof = Static<typeof AskedProof>;

export const TraceRow = Type.Object({
  ...OutboxRowView.properties,
  wire_hash: Type.String(),
  first_push_at: orNull(ExactMoment),
  lan_accepted_at: orNull(ExactMoment),
  /** The relay's signed receipt for the item: with `sig`, or with `proof`, `tree` and `tree_sig`. */
  acceptance: orNull(
    Type.Object({
      relay_pubkey: PublicKeyText,
      fingerprint: Type.String(),
      epoch: EpochText,
      seq: Seq,
      accepted_at: ExactMoment,
      /** Until then the relay keeps the item. */
      kept_until: ExactMoment,
      may_be_lost: Type.Boolean(),
      accept: AcceptReceiptShape,
      sig: Type.Optional(Type.String()),
      proof: Type.Optional(ReceiptPath),
      tree: Type.Optional(AcceptTreeShape),
      tree_sig: Type.Optional(Signature),
      /** The part of the receipt that does not match this row; null when it verifies. */
      fault: orNull(Type.String()),
      /** Says whether the relay must still know the item. */
      must_know: Type.Boolean(),
    }),
  ),
  /** Every relay that took it, where this host had several; `acceptance` is that of one of them. */
  relays: Type.Optional(
    Type.Array(
      Type.Object({
        relay_pubkey: PublicKeyText,
        fingerprint: Type.String(),
        /** Null when this host does not use it any more. */
        url: orNull(Type.String()),
        accepted_at: ExactMoment,
        /** Why it went there: see COPY_REASONS. Null where there were not several then. */
        reason: orNull(Type.Enum([...COPY_REASONS])),
        /** `again`: it may have lost it. `expired`: it says that its time was up. `gone`: its owner removed it. */
        state: Type.Enum(['live', 'again', 'expired', 'gone']),
        /** When it said that the time was up, by this host's clock; null where it did not, or that was not recorded. */
        expired_at: orNull(ExactMoment),
      }),
    ),
  ),
  /** All present and former keys of this host and of the other. */
  own_keys: Type.Array(PublicKeyText),
  host_keys: Type.Array(PublicKeyText),
  /** Null when no relay was asked. */
  proof: orNull(AskedProof),
});
export type TraceRow = Static<typeof TraceRow>;

const TraceReceipt = Type.Object({
  recipient: Type.String(),
  state: Type.Enum([...DELIVERY_STATES]),
  at: ExactMoment,
  seq: Type.Integer(),
  /** Its outbox row; null when it was handed over, or its addressee is gone. */
  row: orNull(OutboxRowView),
});

export const TraceResult = Type.Object({
  message_id: Type.String(),
  /** The id that its sender gave it. */
  sender_id: Type.String(),
  thread: Type.String(),
  subject: Type.String(),
  kind: Type.Enum([...MESSAGE_KINDS]),
  from: Type.String(),
  to: Type.Array(Type.String()),
  created_at: SentMessage.properties.created_at,
  stored_at: SentMessage.properties.created_at,
  /** `reported`: by this host itself. */
  direction: Type.Enum(['sent', 'received', 'reported']),
  /** The recipients of a message that was sent here. */
  recipients: SentMessage.properties.recipients,
  /** The mailboxes of this host that hold it. */
  mailboxes: Type.Array(
    Type.Object({
      agent: Type.String(),
      state: Type.Enum(['unread', 'read', 'acked']),
      stored_at: ExactMoment,
      notified_at: orNull(ExactMoment),
      read_at: orNull(ExactMoment),
      acked_at: orNull(ExactMoment),
      forwarded_from: orNull(Type.String()),
    }),
  ),
  /** One for each host that it was sent to. */
  rows: Type.Array(TraceRow),
  /** The arrival of a message that came. */
  arrival: orNull(
    Type.Object({
      host: Type.String(),
      item_id: Type.String(),
      sender_pubkey: PublicKeyText,
      fingerprint: Type.String(),
      wire_hash: Type.String(),
      at: ExactMoment,
      /** Null in rows from before this was recorded. */
      via: orNull(Type.Enum(['lan', 'relay'])),
      relay: orNull(Type.Object({ pubkey: Type.String(), epoch: Type.String(), seq: orNull(Type.Integer()) })),
      /** The last one for each recipient. */
      receipts: Type.Array(TraceReceipt),
    }),
  ),
});
export type TraceResult = Static<typeof TraceResult>;
