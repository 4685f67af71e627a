/** Rates: pushes by sender key, challenge and enrol by client address; and who the client is behind a proxy. */
import { describe, expect, test } from 'vitest';
import { canonicalBytes, encKeyAdvertisement, senderList } from '../../src/protocol/documents.ts';
import { PUBLICATIONS_PER_HOUR, WORK_OF_REQUEST, WORK_PER_PUSH } from '../../src/protocol/limits.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { revokeOf } from '../support/commands.ts';
import { askChallenge, enrolBody, postJson } from '../support/enrolments.ts';
import { type HttpRelay, enrolledRelay, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { rotationBody } from '../support/rotations.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const CHALLENGE = '/v1/relay/challenge';
const ENROL = '/v1/relay/enrol';

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('pushes per minute are counted by sender key, whatever they hold', async () => {
    const relay = await relayForTest(adapter, { pushesPerMinute: 3 });
    const namesake = { ...hostNamed('another alice'), name: alice.name };
    await relay.enrol(alice, bob, namesake);
    expect([await pushOf(relay, alice, []), await pushOf(relay, alice, ['m1', 'm2'])]).toEqual([200, 200]);
    expect([await pushOf(relay, alice, ['m1']), await pushOf(relay, alice, ['m3'])]).toEqual([200, 429]);
    // Another key is counted apart, also under the same name.
    expect([await pushOf(relay, bob, ['b1']), await pushOf(relay, namesake, ['n1'])]).toEqual([200, 200]);
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).toEqual(['m1', 'm2', 'b1', 'n1']);
  });

  test('a refused push stores nothing and says how long to wait, and that long is long enough', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 3 });
    for (const id of ['m1', 'm2', 'm3']) await pushOf(relay, alice, [id]);
    const lsn = await relay.lastLsn();
    const body = JSON.stringify({ items: [itemTo([bob], 'm4')] });
    const refused = await relay.send(relay.hop(alice, 'POST', '/v2/relay/items', body));
    expect(refused).toBeProblem('RATE_LIMITED');
    expect(await relay.lastLsn()).toBe(lsn);
    const retryAfterS = Number(refused.headers.get('retry-after'));
    expect(retryAfterS).toBeGreaterThan(0);
    expect(retryAfterS).toBeLessThanOrEqual(20);
    relay.clock.move(retryAfterS * 1000);
    expect(await pushOf(relay, alice, ['m4'])).toBe(200);
    expect(await pushOf(relay, alice, ['m5'])).toBe(429);
  });

  test('sender lists and encryption keys count by the hour, each by host key, apart from pushes', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 1 });
    const lsn = await relay.lastLsn();
    for (let count = 0; count < PUBLICATIONS_PER_HOUR; count++) {
      const iat = relay.clock.nowMs() + count;
      expect((await publishSenders(relay, alice, iat)).status).toBe(200);
      expect((await publishEncKey(relay, alice, iat)).status).toBe(200);
    }
    const later = relay.clock.nowMs() + PUBLICATIONS_PER_HOUR;
    for (const refused of [await publishSenders(relay, alice, later), await publishEncKey(relay, alice, later)]) {
      expect(refused).toBeProblem('RATE_LIMITED');
      const retryAfterS = Number(refused.headers.get('retry-after'));
      expect(retryAfterS).toBeGreaterThan(50);
      expect(retryAfterS).toBeLessThanOrEqual(60);
    }
    expect((await publishSenders(relay, bob, later)).status).toBe(200);
    expect(await pushOf(relay, alice, ['m1'])).toBe(200);
    relay.clock.move(60_000);
    expect((await publishSenders(relay, alice, later)).status).toBe(200);
    // One for each that was taken, and none for those that were refused.
    expect((await relay.lastLsn()) - lsn).toBe(2 * PUBLICATIONS_PER_HOUR + 2);
  });

  test('what is new to a host costs it nothing, and what is asked again is counted for all of its keys', async () => {
    const relay = await relayForTest(adapter, { pushesPerMinute: 10 });
    const work = 10 * WORK_PER_PUSH;
    await relay.enrol(alice, bob, carol);
    expect(await pushOf(relay, alice, numbered(40))).toBe(200);
    let after = 0;
    for (let count = 0; count < 40; count++) {
      const { last_seq } = await relay.client(bob).pull({ after, limit: 1 });
      after = (await relay.client(bob).ack(relay.epoch, last_seq)).acked_through;
    }
    const empty = (host: TestHost): Promise<number> => statusOfPull(relay, host, after);
    for (let count = 0; count < work / WORK_OF_REQUEST; count++) expect(await empty(bob)).toBe(200);
    const body = JSON.stringify({ epoch: relay.epoch, through: after });
    const refused = await relay.send(relay.hop(bob, 'POST', '/v2/relay/ack', body));
    expect(refused).toBeProblem('RATE_LIMITED');
    expect(Number(refused.headers.get('retry-after'))).toBe(1);
    expect([await empty(bob), await empty(carol)]).toEqual([429, 200]);
    // What is new is handed over all the same, once.
    expect(await pushOf(relay, alice, ['new'])).toBe(200);
    expect([await empty(bob), await empty(bob)]).toEqual([200, 429]);
    expect((await postJson(relay, '/v2/relay/rotate', rotationBody(bob, dave))).status).toBe(429);
    relay.clock.move(1000);
    expect((await postJson(relay, '/v2/relay/rotate', rotationBody(bob, dave))).status).toBe(200);
    const { last_seq: moved } = await relay.client(dave).pull({});
    relay.clock.move(1000);
    for (let count = 0; count < 2; count++) await relay.client(dave).pull({ after: moved });
    expect(await statusOfPull(relay, dave, moved)).toBe(429);
  });

  test('a page that is replayed is charged by its items and bytes, before they are read', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 10 });
    expect(await pushOf(relay, alice, numbered(50), 40_000)).toBe(200);
    const replayed = relay.hop(bob, 'GET', '/v2/relay/items?after=0&limit=50');
    const statuses: number[] = [];
    for (let count = 0; count < 5; count++) statuses.push((await relay.send(replayed)).status);
    // Two million bytes: the second time costs half of the budget.
    expect(statuses).toEqual([200, 200, 429, 429, 429]);
    relay.clock.move(60_000);
    expect((await relay.send({ ...replayed, timestamp: relay.clock.nowMs() })).status).toBe(200);
  });

  test('a page that is refused costs no more than a request that gets nothing', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 2 });
    expect(await pushOf(relay, alice, numbered(50), 40_000)).toBe(200);
    expect(await statusOfPull(relay, bob, 0)).toBe(200);
    const replayed = relay.hop(bob, 'GET', '/v2/relay/items?after=0&limit=50');
    expect((await relay.send(replayed)).status).toBe(200);
    // The host waits as long as it is told, and is handed the page then.
    for (let turn = 0; turn < 2; turn++) {
      let reply = await relay.send({ ...replayed, timestamp: relay.clock.nowMs() });
      for (let refusals = 0; reply.status === 429 && refusals < 5; refusals++) {
        relay.clock.move(Number(reply.headers.get('retry-after')) * 1000);
        reply = await relay.send({ ...replayed, timestamp: relay.clock.nowMs() });
      }
      expect(reply.status).toBe(200);
    }
  });

  test('a rotation that is refused is charged nothing', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol], { pushesPerMinute: 1 });
    await relay.relay.engine.admissions.revokeHost(revokeOf(carol));
    expect(await pushOf(relay, alice, numbered(30))).toBe(200);
    for (let turn = 0; turn < 3; turn++)
      expect(await postJson(relay, '/v2/relay/rotate', rotationBody(bob, carol))).toBeProblem('ENROL_REFUSED');
    expect((await postJson(relay, '/v2/relay/rotate', rotationBody(bob, dave))).status).toBe(200);
  });

  test('replays at once are charged as replays one after the other are', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { pushesPerMinute: 10 });
    expect(await pushOf(relay, alice, numbered(50), 40_000)).toBe(200);
    const replayed = relay.hop(bob, 'GET', '/v2/relay/items?after=0&limit=50');
    const replies = await Promise.all(numbered(20).map(() => relay.send(replayed)));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(2);
  });

  test('a rotation is charged for what it moves, to the host and to the address', async () => {
    const relay = await relayForTest(adapter, { pushesPerMinute: 1 });
    const keys = [bob, carol, dave];
    await relay.enrol(alice, bob);
    expect(await pushOf(relay, alice, numbered(30))).toBe(200);
    const rotate = async (turn: number) =>
      postJson(relay, '/v2/relay/rotate', rotationBody(keys[turn]!, keys[turn + 1]!));
    // A queue that is dearer than a whole minute moves too, when nothing else is owed.
    expect((await rotate(0)).status).toBe(200);
    const refused = await rotate(1);
    expect(refused).toBeProblem('RATE_LIMITED');
    expect(relay.relay.engine.presentKey(bob.key)).toBe(carol.key);
    relay.clock.move(Number(refused.headers.get('retry-after')) * 1000);
    expect((await rotate(1)).status).toBe(200);
  });

  test('a host owes for places of its former keys at which its items must be looked for', async () => {
    const relay = await relayForTest(adapter, { pushesPerMinute: 2 });
    let host = hostNamed('places-0');
    await relay.enrol(host);
    const push = (ids: readonly string[]): Promise<number> => pushOf(relay, host, ids, 0, host);
    for (let turn = 1; turn <= 5; turn++) {
      relay.clock.move(60_000);
      expect(await push([`under-${turn}`])).toBe(200);
      const next = hostNamed(`places-${turn}`);
      const iat = relay.clock.nowMs();
      expect((await postJson(relay, '/v2/relay/rotate', rotationBody(host, next, { rec: { iat } }))).status).toBe(200);
      host = next;
    }
    // Of what was pushed before the start it is not known under which of the keys.
    await relay.restart();
    expect(await push(numbered(200))).toBe(200);
    expect(await push(['one-more'])).toBe(429);
    relay.clock.move(60_000);
    expect(await push(['one-more'])).toBe(200);
  });

  test('enrolment rule 3: challenge and enrol are limited for a client address, each apart', async () => {
    const relay = await relayForTest(adapter, { enrolRate: 2 });
    expect(await statusesFrom(relay, CHALLENGE, [{}, {}, {}])).toEqual([200, 200, 429]);
    expect(await statusesFrom(relay, ENROL, [{}, {}, {}])).toEqual([400, 400, 429]);
    // For any key: the address is what counts.
    expect(await askChallenge(relay, carol)).toBeProblem('RATE_LIMITED');
    relay.clock.move(30_000);
    expect(await statusesFrom(relay, CHALLENGE, [{}, {}])).toEqual([200, 429]);
    relay.clock.move(60_000);
    expect(await statusesFrom(relay, CHALLENGE, [{}, {}, {}])).toEqual([200, 200, 429]);
  });

  test('without trust in a proxy its headers say nothing', async () => {
    const relay = await relayForTest(adapter, { enrolRate: 1 });
    const headers = ['1.1.1.1', '2.2.2.2'].flatMap((address) => [
      { 'x-forwarded-for': address },
      { 'cf-connecting-ip': address },
    ]);
    expect(await statusesFrom(relay, CHALLENGE, headers)).toEqual([200, 429, 429, 429]);
  });

  test('enrolment rule 3: behind a proxy the rightmost entry of the forwarded-for header is the client', async () => {
    const relay = await relayForTest(adapter, { enrolRate: 1, trustProxy: 'xff' });
    expect(await statusesFrom(relay, CHALLENGE, [from('1.1.1.1'), from('2.2.2.2'), from('1.1.1.1')])).toEqual([
      200, 200, 429,
    ]);
    // What stands to the left is the client's own word.
    const lies = [from('9.9.9.9, 1.1.1.1'), from('8.8.8.8,1.1.1.1'), from(' 7.7.7.7 ,  1.1.1.1 ')];
    expect(await statusesFrom(relay, CHALLENGE, lies)).toEqual([429, 429, 429]);
    // A proxy may append a line instead of an entry.
    expect(await statusesFrom(relay, CHALLENGE, [from('3.3.3.3', '1.1.1.1'), from('1.1.1.1', '3.3.3.3')])).toEqual([
      429, 200,
    ]);
    // The other proxy's header is not looked at.
    expect(await statusesFrom(relay, CHALLENGE, [{ ...from('1.1.1.1'), 'cf-connecting-ip': '6.6.6.6' }])).toEqual([
      429,
    ]);
  });

  test('behind Cloudflare its own header names the client', async () => {
    const relay = await relayForTest(adapter, { enrolRate: 1, trustProxy: 'cloudflare' });
    const headers = [
      { 'cf-connecting-ip': '1.1.1.1', 'x-forwarded-for': '5.5.5.5' },
      { 'cf-connecting-ip': '1.1.1.1', 'x-forwarded-for': '6.6.6.6' },
      { 'cf-connecting-ip': '2.2.2.2', 'x-forwarded-for': '5.5.5.5' },
    ];
    expect(await statusesFrom(relay, CHALLENGE, headers)).toEqual([200, 429, 200]);
  });

  test('challenges of one key are bounded per client address: a stranger cannot push out the host', async () => {
    const relay = await relayForTest(adapter, { trustProxy: 'xff' });
    const own = jsonOf(await askChallenge(relay, carol, { 'x-forwarded-for': '1.1.1.1' }))['challenge'];
    for (let count = 0; count < 20; count++) await askChallenge(relay, carol, { 'x-forwarded-for': '2.2.2.2' });
    const response = await postJson(relay, ENROL, enrolBody(carol, own as string));
    expect(response.status).toBe(200);
  });
});

/** The forwarded-for header in up to two lines. */
function from(...lines: string[]): Record<string, string> {
  return Object.fromEntries(lines.map((line, at) => [at === 0 ? 'x-forwarded-for' : 'X-Forwarded-For', line]));
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_none, at) => `n-${at}`);
}

async function statusOfPull(relay: HttpRelay, host: TestHost, after: number): Promise<number> {
  return (await relay.send(relay.hop(host, 'GET', `/v2/relay/items?after=${after}`))).status;
}

async function pushOf(
  relay: HttpRelay,
  from: TestHost,
  ids: readonly string[],
  bytes = 0,
  to: TestHost = bob,
): Promise<number> {
  const body = JSON.stringify({ items: ids.map((id) => itemTo([to], id, envelopeWire(id, bytes))) });
  return (await relay.send(relay.hop(from, 'POST', '/v2/relay/items', body))).status;
}

/** The statuses of requests with these headers, one after the other. */
async function statusesFrom(
  relay: HttpRelay,
  path: string,
  headers: readonly Readonly<Record<string, string>>[],
): Promise<number[]> {
  const responses: RawResponse[] = [];
  for (const one of headers)
    responses.push(await postJson(relay, path, path === CHALLENGE ? { pubkey: bob.key } : {}, one));
  return responses.map(({ status }) => status);
}

function publishSenders(relay: HttpRelay, host: TestHost, iat: number): Promise<RawResponse> {
  const list = senderList({ host_pubkey: host.key, senders: [carol.key], iat });
  const body = JSON.stringify({ list, sig: host.signer.sign(canonicalBytes(list)) });
  return relay.send(relay.hop(host, 'POST', '/v2/relay/senders', body));
}

function publishEncKey(relay: HttpRelay, host: TestHost, at: number): Promise<RawResponse> {
  const encPub = Buffer.alloc(32, 7).toString('base64');
  const document = encKeyAdvertisement({ host_pubkey: host.key, enc_pub: encPub, at });
  const body = JSON.stringify({ enc_pub: encPub, at, sig: host.signer.sign(canonicalBytes(document)) });
  return relay.send(relay.hop(host, 'POST', '/v1/relay/enc-key', body));
}
