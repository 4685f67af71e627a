/** The signed hop: docs/protocol.md, "The signed hop", line by line. */
import { describe, expect, test } from 'vitest';
import { BODY_DEADLINE_MS } from '../../src/http/framing.ts';
import { revokeOf } from '../support/commands.ts';
import { ADAPTERS, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { type Signed, hopBytes, sha256 } from '../support/hops.ts';
import { alice, bob, carol, dave } from '../support/hosts.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';

/** The order of the group: S and S + L are the same number in it. */
const GROUP_ORDER = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
const SKEW_MAX_MS = 300_000;
const PULL = '/v2/relay/items';

describe.each(ADAPTERS)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  /** A pull of bob's with some of its hop wrong. */
  const pull = async (
    signed: Signed = {},
    headers: Readonly<Record<string, string | undefined>> = {},
    target = PULL,
  ): Promise<RawResponse> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(bob.key)) await relay.enrol(alice, bob);
    return relay.send(relay.hop(bob, 'GET', target), signed, headers);
  };

  test('a good hop passes', async () => {
    expect((await pull()).status).toBe(200);
  });

  test('a host that is revoked while its body comes in is not enrolled', async () => {
    const relay = await enrolledRelay(adapter, [alice]);
    const bytes = hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', '{"items":[]}'));
    const connection = await RawConnection.open(relay.port);
    connection.send(bytes.subarray(0, -1));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    await relay.relay.engine.admissions.revokeHost(revokeOf(alice));
    const response = await connection.send(bytes.subarray(-1)).response('POST');
    connection.close();
    expect(response).toBeProblem('NOT_ENROLLED');
  });

  test('hop line 1: the tag is mail-hop-v2', async () => {
    for (const tag of ['mail-hop-v1', 'mail-hop-lan', 'MAIL-HOP-V2', '', 'mail-hop-v2\n']) {
      expect(await pull({ tag })).toBeProblem('BAD_SIGNATURE');
    }
  });

  test('hop line 2: the method is signed, in upper case', async () => {
    for (const method of ['POST', 'get', '']) expect(await pull({ method })).toBeProblem('BAD_SIGNATURE');
  });

  test('hop line 3: the path is signed', async () => {
    for (const target of ['/v2/relay/ack', '/v1/relay/items', '/v2/relay/items/', '/V2/relay/items', '']) {
      expect(await pull({ target })).toBeProblem('BAD_SIGNATURE');
    }
  });

  test('hop line 3: `?` without a query differs from none', async () => {
    expect((await pull({}, {}, `${PULL}?`)).status).toBe(200);
    expect(await pull({ target: PULL }, {}, `${PULL}?`)).toBeProblem('BAD_SIGNATURE');
    expect(await pull({ target: `${PULL}?` }, {}, PULL)).toBeProblem('BAD_SIGNATURE');
  });

  test.each([
    ['after=0&limit=5', 'limit=5&after=0'],
    ['after=0', '%61fter=0'],
    ['epoch=%41', 'epoch=A'],
    ['x=%2f', 'x=%2F'],
    ['x=a+b', 'x=a%20b'],
    ['after=0', 'after=0&'],
    ['after=0', 'after=0?'],
    ['after=0', ''],
    ['after=0', 'after=00'],
  ])('hop line 3: the query is signed byte for byte: %s is not %s', async (sent, signed) => {
    const target = `${PULL}?${sent}`;
    expect(await pull({ target: `${PULL}?${signed}` }, {}, target)).toBeProblem('BAD_SIGNATURE');
    expect((await pull({}, {}, target)).status).not.toBe(401);
  });

  test('hop line 3: a path is not decoded, so an encoded one is no route', async () => {
    expect(await pull({}, {}, '/v2/relay/%69tems')).toBeProblem('NOT_FOUND');
    expect(await pull({}, {}, '/v2/relay/./items')).toBeProblem('NOT_FOUND');
    expect(await pull({}, {}, '/v2//relay/items')).toBeProblem('NOT_FOUND');
    expect(await pull({}, {}, '/v2/relay/items/')).toBeProblem('NOT_FOUND');
  });

  test('hop line 3: behind a path prefix the path is signed from /v2 on', async () => {
    const target = `/mail/relay${PULL}?after=0`;
    expect((await pull({ target: `${PULL}?after=0` }, {}, target)).status).toBe(200);
    expect(await pull({ target }, {}, target)).toBeProblem('BAD_SIGNATURE');
    // A query that looks like a path is none.
    expect(await pull({}, {}, '/nowhere?/v2/relay/items')).toBeProblem('NOT_FOUND');
  });

  test('hop line 4: the timestamp is signed as sent', async () => {
    const nowMs = suite.current.clock.nowMs();
    expect(await pull({ timestamp: String(nowMs + 1) })).toBeProblem('BAD_SIGNATURE');
    expect(await pull({ timestamp: '' })).toBeProblem('BAD_SIGNATURE');
  });

  test('hop line 5: the body hash is signed', async () => {
    const relay = suite.current;
    await pull();
    const body = JSON.stringify({ epoch: relay.epoch, through: 0 });
    const ack = relay.hop(bob, 'POST', '/v2/relay/ack', body);
    expect((await relay.send(ack)).status).toBe(200);
    for (const bodyHash of [sha256(''), sha256(`${body} `), sha256(body).toUpperCase(), body, '']) {
      expect(await relay.send(ack, { bodyHash })).toBeProblem('BAD_SIGNATURE');
    }
    const other = relay.hop(bob, 'POST', '/v2/relay/ack', body.replace('0}', '1}'));
    expect(await relay.send(other, { bodyHash: sha256(body) })).toBeProblem('BAD_SIGNATURE');
  });

  test('hop line 5: the body of a GET is covered too', async () => {
    const relay = suite.current;
    await pull();
    const hop = relay.hop(bob, 'GET', PULL, 'a body that nobody asked for');
    expect((await relay.send(hop)).status).toBe(200);
    expect(await relay.send(hop, { bodyHash: sha256('') })).toBeProblem('BAD_SIGNATURE');
  });

  test('hop line 6: a hop for another relay is none for this one', async () => {
    expect(await pull({ relayPubkey: carol.key })).toBeProblem('BAD_SIGNATURE');
    expect(await pull({ relayPubkey: '' })).toBeProblem('BAD_SIGNATURE');
  });

  test.each([-SKEW_MAX_MS, -1, 1, SKEW_MAX_MS])('a clock that is %d ms off is near enough', async (offMs) => {
    await pull();
    const relay = suite.current;
    const hop = { ...relay.hop(bob, 'GET', PULL), timestamp: relay.clock.nowMs() + offMs };
    expect((await relay.send(hop)).status).toBe(200);
  });

  test.each([-SKEW_MAX_MS - 1, SKEW_MAX_MS + 1, -1e12, 9e15])(
    'a clock that is %d ms off is CLOCK_SKEW, with the time of the relay',
    async (offMs) => {
      await pull();
      const relay = suite.current;
      const nowMs = relay.clock.nowMs();
      const timestamp = Math.min(nowMs + offMs, Number.MAX_SAFE_INTEGER);
      const response = await relay.send({ ...relay.hop(bob, 'GET', PULL), timestamp });
      expect(response).toBeProblem('CLOCK_SKEW', { now: nowMs });
    },
  );

  test('a timestamp is plain decimal milliseconds', async () => {
    await pull();
    const relay = suite.current;
    const now = String(relay.clock.nowMs());
    const others = [
      `0${now}`,
      `+${now}`,
      `${now}.0`,
      `${now}e0`,
      `0x${relay.clock.nowMs().toString(16)}`,
      '-1',
      '',
      'x',
    ];
    for (const timestamp of [...others, '99999999999999999999', `${now}, ${now}`]) {
      expect(await relay.send({ ...relay.hop(bob, 'GET', PULL), timestamp })).toBeProblem('BAD_SIGNATURE');
    }
    expect(await pull({}, { 'x-mail-ts': undefined })).toBeProblem('BAD_SIGNATURE');
  });

  test('x-mail-host decides nothing beside x-mail-key', async () => {
    for (const name of [alice.name, 'nobody', 'BOB', '!', '', undefined]) {
      expect((await pull({}, { 'x-mail-host': name })).status).toBe(200);
    }
  });

  test('a v2 route without x-mail-key is NOT_ENROLLED, whatever x-mail-host says', async () => {
    const detail = 'not enrolled';
    expect(await pull({}, { 'x-mail-key': undefined })).toBeProblem('NOT_ENROLLED', { detail });
    expect(await pull({ tag: 'mail-hop-v1' }, { 'x-mail-key': undefined })).toBeProblem('NOT_ENROLLED');
  });

  test('a key that is not enrolled is NOT_ENROLLED', async () => {
    const relay = suite.current;
    const response = await relay.send(relay.hop(dave, 'GET', PULL));
    expect(response).toBeProblem('NOT_ENROLLED', { detail: 'not enrolled' });
  });

  test('the key of another enrolled host is BAD_SIGNATURE', async () => {
    expect(await pull({}, { 'x-mail-key': alice.key })).toBeProblem('BAD_SIGNATURE');
  });

  test('a malformed x-mail-key is BAD_SIGNATURE', async () => {
    const urlSafe = bob.key.replaceAll('/', '_').replaceAll('+', '-');
    const keys = ['', 'x', bob.key.slice(0, 43), `${bob.key}=`, `${bob.key.slice(0, 42)}x=`, '='.repeat(44)];
    for (const key of [...keys, ...(urlSafe === bob.key ? [] : [urlSafe])]) {
      expect(await pull({}, { 'x-mail-key': key })).toBeProblem('BAD_SIGNATURE');
    }
  });

  test('a missing, malformed, foreign or malleable signature is BAD_SIGNATURE', async () => {
    await pull();
    const relay = suite.current;
    const hop = relay.hop(bob, 'GET', PULL);
    const message = ['mail-hop-v2', 'GET', PULL, String(hop.timestamp), sha256(''), hop.relayPubkey].join('\n');
    const good = bob.signer.sign(Buffer.from(message));
    expect((await pull({}, { 'x-mail-sig': good })).status).toBe(200);
    const foreign = alice.signer.sign(Buffer.from(message));
    const zeros = Buffer.alloc(64).toString('base64');
    const bad = [
      undefined,
      '',
      good.slice(0, 87),
      `${good.slice(0, 84)}====`,
      good.slice(2),
      foreign,
      zeros,
      withOrderAdded(good),
    ];
    for (const signature of bad) expect(await pull({}, { 'x-mail-sig': signature })).toBeProblem('BAD_SIGNATURE');
  });

  test('names of headers may be in any case', async () => {
    await pull();
    const relay = suite.current;
    const hop = relay.hop(bob, 'GET', PULL);
    const message = ['mail-hop-v2', 'GET', PULL, String(hop.timestamp), sha256(''), hop.relayPubkey].join('\n');
    const shouted = { 'X-MAIL-SIG': bob.signer.sign(Buffer.from(message)), 'x-mail-sig': undefined };
    expect((await pull({}, shouted)).status).toBe(200);
  });

  test.each<[string, Signed, Record<string, string | undefined>]>([
    ['no key', {}, { 'x-mail-key': undefined }],
    ['a malformed key', {}, { 'x-mail-key': 'x' }],
    ['the key of another', {}, { 'x-mail-key': alice.key }],
    ['an unknown key', {}, { 'x-mail-key': dave.key }],
    ['no time', {}, { 'x-mail-ts': undefined }],
    ['an old time', { timestamp: '1' }, { 'x-mail-ts': '1' }],
    ['no signature', {}, { 'x-mail-sig': undefined }],
    ['a signature of something else', { target: PULL }, {}],
    ['a signature for another relay', { relayPubkey: carol.key }, {}],
  ])('info never fails because of its hop: with %s there is no `you`', async (_what, signed, headers) => {
    const good = await pull({}, {}, '/v2/relay/info');
    expect(jsonOf(good)['you']).toMatchObject({ host: 'bob', pubkey: bob.key });
    const response = await pull(signed, headers, '/v2/relay/info');
    expect(response.status).toBe(200);
    const { you: _you, ...rest } = jsonOf(good);
    expect(jsonOf(response)).toEqual(rest);
  });

  test('the key of another, with a good signature of one’s own over it, opens nothing', async () => {
    const relay = suite.current;
    await pull();
    const asAlice = relay.hop({ ...alice, signer: bob.signer }, 'GET', PULL);
    expect(await relay.send(asAlice)).toBeProblem('BAD_SIGNATURE');
    const asBob = await relay.send(relay.hop({ ...bob, name: alice.name }, 'GET', '/v2/relay/info'));
    expect(jsonOf(asBob)['you']).toMatchObject({ host: 'bob' });
  });
});

/** The same signature with S + L in place of S: lenient verifiers take it. */
function withOrderAdded(signature: string): string {
  const bytes = Buffer.from(signature, 'base64');
  const s = BigInt(`0x${Buffer.from(bytes.subarray(32).toReversed()).toString('hex')}`) + GROUP_ORDER;
  bytes.set(Buffer.from(s.toString(16).padStart(64, '0'), 'hex').toReversed(), 32);
  return bytes.toString('base64');
}
