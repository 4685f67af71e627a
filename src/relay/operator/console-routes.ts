/** The console: its routes, what it shows, and its two actions. An operation is described beside what does it. */
import { type PageParts, pageRoutes } from '../../http/browser-session/page-routes.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, otherProblemReply, problemReply } from '../../http/replies.ts';
import type { RandomBytes } from '../../lib/clock.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import {
  ConsoleBackup,
  ConsoleFollowing,
  ConsoleHost,
  ConsoleHostQuery,
  ConsoleHosts,
  ConsoleHostsQuery,
  ConsoleInviteIssued,
  ConsoleInviteRevokeRequest,
  ConsoleInviteRevoked,
  ConsoleInvites,
  ConsoleLog,
  ConsoleLogQuery,
  ConsoleOverview,
  ConsoleRevokeRequest,
  ConsoleRevoked,
  ConsoleSamples,
  ConsoleSamplesQuery,
  ConsoleTrace,
  ConsoleTraceQuery,
  InviteRequest,
  OPERATOR_PROBLEMS,
  type OperatorProblemCode,
  RowsCheckShown,
} from '../../protocol/operator-documents.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { problemShape } from '../../protocol/responses.ts';
import Type, { type Static, type TObject } from 'typebox';
import {
  type QueryOf,
  bodyParserOf,
  ok,
  type Operation,
  queriesOf,
  type RawQuery,
  type RelayRequest,
  type Success,
} from '../http/operation.ts';
import { overview, type OverviewParts, rowsCheckShown } from './console-overview.ts';
import { hostView, listHosts } from './host-views.ts';
import { revokeKey } from './hosts.ts';
import { issueInvite, shownInvites } from './invites.ts';
import { traceItem, type TraceOptions } from './item-trace.ts';
import { searchLog } from './log-search.ts';
import type { OperatorRoute } from './operator-pipeline.ts';
import type { RelayState } from './relay-state.ts';
import { QUIET_SHARE } from '../jobs/rows-check.ts';

/** The console of a relay that serves shows these besides its state. */
export interface ConsoleParts extends OverviewParts, TraceOptions {
  randomBytes: RandomBytes;
  unexpected: (error: unknown, requestId: string) => void;
}

interface ConsoleRoutesOptions {
  page: PageParts;
  state: RelayState;
  /** `undefined`: a standby, which shows its overview, and answers who leads when anything else is asked. */
  parts: ConsoleParts | undefined;
}

const parseRevoke = bodyParserOf(ConsoleRevokeRequest);
const parseInviteRevoke = bodyParserOf(ConsoleInviteRevokeRequest);

/** The console asks for these: each operation is described beside what does it. */
interface ConsoleOperation<Shape extends TObject = TObject> extends Operation {
  access: 'console read' | 'console action';
  query?: Shape;
  /** Absent for the overview, which a standby has too. */
  handle?: (
    request: RelayRequest<QueryOf<Shape>>,
    parts: ConsoleParts & { backups: Backups },
  ) => Reply | Promise<Reply>;
}

export const ofConsole = {
  listener: 'operator',
  method: 'GET',
  access: 'console read',
  problems: ['BAD_REQUEST'],
} as const;
export const actionOfConsole = { ...ofConsole, method: 'POST', access: 'console action' } as const;
/** The answers of the console to a request without access. */
export const NO_ACCESS = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN')];

export const CONSOLE_OPERATIONS: readonly ConsoleOperation[] = [
  {
    ...ofConsole,
    id: 'consoleOverview',
    path: '/console/overview',
    summary: 'Shows how the relay is and was in the last minutes.',
    successes: [
      ok(Type.Union([ConsoleOverview, ConsoleFollowing]), 'the overview; of a relay that follows, what it knows'),
      ...NO_ACCESS,
    ],
  },
  {
    ...ofConsole,
    id: 'consoleSamples',
    path: '/console/samples',
    summary: 'Shows the measurements of a time in the last week: the nearer it is, the finer they are.',
    query: ConsoleSamplesQuery,
    successes: [ok(ConsoleSamples, 'the measurements, the oldest first'), ...NO_ACCESS],
    handle: samples,
  },
  {
    ...ofConsole,
    id: 'consoleHosts',
    path: '/console/hosts',
    summary: 'Lists hosts, sorted and searched, a page at a time.',
    query: ConsoleHostsQuery,
    successes: [ok(ConsoleHosts, 'a page of those that fit'), ...NO_ACCESS],
    handle: hosts,
  },
  {
    ...ofConsole,
    id: 'consoleHost',
    path: '/console/host',
    summary: 'Shows one host: its queue, its quotas, its keys.',
    query: ConsoleHostQuery,
    successes: [ok(ConsoleHost, 'the host'), ...NO_ACCESS, ...refusals('UNKNOWN_HOST_KEY')],
    handle: host,
  },
  {
    ...ofConsole,
    id: 'consoleLog',
    path: '/console/log',
    summary: 'Shows events of the log, the newest first.',
    query: ConsoleLogQuery,
    successes: [ok(ConsoleLog, 'a page of the log'), ...NO_ACCESS],
    handle: log,
  },
  {
    ...ofConsole,
    id: 'consoleTrace',
    path: '/console/trace',
    summary: 'Shows what became of the item that was accepted in one record.',
    query: ConsoleTraceQuery,
    successes: [ok(ConsoleTrace, 'the path of the item'), ...NO_ACCESS, ...refusals('UNKNOWN_RECORD')],
    handle: trace,
  },
  {
    ...actionOfConsole,
    id: 'consoleRevoke',
    path: '/console/revoke',
    summary: 'Admits a host no longer, for good.',
    request: { schema: ConsoleRevokeRequest },
    successes: [
      ok(ConsoleRevoked, 'what the host has become'),
      ...NO_ACCESS,
      ...refusals('UNKNOWN_HOST_KEY'),
      ...refusals('NOT_CONFIRMED'),
    ],
    handle: revoke,
  },
  {
    ...ofConsole,
    id: 'consoleInvites',
    path: '/console/invites',
    summary: 'Lists the invites that are neither used nor expired, the newest first.',
    successes: [ok(ConsoleInvites, 'the open invites'), ...NO_ACCESS],
    handle: async ({ nowMs }, { engine }) => jsonReply(200, await shownInvites(engine, nowMs)),
  },
  {
    ...actionOfConsole,
    id: 'consoleInvite',
    path: '/console/invites',
    summary: 'Makes an invite: a token that admits one host. It is shown only in this answer.',
    request: { schema: InviteRequest },
    successes: [ok(ConsoleInviteIssued, 'the invite with its token'), ...NO_ACCESS],
    problems: ['BAD_REQUEST', 'UNAVAILABLE'],
    handle: (request, parts) =>
      issueInvite(request, parts, ({ admission: _admission, ...document }): ConsoleInviteIssued => document),
  },
  {
    ...actionOfConsole,
    id: 'consoleInviteRevoke',
    path: '/console/invites/revoke',
    summary: 'Ends an open invite before its time.',
    request: { schema: ConsoleInviteRevokeRequest },
    successes: [ok(ConsoleInviteRevoked, 'whether it was open'), ...NO_ACCESS],
    handle: revokeInvite,
  },
  {
    ...actionOfConsole,
    id: 'consoleBackup',
    path: '/console/backup',
    summary: 'Takes a backup now.',
    successes: [
      ok(ConsoleBackup, 'the backup is whole'),
      ...NO_ACCESS,
      ...refusals('BACKUP_UNDER_WAY'),
      ...refusals('BACKUP_FAILED'),
    ],
    handle: ({ id }, { backups }) => backups.take(id),
  },
  {
    ...actionOfConsole,
    id: 'consoleRowsCheck',
    path: '/console/rows-check',
    summary: 'Begins to compare the rows with the log; the overview says how far it is and what it found.',
    successes: [ok(RowsCheckShown, 'the check is under way'), ...NO_ACCESS, ...refusals('ROWS_CHECK_UNDER_WAY')],
    problems: ['BAD_REQUEST', 'UNAVAILABLE'],
    handle: (_request, parts) => startRowsCheck(parts),
  },
];

export function consoleRoutes({ page, state, parts }: ConsoleRoutesOptions): OperatorRoute[] {
  const serving = parts && { ...parts, backups: new Backups(parts) };
  return [
    ...pageRoutes(page),
    ...CONSOLE_OPERATIONS.map(({ method, path, access, query: shape, handle }): OperatorRoute => {
      const asked = queriesOf(shape);
      const answer = async (request: RelayRequest<RawQuery>): Promise<Reply> => {
        if (!handle) return jsonReply(200, await overview(state, serving));
        if (!serving) return notLeading(state);
        return asked(request.query, (query) => handle({ ...request, query }, serving));
      };
      const guarded = page.access.guard(access === 'console read' ? 'read' : 'action', answer);
      return { method, path, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle: guarded };
    }),
  ];
}

function notLeading({ ledBy, leader }: RelayState): Reply {
  const where = leader === null ? 'no relay leads now' : `${ledBy}: open the console of that relay`;
  return consoleProblem('NOT_LEADING', `this relay follows, and ${where}`);
}

type Of<Shape extends TObject> = RelayRequest<Static<Shape>>;

function samples({ query }: Of<typeof ConsoleSamplesQuery>, { sampler }: ConsoleParts): Reply {
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = query;
  const { history } = sampler;
  const document: ConsoleSamples = { samples: history.between(since, until), first_at: history.firstMs ?? null };
  return jsonReply(200, document);
}

async function hosts({ query }: Of<typeof ConsoleHostsQuery>, options: ConsoleParts): Promise<Reply> {
  const { search = '', state, sort = 'bytes', reverse, offset = 0 } = query;
  return jsonReply(200, await listHosts({ search, state, sort, isReversed: reverse === 'yes', offset }, options));
}

async function host({ query }: Of<typeof ConsoleHostQuery>, options: ConsoleParts): Promise<Reply> {
  const { engine } = options;
  const row = engine.directory.get(query.key);
  await engine.durable();
  return row ? jsonReply(200, await hostView(row, options)) : unknownHost();
}

async function log({ query }: Of<typeof ConsoleLogQuery>, options: ConsoleParts): Promise<Reply> {
  const { type, item: itemId, host: key } = query;
  const searched = {
    beforeLsn: query.before ?? Number.MAX_SAFE_INTEGER,
    afterLsn: query.after ?? 0,
    sinceMs: query.since ?? 0,
    untilMs: query.until ?? Number.MAX_SAFE_INTEGER,
    ...(type !== undefined && { type }),
    ...(itemId !== undefined && { itemId }),
    ...(key && { keys: options.engine.directory.keysOf(key) }),
  };
  return jsonReply(200, await searchLog(searched, options));
}

async function trace({ query }: Of<typeof ConsoleTraceQuery>, options: ConsoleParts): Promise<Reply> {
  const found = await traceItem(query.lsn, options);
  return found ? jsonReply(200, found) : consoleProblem('UNKNOWN_RECORD', 'no item was accepted in that record');
}

async function revoke({ body, nowMs }: RelayRequest, { engine }: ConsoleParts): Promise<Reply> {
  const parsed = parseRevoke(body);
  const hostPubkey = parsed && parsePublicKey(parsed.host_pubkey);
  if (!parsed || !hostPubkey) return problemReply('BAD_REQUEST', 'send {host_pubkey, confirm}');
  const row = engine.directory.get(hostPubkey);
  if (!row) return unknownHost();
  if (parsed.confirm !== row.hostName) {
    return consoleProblem('NOT_CONFIRMED', 'the name that was typed is not the name of this host');
  }
  return revokeKey(hostPubkey, engine, nowMs);
}

async function revokeInvite({ body, nowMs }: RelayRequest, { engine }: ConsoleParts): Promise<Reply> {
  const parsed = parseInviteRevoke(body);
  if (!parsed) return problemReply('BAD_REQUEST', 'send {id}: the id of an invite');
  const document: ConsoleInviteRevoked = {
    is_new: await engine.admissions.revokeInvite(parsed.id as Sha256Hex, nowMs),
  };
  return jsonReply(200, document);
}

/** Starts the check at the pace of the daily one; the overview tells its end. */
function startRowsCheck({ rowsCheck }: ConsoleParts): Reply {
  const check = rowsCheck();
  if (!check) return problemReply('UNAVAILABLE', 'this relay starts, or it runs from its sources and cannot do this');
  if (check.run) return consoleProblem('ROWS_CHECK_UNDER_WAY', 'the rows are being checked already');
  void check.check(QUIET_SHARE);
  return jsonReply(200, rowsCheckShown(check));
}

function unknownHost(): Reply {
  return consoleProblem('UNKNOWN_HOST_KEY', 'no host was ever admitted under this key');
}

class Backups {
  readonly #options: Pick<ConsoleParts, 'takeBackup' | 'clock' | 'unexpected'>;
  #isUnderWay = false;

  constructor(options: Pick<ConsoleParts, 'takeBackup' | 'clock' | 'unexpected'>) {
    this.#options = options;
  }

  async take(requestId: string): Promise<Reply> {
    const { takeBackup, clock, unexpected } = this.#options;
    if (!takeBackup) return problemReply('UNAVAILABLE', 'this relay takes no backups from its console');
    if (this.#isUnderWay) return consoleProblem('BACKUP_UNDER_WAY', 'a backup is being taken already');
    this.#isUnderWay = true;
    try {
      const document: ConsoleBackup = { ...(await takeBackup()), taken_at: clock.nowMs() };
      return jsonReply(200, document);
    } catch (error) {
      unexpected(error, requestId);
      return consoleProblem('BACKUP_FAILED', 'the backup could not be taken: the log of the relay says why');
    } finally {
      this.#isUnderWay = false;
    }
  }
}

function consoleProblem(code: OperatorProblemCode, detail: string): Reply {
  return otherProblemReply(OPERATOR_PROBLEMS[code], code, detail);
}

/** The problems of the console that share a status, as one answer. */
export function refusals(...codes: readonly [OperatorProblemCode, ...OperatorProblemCode[]]): readonly Success[] {
  const [first] = codes;
  const schemas = codes.map((code) => problemShape(code, OPERATOR_PROBLEMS[code]));
  const description = codes.map((code) => OPERATOR_PROBLEMS[code].title).join('; ');
  const schema = schemas.length === 1 ? (schemas[0] ?? Type.Never()) : Type.Union(schemas);
  return [{ status: OPERATOR_PROBLEMS[first].status, contentType: 'application/problem+json', schema, description }];
}
