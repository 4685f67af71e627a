/**
 * `POST /v2/relay/deny`: the issuer pushes a deny entry (RFC 8935). Only a hosted relay has this route.
 *
 * 202 means that the entry is on disk, that every host it matched is revoked, and that their waiting pulls have ended.
 */
import type { HostOperation, RelayParts } from './operation.ts';
import { DenyRequest } from '../../protocol/schemas.ts';
import { AuthorityUnavailable } from '../auth/authority.ts';
import type { JwtRefused } from '../auth/issuer.ts';
import { readDenyEvent } from '../auth/security-event.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { type RelayRequest, authorityUnavailable, refusalReply } from './route.ts';

const CONTENT_TYPE = 'application/secevent+jwt';

export const DENY = {
  id: 'deny',
  method: 'POST',
  path: '/v2/relay/deny',
  access: 'open',
  isHostedOnly: true,
  summary: 'Takes a deny-list entry from the account service (RFC 8935), and revokes what it matches.',
  request: { schema: DenyRequest, contentType: CONTENT_TYPE },
  successes: [{ status: 202, description: 'the entry is kept, and matching enrolments are revoked' }],
  problems: ['BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED', 'AUTHORITY_UNAVAILABLE'],
  counted: 'deny',
  hasSmallBody: true,
  handle: deny,
} as const satisfies HostOperation;

async function deny({ exchange, body, nowMs }: RelayRequest, { engine, issuer }: RelayParts): Promise<Reply> {
  if (!issuer) throw new Error('invariant: a relay without an issuer has no such route');
  const contentType = exchange.head.headers.find(([name]) => name === 'content-type')?.[1];
  if (contentType?.split(';')[0]?.trim().toLowerCase() !== CONTENT_TYPE) {
    return problemReply('BAD_REQUEST', `send a security event token as ${CONTENT_TYPE}`);
  }
  let event: Awaited<ReturnType<typeof readDenyEvent>>;
  try {
    event = await readDenyEvent(body.bytes.toString('latin1'), issuer, nowMs);
  } catch (error) {
    if (!(error instanceof AuthorityUnavailable)) throw error;
    return authorityUnavailable();
  }
  if (event.type === 'JwtRefused') return tokenRefusal(event);
  const { hostFp, clientId, account, org, reason } = event;
  const outcome = await engine.admissions.denyHosts({
    type: 'DenyHosts',
    hostFp,
    clientId,
    account,
    org,
    reason,
    nowMs,
  });
  return outcome.type === 'Refusal' ? refusalReply(outcome) : { status: 202, headers: {}, body: '' };
}

function tokenRefusal({ fault, reason }: JwtRefused): Reply {
  switch (fault) {
    case 'form':
      return problemReply('BAD_REQUEST', reason);
    case 'signature':
      return problemReply('BAD_SIGNATURE', reason);
    case 'claims':
      return problemReply('ENROL_REFUSED', reason, { members: { reason } });
  }
}
