/** How the daemon is. */
import { type Static, Type } from 'typebox';
import { CLOSED, Count, EncKeyText, HostNameText, PublicKeyText, Time } from '../../protocol/shapes.ts';

export const StatusResult = Type.Object(
  {
    host: HostNameText,
    host_pubkey: PublicKeyText,
    fingerprint: Type.String(),
    enc_pub: EncKeyText,
    version: Type.String(),
    pid: Type.Integer(),
    started_at: Time,
    store: Type.String(),
    config: Type.String(),
    socket: Type.String(),
    /** Those that were not removed. */
    agents: Count,
    /** Of the owner. */
    owner_unread: Count,
  },
  CLOSED,
);
export type StatusResult = Static<typeof StatusResult>;
