/**
 * Every operation of the relay, in one table: what the OpenAPI document says and what the tests hold each answer to.
 *
 * A new route gets a new entry here: a route without one does not start (`describedOperations`). What every operation of
 * an access may answer is added by openapi.ts.
 */
import Type, { type TObject, type TSchema } from 'typebox';
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
  ConsoleSession,
  ConsoleTokenRequest,
  ConsoleTrace,
  ConsoleTraceQuery,
  OPERATOR_PROBLEMS,
  type OperatorProblemCode,
  operatorProblemSchema,
} from '../../protocol/operator-documents.ts';
import {
  EncKeyByKeyQuery,
  EncKeyByNameQuery,
  LogConsistencyQuery,
  LogEpochQuery,
  LogProofQuery,
  PullQuery,
  V1PullQuery,
} from '../../protocol/parameters.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import {
  AckResponse,
  ChallengeResponse,
  CheckpointResponse,
  EncKeyPublished,
  EncKeyShown,
  EnrolResponse,
  HealthResponse,
  InfoResponse,
  LiveResponse,
  LogConsistencyResponse,
  LogProofResponse,
  OpenApiResponse,
  PullResponse,
  PushResponse,
  ReadyResponse,
  RotateResponse,
  SendersResponse,
  V1AckResponse,
  V1PullResponse,
  V1PushResponse,
} from '../../protocol/responses.ts';
import {
  AckRequest,
  ChallengeRequest,
  DenyRequest,
  EncKeyRequest,
  EnrolRequest,
  RotateRequest,
  SendersRequest,
  V1AckRequest,
  WellFormedPush,
  WellFormedV1Push,
} from '../../protocol/schemas.ts';
import type { Route } from './route.ts';

/** Where an operation is answered: to hosts, or to the operator alone. */
export type Listener = 'relay' | 'operator';

/**
 * `hop by key or name`: the earlier protocol finds callers by name too. Behind the doors of the console: its page for
 * anybody who comes by its own address, the entry for whoever brings a token, the rest for a session.
 */
export type Access =
  | 'open'
  | 'optional hop'
  | 'hop by key'
  | 'hop by key or name'
  | 'console page'
  | 'console entry'
  | 'console read'
  | 'console action';

/** An answer that is no problem document of the protocol. */
export interface Success {
  status: 200 | 202 | 308 | 401 | 403 | 404 | 409 | 429 | 500 | 503;
  /** Of the body; absent when the answer has none. */
  schema?: TSchema;
  /** JSON unless it says otherwise. */
  contentType?: string;
  description: string;
}

export interface Operation {
  /** The name of the operation, for generated clients. */
  id: string;
  method: 'GET' | 'POST';
  path: string;
  listener: Listener;
  access: Access;
  summary: string;
  query?: TObject;
  /** JSON unless a content type says otherwise. */
  request?: { schema: TSchema; contentType?: string };
  /** What is no problem document. */
  successes: readonly Success[];
  /** The problems of this operation, besides those that every operation of its access may answer. */
  problems: readonly ProblemCode[];
  /** Only a relay whose authority is an account service has it. */
  isHostedOnly?: true;
}

const toHosts = { listener: 'relay' } as const;
const toOperator = { listener: 'operator', method: 'GET', access: 'open', problems: [] } as const;
const ofConsole = { listener: 'operator', method: 'GET', access: 'console read', problems: ['BAD_REQUEST'] } as const;
const pageOfConsole = { ...ofConsole, access: 'console page', problems: ['UNAVAILABLE'] } as const;
const actionOfConsole = { ...ofConsole, method: 'POST', access: 'console action' } as const;
/** What the doors of the console say to whoever may not pass. */
const FOREIGN_HOST = refusals('FOREIGN_HOST');
const NO_ENTRY = refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_CONSOLE_TOKEN');
const NO_READ = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN')];
const NO_ACTION = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_CSRF_TOKEN')];

export const OPERATIONS: readonly Operation[] = [
  {
    ...toHosts,
    id: 'challenge',
    method: 'POST',
    path: '/v1/relay/challenge',
    access: 'open',
    summary: 'Asks for a challenge, for a host key to enrol with.',
    request: { schema: ChallengeRequest },
    successes: [ok(ChallengeResponse, 'an open challenge')],
    problems: ['ENROL_REFUSED', 'RATE_LIMITED', 'CHALLENGES_FULL'],
  },
  {
    ...toHosts,
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
  },
  {
    ...toHosts,
    id: 'rotate',
    method: 'POST',
    path: '/v2/relay/rotate',
    access: 'open',
    summary: 'Goes on under a new host key: the mail of the old one is moved. Both keys sign the record.',
    request: { schema: RotateRequest },
    successes: [ok(RotateResponse, 'the new key stands for the host; a repeat moves nothing')],
    problems: ['IAT_IN_FUTURE', 'NOT_ENROLLED', 'BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'deny',
    method: 'POST',
    path: '/v2/relay/deny',
    access: 'open',
    isHostedOnly: true,
    summary: 'Takes a deny-list entry from the account service (RFC 8935), and revokes what it matches.',
    request: { schema: DenyRequest, contentType: 'application/secevent+jwt' },
    successes: [{ status: 202, description: 'the entry is kept, and matching enrolments are revoked' }],
    problems: ['BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED', 'AUTHORITY_UNAVAILABLE'],
  },
  {
    ...toHosts,
    id: 'info',
    method: 'GET',
    path: '/v2/relay/info',
    access: 'optional hop',
    summary: 'Says who the relay is, and with a good hop what it holds for the caller.',
    successes: [ok(InfoResponse, 'the identity of the relay')],
    problems: [],
  },
  {
    ...toHosts,
    id: 'publishSenders',
    method: 'POST',
    path: '/v2/relay/senders',
    access: 'hop by key',
    summary: 'Publishes the senders whose mail the caller takes.',
    request: { schema: SendersRequest },
    successes: [ok(SendersResponse, 'the list is in force')],
    problems: ['IAT_IN_FUTURE', 'KEY_MISMATCH', 'STALE_LIST', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'publishEncKey',
    method: 'POST',
    path: '/v1/relay/enc-key',
    access: 'hop by key or name',
    summary: 'Publishes the key that mail for the caller is sealed to.',
    request: { schema: EncKeyRequest },
    successes: [ok(EncKeyPublished, 'the advertisement is shown to whoever asks')],
    problems: ['IAT_IN_FUTURE', 'STALE_LIST', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'encKeyByName',
    method: 'GET',
    path: '/v1/relay/enc-key',
    access: 'hop by key or name',
    summary: 'Shows the advertised key of the host with this name.',
    query: EncKeyByNameQuery,
    successes: [ok(EncKeyShown, 'what the host signed')],
    problems: [],
  },
  {
    ...toHosts,
    id: 'encKeyByKey',
    method: 'GET',
    path: '/v2/relay/enc-key',
    access: 'hop by key',
    summary: 'Shows the advertised key of the host with this host key.',
    query: EncKeyByKeyQuery,
    successes: [ok(EncKeyShown, 'what the host signed')],
    problems: [],
  },
  {
    ...toHosts,
    id: 'push',
    method: 'POST',
    path: '/v2/relay/items',
    access: 'hop by key',
    summary: 'Gives items to the relay. Each is judged alone; what is accepted is on disk.',
    request: { schema: WellFormedPush },
    successes: [ok(PushResponse, 'what became of each item')],
    problems: ['RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'pull',
    method: 'GET',
    path: '/v2/relay/items',
    access: 'hop by key',
    summary: 'Hands over a page of what waits for the caller, and with `wait` holds an empty one back.',
    query: PullQuery,
    successes: [ok(PullResponse, 'a page')],
    problems: ['EPOCH_CHANGED'],
  },
  {
    ...toHosts,
    id: 'ack',
    method: 'POST',
    path: '/v2/relay/ack',
    access: 'hop by key',
    summary: 'Says that the caller has everything up to `through`: it is deleted.',
    request: { schema: AckRequest },
    successes: [ok(AckResponse, 'what is acked')],
    problems: ['BAD_ACK', 'EPOCH_CHANGED'],
  },
  {
    ...toHosts,
    id: 'v1Push',
    method: 'POST',
    path: '/v1/relay/messages',
    access: 'hop by key or name',
    summary: 'Gives envelopes to the relay, each for a host that it names.',
    request: { schema: WellFormedV1Push },
    successes: [
      ok(V1PushResponse, 'what became of each envelope'),
      {
        status: 429,
        schema: V1PushResponse,
        description: 'over a limit of the target or the sender: it stopped there',
      },
    ],
    problems: ['RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'v1Pull',
    method: 'GET',
    path: '/v1/relay/messages',
    access: 'hop by key or name',
    summary: 'Hands over a page of the envelopes that wait for the caller.',
    query: V1PullQuery,
    successes: [ok(V1PullResponse, 'a page')],
    problems: ['EPOCH_CHANGED'],
  },
  {
    ...toHosts,
    id: 'v1Ack',
    method: 'POST',
    path: '/v1/relay/ack',
    access: 'hop by key or name',
    summary: 'Says that the caller has everything up to the cursor: it is deleted.',
    request: { schema: V1AckRequest },
    successes: [ok(V1AckResponse, 'what is acked')],
    problems: ['BAD_ACK', 'EPOCH_CHANGED'],
  },
  {
    ...toHosts,
    id: 'logCheckpoint',
    method: 'GET',
    path: '/v2/relay/log/checkpoint',
    access: 'open',
    summary: 'Shows the newest signed checkpoint of the log, or the last one of an earlier epoch.',
    query: LogEpochQuery,
    successes: [{ ...ok(CheckpointResponse, 'a signed note'), contentType: 'text/plain' }],
    problems: ['NOT_FOUND', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'logLink',
    method: 'GET',
    path: '/v2/relay/log/link',
    access: 'open',
    summary: 'Proves the first leaf of an epoch: what it commits of the epoch before.',
    query: LogEpochQuery,
    successes: [ok(LogProofResponse, 'an inclusion proof of leaf 0')],
    problems: ['NOT_FOUND', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'logConsistency',
    method: 'GET',
    path: '/v2/relay/log/consistency',
    access: 'open',
    summary: 'Proves that one size of the log of an epoch continues another.',
    query: LogConsistencyQuery,
    successes: [ok(LogConsistencyResponse, 'a consistency proof')],
    problems: ['NOT_FOUND', 'RATE_LIMITED'],
  },
  {
    ...toHosts,
    id: 'logProof',
    method: 'GET',
    path: '/v2/relay/log/proof',
    access: 'hop by key',
    summary: 'Proves to the sender of an item that the record which accepted it is in the log.',
    query: LogProofQuery,
    successes: [ok(LogProofResponse, 'an inclusion proof of the record')],
    problems: ['NOT_FOUND'],
  },
  {
    ...toOperator,
    id: 'live',
    path: '/livez',
    summary: 'Says that the process runs.',
    successes: [ok(LiveResponse, 'it runs')],
  },
  {
    ...toOperator,
    id: 'ready',
    path: '/readyz',
    summary: 'Says whether the relay takes requests.',
    successes: [ok(ReadyResponse, 'it does')],
    problems: ['UNAVAILABLE'],
  },
  {
    ...toOperator,
    id: 'health',
    path: '/healthz',
    summary: 'Says how the relay is.',
    successes: [ok(HealthResponse, 'it is well')],
    problems: ['UNAVAILABLE'],
  },
  {
    ...toOperator,
    id: 'openapi',
    path: '/openapi.json',
    summary: 'Shows this document.',
    successes: [ok(OpenApiResponse, 'OpenAPI 3.1')],
  },
  {
    ...toOperator,
    id: 'metrics',
    path: '/metrics',
    summary: 'Tells Prometheus of the relay. No label names a host, a key or an account.',
    successes: [text('text/plain', 'the text format of Prometheus')],
  },
  {
    ...pageOfConsole,
    id: 'consoleAddress',
    path: '/console',
    summary: 'Leads to the page of the console.',
    successes: [{ status: 308, description: 'it is at /console/' }, ...FOREIGN_HOST],
  },
  {
    ...pageOfConsole,
    id: 'consolePage',
    path: '/console/',
    summary: 'The page of the console.',
    successes: [text('text/html', 'the page'), ...FOREIGN_HOST],
  },
  {
    ...pageOfConsole,
    id: 'consoleScript',
    path: '/console/console.js',
    summary: 'Its script.',
    successes: [text('text/javascript', 'the script'), ...FOREIGN_HOST],
  },
  {
    ...pageOfConsole,
    id: 'consoleStyle',
    path: '/console/console.css',
    summary: 'Its style.',
    successes: [text('text/css', 'the style'), ...FOREIGN_HOST],
  },
  {
    ...pageOfConsole,
    id: 'consoleIcon',
    path: '/console/icon.svg',
    summary: 'Its icon.',
    successes: [text('image/svg+xml', 'the icon'), ...FOREIGN_HOST],
  },
  {
    ...ofConsole,
    id: 'consoleEnter',
    method: 'POST',
    path: '/console/session',
    access: 'console entry',
    summary: 'Turns the one-time token of `poste relay console` into a session: a cookie.',
    request: { schema: ConsoleTokenRequest },
    successes: [ok(ConsoleSession, 'a session'), ...NO_ENTRY],
  },
  {
    ...ofConsole,
    id: 'consoleSession',
    path: '/console/session',
    summary: 'Shows the session of the cookie.',
    successes: [ok(ConsoleSession, 'the session'), ...NO_READ],
  },
  {
    ...actionOfConsole,
    id: 'consoleLeave',
    path: '/console/leave',
    summary: 'Ends the session.',
    successes: [ok(Type.Object({}), 'there is none any more'), ...NO_ACTION],
  },
  {
    ...ofConsole,
    id: 'consoleOverview',
    path: '/console/overview',
    summary: 'Shows how the relay is and was in the last minutes.',
    successes: [ok(ConsoleOverview, 'the overview'), ...NO_READ],
  },
  {
    ...ofConsole,
    id: 'consoleLive',
    path: '/console/live',
    summary: 'Sends a `ConsoleSample` every two seconds, as server-sent events.',
    successes: [text('text/event-stream', 'a stream without an end'), ...NO_READ, ...refusals('TOO_MANY_STREAMS')],
  },
  {
    ...ofConsole,
    id: 'consoleHosts',
    path: '/console/hosts',
    summary: 'Lists hosts, the biggest queues first.',
    query: ConsoleHostsQuery,
    successes: [ok(ConsoleHosts, 'the first of those that fit'), ...NO_READ],
  },
  {
    ...ofConsole,
    id: 'consoleHost',
    path: '/console/host',
    summary: 'Shows one host: its queue, its quotas, its keys.',
    query: ConsoleHostQuery,
    successes: [ok(ConsoleHost, 'the host'), ...NO_READ, ...refusals('UNKNOWN_HOST_KEY')],
  },
  {
    ...ofConsole,
    id: 'consoleLog',
    path: '/console/log',
    summary: 'Shows events of the log, the newest first.',
    query: ConsoleLogQuery,
    successes: [ok(ConsoleLog, 'a page of the log'), ...NO_READ],
  },
  {
    ...ofConsole,
    id: 'consoleTrace',
    path: '/console/trace',
    summary: 'Shows what became of the item that was accepted in one record.',
    query: ConsoleTraceQuery,
    successes: [ok(ConsoleTrace, 'the path of the item'), ...NO_READ, ...refusals('UNKNOWN_RECORD')],
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
  },
];

/** The operations of a relay with these routes, and the operator's. Throws when a route is not described as it is. */
export function describedOperations(routes: readonly Pick<Route, 'method' | 'path' | 'access'>[]): Operation[] {
  const described = routes.map(({ method, path, access }) => {
    const found = OPERATIONS.find((one) => one.listener === 'relay' && one.method === method && one.path === path);
    if (!found) throw new Error(`invariant: ${method} ${path} is described`);
    const byName = path.startsWith('/v1/') ? 'hop by key or name' : 'hop by key';
    if (found.access !== (access === 'hop' ? byName : access)) {
      throw new Error(`invariant: ${method} ${path} is described with its access`);
    }
    return found;
  });
  return [...described, ...OPERATIONS.filter(({ listener }) => listener === 'operator')];
}

function ok(schema: TSchema, description: string): Success {
  return { status: 200, schema, description };
}

function text(contentType: string, description: string): Success {
  return { status: 200, contentType, schema: Type.String(), description };
}

/** The problems of the console that share a status, as one answer. */
function refusals(...codes: readonly [OperatorProblemCode, ...OperatorProblemCode[]]): readonly Success[] {
  const [first] = codes;
  const schemas = codes.map((code) => operatorProblemSchema(code));
  const description = codes.map((code) => OPERATOR_PROBLEMS[code].title).join('; ');
  const schema = schemas.length === 1 ? (schemas[0] ?? Type.Never()) : Type.Union(schemas);
  return [{ status: OPERATOR_PROBLEMS[first].status, contentType: 'application/problem+json', schema, description }];
}
