/**
 * The control socket's requests, each beside what answers it: a request of `ControlRequests` without a handler does not
 * compile, nor does a handler without a request.
 */
import type { Exchange, Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { type RandomBytes, type Timers, withinMs } from '../../lib/clock.ts';
import { randomEpoch } from '../../protocol/names.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { Engine } from '../engine/engine.ts';
import { type RawQuery, type RelayRequest, bodyParserOf } from '../http/operation.ts';
import {
  BACKUP_BYTES_ABOUT,
  type ControlRequests,
  type EpochDocument,
  type InviteDocument,
  type RowsCheckDocument,
  type StatusDocument,
  VerifyRequest,
} from './documents.ts';
import { allHosts, consoleUrlReply, controlProblem, findOneHost, revokeHost } from './hosts.ts';
import { issueInvite } from './invites.ts';
import type { OperatorRoute } from './operator-pipeline.ts';
import { NothingYet, type RelayState } from './relay-state.ts';
import { backupOf } from '../image/backup.ts';
import type { CheckedAt, RowsCheck } from '../jobs/rows-check.ts';

interface ControlParts {
  state: RelayState;
  status: () => StatusDocument;
  /** `undefined` without an operator listener. */
  operator: { consoleUrl(): { url: string; lifetimeMs: number } } | undefined;
}

type Handle = OperatorRoute['handle'];

export function controlRoutes({ state, status, operator }: ControlParts): OperatorRoute[] {
  const { settings, subject } = state;
  const { clock, randomBytes } = settings;
  /** A request that only a relay that serves can answer; a standby says who leads. */
  const serving =
    (handle: (request: RelayRequest<RawQuery>, engine: Engine) => ReturnType<Handle>): Handle =>
    (request) =>
      subject.serving ? handle(request, subject.serving.engine) : notLeading(state);
  const handlers: Record<keyof ControlRequests, Handle> = {
    'GET /v1/status': () => jsonReply(200, status()),
    'GET /v1/hosts': serving(({ exchange, id, nowMs }, engine) =>
      streamLines(exchange, id, allHosts(engine, nowMs, clock.monotonicMs)),
    ),
    'GET /v1/hosts/find': serving(findOneHost),
    'POST /v1/hosts/revoke': serving(revokeHost),
    'GET /v1/invites': serving(({ exchange, id, nowMs }, engine) =>
      streamLines(exchange, id, openInvites(engine, nowMs)),
    ),
    'POST /v1/invites': serving((request, engine) =>
      issueInvite(request, { engine, randomBytes }, ({ id: _id, ...document }) => document),
    ),
    'POST /v1/verify': (request) => checkRows(request, state),
    'POST /v1/epoch': serving((request, engine) => beginEpoch(request, { engine, randomBytes })),
    'POST /v1/console': ({ nowMs }) => consoleUrlReply(operator?.consoleUrl(), nowMs),
    'GET /v1/backup': backupStreams(state),
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

/** Begins an epoch after a restore that other software made. */
async function beginEpoch({ nowMs }: RelayRequest, { engine, randomBytes }: CommandParts): Promise<Reply> {
  const epoch = randomEpoch(randomBytes);
  await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'reset', nowMs });
  const document: EpochDocument = { epoch };
  return jsonReply(200, document);
}

/** A snapshot holds on to what is deleted meanwhile. */
const BACKUPS_AT_ONCE = 2;

/** Streams a few backups at a time. Each ends with its peer or the relay; the server cuts a peer that takes nothing. */
function backupStreams(state: RelayState): Handle {
  let underWay = 0;
  return async (request) => {
    if (underWay >= BACKUPS_AT_ONCE)
      return controlProblem('BACKUPS_UNDER_WAY', 'other backups are being taken: wait for their end');
    underWay++;
    try {
      return await streamBackup(state, request);
    } catch (error) {
      if (error instanceof NothingYet) return controlProblem('NOTHING_YET', `${error.message}: try again`);
      throw error;
    } finally {
      underWay--;
    }
  };
}

async function streamBackup(
  state: RelayState,
  { exchange, id, nowMs }: RelayRequest<RawQuery>,
): Promise<Reply | 'streamed'> {
  const { subject, settings } = state;
  const snapshot = await subject.snapshot();
  try {
    // The damage in a complete backup has been handled by the relay when the client has it.
    const { version } = settings;
    const chunks = backupOf(snapshot, { created_at: nowMs, version }, (damage) => subject.foundByBackup(damage));
    const bytesAbout = await snapshot.bytesAbout();
    if (subject.isStopping) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
    const headers = {
      'content-type': 'application/octet-stream',
      'x-request-id': id,
      [BACKUP_BYTES_ABOUT]: String(bytesAbout),
    };
    const stream = exchange.startReply(200, headers);
    try {
      for await (const chunk of chunks) {
        if (exchange.isAborted) return 'streamed';
        // Half a backup is none: the peer sees the connection end.
        if (subject.isStopping) break;
        await stream.write(chunk);
      }
      if (subject.isStopping) exchange.abort();
      else {
        stream.end();
        if (!exchange.isAborted) state.noteBackup(nowMs);
      }
    } catch (error) {
      exchange.abort();
      throw error;
    }
    return 'streamed';
  } finally {
    await snapshot.close();
  }
}

const parseVerify = bodyParserOf(VerifyRequest);
const PROGRESS_EVERY_MS = 1000;

/**
 * The check of the rows against the log: sends its progress each second and then what it found, or the reply that says
 * why there is none.
 */
function checkRows({ body, exchange, id }: RelayRequest<RawQuery>, state: RelayState): Reply | Promise<'streamed'> {
  const parsed = parseVerify(body);
  if (!parsed) return problemReply('BAD_REQUEST', 'send {cpu_percent}: a whole number from 1 to 100');
  const check = state.subject.jobs.rowsCheck;
  if (!check) return problemReply('UNAVAILABLE', 'this relay starts, or it runs from its sources and cannot do this');
  return streamLines(exchange, id, checkLines(check, parsed.cpu_percent / 100, state.settings.timers));
}

async function* checkLines(check: RowsCheck, share: number, timers: Timers): AsyncGenerator<RowsCheckDocument[]> {
  const before = check.last;
  const ended = check.check(share);
  do {
    const { stage, done, of } = check.run?.progress ?? { stage: 'checkpoints', done: 0, of: undefined };
    yield [{ type: 'progress', stage, done, of: of ?? null }];
  } while (!(await withinMs(ended, PROGRESS_EVERY_MS, timers)));
  const { last } = check;
  yield [last === undefined || last === before ? { type: 'failed' } : reportLine(last)];
}

function reportLine({ durationMs, checked }: CheckedAt): RowsCheckDocument {
  const { findings, found, lsn, replayedFrom, records, rows, busyMs } = checked;
  const listed = findings.map(({ code, message }) => ({ code, message }));
  const counts = { found, lsn, replayed_from: replayedFrom, records, rows };
  return { type: 'report', findings: listed, ...counts, busy_ms: busyMs, duration_ms: durationMs };
}

/** Sends a list or progress as NDJSON. The reply is chunked, so that the peer notices when the end is missing. */
async function streamLines(
  exchange: Exchange,
  requestId: string,
  slices: AsyncIterable<readonly object[]>,
): Promise<'streamed'> {
  const stream = exchange.startReply(200, { 'content-type': 'application/x-ndjson', 'x-request-id': requestId });
  try {
    for await (const documents of slices) {
      if (exchange.isAborted) break;
      if (documents.length > 0) {
        await stream.write(Buffer.from(documents.map((document) => `${JSON.stringify(document)}\n`).join('')));
      }
    }
  } catch (error) {
    exchange.abort();
    throw error;
  }
  stream.end();
  return 'streamed';
}
