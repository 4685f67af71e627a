/** Which answers of a local socket are taken, in whatever pieces they come, and which are refused. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AnswerReader, ForeignAnswer } from '../../../src/lib/http-answer.ts';

const HEAD_BYTES_MAX = 16 << 10;
const OK = 'HTTP/1.1 200 OK\r\n';

interface Read {
  status: number | undefined;
  headers: Record<string, string>;
  body: string;
  isWhole: boolean;
}

/** What is read of these bytes, given in pieces that end at these places. */
function read(text: string, cuts: readonly number[] = []): Read {
  const bytes = Buffer.from(text, 'latin1');
  const reader = new AnswerReader();
  const body: Buffer[] = [];
  let from = 0;
  for (const to of [...cuts].map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)) {
    body.push(...reader.read(bytes.subarray(from, to)));
    from = to;
  }
  body.push(...reader.read(bytes.subarray(from)));
  const { head, isWhole } = reader;
  return {
    status: head?.status,
    headers: { ...head?.headers },
    body: Buffer.concat(body).toString('latin1'),
    isWhole,
  };
}

function isTaken(text: string, cuts: readonly number[]): boolean {
  try {
    return read(text, cuts).isWhole;
  } catch (error) {
    if (error instanceof ForeignAnswer) return false;
    throw error;
  }
}

describe('an answer is read', () => {
  test.each([
    ['with a length', `${OK}Content-Length: 5\r\nX-Poste-Version:\t1.0 \r\n\r\nhello`, 'hello'],
    ['with no body', `${OK}content-length: 0\r\n\r\n`, ''],
    [
      'in chunks',
      `${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n00A\r\n, wor\r\nld!\r\n0\r\n\r\n`,
      'hello, wor\r\nld!',
    ],
    ['in no chunk', `${OK}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`, ''],
    ['without a reason', 'HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\n\n', '\n'],
  ])('%s', (_, text, body) => {
    expect(read(text)).toMatchObject({ status: 200, body, isWhole: true });
  });

  test('names of headers are taken in lower case, values without the space around them, and repeated ones together', () => {
    const text = `${OK}Content-Length: 0\r\nX-A:\t one \t\r\nx-a: t:wo\r\nX-B:\r\n__proto__: x\r\n\r\n`;
    const { headers } = read(text);
    expect(Object.entries(headers)).toEqual([
      ['content-length', '0'],
      ['x-a', 'one, t:wo'],
      ['x-b', ''],
      ['__proto__', 'x'],
    ]);
  });

  const bodies = fc.array(fc.string({ minLength: 1, unit: 'binary-ascii', maxLength: 40 }), { maxLength: 6 });
  test('alike in whatever pieces it comes, and not whole before its last byte', () => {
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(), { maxLength: 12 }), fc.nat(), (chunks, cuts, lost) => {
        const counted = `${OK}content-length: ${chunks.join('').length}\r\n\r\n${chunks.join('')}`;
        const inChunks = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
        for (const text of [counted, `${OK}transfer-encoding: chunked\r\n\r\n${inChunks}0\r\n\r\n`]) {
          expect(read(text, cuts)).toMatchObject({ status: 200, body: chunks.join(''), isWhole: true });
          expect(read(text.slice(0, lost % text.length), cuts).isWhole).toBe(false);
        }
      }),
    );
  });
});

describe('an answer is refused', () => {
  test.each([
    ['of another protocol', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['of another protocol, before its line ends', 'SSH'],
    ['of another version', 'HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['without a status', 'HTTP/1.1 OK\r\n'],
    ['with a status of four digits', 'HTTP/1.1 2000 OK\r\n'],
    ['that says that another follows', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['with a control character in its reason', 'HTTP/1.1 200 O\0K\r\n'],
    ['whose line ends without a carriage return', 'HTTP/1.1 200 OK\n'],
    ['with a carriage return within a line', `${OK}a: b\rc\r\n`],
    ['with a header without a colon', `${OK}content-length\r\n`],
    ['with a header without a name', `${OK}: 1\r\n`],
    ['with a space before the colon', `${OK}content-length : 1\r\n`],
    ['with a header over two lines', `${OK}a: b\r\n c\r\n`],
    ['with a control character in a header', `${OK}a: b\u0001\r\n`],
    ['without a length', `${OK}\r\n`],
    ['with two lengths', `${OK}content-length: 1\r\ncontent-length: 1\r\n\r\n`],
    ['with a length and chunks', `${OK}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['with a negative length', `${OK}content-length: -1\r\n\r\n`],
    ['with a length that is no number', `${OK}content-length: 1e3\r\n\r\n`],
    ['with an empty length', `${OK}content-length:\r\n\r\n`],
    ['with a length beyond all', `${OK}content-length: 1${'0'.repeat(15)}\r\n\r\n`],
    ['in another encoding', `${OK}transfer-encoding: gzip, chunked\r\n\r\n`],
    ['with a chunk of no length', `${OK}transfer-encoding: chunked\r\n\r\n\r\n`],
    ['with a chunk of a length that is none', `${OK}transfer-encoding: chunked\r\n\r\n0x5\r\n`],
    ['with an extension of a chunk', `${OK}transfer-encoding: chunked\r\n\r\n1;a=b\r\n`],
    ['with a chunk of too many digits', `${OK}transfer-encoding: chunked\r\n\r\n000000001\r\n`],
    ['with the length of a chunk that does not end', `${OK}transfer-encoding: chunked\r\n\r\n00000000000`],
    ['with a chunk longer than it says', `${OK}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n`],
    ['with trailers', `${OK}transfer-encoding: chunked\r\n\r\n0\r\na: b\r\n`],
    ['with bytes behind a body', `${OK}content-length: 1\r\n\r\nab`],
    ['with bytes behind the last chunk', `${OK}transfer-encoding: chunked\r\n\r\n0\r\n\r\nH`],
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
    expect(read(inOne(HEAD_BYTES_MAX)).isWhole).toBe(true);
    expect(() => read(inOne(HEAD_BYTES_MAX + 1))).toThrow(ForeignAnswer);
    expect(() => read(`${OK}a: ${'x'.repeat(HEAD_BYTES_MAX)}`)).toThrow(ForeignAnswer);
    expect(() => read(`${OK}${'a: b\r\n'.repeat(HEAD_BYTES_MAX / 6)}`)).toThrow(ForeignAnswer);
  });

  test('or it is only begun: random bytes are never taken for a whole one', () => {
    const begun = fc.constantFrom('', OK, `${OK}content-length: 9\r\n`, `${OK}transfer-encoding: chunked\r\n\r\n3\r\n`);
    const random = fc.string({ unit: 'binary-ascii' });
    fc.assert(
      fc.property(begun, random, fc.array(fc.nat(), { maxLength: 5 }), (start, text, cuts) => {
        expect(isTaken(start + text, cuts)).toBe(false);
      }),
    );
  });
});
