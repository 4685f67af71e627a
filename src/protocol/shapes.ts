/**
 * The values that requests and answers share, as JSON Schemas.
 *
 * A shape checks types, lengths and characters. The function that turns a text into a typed value checks the rest:
 * canonical base64, points of keys, limits that are settings.
 */
import Type from 'typebox';
import { SIGNATURE_BYTES, SIGNATURE_CHARACTERS } from './ed25519.ts';
import { HOST_NAME_PATTERN, ITEM_ID_CHARACTERS_MAX, OWNER_FP_PATTERN } from './names.ts';
import { PUBLIC_KEY_BYTES, PUBLIC_KEY_CHARACTERS, PUBLIC_KEY_PATTERN, type PublicKey } from './public-key.ts';

const ENC_KEY_CHARACTERS = 44;

/** Answers of ours take it: a member too many or too few fails the test that receives the answer. */
export const CLOSED = { additionalProperties: false } as const;

export const closed = <T extends Type.TProperties>(properties: T, description?: string) =>
  Type.Object(properties, { ...CLOSED, ...(description !== undefined && { description }) });

export const orNull = <T extends Type.TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description });

export const PublicKeyText = Type.String({
  minLength: PUBLIC_KEY_CHARACTERS,
  maxLength: PUBLIC_KEY_CHARACTERS,
  description: 'base64 of a 32-byte Ed25519 public key',
});

/** A host key as a parameter: the pattern is that of canonical base64 of 32 bytes. */
export const KeyParameter = Type.Unsafe<PublicKey>({ ...PublicKeyText, pattern: PUBLIC_KEY_PATTERN });

export const Signature = Type.String({
  minLength: SIGNATURE_CHARACTERS,
  maxLength: SIGNATURE_CHARACTERS,
  description: 'base64 of a 64-byte Ed25519 signature',
});

export const EncKeyText = Type.String({
  minLength: ENC_KEY_CHARACTERS,
  maxLength: ENC_KEY_CHARACTERS,
  description: 'base64 of a 32-byte X25519 public key',
});

export const HashText = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'lowercase hex SHA-256' });

/** A time in answers to people and agents. */
export const Moment = Type.String({ description: 'ISO 8601 in UTC, to the second.' });

/** The same where the order within a second counts. */
export const ExactMoment = Type.String({ description: 'ISO 8601 in UTC, to the millisecond.' });

export const Time = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'milliseconds since 1970',
});

export const Seq = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'a position in the queue of one target; 0 is before the first',
});

export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

export const EpochText = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'the store generation: opaque; another epoch means that the store began anew',
});

export const HostNameText = Type.String({ pattern: HOST_NAME_PATTERN, description: 'compared lowercased' });

export const OwnerFpText = Type.String({ pattern: OWNER_FP_PATTERN });

export const CursorText = Type.String({ minLength: 1, maxLength: 100, description: 'opaque, valid in one epoch' });

export const ItemIdText = Type.String({
  minLength: 1,
  maxLength: ITEM_ID_CHARACTERS_MAX,
  description: 'a message id, `receipt:<msg>:<recipient>:<seq>` or `expired:<msg>:<target_pubkey>`',
});

export const WireText = Type.String({ contentEncoding: 'base64', description: 'the wire bytes, exactly as pushed' });

/** Bytes of the binary form. */
const bytesOf = (description: string, length?: number) =>
  Type.String({
    contentMediaType: 'application/octet-stream',
    ...(length !== undefined && { minLength: length, maxLength: length }),
    description,
  });

export const KeyBytes = bytesOf('the 32 bytes of an Ed25519 public key', PUBLIC_KEY_BYTES);

export const SignatureBytes = bytesOf('the 64 bytes of an Ed25519 signature', SIGNATURE_BYTES);

export const WireBytes = bytesOf('the wire bytes, exactly as pushed');

export const PathBytes = bytesOf('the hashes of `path` as bytes');

export const LogSize = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'leaves of the tree of one epoch, the link included',
});

/** No consistency proof has as many: sizes have at most 53 bits. */
const LOG_PROOF_HASHES_MAX = 54;

export const LogHashes = Type.Array(Type.String({ minLength: 44, maxLength: 44, description: 'base64 of 32 bytes' }), {
  maxItems: LOG_PROOF_HASHES_MAX,
  description: 'the hashes of a proof of RFC 9162, from the leaves to the root',
});

/** The signatures also cover unknown members of the record, so these are kept. */
export const SignedRotationShape = Type.Object({
  rec: Type.Object({
    v: Type.Literal(1),
    type: Type.Literal('host-rotation'),
    old_pubkey: PublicKeyText,
    new_pubkey: PublicKeyText,
    iat: Time,
  }),
  old_sig: Signature,
  new_sig: Signature,
});
