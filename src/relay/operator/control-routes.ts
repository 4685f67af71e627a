/**
 * The control socket's requests, each beside what answers it: a request of `ControlRequests` without a handler does not
 * compile, nor does a handler without a request.
 */
import type { Reply } from '../../http/exchange.ts';
import { jsonReply } from '../../http/replies.ts';
import type { RandomBytes } from '../../lib/clock.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../protocol/epoch.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { Engine } from '../engine/engine.ts';
import type { RawQuery, RelayRequest } from '../http/route.ts';
import { backupStreams } from './backup-stream.ts';
import type { ControlRequests, EpochDocument, InviteDocument, StatusDocument } from './documents.ts';
import { allHosts, consoleUrlReply, controlProblem, findOneHost, revokeHost } from './hosts.ts';
import { issueInvite } from './invites.ts';
import { checkRows } from './online-check.ts';
import type { OperatorRoute } from './operator-pipeline.ts';
import type { RelayState } from './relay-state.ts';
import { streamLines } from './stream-lines.ts';

interface ControlParts {
  state: RelayState;
  status: () => StatusDocument;
  /** `undefined` without an operator listener. */
  operator: { consoleUrl(): { url: string; lifetimeMs: number } } | undefined;
}

type Handle = OperatorRoute['handle'];

export function controlRoutes({ state, status, operator }: ControlParts): OperatorRoute[] {
  const { settings, subject } = state;
  const { clock, timers, randomBytes } = settings;
  const streamBackup = backupStreams(state);
  /** A request that only a relay that serves can answer; a standby says who leads. */
  const serving =
    (handle: (request: RelayRequest<RawQuery>, engine: Engine) => ReturnType<Handle>): Handle =>
    (request) =>
      subject.serving ? handle(request, subject.serving.engine) : notLeading(state);
  const handlers: Record<keyof ControlRequests, Handle> = {
    'GET /v1/status': () => jsonReply(200, status()),
    'GET /v1/hosts': serving(({ exchange, id, nowMs }, engine) =>
      streamLines(
        exchange,
        id,
        allHosts(engine, nowMs, () => clock.monotonicMs()),
      ),
    ),
    'GET /v1/hosts/find': serving(findOneHost),
    'POST /v1/hosts/revoke': serving(revokeHost),
    'GET /v1/invites': serving(({ exchange, id, nowMs }, engine) =>
      streamLines(exchange, id, openInvites(engine, nowMs)),
    ),
    'POST /v1/invites': serving((request, engine) =>
      issueInvite(request, { engine, randomBytes }, ({ id: _id, ...document }) => document),
    ),
    'POST /v1/verify': ({ body, exchange, id }) =>
      checkRows({ body: body.bytes, exchange, id }, { rowsCheck: () => subject.jobs.rowsCheck, timers }),
    'POST /v1/epoch': serving((request, engine) => beginEpoch(request, { engine, randomBytes })),
    'POST /v1/console': ({ nowMs }) => consoleUrlReply(operator?.consoleUrl(), nowMs),
    'GET /v1/backup': ({ exchange, id, nowMs }) => streamBackup(exchange, id, nowMs),
  };
  return Object.entries(handlers).map(([request, handle]) => {
    const [method, path] = request.split(' ') as [OperatorRoute['method'], string];
    return { method, path, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle };
  });
}

function notLeading({ ledBy, leader }: RelayState): Reply {
  const then = leader === null ? 'wait until one leads' : 'give the command on its machine';
  return controlProblem('NOT_LEADING', `this node follows, and ${ledBy}: ${then}`, { leader });
}

interface CommandParts {
  engine: Engine;
  randomBytes: RandomBytes;
}

async function* openInvites(engine: Engine, nowMs: number): AsyncGenerator<InviteDocument[]> {
  const rows = await engine.admissions.openInvites(nowMs);
  yield rows.map((row) => ({ label: row.label, issued_at: row.issuedAtMs, expires_at: row.expiresAtMs }));
}

/** After a restore that other software made. */
async function beginEpoch({ nowMs }: RelayRequest, { engine, randomBytes }: CommandParts): Promise<Reply> {
  const epoch = epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
  await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'reset', nowMs });
  const document: EpochDocument = { epoch };
  return jsonReply(200, document);
}
