/** What pulling and pushing have of a relay that can be used: of one key of this host, one epoch and one protocol. */
import type { Limits } from '../../protocol/limits.ts';
import type { RelayScope } from './relay-rows.ts';
import type { RelayClient } from './relay-client.ts';
import type { RelayV1Client } from './relay-v1-client.ts';

interface Session {
  scope: RelayScope;
  limits: Limits;
  retentionMs: number;
  /** Requests of a session that ended are aborted. */
  ending: AbortController;
}

export type V2Session = Session & { protocol: 2; client: RelayClient };
export type V1Session = Session & { protocol: 1; client: RelayV1Client };
/** Replaced when its scope or protocol is another. */
export type RelaySession = V2Session | V1Session;
