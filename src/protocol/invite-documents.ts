/** Invites as the operator makes and sees them: over the control socket and on the console. */
import Type, { type Static } from 'typebox';
import { INVITE_LABEL_CHARACTERS_MAX, INVITE_LIFETIME_MAX_MS, INVITE_LIFETIME_MIN_MS } from './limits.ts';
import { CLOSED, Count, HashText, Time } from './shapes.ts';

export const InviteRequest = Type.Object({
  label: Type.String({ maxLength: INVITE_LABEL_CHARACTERS_MAX }),
  lifetime_ms: Type.Integer({ minimum: INVITE_LIFETIME_MIN_MS, maximum: INVITE_LIFETIME_MAX_MS }),
});

/** `id` is the hash of the token. */
const INVITE = { id: HashText, label: Type.String(), issued_at: Time, expires_at: Time };

export const InviteShown = Type.Object(INVITE, CLOSED);
export type InviteShown = Static<typeof InviteShown>;

export const ConsoleInvites = Type.Object(
  {
    invites: Type.Array(InviteShown, { description: 'the newest of those that are neither used nor expired' }),
    total: Count,
    admission: Type.String(),
  },
  CLOSED,
);
export type ConsoleInvites = Static<typeof ConsoleInvites>;

export const ConsoleInviteIssued = Type.Object(
  { ...INVITE, token: Type.String({ description: 'shown only here' }) },
  CLOSED,
);
export type ConsoleInviteIssued = Static<typeof ConsoleInviteIssued>;

export const ConsoleInviteRevokeRequest = Type.Object({ id: HashText });

export const ConsoleInviteRevoked = Type.Object(
  { is_new: Type.Boolean({ description: 'false when it was used, has expired or never was' }) },
  CLOSED,
);
export type ConsoleInviteRevoked = Static<typeof ConsoleInviteRevoked>;
