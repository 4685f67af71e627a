/** JSON replies and problem replies. */
import { type ProblemCode, PROBLEMS, problemDocument } from '../protocol/problem.ts';
import type { Reply } from './exchange.ts';

export function jsonReply(status: number, body: unknown): Reply {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

/** What a 503 asks the client to wait, in seconds. */
const UNAVAILABLE_RETRY_S = 2;
/** An enrolment lapses once a day at the soonest; nothing is won by asking often. */
const ENROLMENTS_FULL_RETRY_S = 600;
/** After a failure the authority is not asked again for as long. */
const AUTHORITY_RETRY_S = 10;

function retryOf(code: ProblemCode): number | undefined {
  if (code === 'ENROLMENTS_FULL') return ENROLMENTS_FULL_RETRY_S;
  if (code === 'AUTHORITY_UNAVAILABLE') return AUTHORITY_RETRY_S;
  return PROBLEMS[code].status === 503 ? UNAVAILABLE_RETRY_S : undefined;
}

export interface ProblemOptions {
  members?: Readonly<Record<string, unknown>>;
  headers?: Readonly<Record<string, string>>;
  close?: boolean;
  /** Seconds; 503s have a default. */
  retryAfterS?: number;
}

/** A problem outside the table of the protocol: `kind` is what its own table says of `code`. */
export function otherProblemReply(
  kind: { status: number; title: string },
  code: string,
  detail: string,
  members: Readonly<Record<string, unknown>> = {},
): Reply {
  const document = { type: 'about:blank', title: kind.title, status: kind.status, detail, code, ...members };
  return {
    status: kind.status,
    headers: { 'content-type': 'application/problem+json' },
    body: JSON.stringify(document),
  };
}

export function problemReply(code: ProblemCode, detail: string, options: ProblemOptions = {}): Reply {
  const { status } = PROBLEMS[code];
  const retryAfterS = options.retryAfterS ?? retryOf(code);
  const retry = retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) };
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...retry, ...options.headers },
    body: JSON.stringify(problemDocument(code, detail, options.members)),
    close: options.close ?? false,
    problem: code,
  };
}
