/** The hosts of a relay for its operator: lists them, finds one, revokes one. */
import type { Reply } from '../../http/exchange.ts';
import { isReply } from '../../http/framing.ts';
import { queryParserOf } from '../../http/query.ts';
import { jsonReply, otherProblemReply, problemReply } from '../../http/replies.ts';
import type { HostState } from '../../protocol/operator-documents.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import { type RawQuery, type RelayRequest, bodyParserOf, refusalReply } from '../http/operation.ts';
import {
  type ConsoleUrlDocument,
  type FoundHostDocument,
  type HostDocument,
  HostNamed,
  type RevokedHostDocument,
} from './documents.ts';
import { parseHostReference } from './host-reference.ts';

/** Problems that only the control socket knows. */
const CONTROL_PROBLEMS = {
  UNKNOWN_HOST: { status: 404, title: 'Unknown Host' },
  AMBIGUOUS_HOST: { status: 409, title: 'Ambiguous Host' },
  NO_OPERATOR_LISTENER: { status: 409, title: 'No Operator Listener' },
  NOT_LEADING: { status: 403, title: 'Not Leading' },
  NOTHING_YET: { status: 503, title: 'Nothing Yet' },
  BACKUPS_UNDER_WAY: { status: 409, title: 'Backups Under Way' },
} as const;

export function controlProblem(
  code: keyof typeof CONTROL_PROBLEMS,
  detail: string,
  members?: Readonly<Record<string, unknown>>,
): Reply {
  return otherProblemReply(CONTROL_PROBLEMS[code], code, detail, members);
}

/** A URL that opens the console in a browser of this machine, once. */
export function consoleUrlReply(issued: { url: string; lifetimeMs: number } | undefined, nowMs: number): Reply {
  if (!issued) {
    return controlProblem(
      'NO_OPERATOR_LISTENER',
      'this relay serves without its operator listener: start it without --admin-listen off',
    );
  }
  const document: ConsoleUrlDocument = { url: issued.url, expires_at: nowMs + issued.lifetimeMs };
  return jsonReply(200, document);
}

/** Fingerprints that one answer lists. */
const LISTED_NAMESAKES_MAX = 20;

interface FoundHost {
  type: 'FoundHost';
  /** The enrolment under the key that the host has now. */
  row: EnrolmentRow;
  /** Says whether a key was named that it has given up. */
  isFormerKey: boolean;
}

/** The host, or the reply that says why there is none. Synchronous: what is done to the host is done to this one. */
function findHost(text: string, engine: Engine): FoundHost | Reply {
  const reference = parseHostReference(text);
  switch (reference?.type) {
    case undefined:
      return problemReply('BAD_REQUEST', 'a host is named by its fingerprint, its public key or its name');
    case 'Fingerprint':
      return foundByKey(engine.directory.byFingerprint(reference.fingerprint), engine);
    case 'Key':
      return foundByKey(reference.hostPubkey, engine);
    case 'Name': {
      const carriers = engine.directory.carriers(reference.name);
      const [row] = carriers;
      if (!row)
        return controlProblem(
          'UNKNOWN_HOST',
          'no host carries this name that is not revoked: poste relay hosts --all lists every one',
        );
      if (carriers.length === 1) return { type: 'FoundHost', row, isFormerKey: false };
      const some = carriers.slice(0, LISTED_NAMESAKES_MAX);
      const listed = some.map(({ hostPubkey }) => displayFingerprint(hostPubkey)).toSorted();
      const detail = `${carriers.length} hosts carry this name, so say which by its fingerprint: ${listed.join(', ')}`;
      return controlProblem('AMBIGUOUS_HOST', detail, { fingerprints: listed });
    }
  }
}

function foundByKey(key: PublicKey | undefined, engine: Engine): FoundHost | Reply {
  const present = key && engine.presentKey(key);
  const row = present && engine.directory.get(present);
  if (!row)
    return controlProblem(
      'UNKNOWN_HOST',
      'no host was ever admitted under this key: poste relay hosts --all lists every one',
    );
  return { type: 'FoundHost', row, isFormerKey: row.hostPubkey !== key };
}

/** Each host's queue is a row to read. */
const HOSTS_AT_ONCE = 100;

const parseRevoke = bodyParserOf(HostNamed);

/** Every host key that was ever admitted, slice by slice. */
export async function* allHosts(
  engine: Engine,
  nowMs: number,
  monotonicMs: () => number,
): AsyncGenerator<HostDocument[]> {
  const rows = await engine.enrolments();
  const slice = new TimeSlice(monotonicMs);
  for (let from = 0; from < rows.length; from += HOSTS_AT_ONCE) {
    if (slice.isOver) await slice.pause();
    yield rows.slice(from, from + HOSTS_AT_ONCE).map((row) => hostDocument(row, engine, nowMs));
  }
}

const parseFind = queryParserOf(HostNamed);

export async function findOneHost({ query, nowMs }: RelayRequest<RawQuery>, engine: Engine): Promise<Reply> {
  const asked = parseFind(query);
  if (typeof asked === 'string') return problemReply('BAD_REQUEST', asked);
  const found = findHost(asked.host, engine);
  await engine.durable();
  if (isReply(found)) return found;
  const { row, isFormerKey } = found;
  const document: FoundHostDocument = { host: hostDocument(row, engine, nowMs), is_former_key: isFormerKey };
  return jsonReply(200, document);
}

export async function revokeHost({ body, nowMs }: RelayRequest, engine: Engine): Promise<Reply> {
  const parsed = parseRevoke(body);
  if (!parsed) return problemReply('BAD_REQUEST', 'send {host}: a fingerprint, a public key or a name');
  const found = findHost(parsed.host, engine);
  if (isReply(found)) {
    await engine.durable();
    return found;
  }
  return revokeKey(found.row.hostPubkey, engine, nowMs);
}

/** Revokes for good. The reply says what the host has become. */
export async function revokeKey(hostPubkey: PublicKey, engine: Engine, nowMs: number): Promise<Reply> {
  const outcome = await engine.admissions.revokeHost({ type: 'RevokeHost', hostPubkey, cause: 'operator', nowMs });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const row = engine.directory.get(hostPubkey);
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
