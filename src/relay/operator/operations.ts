/** The operations of the operator: health, metrics, the OpenAPI document, and the console (console-routes.ts). */
import Type from 'typebox';
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
  operatorProblemSchema,
} from '../../protocol/operator-documents.ts';
import { PageSession, PageTokenRequest } from '../../protocol/page-documents.ts';
import { HealthResponse, LiveResponse, OpenApiResponse, ReadyResponse } from '../../protocol/responses.ts';
import { type Operation, type Success, ok, text } from '../http/operation.ts';

const toOperator = { listener: 'operator', method: 'GET', access: 'open', problems: [] } as const;
const ofConsole = { listener: 'operator', method: 'GET', access: 'console read', problems: ['BAD_REQUEST'] } as const;
const pageOfConsole = { ...ofConsole, access: 'console page', problems: ['UNAVAILABLE'] } as const;
const actionOfConsole = { ...ofConsole, method: 'POST', access: 'console action' } as const;
/** The answers of the console to a request without access. */
const FOREIGN_HOST = refusals('FOREIGN_HOST');
const NO_ENTRY = refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_PAGE_TOKEN');
const NO_READ = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN')];
const NO_ACTION = [...refusals('NO_SESSION'), ...refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_CSRF_TOKEN')];

export const OPERATOR_OPERATIONS: readonly Operation[] = [
  {
    ...toOperator,
    id: 'live',
    path: '/livez',
    summary: 'Says that the process runs.',
    successes: [ok(LiveResponse, 'it runs'), ...FOREIGN_HOST],
  },
  {
    ...toOperator,
    id: 'ready',
    path: '/readyz',
    summary: 'Says whether the relay takes requests.',
    successes: [ok(ReadyResponse, 'it does'), ...FOREIGN_HOST],
    problems: ['UNAVAILABLE'],
  },
  {
    ...toOperator,
    id: 'health',
    path: '/healthz',
    summary: 'Says how the relay is.',
    successes: [ok(HealthResponse, 'it is well'), ...FOREIGN_HOST],
    problems: ['UNAVAILABLE'],
  },
  {
    ...toOperator,
    id: 'openapi',
    path: '/openapi.json',
    summary: 'Shows this document.',
    successes: [ok(OpenApiResponse, 'OpenAPI 3.1'), ...FOREIGN_HOST],
  },
  {
    ...toOperator,
    id: 'metrics',
    path: '/metrics',
    summary: 'Tells Prometheus of the relay. No label names a host, a key or an account.',
    successes: [text('text/plain', 'the text format of Prometheus'), ...FOREIGN_HOST],
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
    path: '/console/page.js',
    summary: 'Its script.',
    successes: [text('text/javascript', 'the script'), ...FOREIGN_HOST],
  },
  {
    ...pageOfConsole,
    id: 'consoleStyle',
    path: '/console/page.css',
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
    request: { schema: PageTokenRequest },
    successes: [ok(PageSession, 'a session'), ...NO_ENTRY],
  },
  {
    ...ofConsole,
    id: 'consoleSession',
    path: '/console/session',
    summary: 'Shows the session of the cookie.',
    successes: [ok(PageSession, 'the session'), ...NO_READ],
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

/** The problems of the console that share a status, as one answer. */
function refusals(...codes: readonly [OperatorProblemCode, ...OperatorProblemCode[]]): readonly Success[] {
  const [first] = codes;
  const schemas = codes.map((code) => operatorProblemSchema(code));
  const description = codes.map((code) => OPERATOR_PROBLEMS[code].title).join('; ');
  const schema = schemas.length === 1 ? (schemas[0] ?? Type.Never()) : Type.Union(schemas);
  return [{ status: OPERATOR_PROBLEMS[first].status, contentType: 'application/problem+json', schema, description }];
}
