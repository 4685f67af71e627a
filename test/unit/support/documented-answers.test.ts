/** What the other tests rest on: that an answer which is not in the OpenAPI document is noticed. */
import { describe, expect, test } from 'vitest';
import { problemDocument } from '../../../src/protocol/problem.ts';
import { type Answer, expectDocumented, faultOfAnswer } from '../../support/documented-answers.ts';

const ACK = { method: 'POST', target: '/v2/relay/ack' };
const LIVE = { method: 'GET', target: '/livez' };
const ACKED = { acked_through: 7, deleted: 1, head_seq: 9 };

interface Changes {
  status?: number;
  /** `undefined` takes a header away. */
  headers?: Readonly<Record<string, string | undefined>>;
}

/** An answer of the relay. */
function answer(body: unknown, { status = 200, headers = {} }: Changes = {}): Answer {
  const usual = { 'content-type': 'application/json', 'x-request-id': '0123456789abcdef', date: 'now' };
  const named = Object.entries({ ...usual, ...headers }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  return { status, headers: new Map(named), body: Buffer.from(JSON.stringify(body)) };
}

/** One to an ack, which has two forms. */
function ackAnswer(body: unknown, { status, headers }: Changes = {}): Answer {
  return answer(body, { ...(status !== undefined && { status }), headers: { vary: 'accept', ...headers } });
}

function problem(code: Parameters<typeof problemDocument>[0], changes: Changes = {}, members = {}): Answer {
  const document = problemDocument(code, 'a detail', members);
  const headers = { 'content-type': 'application/problem+json', ...changes.headers };
  return answer(document, { status: changes.status ?? document.status, headers });
}

const FROM_OPERATOR = { 'x-request-id': undefined };
const SOON = { 'retry-after': '2' };

describe('documented', () => {
  test.each<[string, Parameters<typeof faultOfAnswer>[0], Answer]>([
    ['a success', ACK, ackAnswer(ACKED)],
    ['behind a path prefix', { ...ACK, target: '/mail/v2/relay/ack' }, ackAnswer(ACKED)],
    ['with a query', { ...ACK, target: '/v2/relay/ack?x' }, ackAnswer(ACKED)],
    ['a problem of the operation', ACK, problem('BAD_ACK', {}, { head_seq: 9 })],
    ['a problem of every operation', ACK, problem('UNAVAILABLE', { headers: SOON })],
    ['no such route', { method: 'GET', target: '/x' }, problem('NOT_FOUND')],
    ['another method', { ...ACK, method: 'PUT' }, problem('METHOD_NOT_ALLOWED', { headers: { allow: 'POST' } })],
    [
      'either method',
      { method: 'PUT', target: '/v2/relay/items' },
      problem('METHOD_NOT_ALLOWED', { headers: { allow: 'POST, GET' } }),
    ],
    ['what only a hosted relay has', { method: 'POST', target: '/v2/relay/deny' }, problem('NOT_FOUND')],
    [
      'two answers of one status',
      { method: 'POST', target: '/v1/relay/messages' },
      problem('RATE_LIMITED', { headers: SOON }),
    ],
    [
      'two answers of one status, the other',
      { method: 'POST', target: '/v1/relay/messages' },
      answer({ results: [], stopped: true }, { status: 429, headers: SOON }),
    ],
    ['no content', { method: 'POST', target: '/v2/relay/deny' }, withoutContent(202)],
    ['of the operator', LIVE, answer({ status: 'live' }, { headers: FROM_OPERATOR })],
    [
      'no route of the operator',
      { method: 'GET', target: '/livez?x' },
      problem('NOT_FOUND', { headers: FROM_OPERATOR }),
    ],
    [
      'an answer to HEAD',
      { ...ACK, method: 'HEAD' },
      toHead(problem('METHOD_NOT_ALLOWED', { headers: { allow: 'POST' } })),
    ],
    ['of one of all operations', undefined, ackAnswer(ACKED)],
    ['what a server says itself', undefined, serversOwn(400, '')],
  ])('%s', (_what, asked, good) => {
    expect(faultOfAnswer(asked, good)).toBeUndefined();
    expect(() => expectDocumented(asked, good)).not.toThrow();
  });
});

describe('not documented', () => {
  test.each<[string, Parameters<typeof faultOfAnswer>[0], Answer, string]>([
    ['a status', ACK, ackAnswer(ACKED, { status: 201 }), '201 is not documented'],
    ['a status of another operation', ACK, problem('NAME_TAKEN'), 'it'],
    ['a code of another operation', ACK, problem('IAT_IN_FUTURE'), 'it'],
    ['a code with another status', ACK, problem('NOT_ENROLLED', { status: 400 }), 'it'],
    ['a code that is none', ACK, answer({ ...problemDocument('BAD_REQUEST', 'd'), code: 'X' }, asProblem(400)), 'it'],
    ['a member more', ACK, ackAnswer({ ...ACKED, more: 1 }), 'additional properties'],
    ['a member less', ACK, ackAnswer({ acked_through: 7, deleted: 1 }), 'head_seq'],
    ['a member of another type', ACK, ackAnswer({ ...ACKED, deleted: '1' }), 'integer'],
    ['a member more of a problem', ACK, problem('NOT_ENROLLED', {}, { now: 1 }), 'it'],
    ['a member less of a problem', ACK, problem('EPOCH_CHANGED'), 'epoch'],
    [
      'a problem without detail',
      ACK,
      answer({ ...problemDocument('UNAVAILABLE', '') }, { ...asProblem(503, SOON) }),
      'it/detail',
    ],
    ['a content type', ACK, ackAnswer(ACKED, { headers: { 'content-type': 'text/plain' } }), 'text/plain'],
    [
      'a problem as plain JSON',
      ACK,
      problem('NOT_ENROLLED', { headers: { 'content-type': 'application/json' } }),
      'application/json',
    ],
    ['no content type', ACK, ackAnswer(ACKED, { headers: { 'content-type': undefined } }), 'content type undefined'],
    ['no JSON', ACK, { ...ackAnswer(ACKED), body: Buffer.from('{') }, 'not of its type'],
    ['a header', ACK, ackAnswer(ACKED, { headers: { 'x-more': '1' } }), 'x-more'],
    ['a retry-after that nobody needs', ACK, problem('NOT_ENROLLED', { headers: SOON }), 'retry-after'],
    ['no retry-after', ACK, problem('UNAVAILABLE'), 'retry-after'],
    ['a retry-after at once', ACK, problem('UNAVAILABLE', { headers: { 'retry-after': '0' } }), 'retry-after'],
    ['a retry-after in words', ACK, problem('UNAVAILABLE', { headers: { 'retry-after': 'soon' } }), 'retry-after'],
    ['no request id', ACK, ackAnswer(ACKED, { headers: { 'x-request-id': undefined } }), '200'],
    ['a request id of another form', ACK, ackAnswer(ACKED, { headers: { 'x-request-id': 'one' } }), 'x-request-id'],
    [
      'an allow of other methods',
      { ...ACK, method: 'PUT' },
      problem('METHOD_NOT_ALLOWED', { headers: { allow: 'POST, GET' } }),
      'allow',
    ],
    ['no allow', { ...ACK, method: 'PUT' }, problem('METHOD_NOT_ALLOWED'), 'allow'],
    ['that a route is none', ACK, problem('NOT_FOUND'), '404 is not documented'],
    ['a success of no operation', { method: 'GET', target: '/x' }, ackAnswer(ACKED), '200 is not documented'],
    [
      'content where there is none',
      { method: 'POST', target: '/v2/relay/deny' },
      answer({}, { status: 202 }),
      'content',
    ],
    ['a route of the operator among those of hosts', LIVE, answer({ status: 'live' }), '200'],
    ['what no operation answers', undefined, answer({ everything: 1 }), 'it'],
    ['words of no server', undefined, serversOwn(400, 'no'), 'content type'],
    ['a status of no server', undefined, serversOwn(500, ''), '500'],
  ])('%s', (_what, asked, bad, fault) => {
    expect(faultOfAnswer(asked, bad)).toContain(fault);
    expect(() => expectDocumented(asked, bad)).toThrow('not in the OpenAPI document');
  });

  test('the error names the request, and says why', () => {
    expect(() => expectDocumented(ACK, ackAnswer({ ...ACKED, deleted: -1 }))).toThrow(
      /an answer to POST \/v2\/relay\/ack .*deleted must be >= 0\n200 \{/s,
    );
  });
});

function asProblem(status: number, headers: Readonly<Record<string, string>> = {}): Changes {
  return { status, headers: { 'content-type': 'application/problem+json', ...headers } };
}

function withoutContent(status: number): Answer {
  return { ...answer('', { status, headers: { 'content-type': undefined } }), body: Buffer.alloc(0) };
}

function toHead(given: Answer): Answer {
  return { ...given, body: undefined };
}

/** Returns what an HTTP server answers to what it cannot read. */
function serversOwn(status: number, text: string): Answer {
  return { status, headers: new Map([['connection', 'close']]), body: Buffer.from(text) };
}
