/** The operations of the operator: health, metrics, the OpenAPI document, the page of the console and its requests. */
import Type from 'typebox';
import { PageSession, PageTokenRequest } from '../../protocol/page-documents.ts';
import { HealthResponse, LiveResponse, OpenApiResponse, ReadyResponse } from '../../protocol/responses.ts';
import { actionOfConsole, CONSOLE_OPERATIONS, NO_ACCESS, ofConsole, refusals } from './console-routes.ts';
import { type Operation, ok, text } from '../http/operation.ts';

const toOperator = {
  listener: 'operator',
  method: 'GET',
  access: 'open',
  problems: ['BAD_REQUEST', 'LENGTH_REQUIRED'],
} as const;
const pageOfConsole = { ...ofConsole, access: 'console page', problems: ['UNAVAILABLE'] } as const;
/** The answers of the console to a request without access. */
const FOREIGN_HOST = refusals('FOREIGN_HOST');
const NO_ENTRY = refusals('FOREIGN_HOST', 'FOREIGN_ORIGIN', 'BAD_PAGE_TOKEN');

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
    problems: [...toOperator.problems, 'UNAVAILABLE'],
  },
  {
    ...toOperator,
    id: 'health',
    path: '/healthz',
    summary: 'Says how the relay is.',
    successes: [ok(HealthResponse, 'it is well'), ...FOREIGN_HOST],
    problems: [...toOperator.problems, 'UNAVAILABLE'],
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
    summary: 'Turns the one-time token of `poste relay console` into a session: a cookie, and a token besides it.',
    request: { schema: PageTokenRequest },
    successes: [ok(PageSession, 'a session'), ...NO_ENTRY],
  },
  {
    ...ofConsole,
    id: 'consoleSession',
    path: '/console/session',
    summary: 'Shows the session of the cookie and the token.',
    successes: [ok(PageSession, 'the session'), ...NO_ACCESS],
  },
  {
    ...actionOfConsole,
    id: 'consoleLeave',
    path: '/console/leave',
    summary: 'Ends the session.',
    successes: [ok(Type.Object({}), 'there is none any more'), ...NO_ACCESS],
  },
  {
    ...ofConsole,
    id: 'consoleLive',
    path: '/console/live',
    summary: 'Sends a `ConsoleSample` every two seconds, as server-sent events.',
    successes: [text('text/event-stream', 'a stream without an end'), ...NO_ACCESS, ...refusals('TOO_MANY_STREAMS')],
  },
  ...CONSOLE_OPERATIONS,
];
