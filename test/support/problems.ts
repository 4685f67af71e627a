/**
 * Checks what every answer that is no success must look like (docs/protocol.md, "Errors"):
 *
 *     expect(response).toBeProblem('BAD_ACK', { head_seq: 5 });
 */
import { expect } from 'vitest';
import { PROBLEMS, type ProblemCode } from '../../src/protocol/problem.ts';
import { documentOf } from './binary-form.ts';
import type { RawResponse } from './raw-http.ts';

declare module 'vitest' {
  interface Matchers<T> {
    /** A problem document with this code, its status and its headers, and with these members. */
    toBeProblem(code: ProblemCode, members?: Readonly<Record<string, unknown>>): T;
  }
}

expect.extend({
  toBeProblem(response: RawResponse | undefined, code: ProblemCode, members: Readonly<Record<string, unknown>> = {}) {
    const wrong = response ? problemFault(response, code, members) : 'there is no answer';
    const said = response ? `${response.status} ${response.body.toString('utf8', 0, 300)}` : 'nothing';
    return {
      pass: wrong === undefined,
      message: () => `expected the problem ${code}: ${wrong ?? 'it is one'}\n${said}`,
    };
  },
});

/** The members of an answer in either form, as JSON has them. */
export function jsonOf(response: RawResponse | undefined): Record<string, unknown> {
  if (!response) throw new Error('there is no answer');
  return documentOf(response.headers.get('content-type'), response.body);
}

/** Returns what keeps `response` from being this problem. */
function problemFault(
  { status, headers, body }: RawResponse,
  code: ProblemCode,
  members: Readonly<Record<string, unknown>>,
): string | undefined {
  const wanted = PROBLEMS[code].status;
  if (status !== wanted) return `the status is not ${wanted}`;
  if (headers.get('content-type') !== 'application/problem+json') return `it is ${headers.get('content-type')}`;
  if (!/^[0-9a-f]{16}$/.test(headers.get('x-request-id') ?? '')) return 'it has no request id';
  const document = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  const { type, title, detail } = document;
  if (document['code'] !== code || document['status'] !== wanted || type !== 'about:blank') return 'it says otherwise';
  if (typeof title !== 'string' || title === '') return 'it has no title';
  if (typeof detail !== 'string' || detail === '') return 'it has no detail';
  const different = Object.entries(members).find(([name, value]) => document[name] !== value);
  if (different) return `${different[0]} is not ${String(different[1])}`;
  const retries = Number(headers.get('retry-after') ?? 0) > 0;
  if (retries !== (status === 429 || status === 503)) return retries ? 'it has a retry-after' : 'it has no retry-after';
  return undefined;
}
