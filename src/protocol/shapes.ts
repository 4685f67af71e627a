/**
 * The values that requests and responses share, as JSON Schemas.
 *
 * A shape judges types, lengths and characters. What needs more (canonical base64, point checks, bounds that are
 * settings) is judged by the function that turns a text into a typed value.
 */
import Type from 'typebox';
import { HOST_NAME_PATTERN, ITEM_ID_CHARACTERS_MAX, OWNER_FP_PATTERN } from './names.ts';
import { PUBLIC_KEY_CHARACTERS } from './public-key.ts';

const SIGNATURE_CHARACTERS = 88;
const ENC_KEY_CHARACTERS = 44;

/** A response whose members are all known: one that is added or forgotten is a drift. */
export const CLOSED = { additionalProperties: false } as const;

export const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const PublicKeyText = Type.String({
  minLength: PUBLIC_KEY_CHARACTERS,
  maxLength: PUBLIC_KEY_CHARACTERS,
  description: 'base64 of a 32-byte Ed25519 public key',
});

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

export const Time = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'milliseconds since 1970',
});

export const Seq = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'a place in the queue of one target; 0 is before the first',
});

export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

export const EpochText = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'the store generation: opaque, another one means that the store began anew',
});

export const HostNameText = Type.String({ pattern: HOST_NAME_PATTERN, description: 'compared lowercased' });

export const OwnerFpText = Type.String({ pattern: OWNER_FP_PATTERN });

export const CursorText = Type.String({ minLength: 1, maxLength: 100, description: 'opaque, bound to the epoch' });

export const ItemIdText = Type.String({
  minLength: 1,
  maxLength: ITEM_ID_CHARACTERS_MAX,
  description: 'a message id, `receipt:<msg>:<recipient>:<seq>` or `expired:<msg>:<target_pubkey>`',
});

export const WireText = Type.String({ contentEncoding: 'base64', description: 'the wire bytes, exactly as pushed' });

export const LogSize = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'leaves of the tree of one epoch, its link among them',
});

/** More than a consistency proof of any size that can be counted has. */
export const LOG_PROOF_HASHES_MAX = 54;

export const LogHashes = Type.Array(Type.String({ minLength: 44, maxLength: 44, description: 'base64 of 32 bytes' }), {
  maxItems: LOG_PROOF_HASHES_MAX,
  description: 'of RFC 9162, from the leaves to the root',
});

/** Unknown members of the record are kept: the signatures cover them. */
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
