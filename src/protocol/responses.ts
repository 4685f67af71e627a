/**
 * The shapes of the relay's answers, as JSON Schemas: successes first, then problems. Answers of the relay are closed:
 * a member too many or too few fails the test that receives it. Documents that hosts made, and that the relay only
 * passes on, are left open.
 */
import Type, { type TProperties, type TSchema } from 'typebox';
import { ITEM_KINDS, ITEM_REJECTIONS } from './items.ts';
import { CROWDED_NAME_ENROLMENTS } from './limits.ts';
import { PROBLEMS, type ProblemCode } from './problem.ts';
import {
  CLOSED,
  Count,
  CursorText,
  EncKeyText,
  EpochText,
  HashText,
  HostNameText,
  ItemIdText,
  LogHashes,
  LogSize,
  PublicKeyText,
  Seq,
  Signature,
  SignedRotationShape,
  Time,
  WireText,
} from './shapes.ts';

export const ChallengeResponse = Type.Object(
  {
    challenge: Type.String({
      minLength: 44,
      maxLength: 44,
      description: 'base64 of 32 random bytes, good for one enrolment',
    }),
    relay_pubkey: PublicKeyText,
    expires_at: Time,
  },
  CLOSED,
);

export const EnrolResponse = Type.Object(
  {
    host: HostNameText,
    host_pubkey: PublicKeyText,
    enrolled_at: Time,
    authorized_by: Type.Enum(['host-key', 'account-token']),
    account: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      description: 'null when the host proved none',
    }),
    crowded: Type.Boolean({
      description: `more than ${CROWDED_NAME_ENROLMENTS} live hosts have this name: look-ups by it find no host`,
    }),
    epoch: EpochText,
  },
  CLOSED,
);

export const RotateResponse = Type.Object(
  {
    host_pubkey: PublicKeyText,
    moved_items: Count,
    head_seq: Seq,
    epoch: EpochText,
  },
  CLOSED,
);

export const RotationShown = Type.Object(
  {
    rotation: Type.Union([SignedRotationShape, Type.Null()], {
      description: 'the record by which the host replaced the key; null when the relay has none',
    }),
  },
  CLOSED,
);

export const LimitsShape = Type.Object(
  {
    max_item_bytes: Count,
    max_batch: Count,
    max_pull: Count,
    max_pull_bytes: Count,
    max_targets: Count,
    retention_days: Type.Number({ exclusiveMinimum: 0 }),
    max_queue_items: Count,
    max_queue_bytes: Count,
    max_sender_items: Count,
    max_sender_bytes: Count,
    max_owner_items: Count,
    max_owner_bytes: Count,
  },
  CLOSED,
);

export const InfoResponse = Type.Object(
  {
    v: Type.Literal(2),
    relay_pubkey: PublicKeyText,
    epoch: EpochText,
    limits: LimitsShape,
    version: Type.String({ minLength: 1, description: 'of the software' }),
    now: Time,
    you: Type.Optional(
      Type.Object(
        { host: HostNameText, pubkey: PublicKeyText, head_seq: Seq, acked_through: Seq },
        { ...CLOSED, description: 'the state of the caller; absent without a valid hop' },
      ),
    ),
  },
  CLOSED,
);

export const SendersResponse = Type.Object({ senders: Count, iat: Time }, CLOSED);

export const EncKeyPublished = Type.Object({ at: Time }, CLOSED);

export const EncKeyShown = Type.Object(
  {
    enc_key: Type.Union(
      [Type.Object({ host_pubkey: PublicKeyText, enc_pub: EncKeyText, at: Time, sig: Signature }, CLOSED), Type.Null()],
      { description: 'null when it is unknown, ambiguous or revoked' },
    ),
  },
  CLOSED,
);

export const AcceptReceiptShape = Type.Object(
  {
    v: Type.Literal(1),
    type: Type.Literal('relay-accept'),
    relay_pubkey: PublicKeyText,
    epoch: EpochText,
    sender_pubkey: PublicKeyText,
    item_id: ItemIdText,
    targets: Type.Array(Type.Object({ host_pubkey: PublicKeyText, seq: Seq, wire_hash: HashText }, CLOSED), {
      minItems: 1,
    }),
    at: Time,
  },
  CLOSED,
);

export const ItemStored = Type.Object(
  {
    item_id: ItemIdText,
    status: Type.Enum(['accepted', 'duplicate']),
    targets: Type.Array(Type.Object({ host_pubkey: PublicKeyText, seq: Seq }, CLOSED), { minItems: 1 }),
    accept: AcceptReceiptShape,
    sig: Type.String({ ...Signature, description: "the relay's, over the RFC 8785 form of `accept`" }),
  },
  CLOSED,
);

export const ItemRejected = Type.Object(
  {
    item_id: Type.Union([Type.String(), Type.Null()], { description: 'as sent; null when it is not a text' }),
    status: Type.Enum(ITEM_REJECTIONS.map((rejection) => `rejected:${rejection}`)),
  },
  CLOSED,
);

export const PushResponse = Type.Object(
  {
    epoch: EpochText,
    results: Type.Array(Type.Union([ItemStored, ItemRejected]), {
      description: 'the nth result is for the nth item; the status code says nothing of single items',
    }),
  },
  CLOSED,
);

export const PullResponse = Type.Object(
  {
    epoch: EpochText,
    head_seq: Seq,
    items: Type.Array(
      Type.Object(
        {
          seq: Seq,
          kind: Type.Enum([...ITEM_KINDS]),
          item_id: ItemIdText,
          sender_pubkey: PublicKeyText,
          wire_b64: WireText,
        },
        CLOSED,
      ),
      { description: 'in ascending seq' },
    ),
    last_seq: Seq,
    more: Type.Boolean({ description: 'whether an item with a higher seq is queued now' }),
  },
  CLOSED,
);

export const AckResponse = Type.Object({ acked_through: Seq, deleted: Count, head_seq: Seq }, CLOSED);

export const V1PushResponse = Type.Object(
  {
    results: Type.Array(
      Type.Union([
        Type.Object({ id: ItemIdText, status: Type.Enum(['stored', 'duplicate']) }, CLOSED),
        Type.Object(
          {
            id: Type.Union([ItemIdText, Type.Null()]),
            status: Type.Literal('error'),
            error: Type.Enum([...ITEM_REJECTIONS, 'recipient host unknown', 'recipient host ambiguous']),
          },
          CLOSED,
        ),
      ]),
    ),
    stopped: Type.Boolean({ description: 'true when a limit was reached: items after the last result were not tried' }),
  },
  CLOSED,
);

export const V1PullResponse = Type.Object(
  {
    envelopes: Type.Array(Type.Object({}, { description: 'an envelope, as it was pushed' })),
    cursor: CursorText,
    more: Type.Boolean(),
  },
  CLOSED,
);

export const V1AckResponse = Type.Object({ cursor: CursorText }, CLOSED);

export const CheckpointResponse = Type.String({
  pattern:
    '^poste/[0-9a-f]{64}/[^\\n]+\\n[1-9][0-9]*\\n[A-Za-z0-9+/]{43}=\\n\\n(?:\u2014 [^\\n ]+ [A-Za-z0-9+/=]+\\n)+$',
  description: 'a C2SP checkpoint: a signed note of origin, size and root hash',
});

export const LogProofResponse = Type.Object(
  {
    relay_pubkey: PublicKeyText,
    epoch: EpochText,
    checkpoint: CheckpointResponse,
    index: Count,
    record_b64: Type.String({ contentEncoding: 'base64', description: 'the leaf: a record as stored, or the link' }),
    proof: LogHashes,
  },
  CLOSED,
);

export const LogConsistencyResponse = Type.Object(
  { relay_pubkey: PublicKeyText, epoch: EpochText, from: LogSize, to: LogSize, proof: LogHashes },
  CLOSED,
);

/** Answers of the operator's listener about the health of the process. */
export const LiveResponse = Type.Object({ status: Type.Literal('live') }, CLOSED);

export const ReadyResponse = Type.Object({ status: Type.Literal('ready') }, CLOSED);

export const HealthResponse = Type.Object(
  {
    status: Type.Literal('ready'),
    version: Type.String({ minLength: 1 }),
    epoch: EpochText,
    hosts: Type.Integer({ minimum: 0, description: 'live enrolments' }),
    uptime_ms: Count,
    last_backup: Type.Optional(
      Type.Object(
        { at: Time, ok: Type.Boolean({ description: 'whether it succeeded' }) },
        { ...CLOSED, description: 'the last regular backup, if regular backups are configured' },
      ),
    ),
    broken_queues: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'queues whose rows contradict each other, and which the relay does not change any more',
      }),
    ),
    damaged_rows: Type.Optional(
      Type.Integer({ minimum: 1, description: 'damaged rows of the database that were found since the start' }),
    ),
    last_rows_check: Type.Optional(
      Type.Object(
        {
          at: Time,
          rows: Type.Integer({ minimum: 0, description: 'rows that were compared' }),
          found: Type.Integer({ minimum: 0, description: 'what was not as the log gives it' }),
        },
        { ...CLOSED, description: 'the last check of the rows against the log that finished since the start' },
      ),
    ),
    last_scrub: Type.Optional(
      Type.Object(
        {
          at: Time,
          items: Type.Integer({ minimum: 0, description: 'waiting items that were checked against their hash' }),
          lost: Type.Integer({ minimum: 0, description: 'items whose bytes were missing or altered' }),
          unreadable: Type.Integer({ minimum: 0, description: 'item rows that cannot be read' }),
        },
        { ...CLOSED, description: 'the last scrub that finished since the start' },
      ),
    ),
  },
  CLOSED,
);

export const OpenApiResponse = Type.Object({
  openapi: Type.Literal('3.1.0'),
  info: Type.Object({}),
  paths: Type.Object({}),
});

/** The members that a code adds to those that every problem has. */
const ADDED: Partial<Record<ProblemCode, TProperties>> = {
  BAD_ACK: { head_seq: Seq },
  CLOCK_SKEW: { now: Time },
  ENROL_REFUSED: { reason: Type.Optional(Type.String({ description: 'the reason that the authority gave' })) },
  EPOCH_CHANGED: { epoch: EpochText },
};

/** The problem document of a code: what `problemDocument` makes, and no other member. */
export function problemSchema(code: ProblemCode): TSchema {
  return problemShape(code, PROBLEMS[code], ADDED[code]);
}

/** A problem document by its entry in a table of problems, with the members that its code adds. */
export function problemShape(code: string, entry: { status: number; title: string }, added: TProperties = {}): TSchema {
  return Type.Object(
    {
      type: Type.Literal('about:blank'),
      title: Type.Literal(entry.title),
      status: Type.Literal(entry.status),
      detail: Type.String({ minLength: 1, description: 'for people' }),
      code: Type.Literal(code),
      ...added,
    },
    CLOSED,
  );
}
