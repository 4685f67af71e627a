/**
 * Tests what requests cost the processor of a relay: none of a stranger more than five times an honest one of its size.
 *
 * Measured in this process, clients included, as the medians of runs that take turns: what else the machine does is no
 * processor time of this process. The clock stands still, so that no budget fills up again.
 */
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Checkpoint, openCheckpoint, signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { KnownItems } from '../../src/relay/store/known-items.ts';
import type { ItemToPush } from '../../src/host/relay/relay-forms.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { askChallenge, enrolBody, postJson } from '../support/enrolments.ts';
import { type HttpRelay, enrolledRelay, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import type { RawResponse } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';

const TIMES_AT_MOST = 5;
const RUNS = 3;
const BATCH = 200;
/** Requests that cost little are measured so many at a time. */
const AT_ONCE = 20;
/** As many keys as a host may have. */
const KEYS = 64;

type Work = () => Promise<unknown>;

let made = 0;

function newItems(target: TestHost): ItemToPush[] {
  return Array.from({ length: BATCH }, () => itemTo([target], `item-${made++}`));
}

async function push(relay: HttpRelay, from: TestHost, items: ItemToPush[]): Promise<void> {
  const { results } = await relay.client(from).push(items);
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['accepted']));
}

async function rotate(relay: HttpRelay, from: TestHost, to: TestHost, status = 200): Promise<void> {
  expect((await postJson(relay, '/v2/relay/rotate', rotationBody(from, to))).status).toBe(status);
}

/** In milliseconds of processor time. */
async function costOf(work: Work): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function costsOf(...works: readonly Work[]): Promise<number[]> {
  const measured = works.map((): number[] => []);
  // The first turn is cold.
  for (let turn = 0; turn <= RUNS; turn++)
    for (const [at, work] of works.entries()) {
      const cost = await costOf(work);
      if (turn > 0) measured[at]!.push(cost);
    }
  return measured.map((costs) => costs.toSorted((a, b) => a - b)[RUNS >> 1]!);
}

/** Returns how many times the processor of the honest work the dearest of the others takes. */
async function timesOf(honest: Work, ...others: readonly Work[]): Promise<number> {
  const [usual = 0, ...costs] = await costsOf(honest, ...others);
  return Math.max(...costs) / usual;
}

/** Many requests, each answered with this status. */
function repeated(send: () => Promise<RawResponse>, status: number): Work {
  return async () => {
    for (let count = 0; count < AT_ONCE; count++) expect((await send()).status).toBe(status);
  };
}

function info(relay: HttpRelay, host: TestHost): Work {
  return repeated(() => relay.send(relay.hop(host, 'GET', '/v2/relay/info')), 200);
}

/** A relay where `alice` and `bob` are enrolled, and a host that had as many keys as it may: it pushed under each. */
async function relayOfManyKeys(): Promise<{ relay: HttpRelay; host: TestHost }> {
  const relay = await relayForTest(FIRST_ADAPTER, { limits: { max_sender_items: 4_000 } });
  let host = hostNamed('many-0');
  await relay.enrol(alice, bob, host);
  for (let key = 1; key <= KEYS; key++) {
    await push(relay, host, [itemTo([host], `under-${key}`)]);
    const next = hostNamed(`many-${key}`);
    if (key === KEYS) break;
    await rotate(relay, host, next);
    host = next;
  }
  return { relay, host };
}

test('a push of a host that had 64 keys, to itself, costs about as much as another, after a start too', async () => {
  const { relay, host } = await relayOfManyKeys();
  const ofAnother = () => push(relay, alice, newItems(bob));
  expect(await timesOf(ofAnother, () => push(relay, host, newItems(host)))).toBeLessThan(TIMES_AT_MOST);
  for (const rows of ['read', 'unread']) {
    if (rows === 'unread') {
      const fill = vi.spyOn(KnownItems.prototype, 'fill').mockResolvedValue();
      onTestFinished(() => fill.mockRestore());
    }
    await relay.restart();
    const pushed = new Set<string>();
    const times = await timesOf(ofAnother, async () => {
      const { results } = await relay.client(host).push(newItems(host));
      for (const { status } of results) pushed.add(status);
    });
    // What is looked for costs; the rest of a request waits for the next one.
    expect(pushed, `rows of before are ${rows}`).toEqual(new Set(['accepted', 'rejected:quota:places']));
    expect(times, `rows of before are ${rows}`).toBeLessThan(TIMES_AT_MOST);
  }
});

test('a page that is replayed is refused, and acks that release nothing are cheap', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], { pushesPerMinute: 20 });
  for (let batch = 0; batch < 3; batch++) await push(relay, alice, newItems(bob));
  const hop = relay.hop(bob, 'GET', '/v2/relay/items?after=0');
  let served = 0;
  while ((await relay.send(hop)).status === 200) served++;
  // The first time, and what the budget of a minute pays for.
  expect(served).toBe(1 + 3);
  const body = JSON.stringify({ epoch: relay.epoch, through: 0 });
  const ack = (host: TestHost) => () => relay.send(relay.hop(host, 'POST', '/v2/relay/ack', body));
  expect(
    await timesOf(
      info(relay, alice),
      repeated(() => relay.send(hop), 429),
    ),
  ).toBeLessThan(TIMES_AT_MOST);
  const acked = ack(alice);
  let charged = 0;
  while ((await acked()).status === 200) charged++;
  expect(charged).toBe(200);
  expect(await timesOf(info(relay, alice), repeated(acked, 429))).toBeLessThan(TIMES_AT_MOST);
});

test('a rotation costs about as much as the items that it moves did, and the next one is refused', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], { pushesPerMinute: 200 });
  const moved = 2_000;
  const pushed = await costOf(async () => {
    for (let count = 0; count < moved / BATCH; count++) await push(relay, alice, newItems(bob));
  });
  const rotated = await costOf(() => rotate(relay, bob, carol));
  // Pushes write runs, and a rotation reads a row of each item: 0.4 to 0.65 of what they took.
  expect(rotated).toBeLessThan(1.5 * pushed);
  expect(
    await timesOf(
      info(relay, alice),
      repeated(() => postJson(relay, '/v2/relay/rotate', rotationBody(carol, hostNamed('refused'))), 429),
    ),
  ).toBeLessThan(TIMES_AT_MOST);
});

test('floods of challenges and enrolments, and reads of the log, cost as much as other requests', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], { enrolRate: AT_ONCE });
  await push(relay, alice, newItems(bob));
  await push(relay, alice, [itemTo([bob], 'proven')]);
  while ((await askChallenge(relay, carol)).status === 200);
  while ((await postJson(relay, '/v1/relay/enrol', enrolBody(carol, 'none'))).status !== 429);
  const proof = `/v2/relay/log/proof?item_id=proven&target=${encodeURIComponent(bob.key)}`;
  const { epoch, rootHash, size } = openCheckpoint(
    relay.relay.engine.log.checkpoint() ?? '',
    relayHost.key,
  ) as Checkpoint;
  const note = signCheckpoint({ epoch, size: size + 1, rootHash }, alice.signer);
  const forged = JSON.stringify({ note, older: note });
  const logOf = (host: TestHost, method: string, target: string, body?: string) => () =>
    relay.send(relay.hop(host, method, `/v2/relay/log/${target}`, body));
  expect(
    await timesOf(
      info(relay, alice),
      repeated(() => askChallenge(relay, carol), 429),
      repeated(() => postJson(relay, '/v1/relay/enrol', enrolBody(carol, 'none')), 429),
      repeated(() => relay.send(relay.hop(alice, 'GET', proof)), 200),
      // Each as often as a host may.
      repeated(logOf(alice, 'GET', `consistency?from=${size - 100}&to=${size}`), 200),
      repeated(logOf(bob, 'POST', 'checkpoint', forged), 400),
    ),
  ).toBeLessThan(TIMES_AT_MOST);
});
