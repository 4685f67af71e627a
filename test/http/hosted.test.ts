/** A hosted relay: enrolment by account tokens, what an account may use, and an issuer that is away. */
import { describe, expect, test } from 'vitest';
import { JWKS_FAILED_REFRESH_MS, JWKS_REFRESH_MS } from '../../src/relay/auth/jwks.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { enrolHost } from '../support/enrolments.ts';
import { type HostedRelay, enrolAll, enrolWithToken, hostedRelayForTest, postDeny } from '../support/hosted-relay.ts';
import { relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { proofOf } from '../support/local-issuer.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const MINUTE_MS = 60_000;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('enrolment rule 7: a token enrols, and the answer shows the account that it proves', async () => {
    const hosted = await hostedRelayForTest(adapter);
    const { relay } = hosted;
    const response = await enrolWithToken(hosted, alice, { org: 'org-1' });
    expect(response.status).toBe(200);
    expect(jsonOf(response)).toEqual({
      host: 'alice',
      host_pubkey: alice.key,
      enrolled_at: relay.clock.nowMs(),
      authorized_by: 'account-token',
      account: 'acme',
      crowded: false,
      epoch: relay.epoch,
    });
    expect(relay.relay.engine.directory.get(alice.key)).toMatchObject({
      org: 'org-1',
      clientId: 'client of alice',
      validUntilMs: Math.floor(relay.clock.nowMs() / 1000) * 1000 + 15 * MINUTE_MS,
    });
  });

  test('enrolment rule 5: without a proof, or with a refused one, nobody is enrolled, and told why', async () => {
    const hosted = await hostedRelayForTest(adapter);
    const { relay } = hosted;
    const reason = 'the proof is not {token, cloud_key, cert}';
    expect(await enrolHost(relay, alice)).toBeProblem('ENROL_REFUSED', { reason });
    expect(await enrolHost(relay, alice, { sent: { proof: 'an invite' } })).toBeProblem('ENROL_REFUSED', { reason });
    const elsewhere = await enrolWithToken(hosted, alice, { aud: 'https://api.example' });
    expect(elsewhere).toBeProblem('ENROL_REFUSED', { reason: 'the token is for another audience' });
    expect(elsewhere.body.toString()).not.toContain('api.example');
    const proof = await proofOf(hosted.issuer.url, bob);
    expect(await enrolHost(relay, alice, { sent: { proof } })).toBeProblem('ENROL_REFUSED');
    expect(relay.relay.engine.directory.liveCount).toBe(0);
  });

  test('enrolment rule 1: a token does not replace the signature of the host key', async () => {
    const hosted = await hostedRelayForTest(adapter);
    const proof = await proofOf(hosted.issuer.url, alice);
    expect(await enrolHost(hosted.relay, alice, { signer: bob, sent: { proof } })).toBeProblem('BAD_SIGNATURE');
    expect(hosted.relay.relay.engine.directory.liveCount).toBe(0);
  });

  test('a token ends the hop and nothing else: the host stays a target and keeps its name', async () => {
    const hosted = await hostedRelayForTest(adapter);
    const { relay } = hosted;
    await enrolAll(hosted, [alice, bob]);
    relay.clock.move(15 * MINUTE_MS - 1000);
    expect((await pull(hosted, alice)).status).toBe(200);
    // bob stays awake; alice sleeps.
    await enrolAll(hosted, [bob]);
    relay.clock.move(1000);
    expect(await pull(hosted, alice)).toBeProblem('NOT_ENROLLED');
    expect(await relay.sendByName(alice, 'GET', '/v1/relay/messages')).toBeProblem('NOT_ENROLLED');
    expect(jsonOf(await relay.send(relay.hop(alice, 'GET', '/v2/relay/info')))).not.toHaveProperty('you');
    expect(await push(hosted, bob, alice, 'm1')).toBe('accepted');
    const namesake = { ...hostNamed('another alice'), name: alice.name };
    expect(await enrolWithToken(hosted, namesake)).toBeProblem('NAME_TAKEN');
    expect((await enrolWithToken(hosted, alice)).status).toBe(200);
    expect(jsonOf(await pull(hosted, alice))).toMatchObject({ items: [{ item_id: 'm1' }] });
  });

  test('re-enrolling with a fresh token extends, also while the former one is in force', async () => {
    const hosted = await hostedRelayForTest(adapter);
    await enrolAll(hosted, [alice]);
    for (let count = 0; count < 5; count++) {
      hosted.relay.clock.move(10 * MINUTE_MS);
      await enrolAll(hosted, [alice]);
      expect((await pull(hosted, alice)).status).toBe(200);
    }
    hosted.relay.clock.move(15 * MINUTE_MS);
    expect(await pull(hosted, alice)).toBeProblem('NOT_ENROLLED');
  });

  test('a token lives on through a restart, and so does its end', async () => {
    const hosted = await hostedRelayForTest(adapter);
    const { relay } = hosted;
    await enrolAll(hosted, [alice]);
    await relay.restart();
    expect((await pull(hosted, alice)).status).toBe(200);
    relay.clock.move(15 * MINUTE_MS);
    await relay.restart();
    expect(await pull(hosted, alice)).toBeProblem('NOT_ENROLLED');
  });

  describe('enrolment rule 8', () => {
    test('enrolment rule 8: an hour after the last good fetch enrolments are 503; tokens hold on', async () => {
      const hosted = await hostedRelayForTest(adapter);
      const { relay, issuer } = hosted;
      await enrolAll(hosted, [alice]);
      issuer.fail();
      relay.clock.move(59 * MINUTE_MS);
      // With the keys that are kept.
      await enrolAll(hosted, [alice, bob]);
      relay.clock.move(MINUTE_MS);
      for (const host of [carol, alice]) {
        const refused = await enrolWithToken(hosted, host);
        expect(refused).toBeProblem('AUTHORITY_UNAVAILABLE');
        expect(refused.headers.get('retry-after')).toBe('10');
      }
      expect(await push(hosted, alice, bob, 'm1')).toBe('accepted');
      expect((await pull(hosted, bob)).status).toBe(200);
      relay.clock.move(14 * MINUTE_MS);
      expect(await pull(hosted, bob)).toBeProblem('NOT_ENROLLED');
      issuer.answer = undefined;
      expect((await enrolWithToken(hosted, bob)).status).toBe(200);
      expect(jsonOf(await pull(hosted, bob))).toMatchObject({ items: [{ item_id: 'm1' }] });
    });

    test('enrolment rule 8: a relay starts without its issuer, logs it, and enrols when it is back', async () => {
      const hosted = await hostedRelayForTest(adapter);
      const { relay, issuer } = hosted;
      issuer.fail();
      await relay.restart();
      expect(await enrolWithToken(hosted, alice)).toBeProblem('AUTHORITY_UNAVAILABLE');
      const fields = { reason: 'the answer was 503' };
      const message = "the issuer's keys could not be fetched";
      expect(relay.logged).toContainEqual({ level: 'warn', fields, message });
      issuer.answer = undefined;
      relay.clock.move(10_000);
      expect((await enrolWithToken(hosted, alice)).status).toBe(200);
    });

    test('a stop ends the refresh', async () => {
      const { relay, issuer } = await hostedRelayForTest(adapter);
      // Timers of the same length that every relay has.
      const others = (await relayForTest(adapter)).timers.underWay(JWKS_REFRESH_MS);
      await expect.poll(() => relay.timers.underWay(JWKS_REFRESH_MS), { interval: 2 }).toBe(others + 1);
      issuer.fail();
      await relay.restart();
      await expect.poll(() => relay.timers.underWay(JWKS_FAILED_REFRESH_MS), { interval: 2 }).toBe(1);
      expect(relay.timers.underWay(JWKS_REFRESH_MS)).toBe(others);
      await relay.stop();
      expect(relay.timers.underWay(JWKS_FAILED_REFRESH_MS)).toBe(0);
    });
  });

  test('a relay whose authority is the host key has no deny route', async () => {
    const relay = await relayForTest(adapter);
    const { issuer } = await hostedRelayForTest(adapter);
    expect(await postDeny({ relay, issuer }, 'a.b.c')).toBeProblem('NOT_FOUND');
  });

  test('the token of another relay is for another relay', async () => {
    const hosted = await hostedRelayForTest(adapter, { issuer: { relayUrl: 'https://other.example' } });
    expect(await enrolWithToken(hosted, alice)).toBeProblem('ENROL_REFUSED');
    expect((await enrolWithToken(hosted, alice, { aud: 'https://other.example' })).status).toBe(200);
  });
});

function pull({ relay }: HostedRelay, host: TestHost): Promise<RawResponse> {
  return relay.send(relay.hop(host, 'GET', '/v2/relay/items'));
}

/** Pushes one item and answers its status. */
async function push(
  { relay }: HostedRelay,
  from: TestHost,
  to: TestHost,
  id: string,
  bytes = 0,
): Promise<string | undefined> {
  const { results } = await relay.client(from).push([itemTo([to], id, envelopeWire(id, bytes))]);
  return results[0]?.status;
}
