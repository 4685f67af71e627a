/**
 * The shapes of the relay's answers, as JSON Schemas: successes first, then problems. Answers of the relay are closed:
 * a member too many or too few fails the test that receives it. Documents that hosts made, and that the relay only
 * passes on, are left open.
 */
import Type, { type TProperties, type TSchema } from 'typebox';
import { base64Length } from './encodings.ts';
import { ITEM_KINDS, ITEM_REJECTIONS } from './items.ts';
import { CROWDED_NAME_ENROLMENTS } from './limits.ts';
import { HASH_BYTES } from './merkle.ts';
import { PROBLEMS, type ProblemCode } from './problem.ts';
import {
  closed,
  Count,
  CursorText,
  EncKeyText,
  EpochText,
  HashText,
  HostNameText,
  ItemIdText,
  KeyBytes,
  LogHashes,
  LogSize,
  orNull,
  PathBytes,
  PublicKeyText,
  Seq,
  Signature,
  SignatureBytes,
  SignedRotationShape,
  Time,
  WireBytes,
  WireText,
} from './shapes.ts';

export const ChallengeResponse = closed({
  challenge: Type.String({
    minLength: 44,
    maxLength: 44,
    description: 'base64 of 32 random bytes, good for one enrolment',
  }),
  relay_pubkey: PublicKeyText,
  expires_at: Time,
});

export const EnrolResponse = closed({
  host: HostNameText,
  host_pubkey: PublicKeyText,
  enrolled_at: Time,
  authorized_by: Type.Enum(['host-key', 'account-token']),
  account: orNull(Type.String({ minLength: 1 }), 'null when the host proved none'),
  crowded: Type.Boolean({
    description: `more than ${CROWDED_NAME_ENROLMENTS} live hosts have this name: look-ups by it find no host`,
  }),
  epoch: EpochText,
});

export const RotateResponse = closed({
  host_pubkey: PublicKeyText,
  moved_items: Count,
  head_seq: Seq,
  epoch: EpochText,
});

export const RotationShown = closed({
  rotation: orNull(SignedRotationShape, 'the record by which the host replaced the key; null when the relay has none'),
});

export const LimitsShape = closed({
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
});

export const InfoResponse = closed({
  v: Type.Literal(2),
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  limits: LimitsShape,
  forms: Type.Optional(
    Type.Array(Type.String(), { description: 'the content types that push, pull and ack have besides JSON' }),
  ),
  receipts: Type.Optional(
    Type.Array(Type.String(), { description: 'how it signs receipts besides each alone, if a push asks for it' }),
  ),
  version: Type.String({ minLength: 1, description: 'of the software' }),
  now: Time,
  you: Type.Optional(
    closed(
      { host: HostNameText, pubkey: PublicKeyText, head_seq: Seq, acked_through: Seq },
      'the state of the caller; absent without a valid hop',
    ),
  ),
});

export const SendersResponse = closed({ senders: Count, iat: Time });

export const EncKeyPublished = closed({ at: Time });

export const EncKeyShown = closed({
  enc_key: orNull(
    closed({ host_pubkey: PublicKeyText, enc_pub: EncKeyText, at: Time, sig: Signature }),
    'null when it is unknown, ambiguous or revoked',
  ),
});

export const AcceptReceiptShape = closed({
  v: Type.Literal(1),
  type: Type.Literal('relay-accept'),
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  sender_pubkey: PublicKeyText,
  item_id: ItemIdText,
  targets: Type.Array(closed({ host_pubkey: PublicKeyText, seq: Seq, wire_hash: HashText }), {
    minItems: 1,
  }),
  at: Time,
});

const STORED = {
  item_id: ItemIdText,
  status: Type.Enum(['accepted', 'duplicate']),
  targets: Type.Array(closed({ host_pubkey: PublicKeyText, seq: Seq }), { minItems: 1 }),
  accept: AcceptReceiptShape,
};

export const ItemStored = closed({
  ...STORED,
  sig: Type.String({ ...Signature, description: "the relay's, over the RFC 8785 form of `accept`" }),
});

/** The most receipts in one tree; a push has far fewer. */
const RECEIPTS_IN_TREE_MAX = 65_536;
const PATH_BYTES_MAX = HASH_BYTES * Math.log2(RECEIPTS_IN_TREE_MAX);

export const ReceiptPath = closed(
  {
    index: Type.Integer({ minimum: 0, maximum: RECEIPTS_IN_TREE_MAX - 1, description: 'of the receipt in the tree' }),
    path: Type.String({
      minLength: base64Length(HASH_BYTES),
      maxLength: base64Length(PATH_BYTES_MAX),
      description: "base64 of the hashes of the RFC 9162 inclusion proof one behind another, the leaf's sibling first",
    }),
  },
  'the way from the hash of `accept` to the root of `tree`',
);

export const AcceptTreeShape = closed({
  v: Type.Literal(1),
  type: Type.Literal('relay-accept-tree'),
  relay_pubkey: PublicKeyText,
  size: Type.Integer({ minimum: 2, maximum: RECEIPTS_IN_TREE_MAX }),
  root_hash: HashText,
});

export const ItemStoredInTree = closed({ ...STORED, proof: ReceiptPath });

export const ItemRejected = closed({
  item_id: orNull(Type.String(), 'as sent; null when it is not a text'),
  status: Type.Enum(ITEM_REJECTIONS.map((rejection) => `rejected:${rejection}`)),
});

export const PushResponse = closed({
  epoch: EpochText,
  results: Type.Array(Type.Union([ItemStored, ItemStoredInTree, ItemRejected]), {
    description: 'the nth result is for the nth item; the status code says nothing of single items',
  }),
  tree: Type.Optional(AcceptTreeShape),
  tree_sig: Type.Optional(
    Type.String({ ...Signature, description: "the relay's, over the RFC 8785 form of `tree`: beside results in it" }),
  ),
});

const STORED_IN_BINARY = {
  ...STORED,
  targets: Type.Array(closed({ host_pubkey: KeyBytes, seq: Seq }), { minItems: 1 }),
  accept: Type.String({ description: 'the RFC 8785 form of the receipt, exactly as it is signed' }),
};

/** The same in the binary form. */
export const PushResponseInBinary = closed({
  epoch: EpochText,
  results: Type.Array(
    Type.Union([
      closed({ ...STORED_IN_BINARY, sig: SignatureBytes }),
      closed({ ...STORED_IN_BINARY, proof: closed({ index: ReceiptPath.properties.index, path: PathBytes }) }),
      ItemRejected,
    ]),
  ),
  tree: Type.Optional(Type.String({ description: 'the RFC 8785 form of the statement, exactly as it is signed' })),
  tree_sig: Type.Optional(SignatureBytes),
});

export const PullResponse = closed({
  epoch: EpochText,
  head_seq: Seq,
  items: Type.Array(
    closed({
      seq: Seq,
      kind: Type.Enum([...ITEM_KINDS]),
      item_id: ItemIdText,
      sender_pubkey: PublicKeyText,
      wire_b64: WireText,
    }),
    { description: 'in ascending seq' },
  ),
  last_seq: Seq,
  more: Type.Boolean({ description: 'whether an item with a higher seq is queued now' }),
});

/** The maps of a page in the binary form. */
export const PullResponseInBinary = Type.Array(
  Type.Union([
    closed({ epoch: EpochText, head_seq: Seq }),
    closed({
      seq: Seq,
      kind: Type.Enum([...ITEM_KINDS]),
      item_id: ItemIdText,
      sender_pubkey: KeyBytes,
      wire: WireBytes,
    }),
    closed({ last_seq: Seq, more: Type.Boolean() }),
  ]),
  {
    minItems: 2,
    description:
      'frames: each is the length of its map in 4 bytes, big-endian, and the map. The first is the head of the ' +
      'page, then come its items in ascending seq, and its end is the last: a page without it was cut',
  },
);

export const AckResponse = closed({ acked_through: Seq, deleted: Count, head_seq: Seq });

export const V1PushResponse = closed({
  results: Type.Array(
    Type.Union([
      closed({ id: ItemIdText, status: Type.Enum(['stored', 'duplicate']) }),
      closed({
        id: orNull(ItemIdText),
        status: Type.Literal('error'),
        error: Type.Enum([...ITEM_REJECTIONS, 'recipient host unknown', 'recipient host ambiguous']),
      }),
    ]),
  ),
  stopped: Type.Boolean({ description: 'true when a limit was reached: items after the last result were not tried' }),
});

export const V1PullResponse = closed({
  envelopes: Type.Array(Type.Object({}, { description: 'an envelope, as it was pushed' })),
  cursor: CursorText,
  more: Type.Boolean(),
});

export const V1AckResponse = closed({ cursor: CursorText });

export const CheckpointResponse = Type.String({
  pattern:
    '^poste/[0-9a-f]{64}/[^\\n]+\\n[1-9][0-9]*\\n[A-Za-z0-9+/]{43}=\\n(?:after [A-Za-z0-9+/]{43}=\\n)?\\n' +
    '(?:\u2014 [^\\n ]+ [A-Za-z0-9+/=]+\\n)+$',
  description:
    'a C2SP checkpoint: a signed note of origin, size and root hash, and of `after` where that was asked for',
});

export const CheckpointShownResponse = closed({
  known: Type.Boolean({ description: 'says whether the note is a head of an epoch that the relay knows' }),
});

export const LogProofResponse = closed({
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  checkpoint: CheckpointResponse,
  index: Count,
  record_b64: Type.String({ contentEncoding: 'base64', description: 'the leaf: a record as stored, or the link' }),
  proof: LogHashes,
});

export const LogConsistencyResponse = closed({
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  from: LogSize,
  to: LogSize,
  proof: LogHashes,
});

/** Answers of the operator's listener about the health of the process. */
export const LiveResponse = closed({ status: Type.Literal('live') });

export const ReadyResponse = closed({ status: Type.Literal('ready') });

export const HealthResponse = closed({
  status: Type.Literal('ready'),
  version: Type.String({ minLength: 1 }),
  epoch: EpochText,
  hosts: Type.Integer({ minimum: 0, description: 'live enrolments' }),
  uptime_ms: Count,
  last_backup: Type.Optional(
    closed(
      { at: Time, ok: Type.Boolean({ description: 'whether it succeeded' }) },
      'the last regular backup, if regular backups are configured',
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
    closed(
      {
        at: Time,
        rows: Type.Integer({ minimum: 0, description: 'rows that were compared' }),
        found: Type.Integer({ minimum: 0, description: 'what was not as the log gives it' }),
      },
      'the last check of the rows against the log that finished since the start',
    ),
  ),
  last_scrub: Type.Optional(
    closed(
      {
        at: Time,
        items: Type.Integer({ minimum: 0, description: 'waiting items that were checked against their hash' }),
        lost: Type.Integer({ minimum: 0, description: 'items whose bytes were missing or altered' }),
        unreadable: Type.Integer({ minimum: 0, description: 'item rows that cannot be read' }),
      },
      'the last scrub that finished since the start',
    ),
  ),
});

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
  return closed({
    type: Type.Literal('about:blank'),
    title: Type.Literal(entry.title),
    status: Type.Literal(entry.status),
    detail: Type.String({ minLength: 1, description: 'for people' }),
    code: Type.Literal(code),
    ...added,
  });
}
