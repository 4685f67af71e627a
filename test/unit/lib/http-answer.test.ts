/** Tests which answers of a local socket are taken, in whatever pieces they come, and which are refused. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AnswerReader, type DocumentAnswer, ForeignAnswer } from '../../../src/lib/socket-request.ts';

const HEAD_BYTES_MAX = 16 << 10;
const OK = 'HTTP/1.1 200 OK\r\n';

const BYTES_MAX = 64;

/** The answer that is read of these bytes, given in pieces that end at these places. */
function read(text: string, cuts: readonly number[] = []): DocumentAnswer | undefined {
  const bytes = Buffer.from(text, 'latin1');
  const reader = new AnswerReader(BYTES_MAX);
  let answer: DocumentAnswer | undefined;
  let from = 0;
  for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)) {
    if (to > from) answer = reader.read(bytes.subarray(from, to));
    from = to;
  }
  return answer;
}

function isTaken(text: string, cuts: readonly number[]): boolean {
  try {
    return read(text, cuts) !== undefined;
  } catch (error) {
    if (error instanceof ForeignAnswer) return false;
    throw error;
  }
}

describe('an answer is read', () => {
  test.each([
    ['with a body', `${OK}Content-Length: 5\r\nX-Poste-Version:\t1.0 \r\n\r\nhello`, 'hello'],
    ['with no body', `${OK}content-length: 0\r\n\r\n`, ''],
    ['without a reason', 'HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\n\n', '\n'],
    ['of letters of several bytes', Buffer.from(`${OK}content-length: 3\r\n\r\n€`).toString('latin1'), '€'],
  ])('%s', (_, text, body) => {
    expect(read(text)).toMatchObject({ status: 200, text: body });
  });

  test('names of headers become lower case, values lose the space around them, and repeated ones are joined', () => {
    const text = `${OK}Content-Length: 0\r\nX-A:\t one \t\r\nx-a: t:wo\r\nX-B:\r\n__proto__: x\r\n\r\n`;
    expect(Object.entries(read(text)?.headers ?? {})).toEqual([
      ['content-length', '0'],
      ['x-a', 'one, t:wo'],
      ['x-b', ''],
      ['__proto__', 'x'],
    ]);
  });

  test('alike in whatever pieces it comes, and not before its last byte', () => {
    const body = fc.string({ unit: 'binary-ascii', maxLength: BYTES_MAX });
    fc.assert(
      fc.property(body, fc.array(fc.nat(), { maxLength: 12 }), fc.nat(), (text, cuts, lost) => {
        const answer = `${OK}content-length: ${text.length}\r\n\r\n${text}`;
        expect(read(answer, cuts)).toMatchObject({ status: 200, text });
        expect(read(answer.slice(0, lost % answer.length), cuts)).toBeUndefined();
      }),
    );
  });
});

describe('an answer is refused', () => {
  test.each([
    ['of another protocol', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['of another protocol, before its line ends', 'SSH'],
    ['of another version', 'HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['without a status', 'HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n'],
    ['with a status of four digits', 'HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n'],
    ['that says that another follows', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['with a control character in its reason', 'HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n'],
    ['whose line ends without a carriage return', 'HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n'],
    ['with a carriage return within a line', `${OK}content-length: 0\r\na: b\rc\r\n\r\n`],
    ['with a header without a colon', `${OK}content-length\r\n\r\n`],
    ['with a header without a name', `${OK}content-length: 0\r\n: 1\r\n\r\n`],
    ['with a space before the colon', `${OK}content-length : 1\r\n\r\n`],
    ['with a header over two lines', `${OK}content-length: 0\r\na: b\r\n c\r\n\r\n`],
    ['with a control character in a header', `${OK}content-length: 0\r\na: b\u0001\r\n\r\n`],
    ['without a length', `${OK}\r\n`],
    ['with two lengths', `${OK}content-length: 1\r\ncontent-length: 1\r\n\r\n`],
    ['with a length and chunks', `${OK}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['with a negative length', `${OK}content-length: -1\r\n\r\n`],
    ['with a length that is no number', `${OK}content-length: 1e3\r\n\r\n`],
    ['with an empty length', `${OK}content-length:\r\n\r\n`],
    ['with a length beyond all', `${OK}content-length: 1${'0'.repeat(15)}\r\n\r\n`],
    ['in chunks', `${OK}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['with a body that is too long', `${OK}content-length: ${BYTES_MAX + 1}\r\n\r\n`],
    ['with bytes behind a body', `${OK}content-length: 1\r\n\r\nab`],
  ])('%s, in one piece and byte by byte', (_, text) => {
    expect(() => read(text)).toThrow(ForeignAnswer);
    expect(() =>
      read(
        text,
        Array.from(text, (_character, at) => at),
      ),
    ).toThrow(ForeignAnswer);
  });

  test('with a head that is too long, in one line or in many, and with one byte less it is not', () => {
    const rest = `content-length: 0\r\n\r\n`;
    const inOne = (bytes: number): string => `${OK}a: ${'x'.repeat(bytes - OK.length - 5 - rest.length)}\r\n${rest}`;
    expect(read(inOne(HEAD_BYTES_MAX))).toMatchObject({ text: '' });
    expect(() => read(inOne(HEAD_BYTES_MAX + 1))).toThrow(ForeignAnswer);
    expect(() => read(`${OK}a: ${'x'.repeat(HEAD_BYTES_MAX)}`)).toThrow(ForeignAnswer);
    expect(() => read(`${OK}${'a: b\r\n'.repeat(HEAD_BYTES_MAX / 6)}`)).toThrow(ForeignAnswer);
  });

  test('or it is only begun: random bytes are never taken for a whole one', () => {
    const begun = fc.constantFrom('', OK, `${OK}content-length: 9\r\n`);
    const random = fc.string({ unit: 'binary-ascii' });
    fc.assert(
      fc.property(begun, random, fc.array(fc.nat(), { maxLength: 5 }), (start, text, cuts) => {
        expect(isTaken(start + text, cuts)).toBe(false);
      }),
    );
  });
});
