import { describe, expect, it } from 'vitest';
import {
  PROBLEMS,
  type ProblemCode,
  problemCodeOf,
  problemDocument,
  problemText,
} from '../../../src/protocol/problem.ts';

/** The table of docs/protocol.md, "Errors". */
const STATUSES: Record<ProblemCode, number> = {
  BAD_REQUEST: 400,
  BAD_ACK: 400,
  IAT_IN_FUTURE: 400,
  NOT_ENROLLED: 401,
  BAD_SIGNATURE: 401,
  CLOCK_SKEW: 401,
  REPLAYED_HOP: 401,
  NO_CHALLENGE: 401,
  ENROL_REFUSED: 403,
  KEY_MISMATCH: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  EPOCH_CHANGED: 409,
  NAME_TAKEN: 409,
  STALE_LIST: 409,
  LENGTH_REQUIRED: 411,
  BODY_TOO_LARGE: 413,
  RATE_LIMITED: 429,
  UNAVAILABLE: 503,
  ENROLMENTS_FULL: 503,
  CHALLENGES_FULL: 503,
  AUTHORITY_UNAVAILABLE: 503,
};

describe('problem documents (RFC 9457)', () => {
  it('every code of the protocol has its status, and there is no other code', () => {
    const statuses = Object.fromEntries(Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]));
    expect(statuses).toEqual(STATUSES);
  });

  it.each(Object.entries(STATUSES) as [ProblemCode, number][])(
    '%s is a whole document of status %i',
    (code, status) => {
      const document = problemDocument(code, 'why');
      expect(document).toEqual({ type: 'about:blank', title: PROBLEMS[code].title, status, detail: 'why', code });
      expect(document.title).toMatch(/^[A-Z][A-Za-z ]+$/);
      expect(JSON.parse(JSON.stringify(document))).toEqual(document);
    },
  );

  it('titles tell the codes apart', () => {
    expect(new Set(Object.values(PROBLEMS).map(({ title }) => title)).size).toBe(Object.keys(STATUSES).length);
  });

  it('carries the members a code adds', () => {
    expect(problemDocument('EPOCH_CHANGED', 'the epoch is not current', { epoch: 'E2' })).toEqual({
      type: 'about:blank',
      title: 'Epoch Changed',
      status: 409,
      detail: 'the epoch is not current',
      code: 'EPOCH_CHANGED',
      epoch: 'E2',
    });
  });
});

describe('an answer that may be anything', () => {
  it.each([
    ['a problem', { code: 'BAD_ACK', detail: 'beyond' }, 'BAD_ACK', 'BAD_ACK: beyond'],
    ['a code that nobody knows yet', { code: 'TEAPOT_2', detail: '' }, 'TEAPOT_2', 'TEAPOT_2'],
    ['a code without an end', { code: 'A'.repeat(1 << 20), detail: 'why' }, '', 'why'],
    ['a code that a terminal obeys', { code: 'BAD\u001b[2J' }, '', ''],
    ['words that turn text around', { detail: 'a\u202eb\n' }, '', 'a\\u{202e}b\\u{a}'],
    ['other types', { code: 5, detail: ['x'] }, '', ''],
    ['no object', 'words', '', ''],
    ['nothing', undefined, '', ''],
  ])('%s has a code and words of some length, or none', (_what, document, code, text) => {
    expect(problemCodeOf(document)).toBe(code);
    expect(problemText(document)).toBe(text);
  });

  it('words without an end are cut', () => {
    expect(problemText({ detail: 'x'.repeat(1 << 20) })).toHaveLength(300);
  });
});
