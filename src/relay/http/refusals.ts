/** The replies to requests that the relay refused. */
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import type { Refusal } from '../core/decision.ts';

export function refusalReply({ code, detail, members }: Refusal): Reply {
  return problemReply(code, detail, { members });
}

export function authorityUnavailable(): Reply {
  return problemReply('AUTHORITY_UNAVAILABLE', 'the authority of this relay cannot be asked now');
}

/** A well-encoded key whose point must not be enrolled or rotated to. */
export function unacceptablePoint(): Reply {
  return problemReply('ENROL_REFUSED', 'the key is not an acceptable Ed25519 point', {
    members: { reason: 'bad key' },
  });
}
