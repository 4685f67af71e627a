/** Everything that this host knows of one message, and what the relay proves of it. */
import { type Static, Type } from 'typebox';
import { EpochText, PublicKeyText, Seq, Time } from '../../protocol/shapes.ts';
import { AcceptReceiptShape } from '../../protocol/responses.ts';
import { DELIVERY_STATES } from '../../protocol/documents.ts';
import { MESSAGE_KINDS } from '../core/rows.ts';
import { OutboxRowView } from './outbox.ts';
import { SentMessage } from './sent.ts';

const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const TraceInput = Type.Object({
  message_id: Type.String({ minLength: 1, maxLength: 128, description: 'As it is called here, or as its sender did.' }),
});
export type TraceInput = Static<typeof TraceInput>;

/** What a relay answered when it was asked for the proof of a row's item. */
export const AskedProof = Type.Union([
  /** To be verified by whoever gets it: nothing of it was looked at. */
  Type.Object({ state: Type.Literal('served'), document: Type.Object({}) }),
  /** It signed that it took the item, and says now that it knows none. */
  Type.Object({ state: Type.Literal('denied'), reason: Type.String() }),
  Type.Object({ state: Type.Literal('none'), reason: Type.String() }),
]);
export type AskedProof = Static<typeof AskedProof>;

export const TraceRow = Type.Object({
  ...OutboxRowView.properties,
  wire_hash: Type.String(),
  first_push_at: orNull(Time),
  lan_accepted_at: orNull(Time),
  /** What the relay signed when it took it. */
  acceptance: orNull(
    Type.Object({
      relay_pubkey: PublicKeyText,
      fingerprint: Type.String(),
      epoch: EpochText,
      seq: Seq,
      accepted_at: Time,
      /** As long as it keeps the item. */
      kept_until: Time,
      may_be_lost: Type.Boolean(),
      accept: AcceptReceiptShape,
      sig: Type.String(),
      /** What of the receipt is not this row's; null when it verifies. */
      fault: orNull(Type.String()),
      /** Whether the relay has to know the item still. */
      must_know: Type.Boolean(),
    }),
  ),
  /** The keys that this host and the other have or had. */
  own_keys: Type.Array(PublicKeyText),
  host_keys: Type.Array(PublicKeyText),
  /** Null where no relay was asked. */
  proof: orNull(AskedProof),
});
export type TraceRow = Static<typeof TraceRow>;

export const TraceReceipt = Type.Object({
  recipient: Type.String(),
  state: Type.Enum([...DELIVERY_STATES]),
  at: Time,
  seq: Type.Integer(),
  /** Where it is on its way; null when it was handed over, or there is nobody to tell any more. */
  row: orNull(OutboxRowView),
});

export const TraceResult = Type.Object({
  message_id: Type.String(),
  /** As its sender called it. */
  sender_id: Type.String(),
  thread: Type.String(),
  subject: Type.String(),
  kind: Type.Enum([...MESSAGE_KINDS]),
  from: Type.String(),
  to: Type.Array(Type.String()),
  created_at: Time,
  stored_at: Time,
  /** `reported`: by this host itself. */
  direction: Type.Enum(['sent', 'received', 'reported']),
  /** Of a message that was sent here. */
  recipients: SentMessage.properties.recipients,
  /** Of this host that have it. */
  mailboxes: Type.Array(
    Type.Object({
      agent: Type.String(),
      state: Type.Enum(['unread', 'read', 'acked']),
      stored_at: Time,
      notified_at: orNull(Time),
      read_at: orNull(Time),
      acked_at: orNull(Time),
      forwarded_from: orNull(Type.String()),
    }),
  ),
  /** One for each host that it went to. */
  rows: Type.Array(TraceRow),
  /** Of a message that came. */
  arrival: orNull(
    Type.Object({
      host: Type.String(),
      item_id: Type.String(),
      sender_pubkey: PublicKeyText,
      fingerprint: Type.String(),
      wire_hash: Type.String(),
      at: Time,
      /** Null for what came before this was kept. */
      via: orNull(Type.Enum(['lan', 'relay'])),
      relay: orNull(Type.Object({ pubkey: Type.String(), epoch: Type.String(), seq: orNull(Type.Integer()) })),
      /** The last one for each recipient. */
      receipts: Type.Array(TraceReceipt),
    }),
  ),
});
export type TraceResult = Static<typeof TraceResult>;
