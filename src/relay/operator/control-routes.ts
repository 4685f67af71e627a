/**
 * The control socket's requests, each beside what answers it: a request of `ControlRequests` without a handler does not
 * compile, nor does a handler without a request.
 */
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import { parseJsonBounded, REQUEST_JSON_BOUNDS } from '../../protocol/bounded-json.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../protocol/epoch.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { InviteRequest } from '../../protocol/invite-documents.ts';
import { isPrintable } from '../../protocol/printable.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import type { RowsCheck } from '../jobs/rows-check.ts';
import { type OpenRoute, type RelayRequest, refusalReply } from '../http/route.ts';
import { backupStreams } from './backup-stream.ts';
import type { ControlRequests, EpochDocument, InviteDocument, StatusDocument } from './documents.ts';
import { allHosts, consoleUrlReply, findOneHost, revokeHost } from './hosts.ts';
import { issueInvite } from './invites.ts';
import { checkRows } from './online-check.ts';
import { streamLines } from './stream-lines.ts';

interface ControlParts {
  engine: Engine;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  version: string;
  status: () => StatusDocument;
  /** Gets the damage that a backup finds. */
  lostItems: LostItems;
  /** Called when a backup was sent to its end. */
  backupTaken: (atMs: number) => void;
  /** `undefined` while the relay starts, and where it cannot be done. */
  rowsCheck: () => RowsCheck | undefined;
  /** The server of the console; `undefined` without an operator listener. */
  operator: () => { consoleUrl(): { url: string; lifetimeMs: number } } | undefined;
}

type Handle = OpenRoute['handle'];

export function controlRoutes(parts: ControlParts): OpenRoute[] {
  const { engine, clock, lostItems, backupTaken, version } = parts;
  const streamBackup = backupStreams({
    snapshot: () => engine.snapshot(),
    found: (damage) => lostItems.foundByBackup(damage),
    isStopping: () => engine.isDraining,
    taken: backupTaken,
    version,
  });
  const handlers: Record<keyof ControlRequests, Handle> = {
    'GET /v1/status': () => jsonReply(200, parts.status()),
    'GET /v1/hosts': ({ exchange, id, nowMs }) =>
      streamLines(
        exchange,
        id,
        allHosts(engine, nowMs, () => clock.monotonicMs()),
      ),
    'GET /v1/hosts/find': (request) => findOneHost(request, engine),
    'POST /v1/hosts/revoke': (request) => revokeHost(request, engine),
    'GET /v1/invites': ({ exchange, id, nowMs }) => streamLines(exchange, id, openInvites(engine, nowMs)),
    'POST /v1/invites': (request) => issue(request, parts),
    'POST /v1/verify': ({ body, exchange, id }) => checkRows({ body: body.bytes, exchange, id }, parts),
    'POST /v1/epoch': (request) => beginEpoch(request, parts),
    'POST /v1/console': ({ nowMs }) => consoleUrlReply(parts.operator()?.consoleUrl(), nowMs),
    'GET /v1/backup': ({ exchange, id, nowMs }) => streamBackup(exchange, id, nowMs),
  };
  return Object.entries(handlers).map(([request, handle]) => {
    const [method, path] = request.split(' ') as [OpenRoute['method'], string];
    return { method, path, access: 'open', counted: undefined, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle };
  });
}

const parseInvite = parserOf(InviteRequest);

async function issue({ body, nowMs }: RelayRequest, parts: ControlParts): Promise<Reply> {
  const parsed = parseInvite(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  if (!parsed || !isPrintable(parsed.label)) {
    return problemReply('BAD_REQUEST', 'send {label, lifetime_ms}: a short printable text, and 1 minute to 365 days');
  }
  const { label, lifetime_ms: lifetimeMs } = parsed;
  const issued = await issueInvite({ label, lifetimeMs }, parts, nowMs);
  if (issued.type === 'Refusal') return refusalReply(issued);
  const { type: _type, id: _id, ...document } = issued;
  return jsonReply(200, document);
}

async function* openInvites(engine: Engine, nowMs: number): AsyncGenerator<InviteDocument[]> {
  const rows = await engine.admissions.openInvites(nowMs);
  yield rows.map((row) => ({ label: row.label, issued_at: row.issuedAtMs, expires_at: row.expiresAtMs }));
}

/** After a restore that other software made. */
async function beginEpoch({ nowMs }: RelayRequest, { engine, randomBytes }: ControlParts): Promise<Reply> {
  const epoch = epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
  await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'reset', nowMs });
  const document: EpochDocument = { epoch };
  return jsonReply(200, document);
}
