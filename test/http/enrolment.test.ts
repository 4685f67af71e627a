import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Challenges } from '../../src/relay/auth/challenges.ts';
import { askChallenge, enrolBody, enrolHost, openChallenge, postJson, sendEnrol } from '../support/enrolments.ts';
import { ANY_ADAPTER, FIRST_ADAPTER } from '../support/adapters.ts';
import { SMALL_ORDER_ENCODINGS } from '../support/edwards25519.ts';
import { type HttpRelay, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';

const MINUTE_MS = 60_000;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  test('a challenge is 32 random bytes, names the relay and says when it ends', async () => {
    const relay = suite.current;
    const answer = jsonOf(await askChallenge(relay, alice));
    expect(answer).toEqual({
      challenge: expect.any(String) as unknown,
      relay_pubkey: relayHost.key,
      expires_at: relay.clock.nowMs() + 5 * MINUTE_MS,
    });
    const bytes = Buffer.from(answer['challenge'] as string, 'base64');
    expect(bytes.toString('base64')).toBe(answer['challenge']);
    expect(bytes).toHaveLength(32);
    expect(jsonOf(await askChallenge(relay, alice))['challenge']).not.toBe(answer['challenge']);
  });

  test('an enrolment answers with exactly its record', async () => {
    const relay = suite.current;
    const response = await enrolHost(relay, alice);
    expect(response.status).toBe(200);
    expect(jsonOf(response)).toEqual({
      host: 'alice',
      host_pubkey: alice.key,
      enrolled_at: relay.clock.nowMs(),
      authorized_by: 'host-key',
      account: null,
      crowded: false,
      epoch: relay.epoch,
    });
  });

  describe('enrolment rule 1: a host enrols with the signature of its key over a challenge, and no other way', () => {
    test('not without a challenge', async () => {
      const relay = suite.current;
      const guess = Buffer.alloc(32, 7).toString('base64');
      expect(await sendEnrol(relay, enrolBody(bob, guess))).toBeProblem('NO_CHALLENGE');
      expect(relay.relay.engine.directory.get(bob.key)).toBeUndefined();
    });

    test('not with a bearer token', async () => {
      const relay = suite.current;
      const bearer = { authorization: 'Bearer aGVsbG8=' };
      const { sig: _sig, ...unsigned } = enrolBody(bob, await openChallenge(relay, bob));
      expect(await sendEnrol(relay, unsigned, bearer)).toBeProblem('BAD_REQUEST');
      expect(relay.relay.engine.directory.get(bob.key)).toBeUndefined();
    });

    test.each<[string, Parameters<typeof enrolBody>[2]]>([
      ['by another key', { signer: carol }],
      ['over another challenge', { signed: { challenge: Buffer.alloc(32).toString('base64') } }],
      ['for another relay', { signed: { relay_pubkey: carol.key } }],
      ['for another name', { signed: { host: 'eve' } }],
      ['for the name in other letters', { signed: { host: 'Bob' } }],
      ['for another key', { signed: { pubkey: carol.key } }],
      ['for another owner', { signed: { owner_fp: 'owner-2' } }],
      ['over a document of another type', { signed: { type: 'relay-accept' } }],
      ['over a document of another version', { signed: { v: 2 } }],
      ['over a document with another member', { signed: { more: 1 } }],
      ['that is not one', { sent: { sig: Buffer.alloc(64).toString('base64') } }],
      ['of 88 characters that are not base64', { sent: { sig: '!'.repeat(88) } }],
    ])('not with a signature %s', async (what, changes) => {
      const relay = suite.current;
      const stranger = { ...hostNamed(`stranger ${what}`), name: bob.name };
      const challenge = await openChallenge(relay, stranger);
      expect(await sendEnrol(relay, enrolBody(stranger, challenge, changes))).toBeProblem('BAD_SIGNATURE');
      expect(relay.relay.engine.directory.get(stranger.key)).toBeUndefined();
      // The failed attempt has not used the challenge up.
      expect((await sendEnrol(relay, enrolBody(stranger, challenge))).status).toBe(200);
    });
  });

  describe('enrolment rule 2', () => {
    test('enrolment rule 2: a challenge is used at most once', async () => {
      const relay = suite.current;
      const body = enrolBody(carol, await openChallenge(relay, carol));
      expect((await sendEnrol(relay, body)).status).toBe(200);
      expect(await sendEnrol(relay, body)).toBeProblem('NO_CHALLENGE');
      await openChallenge(relay, carol);
      expect(await sendEnrol(relay, body)).toBeProblem('BAD_SIGNATURE');
    });

    test('enrolment rule 2: of two enrolments at once with one challenge, one passes', async () => {
      const relay = suite.current;
      const body = enrolBody(carol, await openChallenge(relay, carol));
      const answers = await Promise.all([sendEnrol(relay, body), sendEnrol(relay, body), sendEnrol(relay, body)]);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      expect(answers.filter(({ status }) => status === 401)).toHaveLength(2);
    });

    test('enrolment rule 2: a restart voids open challenges and nothing else; the client asks again', async () => {
      const relay = suite.current;
      const body = enrolBody(carol, await openChallenge(relay, carol));
      await relay.restart();
      expect(await sendEnrol(relay, body)).toBeProblem('NO_CHALLENGE');
      expect((await enrolHost(relay, carol)).status).toBe(200);
    });
  });

  describe('enrolment rule 3', () => {
    test.each(['/v1/relay/challenge', '/v1/relay/enrol'])(
      'enrolment rule 3: a body of %s over 8 KiB is refused, one of 8 KiB is read',
      async (path) => {
        const relay = suite.current;
        const body = '{}'.padEnd(8192);
        expect(await rawRequest(relay.port, requestBytes('POST', path, {}, body))).toBeProblem('BAD_REQUEST');
        const over = await rawRequest(relay.port, requestBytes('POST', path, {}, `${body} `));
        expect(over).toBeProblem('BODY_TOO_LARGE');
        expect(over.headers.get('connection')).toBe('close');
      },
    );

    test('enrolment rule 3: at the cap the oldest that made no hop in 24 hours lapses', async () => {
      const relay = await enrolledRelay(adapter, [alice], { enrolmentsMax: 2 });
      expect((await enrolHost(relay, bob)).status).toBe(200);
      relay.clock.move(24 * 60 * MINUTE_MS - 1);
      expect(await enrolHost(relay, carol)).toBeProblem('ENROLMENTS_FULL');
      relay.clock.move(1);
      expect((await enrolHost(relay, carol)).status).toBe(200);
      expect(await relay.send(relay.hop(bob, 'GET', '/v2/relay/items'))).toBeProblem('NOT_ENROLLED');
      expect((await relay.send(relay.hop(alice, 'GET', '/v2/relay/items'))).status).toBe(200);
    });
  });

  describe('enrolment rule 4', () => {
    test.each(['a', 'A9', 'a.b-c_d', 'x'.repeat(63)])('enrolment rule 4: the host name %s is one', async (host) => {
      expect(await enrolAs(suite.current, hostNamed(`named ${host}`), { host })).toBe('enrolled');
    });

    test.each(['', '-a', 'a-', '.a', 'a.', '_', 'a b', 'a@b', 'a:b', 'ä', 'a\n', 'x'.repeat(64), 5, null, ['a']])(
      'enrolment rule 4: the host name %j is none',
      async (host) => {
        expect(await enrolAs(suite.current, dave, { host })).toBe('BAD_REQUEST');
      },
    );

    test.each(['', 'SHA256:+/=@._-', 'x'.repeat(64)])('enrolment rule 4: the owner_fp %j is safe', async (owner_fp) => {
      expect(await enrolAs(suite.current, carol, { owner_fp })).toBe('enrolled');
    });

    test.each(['x'.repeat(65), 'a b', '<b>', 'ä', '\u0000', '"', 7, null])(
      'enrolment rule 4: the owner_fp %j is not',
      async (owner_fp) => {
        expect(await enrolAs(suite.current, dave, { owner_fp })).toBe('BAD_REQUEST');
      },
    );

    const bytes31 = Buffer.alloc(31, 1).toString('base64');
    const bytes33 = Buffer.alloc(33, 1).toString('base64');
    test.each([bytes31, bytes33, '', alice.key.slice(0, 43), ` ${alice.key.slice(1)}`, 5, null, {}])(
      'enrolment rule 4: %j is no key, neither at challenge nor at enrol',
      async (pubkey) => {
        const relay = suite.current;
        expect(await postJson(relay, '/v1/relay/challenge', { pubkey })).toBeProblem('BAD_REQUEST');
        expect(await enrolAs(suite.current, dave, { pubkey })).toBe('BAD_REQUEST');
      },
    );

    // The encodings of small-order points, a point off the curve, one with torsion.
    test.each([
      ...SMALL_ORDER_ENCODINGS.map(({ hex }) => hex),
      '0200000000000000000000000000000000000000000000000000000000000000',
      'cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d',
    ])('enrolment rule 4: the key %s is refused at challenge and at enrol', async (hex) => {
      const relay = suite.current;
      const pubkey = Buffer.from(hex, 'hex').toString('base64');
      const refused = await postJson(relay, '/v1/relay/challenge', { pubkey });
      expect(refused).toBeProblem('ENROL_REFUSED', { reason: 'bad key' });
      const body = enrolBody(dave, Buffer.alloc(32).toString('base64'), { sent: { pubkey } });
      expect(await sendEnrol(relay, body)).toBeProblem('ENROL_REFUSED');
    });
  });

  test('enrolment rule 6: without another authority the host-key challenge admits, and proves no account', async () => {
    const relay = suite.current;
    const answer = jsonOf(await enrolHost(relay, bob));
    expect(answer).toMatchObject({ authorized_by: 'host-key', account: null });
    const proven = jsonOf(await enrolHost(relay, bob, { sent: { proof: { account: 'acme' } } }));
    expect(proven).toMatchObject({ authorized_by: 'host-key', account: null });
  });
});

/** Returns what enrolling `host` with other claims, rightly signed, is answered with. */
async function enrolAs(relay: HttpRelay, host: TestHost, claims: Record<string, unknown>): Promise<unknown> {
  const response = await enrolHost(relay, host, { signed: claims, sent: claims });
  return response.status === 200 ? 'enrolled' : jsonOf(response)['code'];
}

/** Carol's request for a challenge. */
function challengeOfCarol(): Buffer {
  return requestBytes('POST', '/v1/relay/challenge', {}, JSON.stringify({ pubkey: carol.key }));
}

// One server is enough for what neither of them counts.
test('enrolment rule 2: at most 10,000 are open in all', async () => {
  const issue = vi.spyOn(Challenges.prototype, 'issue');
  onTestFinished(() => issue.mockRestore());
  const relay = await enrolledRelay(FIRST_ADAPTER, [carol]);
  issue.mockClear();
  expect((await rawRequest(relay.port, challengeOfCarol())).status).toBe(200);
  const [challenges] = issue.mock.contexts as Challenges[];
  // As if as many other clients had asked, without so many requests.
  const others = Array.from({ length: 9_999 }, (_none, client) => challenges?.issue(carol.key, `client ${client}`));
  expect(others).not.toContain(undefined);
  const refused = await rawRequest(relay.port, challengeOfCarol());
  expect(refused).toBeProblem('CHALLENGES_FULL');
  expect(refused.headers.get('retry-after')).toBe('300');
  relay.clock.move(5 * MINUTE_MS);
  expect((await rawRequest(relay.port, challengeOfCarol())).status).toBe(200);
});
