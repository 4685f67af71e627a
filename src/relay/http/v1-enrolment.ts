/** `POST /v1/relay/challenge` and `POST /v1/relay/enrol`: how a host key is admitted. */
import { type HostOperation, type RelayParts, ok } from './operation.ts';
import { ChallengeResponse, EnrolResponse } from '../../protocol/responses.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import { enrolClaim, isDocumentSigned } from '../../protocol/documents.ts';
import { CHALLENGE_LIFETIME_MS } from '../../protocol/limits.ts';
import { parseHostName } from '../../protocol/names.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { ChallengeRequest, EnrolRequest, parserOf } from '../../protocol/schemas.ts';
import { type Authority, AuthorityUnavailable } from '../auth/authority.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { type RelayRequest, authorityUnavailable, refusalReply, unacceptablePoint } from './route.ts';

export const CHALLENGE = {
  id: 'challenge',
  method: 'POST',
  path: '/v1/relay/challenge',
  access: 'open',
  summary: 'Asks for a challenge, for a host key to enrol with.',
  request: { schema: ChallengeRequest },
  successes: [ok(ChallengeResponse, 'an open challenge')],
  problems: ['ENROL_REFUSED', 'RATE_LIMITED', 'CHALLENGES_FULL'],
  counted: 'challenge',
  hasSmallBody: true,
  handle: challenge,
} as const satisfies HostOperation;

export const ENROL = {
  id: 'enrol',
  method: 'POST',
  path: '/v1/relay/enrol',
  access: 'open',
  summary: 'Enrols a host key by its signature over an open challenge, this relay and the claims.',
  request: { schema: EnrolRequest },
  successes: [ok(EnrolResponse, 'the key is enrolled')],
  problems: [
    'BAD_SIGNATURE',
    'NO_CHALLENGE',
    'ENROL_REFUSED',
    'NAME_TAKEN',
    'RATE_LIMITED',
    'ENROLMENTS_FULL',
    'AUTHORITY_UNAVAILABLE',
  ],
  counted: 'enrol',
  hasSmallBody: true,
  handle: enrol,
} as const satisfies HostOperation;

const parseChallenge = parserOf(ChallengeRequest);
const parseEnrol = parserOf(EnrolRequest);

function challenge({ body, clientAddress, nowMs }: RelayRequest, parts: RelayParts): Reply {
  const parsed = parseChallenge(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const pubkey = parsePublicKey(parsed?.pubkey);
  if (!pubkey) return problemReply('BAD_REQUEST', 'send {pubkey}: base64 of the 32-byte host key');
  if (!parts.keys.isAcceptable(pubkey)) return unacceptablePoint();
  const text = parts.challenges.issue(pubkey, clientAddress);
  if (text === undefined) {
    return problemReply('CHALLENGES_FULL', 'too many challenges are open', {
      retryAfterS: CHALLENGE_LIFETIME_MS / 1000,
    });
  }
  const { relayPubkey } = parts;
  return jsonReply(200, { challenge: text, relay_pubkey: relayPubkey, expires_at: nowMs + CHALLENGE_LIFETIME_MS });
}

async function enrol({ body, clientAddress, nowMs }: RelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine, keys, challenges, authority, relayPubkey } = parts;
  const parsed = parseEnrol(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const hostPubkey = parsePublicKey(parsed?.pubkey);
  const hostName = parsed && parseHostName(parsed.host);
  if (!parsed || !hostPubkey || !hostName) {
    return problemReply('BAD_REQUEST', 'send {host, pubkey, owner_fp, sig} as the protocol describes them');
  }
  if (!keys.isAcceptable(hostPubkey)) return unacceptablePoint();
  const { host, owner_fp: ownerFp, sig, proof } = parsed;
  const used = challenges.use(hostPubkey, clientAddress, (text) => {
    const fields = { challenge: text, relay_pubkey: relayPubkey, host, pubkey: hostPubkey, owner_fp: ownerFp };
    return isDocumentSigned(hostPubkey, enrolClaim(fields), sig);
  });
  if (used === 'none open') return problemReply('NO_CHALLENGE', 'no challenge is open for this key: ask for one');
  if (used === 'none verifies') return problemReply('BAD_SIGNATURE', 'sig covers no open challenge of this key');
  let answer: Awaited<ReturnType<Authority['ask']>>;
  try {
    answer = await authority.ask({ hostName, hostPubkey, ownerFp, proof });
  } catch (error) {
    if (!(error instanceof AuthorityUnavailable)) throw error;
    return authorityUnavailable();
  }
  const command = {
    type: 'EnrolHost',
    hostPubkey,
    hostName,
    ownerFp,
    authorizedBy: authority.name,
    answer,
    inviteHash: typeof proof === 'string' ? sha256Hex(proof) : undefined,
    nowMs,
  } as const;
  const outcome = await engine.admissions.enrol(command);
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  return jsonReply(200, {
    host: outcome.host,
    host_pubkey: outcome.hostPubkey,
    enrolled_at: outcome.enrolledAtMs,
    authorized_by: outcome.authorizedBy,
    account: outcome.account,
    crowded: outcome.crowded,
    epoch: engine.epoch,
  });
}
