/**
 * The shapes of request bodies, as JSON Schemas. Each is compiled once, and the OpenAPI document is made from them.
 *
 * A schema checks types and lengths. The function that turns a body into typed values checks the rest: canonical
 * base64, points of keys, limits that are settings. Unknown members are ignored.
 */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { PUSHED_KINDS } from './items.ts';
import { LISTED_SENDERS_MAX, SMALL_BODY_BYTES_MAX } from './limits.ts';
import { KNEW_CHARACTERS } from './seen.ts';
import {
  CursorText,
  EncKeyText,
  EpochText,
  HostNameText,
  ItemIdText,
  KeyBytes,
  OwnerFpText,
  PublicKeyText,
  Seq,
  Signature,
  SignedRotationShape,
  Time,
  WireBytes,
  WireText,
} from './shapes.ts';

export const ChallengeRequest = Type.Object({ pubkey: PublicKeyText });

export const EnrolRequest = Type.Object({
  host: HostNameText,
  pubkey: PublicKeyText,
  owner_fp: OwnerFpText,
  sig: Signature,
  proof: Type.Optional(Type.Unknown({ description: 'the proof that the authority of this relay requires' })),
});

/** The `proof` that a hosted relay requires. */
export const AccountProof = Type.Object({
  token: Type.String({ description: 'the account token: a JWT' }),
  cloud_key: Type.Record(Type.String(), Type.Unknown(), { description: "the host's cloud key: a public JWK" }),
  cert: Signature,
});

export const RotateRequest = Type.Object({ rotation: SignedRotationShape });

/** The body is the token itself, not JSON. */
export const DenyRequest = Type.String({
  minLength: 1,
  maxLength: SMALL_BODY_BYTES_MAX,
  description: 'a Security Event Token (RFC 8417) with one event `urn:mail-relay:deny`',
});

const NoteText = Type.String({ maxLength: SMALL_BODY_BYTES_MAX, description: 'a checkpoint that this relay signed' });

export const ShowCheckpointRequest = Type.Object({
  note: NoteText,
  knew: Type.Optional(
    Type.String({ maxLength: KNEW_CHARACTERS, description: 'base64 of the bytes whose SHA-256 `note` has as `after`' }),
  ),
  older: Type.Optional(Type.String({ ...NoteText, description: 'a note of the current epoch that `knew` holds' })),
});

/** Checks only the list: each item gets its own verdict, such as `rejected:malformed`. */
export const PushRequest = Type.Object({ items: Type.Array(Type.Unknown()) });

/** A push without malformed items. */
export const WellFormedPush = Type.Object({
  items: Type.Array(
    Type.Object({
      kind: Type.Enum([...PUSHED_KINDS]),
      item_id: ItemIdText,
      targets: Type.Array(Type.Object({ host_pubkey: PublicKeyText, wire_b64: WireText }), { minItems: 1 }),
    }),
  ),
});

/** The same in the binary form. */
export const WellFormedPushInBinary = Type.Object({
  items: Type.Array(
    Type.Object({
      kind: Type.Enum([...PUSHED_KINDS]),
      item_id: ItemIdText,
      targets: Type.Array(Type.Object({ host_pubkey: KeyBytes, wire: WireBytes }), { minItems: 1 }),
    }),
  ),
});

/** The signature also covers unknown members of the list, so these are kept. */
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

export const EncKeyRequest = Type.Object({ enc_pub: EncKeyText, at: Time, sig: Signature });

/** Checks only the list: each envelope gets its own verdict. */
export const V1PushRequest = Type.Object({ envelopes: Type.Array(Type.Unknown()) });

/** A push without malformed envelopes, as far as the relay reads them. */
export const WellFormedV1Push = Type.Object({
  envelopes: Type.Array(
    Type.Object({
      id: ItemIdText,
      to_host: HostNameText,
      sealed: Type.Object({
        alg: Type.String({ minLength: 1 }),
        enc: Type.String({ minLength: 1 }),
        ct: Type.String({ minLength: 1 }),
      }),
    }),
  ),
});

export const V1AckRequest = Type.Object({ cursor: CursorText });

export const AckRequest = Type.Object({ epoch: EpochText, through: Seq });

/** Compiles a schema. The parser returns the typed value, or `undefined` when the value has another shape. */
export function parserOf<T extends TSchema>(schema: T): (value: unknown) => Static<T> | undefined {
  const compiled = Compile(schema);
  return (value) => (compiled.Check(value) ? value : undefined);
}
