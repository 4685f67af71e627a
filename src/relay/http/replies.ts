/** JSON replies and problem replies. */
import { type ProblemCode, PROBLEMS, problemDocument } from '../../protocol/problem.ts';
import type { Refusal } from '../core/decision.ts';
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

export function refusalReply({ code, detail, members }: Refusal): Reply {
  return problemReply(code, detail, { members });
}

export function authorityUnavailable(): Reply {
  return problemReply('AUTHORITY_UNAVAILABLE', 'the authority of this relay cannot be asked now');
}

/** A key that is well encoded and no point that anybody may enrol or rotate to. */
export function unacceptablePoint(): Reply {
  return problemReply('ENROL_REFUSED', 'the key is not an acceptable Ed25519 point', {
    members: { reason: 'bad key' },
  });
}
