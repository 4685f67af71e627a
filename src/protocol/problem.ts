/** Error bodies: RFC 9457 problem documents with a stable `code`. */
import { printableWithin } from './printable.ts';

/** Every code, its HTTP status and its title. DO NOT CHANGE a code or its status: clients switch on them. */
export const PROBLEMS = {
  BAD_REQUEST: { status: 400, title: 'Bad Request' },
  BAD_ACK: { status: 400, title: 'Acknowledgement Beyond The Head' },
  IAT_IN_FUTURE: { status: 400, title: 'Issued In The Future' },
  NOT_ENROLLED: { status: 401, title: 'Not Enrolled' },
  BAD_SIGNATURE: { status: 401, title: 'Bad Signature' },
  CLOCK_SKEW: { status: 401, title: 'Clock Skew' },
  REPLAYED_HOP: { status: 401, title: 'Replayed Hop' },
  NO_CHALLENGE: { status: 401, title: 'No Open Challenge' },
  ENROL_REFUSED: { status: 403, title: 'Enrolment Refused' },
  KEY_MISMATCH: { status: 403, title: 'Key Mismatch' },
  NOT_FOUND: { status: 404, title: 'Not Found' },
  RECORD_PRUNED: { status: 404, title: 'Record Pruned' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'Method Not Allowed' },
  EPOCH_CHANGED: { status: 409, title: 'Epoch Changed' },
  NAME_TAKEN: { status: 409, title: 'Name Taken' },
  STALE_LIST: { status: 409, title: 'Stale List' },
  LENGTH_REQUIRED: { status: 411, title: 'Length Required' },
  BODY_TOO_LARGE: { status: 413, title: 'Body Too Large' },
  RATE_LIMITED: { status: 429, title: 'Rate Limited' },
  UNAVAILABLE: { status: 503, title: 'Unavailable' },
  ENROLMENTS_FULL: { status: 503, title: 'Enrolments Full' },
  CHALLENGES_FULL: { status: 503, title: 'Challenges Full' },
  AUTHORITY_UNAVAILABLE: { status: 503, title: 'Authority Unavailable' },
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

/** `application/problem+json`. `detail` is for people and never contains key material or request bytes. */
export interface ProblemDocument {
  type: 'about:blank';
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  /** Members that some codes add: `epoch`, `head_seq`, `now`, `reason`. */
  [member: string]: unknown;
}

export function problemDocument(
  code: ProblemCode,
  detail: string,
  members: Readonly<Record<string, unknown>> = {},
): ProblemDocument {
  const { status, title } = PROBLEMS[code];
  return { type: 'about:blank', title, status, detail, code, ...members };
}

const CODE = /^[A-Z][A-Z0-9_]{0,63}$/;
const DETAIL_CHARACTERS_MAX = 300;

/** The code of an untrusted answer; `''` when it has no well-formed code. */
export function problemCodeOf(document: unknown): string {
  const code = memberOf(document, 'code');
  return CODE.test(code) ? code : '';
}

/** Code and detail of an untrusted answer as a text for people: printable, and of limited length. */
export function problemText(document: unknown): string {
  const code = problemCodeOf(document);
  const detail = printableWithin(memberOf(document, 'detail'), DETAIL_CHARACTERS_MAX);
  return [code, detail].filter((text) => text !== '').join(': ');
}

function memberOf(document: unknown, name: 'code' | 'detail'): string {
  const value = typeof document === 'object' && document !== null ? (document as Record<string, unknown>)[name] : '';
  return typeof value === 'string' ? value : '';
}
