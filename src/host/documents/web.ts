/** The link that opens the owner's page. */
import { type Static, Type } from 'typebox';

export const WebLinkResult = Type.Object({
  /** Good once. */
  url: Type.String(),
  /** Milliseconds since the Unix epoch. */
  expires_at: Type.Integer(),
});
export type WebLinkResult = Static<typeof WebLinkResult>;
