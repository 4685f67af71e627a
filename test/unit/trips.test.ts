/**
 * Counts how far one push, pull, page of the console and message travel through the sources: the files and functions
 * that really run, by the coverage of V8. A change that makes a way longer raises its bound here and says why; the end
 * of a run prints what was counted.
 */
import { randomBytes } from 'node:crypto';
import { Session, type Profiler } from 'node:inspector/promises';
import { afterAll, beforeAll, expect, test, type TestContext } from 'vitest';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { alice, bob } from '../support/hosts.ts';
import { hopBytes } from '../support/hops.ts';
import { itemTo } from '../support/mail.ts';
import { rawRequest } from '../support/raw-http.ts';
import { sendMail } from '../../src/host/mail/send.ts';
import type { AgentId } from '../../src/host/core/rows.ts';
import { until, usedRelayWorld } from '../support/relay-world.ts';
import { relayForTest } from '../support/http-relay.ts';
import { enterConsole } from '../support/console-session.ts';

const RELAY = /\/src\/(?<path>(?:relay|http|protocol|lib)\/.*\.ts)/;
const HOST = /\/src\/(?<path>(?:host|protocol|lib)\/.*\.ts)/;

const session = new Session();

beforeAll(async () => {
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
});

afterAll(async () => {
  await session.post('Profiler.stopPreciseCoverage');
  session.disconnect();
});

/** The functions that ran since the last call, by the path of their file. */
async function ranSince(sources: RegExp): Promise<Map<string, Profiler.FunctionCoverage[]>> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = result.map(({ url, functions }): [string | undefined, Profiler.FunctionCoverage[]] => [
    sources.exec(url)?.groups?.['path'],
    functions.filter(({ functionName, ranges }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0),
  ]);
  return new Map(files.flatMap(([path, ran]) => (path === undefined || ran.length === 0 ? [] : [[path, ran]])));
}

/** The files that one walk of the way runs through. Everything is warm: each way was walked before. */
async function filesOf({ task }: TestContext, sources: RegExp, walk: () => Promise<unknown>): Promise<string[]> {
  await ranSince(sources);
  await walk();
  const ran = await ranSince(sources);
  const functions = [...ran.values()].reduce((sum, all) => sum + all.length, 0);
  task.meta.counted = `${task.name}: ${ran.size} files, ${functions} functions`;
  return [...ran.keys()];
}

/** A relay in use, and the requests of a push and a pull as bytes: a client of ours would count as the relay. */
async function relayInUse() {
  const relay = await relayForTest(FIRST_ADAPTER, { adminListen: { host: '127.0.0.1', port: 0 } });
  await relay.enrol(alice, bob);
  const push = (): Buffer => {
    const items = [itemTo([bob], randomBytes(6).toString('hex'))];
    return hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', JSON.stringify({ items })));
  };
  const pull = (): Buffer => hopBytes(relay.hop(bob, 'GET', '/v2/relay/items?after=0'));
  const answer = async (request: Buffer): Promise<void> => {
    expect(await rawRequest(relay.port, request)).toMatchObject({ status: 200 });
  };
  for (let round = 0; round < 2; round++) {
    await answer(push());
    await answer(pull());
  }
  return { relay, push, pull, answer };
}

test('a push, at the relay', async (context) => {
  const { push, answer } = await relayInUse();
  const request = push();
  expect((await filesOf(context, RELAY, () => answer(request))).length).toBeLessThanOrEqual(63);
});

test('a pull, at the relay', async (context) => {
  const { pull, answer } = await relayInUse();
  const request = pull();
  // Which caller was here longest ago is a rule that a file of its own has, for all that keep the recent ones.
  expect((await filesOf(context, RELAY, () => answer(request))).length).toBeLessThanOrEqual(35);
});

test('a page of the log on the console', async (context) => {
  const { relay } = await relayInUse();
  const page = await enterConsole(relay);
  await page.get('/log');
  expect((await filesOf(context, RELAY, () => page.get('/log'))).length).toBeLessThanOrEqual(29);
});

test('a message from host to host over a relay, at both hosts', async (context) => {
  const { alice: north, bob: south } = await usedRelayWorld();
  const send = (body: string): Promise<unknown> =>
    sendMail(north.context, 'agent-anna' as AgentId, { to: ['bert@bob'], subject: 'Hello', body });
  const arrived = (count: number): Promise<void> =>
    until(async () => expect(await south.mailOf('bert')).toHaveLength(count));
  await send('one');
  await arrived(1);
  const files = await filesOf(context, HOST, async () => {
    await send('two');
    await arrived(2);
  });
  // A turn of a periodic task may fall into it. Beside the states of an outbox row are its states at relays, and what
  // can be read of it, of which both are made. What each host has seen of the relay goes along, sealed. What the relay
  // took is noted, to be looked for in its log. Each relay is used by itself, its health is noted, and a peer is at
  // some of them; what left for which relay is read from the row. The relay of this process uses `lib` too. The lane
  // is chosen, as with one relay.
  expect(files.length).toBeLessThanOrEqual(67);
});
