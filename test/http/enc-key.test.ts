/** Keys to seal to, in v1 and v2: docs/protocol.md, "POST /v1/relay/enc-key"; "Enrolment record", rules 7 and 8. */
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const V1 = '/v1/relay/enc-key';
const V2 = '/v2/relay/enc-key';
const ENC_PUB = Buffer.alloc(32, 7).toString('base64');

/** Hosts of v1, until they make a hop by key. */
const [early, late] = [hostNamed('early'), hostNamed('late')];

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);
  let ats = 0;

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(alice.key)) await relay.enrol(alice, bob, carol);
    return relay;
  };

  const advertisement = (
    host: TestHost,
    changes: Record<string, unknown> = {},
    signer = host,
  ): Record<string, unknown> => {
    const at = suite.current.clock.nowMs() + ++ats;
    const signed = { v: 1, type: 'relay-enc-key', host_pubkey: host.key, enc_pub: ENC_PUB, at, ...changes };
    const sig = signer.signer.sign(Buffer.from(canonicalize(signed)));
    return { enc_pub: signed.enc_pub, at: signed.at, sig };
  };

  const publish = async (host: TestHost, body: unknown): Promise<RawResponse> => {
    const relay = await enrolled();
    return relay.send(relay.hop(host, 'POST', V1, JSON.stringify(body)));
  };

  const read = async (target: string, from = carol): Promise<unknown> => {
    const relay = await enrolled();
    const response = await relay.send(relay.hop(from, 'GET', target));
    expect(response.status).toBe(200);
    return jsonOf(response)['enc_key'];
  };

  test('what a host published any enrolled host reads, by key and by name', async () => {
    const body = advertisement(bob);
    const response = await publish(bob, body);
    expect([response.status, jsonOf(response)]).toEqual([200, { at: body['at'] }]);
    const shown = { host_pubkey: bob.key, ...body };
    expect(await read(`${V2}?key=${encodeURIComponent(bob.key)}`)).toEqual(shown);
    expect(await read(`${V1}?host=BOB`)).toEqual(shown);
    await suite.current.enrolInV1(early);
    const byName = await suite.current.sendByName(early, 'GET', `${V1}?host=bob`);
    expect(jsonOf(byName)).toEqual({ enc_key: shown });
  });

  test('a newer one replaces, the same again is 200, an older one or another of its time is STALE_LIST', async () => {
    await suite.current.enrolInV1(late);
    const body = advertisement(late);
    expect((await suite.current.sendByName(late, 'POST', V1, body)).status).toBe(200);
    expect((await publish(late, body)).status).toBe(200);
    const other = Buffer.alloc(32, 9).toString('base64');
    expect(await publish(late, advertisement(late, { at: body['at'], enc_pub: other }))).toBeProblem('STALE_LIST');
    expect(await publish(late, advertisement(late, { at: Number(body['at']) - 1 }))).toBeProblem('STALE_LIST');
    expect((await publish(late, advertisement(late, { enc_pub: other }))).status).toBe(200);
    expect(await read(`${V1}?host=late`)).toMatchObject({ enc_pub: other });
  });

  test('a signature of another or over something else is BAD_SIGNATURE, a time ahead is IAT_IN_FUTURE', async () => {
    await enrolled();
    expect(await publish(alice, advertisement(alice, {}, bob))).toBeProblem('BAD_SIGNATURE');
    expect(await publish(alice, advertisement(bob))).toBeProblem('BAD_SIGNATURE');
    expect(await publish(alice, { ...advertisement(alice), at: 1 })).toBeProblem('BAD_SIGNATURE');
    const at = suite.current.clock.nowMs() + 300_001;
    expect(await publish(alice, advertisement(alice, { at }))).toBeProblem('IAT_IN_FUTURE');
  });

  test.each([Buffer.alloc(31).toString('base64'), Buffer.alloc(33).toString('base64'), `${'A'.repeat(42)}B=`, 5, null])(
    'enc_pub %j is 400',
    async (enc_pub) => {
      expect(await publish(alice, { ...advertisement(alice), enc_pub })).toBeProblem('BAD_REQUEST');
    },
  );

  test('unknown hosts, and hosts that published nothing, are null', async () => {
    expect(await read(`${V2}?key=${encodeURIComponent(dave.key)}`)).toBeNull();
    expect(await read(`${V2}?key=${encodeURIComponent(carol.key)}`)).toBeNull();
    expect(await read(`${V1}?host=nobody`)).toBeNull();
  });

  test('enrolment record rule 7: a name that two hosts carry answers nothing, rule 8: their keys do', async () => {
    const name = 'twin' as TestHost['name'];
    const twins = ['twin 1', 'twin 2'].map((seed) => Object.assign(hostNamed(seed), { name }));
    const [one] = twins;
    const relay = await enrolled();
    await relay.enrol(...twins);
    await publish(one!, advertisement(one!));
    expect(await read(`${V1}?host=twin`)).toBeNull();
    expect(await read(`${V2}?key=${encodeURIComponent(one!.key)}`)).toMatchObject({ host_pubkey: one!.key });
  });

  test('a query that says nothing, or twice, is 400', async () => {
    const relay = await enrolled();
    for (const target of [V1, `${V1}?host=`, `${V1}?host=a&host=b`, `${V1}?host=!`, V2, `${V2}?key=x`]) {
      expect(await relay.send(relay.hop(bob, 'GET', target))).toBeProblem('BAD_REQUEST');
    }
  });
});
