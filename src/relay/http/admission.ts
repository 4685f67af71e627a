/**
 * The routes of admission. `POST /v1/relay/challenge` and `POST /v1/relay/enrol`: a host key enrols.
 *
 * `POST /v2/relay/rotate`: a host goes on under a new key. The record is signed by both, and needs no hop.
 * `GET /v2/relay/rotation?key=`: that record, for hosts that know only the old key. The relay vouches for nothing of
 * it.
 *
 * `POST /v2/relay/deny`: the issuer pushes a deny entry (RFC 8935). Only a hosted relay has this route. 202 means that
 * the entry is on disk, that every host it matched is revoked, and that their waiting pulls have ended.
 */
import type { Static } from 'typebox';
import { sha256Hex } from '../../protocol/encodings.ts';
import { canonicalJson, enrolClaim, isDocumentSigned } from '../../protocol/documents.ts';
import { CHALLENGE_LIFETIME_MS, WORK_OF_MOVED_ITEM } from '../../protocol/limits.ts';
import { parseHostName } from '../../protocol/names.ts';
import { RotationQuery } from '../../protocol/parameters.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { ChallengeResponse, EnrolResponse, RotateResponse, RotationShown } from '../../protocol/responses.ts';
import { ChallengeRequest, DenyRequest, EnrolRequest, RotateRequest } from '../../protocol/schemas.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { AuthorityUnavailable } from '../auth/authority.ts';
import { type JwtRefused, readDenyEvent } from '../auth/issuer.ts';
import {
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
  type RelayRequest,
  bodyParserOf,
  ok,
  refusalReply,
} from './operation.ts';

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

const parseChallenge = bodyParserOf(ChallengeRequest);
const parseEnrol = bodyParserOf(EnrolRequest);

function challenge({ body, clientAddress, nowMs }: RelayRequest, parts: RelayParts): Reply {
  const parsed = parseChallenge(body);
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
  const parsed = parseEnrol(body);
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
  const answer = await authority.ask({ hostName, hostPubkey, ownerFp, proof }).catch(noneWhenUnavailable);
  if (!answer) return authorityUnavailable();
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

export const ROTATE = {
  id: 'rotate',
  method: 'POST',
  path: '/v2/relay/rotate',
  access: 'open',
  summary: 'Goes on under a new host key: the mail of the old one is moved. Both keys sign the record.',
  request: { schema: RotateRequest },
  successes: [ok(RotateResponse, 'the new key stands for the host; a repeat moves nothing')],
  problems: ['IAT_IN_FUTURE', 'NOT_ENROLLED', 'BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED'],
  counted: 'rotate',
  hasSmallBody: true,
  handle: rotate,
} as const satisfies HostOperation;

export const ROTATION = {
  id: 'rotation',
  method: 'GET',
  path: '/v2/relay/rotation',
  access: 'hop by key',
  summary: 'Shows the record by which a host replaced this key, as both keys signed it.',
  query: RotationQuery,
  successes: [ok(RotationShown, 'what the host signed')],
  problems: ['RATE_LIMITED'],
  counted: 'work',
  handle: showRotation,
} as const satisfies HostOperation<typeof RotationQuery>;

const parseRotate = bodyParserOf(RotateRequest);

async function rotate({ body, clientAddress, nowMs }: RelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine, keys, work } = parts;
  const parsed = parseRotate(body);
  const oldPubkey = parsePublicKey(parsed?.rotation.rec.old_pubkey);
  const newPubkey = parsePublicKey(parsed?.rotation.rec.new_pubkey);
  if (!parsed || !oldPubkey || !newPubkey || oldPubkey === newPubkey) {
    return problemReply('BAD_REQUEST', 'send {rotation: {rec, old_sig, new_sig}} as the protocol describes them');
  }
  const { rec, old_sig: oldSig, new_sig: newSig } = parsed.rotation;
  if (!engine.directory.get(oldPubkey)) return problemReply('NOT_ENROLLED', 'not enrolled');
  if (!keys.isAcceptable(newPubkey)) return unacceptablePoint();
  if (!isDocumentSigned(oldPubkey, rec, oldSig) || !isDocumentSigned(newPubkey, rec, newSig)) {
    return problemReply('BAD_SIGNATURE', 'the rotation is not signed by both keys');
  }
  const moving = engine.head(oldPubkey).queueItems * WORK_OF_MOVED_ITEM;
  const refused = moving > 0 ? work.charge(oldPubkey, clientAddress, moving) : undefined;
  if (refused) return refused;
  const signed = { record: canonicalJson(rec), oldSig, newSig };
  const command = { type: 'RotateKey', oldPubkey, newPubkey, iatMs: rec.iat, signed, nowMs } as const;
  const outcome = await engine.admissions.rotateKey(command);
  if (outcome.type === 'Refusal') {
    // Nothing was moved.
    work.owe(oldPubkey, clientAddress, -moving);
    return refusalReply(outcome);
  }
  const { hostPubkey, movedItems, headSeq } = outcome;
  return jsonReply(200, { host_pubkey: hostPubkey, moved_items: movedItems, head_seq: headSeq, epoch: engine.epoch });
}

/** One record a request: its `new_pubkey` asks for the next. */
async function showRotation(
  { query }: HopRelayRequest<Static<typeof RotationQuery>>,
  { engine }: RelayParts,
): Promise<Reply> {
  const row = await engine.rotation(query.key);
  if (!row) return jsonReply(200, { rotation: null });
  const rec = JSON.parse(row.record) as Record<string, unknown>;
  return jsonReply(200, { rotation: { rec, old_sig: row.oldSig, new_sig: row.newSig } });
}

const DENY_CONTENT_TYPE = 'application/secevent+jwt';

export const DENY = {
  id: 'deny',
  method: 'POST',
  path: '/v2/relay/deny',
  access: 'open',
  isHostedOnly: true,
  summary: 'Takes a deny-list entry from the account service (RFC 8935), and revokes what it matches.',
  request: { schema: DenyRequest, contentType: DENY_CONTENT_TYPE },
  successes: [{ status: 202, description: 'the entry is kept, and matching enrolments are revoked' }],
  problems: ['BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED', 'AUTHORITY_UNAVAILABLE'],
  counted: 'deny',
  hasSmallBody: true,
  handle: deny,
} as const satisfies HostOperation;

async function deny({ exchange, body, nowMs }: RelayRequest, { engine, issuer }: RelayParts): Promise<Reply> {
  if (!issuer) throw new Error('invariant: a relay without an issuer has no such route');
  const contentType = exchange.head.headers.find(([name]) => name === 'content-type')?.[1];
  if (contentType?.split(';')[0]?.trim().toLowerCase() !== DENY_CONTENT_TYPE) {
    return problemReply('BAD_REQUEST', `send a security event token as ${DENY_CONTENT_TYPE}`);
  }
  const event = await readDenyEvent(body.bytes.toString('latin1'), issuer, nowMs).catch(noneWhenUnavailable);
  if (!event) return authorityUnavailable();
  if (event.type === 'JwtRefused') return tokenRefusal(event);
  const outcome = await engine.admissions.denyHosts({ ...event, type: 'DenyHosts', nowMs });
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

function noneWhenUnavailable(error: unknown): undefined {
  if (!(error instanceof AuthorityUnavailable)) throw error;
}

function authorityUnavailable(): Reply {
  return problemReply('AUTHORITY_UNAVAILABLE', 'the authority of this relay cannot be asked now');
}

/** A well-encoded key whose point must not be enrolled or rotated to. */
function unacceptablePoint(): Reply {
  return problemReply('ENROL_REFUSED', 'the key is not an acceptable Ed25519 point', {
    members: { reason: 'bad key' },
  });
}
