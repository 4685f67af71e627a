/**
 * The pluggable authority, which says who may enrol ("Enrolment", rule 5).
 *
 * It is asked after the host key's signature over the challenge has been verified. Its answer is stored with the
 * enrolment. It may take its time and may fail; a failure is `AuthorityUnavailable`, and the host is not enrolled.
 */
import type { HostName } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AuthorityAnswer } from '../core/command.ts';
import type { AuthorityName } from '../core/rows.ts';

export interface EnrolmentQuestion {
  hostName: HostName;
  hostPubkey: PublicKey;
  ownerFp: string;
  /** The client's `proof`, unjudged. */
  proof: unknown;
}

export interface Authority {
  readonly name: AuthorityName;
  ask(question: EnrolmentQuestion): Promise<AuthorityAnswer>;
}

export class AuthorityUnavailable extends Error {}

/** The default of self-hosted relays: any holder of a host key may enrol; quotas limit what it can use. */
export const hostKeyAuthority: Authority = {
  name: 'host-key',
  ask: () => Promise.resolve({ ok: true }),
};
