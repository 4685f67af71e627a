/** Query parameters and the headers of a signed hop, as JSON Schemas. */
import Type from 'typebox';
import { HOP_HEADERS, HOP_TIMESTAMP_PATTERN, RECEIPTS_HEADER, TREE_RECEIPTS } from './hop.ts';
import { WAIT_SECONDS_MAX } from './limits.ts';
import type { HostName } from './names.ts';
import type { PublicKey } from './public-key.ts';
import {
  CursorText,
  EpochText,
  HostNameText,
  ItemIdText,
  KeyParameter,
  LogSize,
  PublicKeyText,
  Seq,
  Signature,
} from './shapes.ts';

/** An empty one is an epoch that never was. */
const EpochAsked = { ...EpochText, minLength: 0 };

export const PullQuery = Type.Object({
  after: Type.Optional(
    Type.Integer({ ...Seq, default: 0, description: 'the seq of the last item that the caller has received' }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'at most `max_pull`, which is the default',
    }),
  ),
  epoch: Type.Optional(Type.String({ ...EpochAsked, description: 'the epoch in which `after` was received' })),
  wait: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: WAIT_SECONDS_MAX,
      default: 0,
      description: 'seconds to wait for an item when there is none',
    }),
  ),
});

export const V1PullQuery = Type.Object({
  after: Type.Optional(
    Type.String({ ...CursorText, minLength: 0, description: 'the cursor of an earlier pull; empty before the first' }),
  ),
});

export const EncKeyByNameQuery = Type.Object({
  host: Type.Unsafe<HostName>({ ...HostNameText, description: 'a host name' }),
});

export const EncKeyByKeyQuery = Type.Object({ key: KeyParameter });

export const RotationQuery = Type.Object({
  key: Type.Unsafe<PublicKey>({ ...KeyParameter, description: 'the key that was replaced' }),
});

const OfEpoch = Type.Optional(Type.String({ ...EpochAsked, description: 'default: the current epoch' }));

export const LogEpochQuery = Type.Object({ epoch: OfEpoch });

export const LogCheckpointQuery = Type.Object({
  epoch: OfEpoch,
  size: Type.Optional(
    Type.Integer({ ...LogSize, description: 'how many of the first leaves of the epoch; default: all' }),
  ),
  after: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$',
      description: '32 bytes in base64url that are signed with the newest checkpoint; without `epoch` and `size`',
    }),
  ),
  cosigned: Type.Optional(
    Type.Literal('1', { description: 'the newest one that witnesses cosigned, with their cosignatures; alone' }),
  ),
});

export const LogConsistencyQuery = Type.Object({ from: LogSize, to: LogSize, epoch: OfEpoch });

export const LogProofQuery = Type.Object({
  item_id: ItemIdText,
  target: KeyParameter,
  size: Type.Optional(
    Type.Integer({ ...LogSize, description: 'how many of the first leaves of the epoch of the record; default: all' }),
  ),
});

/** Any other value, and none, mean a signature each. */
export const PushHeaders = Type.Object({
  [RECEIPTS_HEADER]: Type.Optional(
    Type.String({ description: `\`${TREE_RECEIPTS}\`: two receipts and more of the answer have one signature` }),
  ),
});

const Timestamp = Type.String({
  pattern: HOP_TIMESTAMP_PATTERN,
  description: 'milliseconds since 1970, at most 5 minutes from the clock of the relay',
});
const hop = {
  [HOP_HEADERS.timestamp]: Timestamp,
  [HOP_HEADERS.signature]: Signature,
};
const label = Type.String({ ...HostNameText, description: 'the host name: only a label when there is a key' });

export const HopByKey = Type.Object({
  [HOP_HEADERS.key]: PublicKeyText,
  ...hop,
  [HOP_HEADERS.host]: Type.Optional(label),
});

/** At least one of key and name must be present. */
export const HopByKeyOrName = Type.Object({
  [HOP_HEADERS.key]: Type.Optional(PublicKeyText),
  ...hop,
  [HOP_HEADERS.host]: Type.Optional(
    Type.String({ ...HostNameText, description: 'the host name, by which the caller is found when there is no key' }),
  ),
});

export const OptionalHop = Type.Partial(HopByKey);

/** The parameters that each request of a session of the operator's console needs besides its cookie. */
export const ConsoleSession = Type.Object({
  'x-poste-csrf': Type.String({ description: 'the token of the session' }),
});
