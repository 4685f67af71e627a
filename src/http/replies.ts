/** JSON replies and problem replies. */
import { type ProblemCode, PROBLEMS, problemDocument } from '../protocol/problem.ts';
import type { Reply } from './exchange.ts';

export function jsonReply(status: number, body: unknown): Reply {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

/** A 503 asks the client to wait this long, in seconds. */
const UNAVAILABLE_RETRY_S = 2;
/** Enrolments lapse at most once a day, so asking often is useless. */
const ENROLMENTS_FULL_RETRY_S = 600;
/** After a failure the relay does not ask the authority again for this long. */
const AUTHORITY_RETRY_S = 10;

function retryOf(code: ProblemCode): number | undefined {
  if (code === 'ENROLMENTS_FULL') return ENROLMENTS_FULL_RETRY_S;
  if (code === 'AUTHORITY_UNAVAILABLE') return AUTHORITY_RETRY_S;
  return PROBLEMS[code].status === 503 ? UNAVAILABLE_RETRY_S : undefined;
}

interface ProblemOptions {
  members?: Readonly<Record<string, unknown>>;
  headers?: Readonly<Record<string, string>>;
  close?: boolean;
  /** 503s have a default. */
  retryAfterS?: number;
}

/** A problem that is not in the table of the protocol: `entry` is its entry in another table. */
export function otherProblemReply(
  entry: { status: number; title: string },
  code: string,
  detail: string,
  members: Readonly<Record<string, unknown>> = {},
): Reply {
  const document = { type: 'about:blank', title: entry.title, status: entry.status, detail, code, ...members };
  return {
    status: entry.status,
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
