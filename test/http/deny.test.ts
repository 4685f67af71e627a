/** `POST /v2/relay/deny`: who is kept out from then on, and what is no word of the issuer. */
import { describe, expect, test } from 'vitest';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import {
  type HostedRelay,
  deny,
  enrolAll,
  enrolWithToken,
  hostedRelayForTest,
  postDeny,
} from '../support/hosted-relay.ts';
import { type TestHost, alice, bob, carol, dave } from '../support/hosts.ts';
import { RELAY_URL, denyToken, signed, signingPair } from '../support/local-issuer.ts';
import { hopBytes } from '../support/hops.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';

const DAY_MS = 86_400_000;
const WAIT_S = 25;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  /** alice and bob in the account acme, carol in umbrella; alice and carol of one organisation. */
  const started = async (changes: Parameters<typeof hostedRelayForTest>[1] = {}): Promise<HostedRelay> => {
    const hosted = await hostedRelayForTest(adapter, changes);
    await enrolAll(hosted, [alice], { org: 'org-1' });
    await enrolAll(hosted, [bob], { org: 'org-2' });
    await enrolAll(hosted, [carol], { account: 'umbrella', org: 'org-1' });
    return hosted;
  };

  test.each<[Record<string, unknown>, TestHost[]]>([
    [{ host_fp: hostFingerprint(alice.key) }, [alice]],
    [{ client_id: 'client of bob' }, [bob]],
    [{ account: 'acme' }, [alice, bob]],
    [{ org: 'org-1' }, [alice, carol]],
    [{ account: 'acme', org: 'org-1' }, [alice]],
    [{ host_fp: hostFingerprint(alice.key), client_id: 'client of alice' }, [alice]],
    [{ host_fp: hostFingerprint(alice.key), client_id: 'client of bob' }, []],
    [{ account: 'umbrella', org: 'org-2' }, []],
    [{ account: 'nobody' }, []],
  ])('enrolment rule 9: %j revokes whom it matches, and no other', async (event, matched) => {
    const hosted = await started();
    const response = await deny(hosted, event);
    expect([response.status, response.body.length]).toEqual([202, 0]);
    const revoked: TestHost[] = [];
    for (const host of [alice, bob, carol]) {
      const { status } = await pull(hosted, host);
      if (status === 401) revoked.push(host);
      // Only the denied are refused, however fresh their token is.
      const again = await enrolWithToken(hosted, host, claimsOf(host));
      expect(again.status).toBe(matched.includes(host) ? 403 : 200);
    }
    expect(revoked).toEqual(matched);
  });

  test('enrolment rule 9: the waiting pull of a denied host ends at once, with 401', async () => {
    const hosted = await started();
    const { relay } = hosted;
    const held = await Promise.all([alice, carol].map((host) => heldPull(hosted, host)));
    await expect.poll(() => relay.timers.underWay(WAIT_S * 1000), { interval: 2 }).toBe(2);
    expect((await deny(hosted, { account: 'acme' })).status).toBe(202);
    expect(await held[0]?.response()).toBeProblem('NOT_ENROLLED');
    expect(relay.timers.underWay(WAIT_S * 1000)).toBe(1);
    expect(held[1]?.receivedBytes).toBe(0);
    for (const connection of held) connection.close();
  });

  test('a token that is delivered again is accepted again, and a day later no more', async () => {
    const hosted = await started();
    const { relay, issuer } = hosted;
    const token = await denyToken(issuer.url, { account: 'acme' });
    const answers = await Promise.all([postDeny(hosted, token), postDeny(hosted, token)]);
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    await relay.restart();
    expect((await postDeny(hosted, token)).status).toBe(202);
    relay.clock.move(DAY_MS);
    expect((await enrolWithToken(hosted, dave)).status).toBe(200);
    // A host that kept the token cannot put the account out again.
    expect(await postDeny(hosted, token)).toBeProblem('ENROL_REFUSED');
    expect((await pull(hosted, dave)).status).toBe(200);
  });

  describe('what is no word of the issuer changes nothing', () => {
    test.each<[string, string | undefined]>([
      ['no content type', undefined],
      ['JSON', 'application/json'],
      ['a plain JWT', 'application/jwt'],
      ['a prefix', 'application/secevent'],
      ['a longer name', 'application/secevent+jwtx'],
    ])('%s is 400', async (_what, contentType) => {
      const hosted = await started();
      const token = await denyToken(hosted.issuer.url, { account: 'acme' });
      const headers = contentType === undefined ? {} : { 'content-type': contentType };
      const bytes = requestBytes('POST', '/v2/relay/deny', headers, token);
      expect(await rawRequest(hosted.relay.port, bytes)).toBeProblem('BAD_REQUEST');
      await expectUnchanged(hosted);
    });

    test('the content type may have parameters and capitals', async () => {
      const hosted = await started();
      const token = await denyToken(hosted.issuer.url, { account: 'acme' });
      const headers = { 'content-type': 'Application/SecEvent+JWT ; charset=us-ascii' };
      expect((await postDeny(hosted, token, headers)).status).toBe(202);
    });

    test.each(['', 'garbage', '{}', 'a.b.c', '\u0000'.repeat(100), 'x'.repeat(8192)])('%j is 400', async (body) => {
      const hosted = await started();
      expect(await postDeny(hosted, body)).toBeProblem('BAD_REQUEST');
      await expectUnchanged(hosted);
    });

    test('more than 8 KiB are 413', async () => {
      const hosted = await started();
      const response = await postDeny(hosted, 'x'.repeat(8193));
      expect(response).toBeProblem('BODY_TOO_LARGE');
      expect(response.headers.get('connection')).toBe('close');
    });

    test('an unknown kid, and the signature of another key, are 401', async () => {
      const hosted = await started();
      const pair = await signingPair('EdDSA', 'mallory');
      const { url } = hosted.issuer;
      for (const header of [{}, { kid: 'key-1' }]) {
        const token = await denyToken(url, { account: 'acme' }, { pair, header });
        expect(await postDeny(hosted, token)).toBeProblem('BAD_SIGNATURE');
      }
      await expectUnchanged(hosted);
    });

    test('another issuer, another audience and another kind of token are 403 with the reason', async () => {
      const hosted = await started();
      const { url } = hosted.issuer;
      for (const changes of [
        { claims: { iss: 'https://accounts.example' } },
        { claims: { aud: `${RELAY_URL}/` } },
        { header: { typ: 'JWT' } },
      ]) {
        const response = await postDeny(hosted, await denyToken(url, { account: 'acme' }, changes));
        expect(response).toBeProblem('ENROL_REFUSED');
        expect(jsonOf(response)['reason']).toBe(jsonOf(response)['detail']);
      }
      await expectUnchanged(hosted);
    });

    test('an event without a selector is 400', async () => {
      const hosted = await started();
      expect(await deny(hosted, {})).toBeProblem('BAD_REQUEST');
      const token = await signed(await signingPair('EdDSA', 'key-1'), 'no claims', { typ: 'secevent+jwt' });
      expect(await postDeny(hosted, token)).toBeProblem('BAD_REQUEST');
      await expectUnchanged(hosted);
    });
  });

  test('without the keys of the issuer it is 503, and the issuer delivers again', async () => {
    const hosted = await started();
    const { issuer, relay } = hosted;
    issuer.fail();
    await relay.restart();
    const token = await denyToken(issuer.url, { account: 'acme' });
    expect(await postDeny(hosted, token)).toBeProblem('AUTHORITY_UNAVAILABLE');
    await expectUnchanged(hosted);
    issuer.answer = undefined;
    relay.clock.move(10_000);
    expect((await postDeny(hosted, token)).status).toBe(202);
    expect(await pull(hosted, alice)).toBeProblem('NOT_ENROLLED');
  });

  test('it is limited per client address, apart from enrolment', async () => {
    const hosted = await hostedRelayForTest(adapter, { enrolRate: 2 });
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) statuses.push((await postDeny(hosted, 'a.b.c')).status);
    expect(statuses).toEqual([400, 400, 429]);
    await enrolAll(hosted, [alice]);
    hosted.relay.clock.move(30_000);
    expect((await deny(hosted, { account: 'acme' })).status).toBe(202);
  });
});

/** Returns what the token of a host says in these tests. */
function claimsOf(host: TestHost): Record<string, unknown> {
  if (host === carol) return { account: 'umbrella', org: 'org-1' };
  return { org: host === alice ? 'org-1' : 'org-2' };
}

function pull({ relay }: HostedRelay, host: TestHost): Promise<RawResponse> {
  return relay.send(relay.hop(host, 'GET', '/v2/relay/items'));
}

async function heldPull({ relay }: HostedRelay, host: TestHost): Promise<RawConnection> {
  const connection = await RawConnection.open(relay.port);
  return connection.send(hopBytes(relay.hop(host, 'GET', `/v2/relay/items?wait=${WAIT_S}`)));
}

/** Nobody is revoked. */
async function expectUnchanged(hosted: HostedRelay): Promise<void> {
  expect((await pull(hosted, alice)).status).toBe(200);
  expect(hosted.relay.relay.engine.directory.liveCount).toBe(3);
}
