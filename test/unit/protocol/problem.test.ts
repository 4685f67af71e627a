import { describe, expect, it } from 'vitest';
import {
  PROBLEMS,
  type ProblemCode,
  problemCodeOf,
  problemDocument,
  problemText,
} from '../../../src/protocol/problem.ts';

describe('problem documents (RFC 9457)', () => {
  it.each(Object.keys(PROBLEMS) as ProblemCode[])('%s is a whole document', (code) => {
    const { title, status } = PROBLEMS[code];
    const document = problemDocument(code, 'why');
    expect(document).toEqual({ type: 'about:blank', title, status, detail: 'why', code });
    expect(title).toMatch(/^[A-Z][A-Za-z ]+$/);
  });

  it('titles tell the codes apart', () => {
    expect(new Set(Object.values(PROBLEMS).map(({ title }) => title)).size).toBe(Object.keys(PROBLEMS).length);
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
