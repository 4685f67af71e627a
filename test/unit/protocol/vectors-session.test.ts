/** The vectors of a first session, checked without the code that made them: hops, receipts, and that it hangs together. */
import { describe, expect, it } from 'vitest';
import {
  type SessionCase,
  type SessionFile,
  bytes,
  expectSigned,
  hopLines,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from '../../support/vector-oracle.ts';

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

describe('session.json', () => {
  const signedCases = cases.filter(({ request }) => 'x-mail-key' in request.headers);

  it.each(signedCases)('$name: the hop', async ({ at, request }) => {
    const host = hosts.find(({ pubkey }) => pubkey === request.headers['x-mail-key']);
    expect(request.headers).toMatchObject({ 'x-mail-host': host?.name, 'x-mail-ts': String(at) });
    const message = hopLines('mail-hop-v2', { ...request, timestamp: String(at) }, relay.pubkey);
    expect(request.signed_message).toBe(message);
    await expectSigned(utf8(message), request.headers['x-mail-sig'] ?? '', host!);
  });

  it('only info, challenge and enrol go without one', () => {
    const open = cases.filter((one) => !signedCases.includes(one)).map(({ request }) => request.target);
    expect(new Set(open)).toEqual(new Set(['/v2/relay/info', '/v1/relay/challenge', '/v1/relay/enrol']));
    expect(signedCases.length).toBeGreaterThan(8);
  });

  it.each(cases)('$name: the length of the body', ({ request }) => {
    const length = request.body === null ? undefined : String(Buffer.byteLength(request.body));
    expect(request.headers['content-length']).toBe(length);
    expect(request.method === 'POST').toBe(request.body !== null);
  });

  const enrolments = cases.filter(({ request }) => request.target === '/v1/relay/enrol');
  it.each(enrolments)('$name: sig covers the challenge before it', async ({ request }) => {
    const { sig, ...claims } = JSON.parse(request.body ?? '') as { sig: string; pubkey: string };
    const host = hosts.find(({ pubkey }) => pubkey === claims.pubkey);
    const asked = cases.find((one) => one.request.body === JSON.stringify({ pubkey: claims.pubkey }));
    const { challenge } = asked?.response.body ?? {};
    expect(bytes(String(challenge))).toHaveLength(32);
    const document = { v: 1, type: 'relay-enrol', challenge, relay_pubkey: relay.pubkey, ...claims };
    await expectSigned(utf8(jcs(document)), sig, host!);
  });

  const pushes = cases.filter(({ request }) => request.method === 'POST' && request.target === '/v2/relay/items');
  it.each(pushes)('$name: the accept receipt', async ({ request, response }) => {
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
  });

  it('the second push has the bytes of the first, and its receipt and seq', () => {
    const [first, second] = pushes;
    expect(second?.request.body).toBe(first?.request.body);
    const results = [first!, second!].map(({ response }) => (response.body['results'] as Result[])[0]);
    expect(results.map((result) => result?.status)).toEqual(['accepted', 'duplicate']);
    expect(results[1]).toEqual({ ...results[0], status: 'duplicate' });
  });

  it('what is pulled is what was pushed, and is acked', () => {
    const pulls = cases.filter(({ name }) => name.endsWith(' pulls'));
    const pushed = [pushes[0], pushes[2]].map((push) => itemOf(push!).targets[0]?.wire_b64);
    const pulled = pulls.map(({ response }) => (response.body['items'] as { wire_b64: string }[])[0]?.wire_b64);
    expect(pulled).toEqual(pushed);
    const acks = cases.filter(({ request }) => request.target === '/v2/relay/ack');
    const through = acks.map(({ request }) => (JSON.parse(request.body ?? '') as { through: number }).through);
    expect(through).toEqual(pulls.map(({ response }) => response.body['last_seq']));
  });
});
