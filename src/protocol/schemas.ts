/**
 * The shapes of request bodies, as JSON Schemas that are compiled once and feed the OpenAPI document too.
 *
 * A schema judges types and lengths; what needs more (canonical base64, point checks, bounds that are settings) is
 * judged by the function that turns the body into typed values. Unknown members are ignored.
 */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { LISTED_SENDERS_MAX } from './limits.ts';
import { HOST_NAME_PATTERN, OWNER_FP_PATTERN } from './names.ts';
import { PUBLIC_KEY_CHARACTERS } from './public-key.ts';

const PublicKeyText = Type.String({
  minLength: PUBLIC_KEY_CHARACTERS,
  maxLength: PUBLIC_KEY_CHARACTERS,
  description: 'base64 of a 32-byte Ed25519 public key',
});
const Signature = Type.String({ minLength: 88, maxLength: 88, description: 'base64 of a 64-byte Ed25519 signature' });

const Time = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'milliseconds since 1970' });

export const ChallengeRequest = Type.Object({ pubkey: PublicKeyText });

export const EnrolRequest = Type.Object({
  host: Type.String({ pattern: HOST_NAME_PATTERN }),
  pubkey: PublicKeyText,
  owner_fp: Type.String({ pattern: OWNER_FP_PATTERN }),
  sig: Signature,
  proof: Type.Optional(Type.Unknown({ description: 'what the authority of this relay asks for' })),
});

/** The `proof` that a hosted relay asks for. */
export const AccountProof = Type.Object({
  token: Type.String({ description: 'the account token: a JWT' }),
  cloud_key: Type.Record(Type.String(), Type.Unknown(), { description: "the host's cloud key: a public JWK" }),
  cert: Signature,
});

/** Unknown members of the record are kept: the signatures cover them. */
export const RotateRequest = Type.Object({
  rotation: Type.Object({
    rec: Type.Object({
      v: Type.Literal(1),
      type: Type.Literal('host-rotation'),
      old_pubkey: PublicKeyText,
      new_pubkey: PublicKeyText,
      iat: Time,
    }),
    old_sig: Signature,
    new_sig: Signature,
  }),
});

/** Only the body itself: each item is judged alone and answered `rejected:malformed` alone. */
export const PushRequest = Type.Object({ items: Type.Array(Type.Unknown()) });

/** Unknown members of the list are kept: the signature covers them. */
export const SendersRequest = Type.Object({
  list: Type.Object({
    v: Type.Literal(1),
    type: Type.Literal('relay-senders'),
    host_pubkey: PublicKeyText,
    senders: Type.Array(PublicKeyText, { maxItems: LISTED_SENDERS_MAX }),
    iat: Time,
  }),
  sig: Signature,
});

export const EncKeyRequest = Type.Object({
  enc_pub: Type.String({ minLength: 44, maxLength: 44, description: 'base64 of a 32-byte X25519 public key' }),
  at: Time,
  sig: Signature,
});

/** Only the body itself: each envelope is judged alone. */
export const V1PushRequest = Type.Object({ envelopes: Type.Array(Type.Unknown()) });

export const V1AckRequest = Type.Object({ cursor: Type.String({ minLength: 1, maxLength: 100 }) });

export const AckRequest = Type.Object({
  epoch: Type.String({ minLength: 1, maxLength: 64 }),
  through: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
});

/** A compiled check: the typed value, or `undefined` when `value` has another shape. */
export function parserOf<T extends TSchema>(schema: T): (value: unknown) => Static<T> | undefined {
  const compiled = Compile(schema);
  return (value) => (compiled.Check(value) ? value : undefined);
}
