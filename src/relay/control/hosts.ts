/** `GET /v1/hosts`, `GET /v1/hosts/find` and `POST /v1/hosts/revoke`: who is in, and who is to be no longer. */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { HostState } from '../../protocol/operator-documents.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { Stretch } from '../engine/stretch.ts';
import type { Reply } from '../../http/exchange.ts';
import { isReply } from '../../http/framing.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply } from '../http/refusals.ts';
import type { OpenRoute, RelayRequest } from '../http/route.ts';
import { type FoundHostDocument, type HostDocument, RevokeRequest, type RevokedHostDocument } from './documents.ts';
import { findHost } from './find-host.ts';
import { streamLines } from './ndjson.ts';

/** Each host's queue is a row to read. */
const HOSTS_AT_ONCE = 100;

export interface HostRoutesOptions {
  engine: Engine;
  monotonicMs: () => number;
}

const parseRevoke = parserOf(RevokeRequest);

export function hostRoutes({ engine, monotonicMs }: HostRoutesOptions): OpenRoute[] {
  const shared = { access: 'open', counted: undefined, bodyBytesMax: SMALL_BODY_BYTES_MAX } as const;
  return [
    {
      ...shared,
      method: 'GET',
      path: '/v1/hosts',
      handle: ({ exchange, id, nowMs }) => streamLines(exchange, id, allHosts(engine, nowMs, monotonicMs)),
    },
    { ...shared, method: 'GET', path: '/v1/hosts/find', handle: (request) => find(request, engine) },
    { ...shared, method: 'POST', path: '/v1/hosts/revoke', handle: (request) => revoke(request, engine) },
  ];
}

/** Every host key that was ever admitted, slice by slice. */
export async function* allHosts(
  engine: Engine,
  nowMs: number,
  monotonicMs: () => number,
): AsyncGenerator<HostDocument[]> {
  const rows = await engine.enrolments();
  const stretch = new Stretch(monotonicMs);
  for (let from = 0; from < rows.length; from += HOSTS_AT_ONCE) {
    if (stretch.isOver) await stretch.pause();
    yield rows.slice(from, from + HOSTS_AT_ONCE).map((row) => hostDocument(row, engine, nowMs));
  }
}

async function find({ query, nowMs }: RelayRequest, engine: Engine): Promise<Reply> {
  const found = findHost(new URLSearchParams(query ?? '').get('host') ?? '', engine);
  await engine.durable();
  if (isReply(found)) return found;
  const { row, isFormerKey } = found;
  const document: FoundHostDocument = { host: hostDocument(row, engine, nowMs), is_former_key: isFormerKey };
  return jsonReply(200, document);
}

async function revoke({ body, nowMs }: RelayRequest, engine: Engine): Promise<Reply> {
  const parsed = parseRevoke(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  if (!parsed) return problemReply('BAD_REQUEST', 'send {host}: a fingerprint, a public key or a name');
  const found = findHost(parsed.host, engine);
  if (isReply(found)) {
    await engine.durable();
    return found;
  }
  const { hostPubkey } = found.row;
  const outcome = await engine.revokeHost({ type: 'RevokeHost', hostPubkey, cause: 'operator', nowMs });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const row = engine.enrolment(hostPubkey);
  if (!row) throw new Error('invariant: a revoked key keeps its enrolment');
  const document: RevokedHostDocument = { host: hostDocument(row, engine, nowMs), is_new: outcome.isNew };
  return jsonReply(200, document);
}

export function hostDocument(row: EnrolmentRow, engine: Engine, nowMs: number): HostDocument {
  const { headSeq, ackedThrough, queueItems, queueBytes } = engine.head(row.hostPubkey);
  return {
    host: row.hostName,
    host_pubkey: row.hostPubkey,
    fingerprint: displayFingerprint(row.hostPubkey),
    state: stateOf(row, nowMs),
    account: row.account,
    org: row.org,
    client_id: row.clientId,
    owner_fp: row.ownerFp,
    authorized_by: row.authorizedBy,
    enrolled_at: row.enrolledAtMs,
    valid_until: row.validUntilMs,
    revoked_at: row.revokedAtMs,
    rotated_to: row.rotatedTo,
    seen: row.seen,
    queue_items: queueItems,
    queue_bytes: queueBytes,
    head_seq: headSeq,
    acked_through: ackedThrough,
  };
}

function stateOf({ rotatedTo, revokedAtMs, validUntilMs }: EnrolmentRow, nowMs: number): HostState {
  if (rotatedTo !== null) return 'rotated';
  if (revokedAtMs !== null) return 'revoked';
  return validUntilMs !== null && validUntilMs <= nowMs ? 'expired' : 'live';
}
