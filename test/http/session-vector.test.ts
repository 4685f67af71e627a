/**
 * session.json is what really happens: a relay with the key of the vectors gets exactly those requests at exactly those
 * times, and answers exactly that.
 */
import { Buffer } from 'node:buffer';
import { describe, expect, test } from 'vitest';
import { signerFromSeed } from '../../src/protocol/ed25519.ts';
import { ADAPTERS, relayForTest } from '../support/http-relay.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { type SessionFile, readVectors } from '../support/vector-oracle.ts';

const { relay: relayKeys, cases } = readVectors('session.json') as SessionFile;
const EPOCH_BYTES = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const CHALLENGE_BYTES = 32;

describe.each(ADAPTERS)('%s', (adapter) => {
  test('a relay answers the whole session as the vectors say', async () => {
    const challenges = cases.flatMap(({ response }) => response.body['challenge'] ?? []) as string[];
    const relay = await relayForTest(adapter, {
      signer: signerFromSeed(Buffer.from(relayKeys.seed, 'base64')),
      version: String(cases[0]?.response.body['version']),
      // Epochs are made of 16 random bytes, challenges of 32.
      randomBytes: (count) => {
        if (count === CHALLENGE_BYTES) return Buffer.from(challenges.shift() ?? '', 'base64');
        return EPOCH_BYTES.subarray(0, count);
      },
    });
    for (const { name, at, request, response } of cases) {
      relay.clock.wallMs = at;
      const { method, target, headers, body } = request;
      const answer = await rawRequest(relay.port, requestBytes(method, target, headers, body ?? ''), method);
      expect([name, answer.status, JSON.parse(answer.body.toString('utf8'))]).toEqual([
        name,
        response.status,
        response.body,
      ]);
    }
    expect(challenges).toEqual([]);
  });
});
