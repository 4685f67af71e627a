/** The console: its routes, what it shows, and its two actions. An operation is described beside what does it. */
import { type PageParts, pageRoutes } from '../../http/browser-session/page-routes.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, otherProblemReply, problemReply } from '../../http/replies.ts';
import { parseJsonBounded, REQUEST_JSON_BOUNDS } from '../../protocol/bounded-json.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { ITEM_ID_CHARACTERS_MAX } from '../../protocol/names.ts';
import {
  ConsoleBackup,
  ConsoleHost,
  ConsoleHostQuery,
  ConsoleHosts,
  ConsoleHostsQuery,
  ConsoleLog,
  ConsoleLogQuery,
  ConsoleOverview,
  ConsoleRevokeRequest,
  ConsoleRevoked,
  ConsoleTrace,
  ConsoleTraceQuery,
  OPERATOR_PROBLEMS,
  type OperatorProblemCode,
  type SharedLogShown,
} from '../../protocol/operator-documents.ts';
import { displayFingerprint, parsePublicKey, type PublicKey } from '../../protocol/public-key.ts';
import { problemShape } from '../../protocol/responses.ts';
import { parserOf } from '../../protocol/schemas.ts';
import Type from 'typebox';
import { ok, type Operation, type Success } from '../http/operation.ts';
import { type OpenRoute, type RelayRequest, refusalReply } from '../http/route.ts';
import type { Activity } from './activity.ts';
import { biggestQueues, hostView, type HostViewOptions, listHosts } from './host-views.ts';
import { hostDocument } from './hosts.ts';
import { traceItem, type TraceOptions } from './item-trace.ts';
import { searchLog, type EpochHistory } from './log-search.ts';
import { SAMPLE_EVERY_MS, type Sampler } from './sampler.ts';

const SEARCH_CHARACTERS_MAX = 100;
const TYPE_PATTERN = /^[A-Za-z]{1,40}$/;

/** The query of a request of the console: a parameter that is repeated or malformed spoils all of it. */
class Query {
  readonly #parameters: URLSearchParams;
  #isGood = true;

  constructor(query: string | undefined) {
    this.#parameters = new URLSearchParams(query ?? '');
    const names = [...this.#parameters.keys()];
    if (new Set(names).size < names.length) this.#isGood = false;
  }

  get isGood(): boolean {
    return this.#isGood;
  }

  wholeNumber(name: string): number | undefined {
    return this.#parsed(name, (text) => {
      const value = Number(text);
      return /^[0-9]{1,16}$/.test(text) && Number.isSafeInteger(value) ? value : undefined;
    });
  }

  publicKey(name: string): PublicKey | undefined {
    return this.#parsed(name, parsePublicKey);
  }

  word(name: string): string | undefined {
    return this.#parsed(name, (text) => (TYPE_PATTERN.test(text) ? text : undefined));
  }

  itemId(name: string): string | undefined {
    return this.#parsed(name, (text) => (text.length <= ITEM_ID_CHARACTERS_MAX ? text : undefined));
  }

  search(name: string): string | undefined {
    return this.#parsed(name, (text) => (text.length <= SEARCH_CHARACTERS_MAX ? text : undefined));
  }

  #parsed<T>(name: string, parse: (text: string) => T | undefined): T | undefined {
    const text = this.#parameters.get(name);
    if (text === null || text === '') return undefined;
    const value = parse(text);
    if (value === undefined) this.#isGood = false;
    return value;
  }
}

/** Writes a copy of the store. Rejects when it cannot. */
export type TakeBackup = () => Promise<{ name: string; bytes: number }>;

interface ConsoleRoutesOptions extends PageParts, HostViewOptions, TraceOptions {
  activity: Activity;
  sampler: Sampler;
  epochs: EpochHistory;
  relay: { version: string; serverName: string; startedMs: number };
  /** Absent: the console does not offer it. */
  takeBackup: TakeBackup | undefined;
  /** Of a log that several relays share. */
  sharedLog: () => SharedLogShown | undefined;
  unexpected: (error: unknown, requestId: string) => void;
}

const EPOCHS_SHOWN_MAX = 100;
const DAMAGED_ROWS_SHOWN_MAX = 10;
const parseRevoke = parserOf(ConsoleRevokeRequest);

type ConsoleParts = ConsoleRoutesOptions & { backups: Backups };

/** What the console asks for: the description of each operation, and what does it. */
interface ConsoleOperation extends Operation {
  access: 'console read' | 'console action';
  handle: (request: RelayRequest, parts: ConsoleParts) => Reply | Promise<Reply>;
}

export const ofConsole = {
  listener: 'operator',
  method: 'GET',
  access: 'console read',
  problems: ['BAD_REQUEST'],
} as const;
export const actionOfConsole = { ...ofConsole, method: 'POST', access: 'console action' } as const;
/** The answers of the console to a request without access. */
export const NO_READ = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN')];
export const NO_ACTION = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_CSRF_TOKEN')];

export const CONSOLE_OPERATIONS: readonly ConsoleOperation[] = [
  {
    ...ofConsole,
    id: 'consoleOverview',
    path: '/console/overview',
    summary: 'Shows how the relay is and was in the last minutes.',
    successes: [ok(ConsoleOverview, 'the overview'), ...NO_READ],
    handle: (_request, parts) => overview(parts),
  },
  {
    ...ofConsole,
    id: 'consoleHosts',
    path: '/console/hosts',
    summary: 'Lists hosts, the biggest queues first.',
    query: ConsoleHostsQuery,
    successes: [ok(ConsoleHosts, 'the first of those that fit'), ...NO_READ],
    handle: hosts,
  },
  {
    ...ofConsole,
    id: 'consoleHost',
    path: '/console/host',
    summary: 'Shows one host: its queue, its quotas, its keys.',
    query: ConsoleHostQuery,
    successes: [ok(ConsoleHost, 'the host'), ...NO_READ, ...refusals('UNKNOWN_HOST_KEY')],
    handle: host,
  },
  {
    ...ofConsole,
    id: 'consoleLog',
    path: '/console/log',
    summary: 'Shows events of the log, the newest first.',
    query: ConsoleLogQuery,
    successes: [ok(ConsoleLog, 'a page of the log'), ...NO_READ],
    handle: log,
  },
  {
    ...ofConsole,
    id: 'consoleTrace',
    path: '/console/trace',
    summary: 'Shows what became of the item that was accepted in one record.',
    query: ConsoleTraceQuery,
    successes: [ok(ConsoleTrace, 'the path of the item'), ...NO_READ, ...refusals('UNKNOWN_RECORD')],
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
      ...NO_ACTION,
      ...refusals('UNKNOWN_HOST_KEY'),
      ...refusals('NOT_CONFIRMED'),
    ],
    handle: revoke,
  },
  {
    ...actionOfConsole,
    id: 'consoleBackup',
    path: '/console/backup',
    summary: 'Takes a backup now.',
    successes: [
      ok(ConsoleBackup, 'the backup is whole'),
      ...NO_ACTION,
      ...refusals('BACKUP_UNDER_WAY'),
      ...refusals('BACKUP_FAILED'),
    ],
    handle: ({ id }, { backups }) => backups.take(id),
  },
];

export function consoleRoutes(options: ConsoleRoutesOptions): OpenRoute[] {
  const parts = { ...options, backups: new Backups(options) };
  const open = { access: 'open', counted: undefined } as const;
  return [
    ...pageRoutes(options).map((route): OpenRoute => Object.assign(route, open)),
    ...CONSOLE_OPERATIONS.map(({ method, path, access, handle }): OpenRoute => {
      const answer = options.access.guard(access === 'console read' ? 'read' : 'action', (request: RelayRequest) =>
        handle(request, parts),
      );
      return { access: 'open', counted: undefined, method, path, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle: answer };
    }),
  ];
}

function badQuery(): Reply {
  return problemReply('BAD_REQUEST', 'the query is not one that the console makes');
}

async function overview(options: ConsoleRoutesOptions): Promise<Reply> {
  const { engine, activity, sampler, epochs, clock, relay, takeBackup, sharedLog } = options;
  const { relayPubkey } = options.rows.get('relay', '') ?? {};
  if (relayPubkey === undefined) throw new Error('invariant: an open store has a relay row');
  const read = epochs.found();
  const known = new Set(read.map(({ lsn }) => lsn));
  const begun = [...activity.epochs().filter(({ lsn }) => !known.has(lsn)), ...read];
  const document: ConsoleOverview = {
    version: relay.version,
    relay_pubkey: relayPubkey,
    fingerprint: displayFingerprint(relayPubkey),
    server: relay.serverName,
    admission: engine.settings.admission,
    uptime_ms: clock.monotonicMs() - relay.startedMs,
    now: clock.nowMs(),
    can_take_backup: takeBackup !== undefined,
    shared_log: sharedLog() ?? null,
    sample_every_ms: SAMPLE_EVERY_MS,
    samples: [...sampler.samples],
    biggest_queues: await biggestQueues(options),
    broken_queues: engine.brokenQueues.map(({ targetPubkey, reason }) => ({
      host_pubkey: targetPubkey,
      host: engine.directory.get(targetPubkey)?.hostName ?? null,
      reason,
    })),
    damaged_rows: engine.damagedRows.slice(0, DAMAGED_ROWS_SHOWN_MAX).map(({ name }) => name),
    damaged_rows_found: engine.damagedRows.length,
    refusals: activity.refusals(),
    epochs: begun.toSorted((a, b) => b.lsn - a.lsn).slice(0, EPOCHS_SHOWN_MAX),
    epochs_read: epochs.state,
  };
  return jsonReply(200, document);
}

async function hosts(request: RelayRequest, options: ConsoleRoutesOptions): Promise<Reply> {
  const query = new Query(request.query);
  const search = query.search('search') ?? '';
  const state = query.word('state');
  return query.isGood ? jsonReply(200, await listHosts(search, state, options)) : badQuery();
}

async function host(request: RelayRequest, options: ConsoleRoutesOptions): Promise<Reply> {
  const { engine } = options;
  const key = new Query(request.query).publicKey('key');
  const row = key && engine.directory.get(key);
  await engine.durable();
  return row ? jsonReply(200, hostView(row, options)) : unknownHost();
}

async function log(request: RelayRequest, options: ConsoleRoutesOptions): Promise<Reply> {
  const query = new Query(request.query);
  const key = query.publicKey('host');
  const type = query.word('type');
  const itemId = query.itemId('item');
  const searched = {
    beforeLsn: query.wholeNumber('before') ?? Number.MAX_SAFE_INTEGER,
    afterLsn: query.wholeNumber('after') ?? 0,
    sinceMs: query.wholeNumber('since') ?? 0,
    untilMs: query.wholeNumber('until') ?? Number.MAX_SAFE_INTEGER,
    ...(type !== undefined && { type }),
    ...(itemId !== undefined && { itemId }),
    ...(key && { keys: options.engine.directory.keysOf(key) }),
  };
  return query.isGood ? jsonReply(200, await searchLog(searched, options)) : badQuery();
}

async function trace(request: RelayRequest, options: ConsoleRoutesOptions): Promise<Reply> {
  const query = new Query(request.query);
  const lsn = query.wholeNumber('lsn');
  if (lsn === undefined || !query.isGood) return badQuery();
  const found = await traceItem(lsn, options);
  return found ? jsonReply(200, found) : consoleProblem('UNKNOWN_RECORD', 'no item was accepted in that record');
}

async function revoke({ body, nowMs }: RelayRequest, { engine }: ConsoleRoutesOptions): Promise<Reply> {
  const parsed = parseRevoke(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const hostPubkey = parsed && parsePublicKey(parsed.host_pubkey);
  if (!parsed || !hostPubkey) return problemReply('BAD_REQUEST', 'send {host_pubkey, confirm}');
  const row = engine.directory.get(hostPubkey);
  if (!row) return unknownHost();
  if (parsed.confirm !== row.hostName) {
    return consoleProblem('NOT_CONFIRMED', 'the name that was typed is not the name of this host');
  }
  const outcome = await engine.admissions.revokeHost({ type: 'RevokeHost', hostPubkey, cause: 'operator', nowMs });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const revoked = engine.directory.get(hostPubkey);
  if (!revoked) throw new Error('invariant: a revoked key keeps its enrolment');
  const document: ConsoleRevoked = { host: hostDocument(revoked, engine, nowMs), is_new: outcome.isNew };
  return jsonReply(200, document);
}

function unknownHost(): Reply {
  return consoleProblem('UNKNOWN_HOST_KEY', 'no host was ever admitted under this key');
}

class Backups {
  readonly #options: Pick<ConsoleRoutesOptions, 'takeBackup' | 'clock' | 'unexpected'>;
  #isUnderWay = false;

  constructor(options: Pick<ConsoleRoutesOptions, 'takeBackup' | 'clock' | 'unexpected'>) {
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
