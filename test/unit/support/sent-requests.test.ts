import { describe, expect, test } from 'vitest';
import { requestBytes } from '../../support/raw-http.ts';
import { type SentRequest, SentRequests } from '../../support/sent-requests.ts';

const INFO = requestBytes('GET', '/v2/relay/info?x');
const ACK = requestBytes('POST', '/v2/relay/ack', {}, 'GET /x HTTP/1.1\r\n\r\n');
const asked = { info: { method: 'GET', target: '/v2/relay/info?x' }, ack: { method: 'POST', target: '/v2/relay/ack' } };

/** Returns what two answers and one more would belong to. */
function answered(...chunks: readonly (string | Uint8Array)[]): (SentRequest | undefined)[] {
  const sent = new SentRequests();
  for (const chunk of chunks) sent.add(Buffer.from(chunk));
  return [sent.nextAnswered(), sent.nextAnswered(), sent.nextAnswered()];
}

describe('the requests of a connection', () => {
  test('are told one after the other, bodies skipped', () => {
    expect(answered(INFO, ACK)).toEqual([asked.info, asked.ack, undefined]);
    expect(answered(Buffer.concat([ACK, INFO]))).toEqual([asked.ack, asked.info, undefined]);
  });

  test('are told byte by byte', () => {
    const bytes = Array.from(Buffer.concat([ACK, INFO, ACK]), (byte) => Uint8Array.of(byte));
    expect(answered(...bytes)).toEqual([asked.ack, asked.info, asked.ack]);
  });

  test('are told when the head is there and the body is not', () => {
    expect(answered(ACK.subarray(0, -3))).toEqual([asked.ack, undefined, undefined]);
    expect(answered(INFO.subarray(0, -1))).toEqual([undefined, undefined, undefined]);
  });

  test.each([
    'content-length: 0\r\ncontent-length: 44',
    'transfer-encoding: chunked',
    'Transfer-Encoding: chunked',
    'content-length: +1',
    'content-length: 99999999999999999999',
    'content-length:',
  ])('behind %s are told no more', (line) => {
    const doubtful = `POST /v2/relay/ack HTTP/1.1\r\n${line}\r\n\r\n`;
    expect(answered(doubtful, INFO)).toEqual([asked.ack, undefined, undefined]);
  });

  test.each(['\x16\x03\x01\r\n\r\n', 'GET /x\r\n\r\n', 'x'.repeat(20_000)])(
    'behind bytes that are none neither',
    (bytes) => {
      expect(answered(bytes, INFO)).toEqual([undefined, undefined, undefined]);
    },
  );
});
