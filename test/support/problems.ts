/** What every answer that is no success must look like (protocol.md section 3). */
import { expect } from 'vitest';
import { PROBLEMS, type ProblemCode } from '../../src/protocol/problem.ts';
import type { RawResponse } from './raw-http.ts';

export function jsonOf(response: RawResponse): Record<string, unknown> {
  return JSON.parse(response.body.toString('utf8')) as Record<string, unknown>;
}

/** Expects a problem document with this code, and answers it. */
export function expectProblem(response: RawResponse | undefined, code: ProblemCode): Record<string, unknown> {
  const { status } = PROBLEMS[code];
  if (!response) throw new Error(`no answer, where ${code} was expected`);
  const got = `${response.status} ${response.body.toString('utf8', 0, 300)}`;
  expect(got).toContain(`"${code}"`);
  expect(response.status, got).toBe(status);
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{16}$/);
  const document = jsonOf(response);
  expect(document).toMatchObject({ type: 'about:blank', status, code });
  expect(document['title']).toMatch(/./);
  expect(document['detail']).toMatch(/./);
  const wantsRetry = status === 429 || status === 503;
  expect(Number(response.headers.get('retry-after') ?? 0) > 0).toBe(wantsRetry);
  return document;
}
