/**
 * The vectors of a first session, checked without the code that made them: hops, receipts, and that it hangs together.
 * And it is what really happens: a relay with the key of the vectors gets exactly those requests at exactly those
 * times, and answers exactly that.
 */
import { Buffer } from 'node:buffer';
import { expect } from 'vitest';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import { ADAPTERS, relayForTest } from '../http-relay.ts';
import { rawRequest, requestBytes } from '../raw-http.ts';
import {
  type SessionCase,
  type SessionFile,
  type VectorChecks,
  bytes,
  each,
  expectSigned,
  hopLines,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

const { relay, hosts, cases } = readVectors('session.json') as SessionFile;

interface Item {
  item_id: string;
  targets: { host_pubkey: string; wire_b64: string }[];
}

interface Result {
  item_id: string;
  status: string;
  targets: { host_pubkey: string; seq: number }[];
  accept: unknown;
  sig: string;
}

function itemOf({ request }: SessionCase): Item {
  const { items } = JSON.parse(request.body ?? '') as { items: Item[] };
  expect(items).toHaveLength(1);
  return items[0]!;
}

const signedCases = cases.filter(({ request }) => 'x-mail-key' in request.headers);
const enrolments = cases.filter(({ request }) => request.target === '/v1/relay/enrol');
const pushes = cases.filter(({ request }) => request.method === 'POST' && request.target === '/v2/relay/items');

const EPOCH_BYTES = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const CHALLENGE_BYTES = 32;

async function answersTheSession(adapter: (typeof ADAPTERS)[number]): Promise<void> {
  const challenges = cases.flatMap(({ response }) => response.body['challenge'] ?? []) as string[];
  const answering = await relayForTest(adapter, {
    signer: signerFromSeed(Buffer.from(relay.seed, 'base64')),
    version: String(cases[0]?.response.body['version']),
    // Epochs are made of 16 random bytes, challenges of 32.
    randomBytes: (count) => {
      if (count === CHALLENGE_BYTES) return Buffer.from(challenges.shift() ?? '', 'base64');
      return EPOCH_BYTES.subarray(0, count);
    },
  });
  for (const { name, at, request, response } of cases) {
    answering.clock.wallMs = at;
    const { method, target, headers, body } = request;
    const answer = await rawRequest(answering.port, requestBytes(method, target, headers, body ?? ''), method);
    expect([name, answer.status, JSON.parse(answer.body.toString('utf8'))]).toEqual([
      name,
      response.status,
      response.body,
    ]);
  }
  expect(challenges).toEqual([]);
}

export const SESSION: VectorChecks = {
  file: 'session.json',
  checks: [
    ...each(signedCases, 'the hop', async ({ at, request }) => {
      const host = hosts.find(({ pubkey }) => pubkey === request.headers['x-mail-key']);
      expect(request.headers).toMatchObject({ 'x-mail-host': host?.name, 'x-mail-ts': String(at) });
      const message = hopLines('mail-hop-v2', { ...request, timestamp: String(at) }, relay.pubkey);
      expect(request.signed_message).toBe(message);
      await expectSigned(utf8(message), request.headers['x-mail-sig'] ?? '', host!);
    }),

    {
      name: 'only info, challenge and enrol go without one',
      run: () => {
        const open = cases.filter((one) => !signedCases.includes(one)).map(({ request }) => request.target);
        expect(new Set(open)).toEqual(new Set(['/v2/relay/info', '/v1/relay/challenge', '/v1/relay/enrol']));
        expect(signedCases.length).toBeGreaterThan(8);
      },
    },

    ...each(cases, 'the length of the body', ({ request }) => {
      const length = request.body === null ? undefined : String(Buffer.byteLength(request.body));
      expect(request.headers['content-length']).toBe(length);
      expect(request.method === 'POST').toBe(request.body !== null);
    }),

    ...each(enrolments, 'sig covers the challenge before it', async ({ request }) => {
      const { sig, ...claims } = JSON.parse(request.body ?? '') as { sig: string; pubkey: string };
      const host = hosts.find(({ pubkey }) => pubkey === claims.pubkey);
      const asked = cases.find((one) => one.request.body === JSON.stringify({ pubkey: claims.pubkey }));
      const { challenge } = asked?.response.body ?? {};
      expect(bytes(String(challenge))).toHaveLength(32);
      const document = { v: 1, type: 'relay-enrol', challenge, relay_pubkey: relay.pubkey, ...claims };
      await expectSigned(utf8(jcs(document)), sig, host!);
    }),

    ...each(pushes, 'the accept receipt', async ({ request, response }) => {
      const [target] = itemOf({ request } as SessionCase).targets;
      const [result] = response.body['results'] as Result[];
      const { item_id, targets, accept, sig } = result!;
      const [{ host_pubkey, seq } = { host_pubkey: '', seq: 0 }] = targets;
      expect(host_pubkey).toBe(target?.host_pubkey);
      expect(accept).toEqual({
        v: 1,
        type: 'relay-accept',
        relay_pubkey: relay.pubkey,
        epoch: response.body['epoch'],
        sender_pubkey: request.headers['x-mail-key'],
        item_id,
        targets: [{ host_pubkey, seq, wire_hash: sha256Of(bytes(target?.wire_b64 ?? '')) }],
        at: expect.any(Number) as number,
      });
      await expectSigned(utf8(jcs(accept)), sig, relay);
    }),

    {
      name: 'the second push has the bytes of the first, and its receipt and seq',
      run: () => {
        const [first, second] = pushes;
        expect(second?.request.body).toBe(first?.request.body);
        const results = [first!, second!].map(({ response }) => (response.body['results'] as Result[])[0]);
        expect(results.map((result) => result?.status)).toEqual(['accepted', 'duplicate']);
        expect(results[1]).toEqual({ ...results[0], status: 'duplicate' });
      },
    },

    {
      name: 'what is pulled is what was pushed, and is acked',
      run: () => {
        const pulls = cases.filter(({ name }) => name.endsWith(' pulls'));
        const pushed = [pushes[0], pushes[2]].map((push) => itemOf(push!).targets[0]?.wire_b64);
        const pulled = pulls.map(({ response }) => (response.body['items'] as { wire_b64: string }[])[0]?.wire_b64);
        expect(pulled).toEqual(pushed);
        const acks = cases.filter(({ request }) => request.target === '/v2/relay/ack');
        const through = acks.map(({ request }) => (JSON.parse(request.body ?? '') as { through: number }).through);
        expect(through).toEqual(pulls.map(({ response }) => response.body['last_seq']));
      },
    },

    ...ADAPTERS.map((adapter) => ({
      name: `a relay answers the whole session as the vectors say, ${adapter}`,
      run: () => answersTheSession(adapter),
    })),
  ],
};
