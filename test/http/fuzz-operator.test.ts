/**
 * Random requests, most of them nearly right, at what the operator alone reaches: the listener of health, metrics and
 * console, and the control socket. None may be answered with 5xx or end the relay.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { ASSET_FILES } from '../../src/http/browser-session/assets.ts';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import type { ControlRequests } from '../../src/relay/operator/documents.ts';
import { OPERATOR_OPERATIONS } from '../../src/relay/operator/operations.ts';
import { controlSocketPath } from '../../src/relay/operator/socket.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { enrolOf } from '../support/commands.ts';
import { type EnteredSession, adminPort, consoleToken, enterConsole, ownHost } from '../support/console-session.ts';
import { type FuzzedRequest, METHODS, mutated, sendRandom, toldOf, varied } from '../support/fuzzed-requests.ts';
import { SOUND_ROWS } from '../support/held-rows-check.ts';
import { type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, hostNamed } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH, TIMES, tried } from '../support/thorough.ts';

/** Each takes some ten times as long as one of the relay's listener. */
const TIMES_MAX = 20;
const REQUESTS = IS_THOROUGH ? 1200 * Math.min(TIMES, TIMES_MAX) : 160;
/** Streams do not end by themselves. */
const STREAM = '/console/live';
/** Hosts that are revoked, each maybe more than once. */
const DOOMED = Array.from({ length: 30 }, (_none, at) => hostNamed(`doomed-${at}`));
const HOSTS = [alice, bob, ...DOOMED.slice(0, 5)];

async function started(): Promise<HttpRelay> {
  const consoleFolder = await temporaryFolder();
  for (const file of ['page.html', ...ASSET_FILES]) await writeFile(join(consoleFolder, file), 'x');
  const relay = await relayForTest(FIRST_ADAPTER, {
    adminListen: { host: '127.0.0.1', port: 0 },
    consoleFolder,
    takeBackup: () => Promise.resolve({ name: 'backup', bytes: 1 }),
    startRowsCheck: () => ({
      progress: { stage: 'log', done: 1, of: 9 },
      done: Promise.resolve(SOUND_ROWS),
      stop: () => Promise.resolve(),
    }),
  });
  await relay.enrol(alice, bob);
  for (const host of DOOMED) await relay.relay.engine.admissions.enrol(enrolOf(host));
  await relay.client(alice).push([itemTo([bob], 'before-the-storm')]);
  return relay;
}

/** Mail goes on, the console shows it, and local commands are answered. */
async function expectServing(relay: HttpRelay): Promise<void> {
  expect(relay.errors).toEqual([]);
  const [eve, fay] = [hostNamed('eve'), hostNamed('fay')];
  await relay.enrol(eve, fay);
  const { results } = await relay.client(eve).push([itemTo([fay], 'after-the-storm')]);
  expect(results[0]?.status).toBe('accepted');
  const session = await enterConsole(relay);
  expect((await session.get('/overview')).status).toBe(200);
  expect((await session.get(`/hosts?search=fay`)).body.toString()).toContain(fay.key);
  expect(await new ControlClient(relay.folder).get('/v1/hosts/find?host=fay')).toMatchObject({
    host: { host_pubkey: fay.key, queue_items: 1 },
  });
}

describe('the listener of the operator', () => {
  test(`answers ${REQUESTS} random requests and serves on`, async () => {
    const relay = await started();
    const random = new SeededRandom(2);
    let session = await enterConsole(relay);
    // The relay keeps few tokens: each is made when the one before is used.
    let turn: Promise<unknown> = Promise.resolve();
    const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
      const done = turn.then(work);
      turn = done;
      return done;
    };
    const result = await sendRandom(REQUESTS, {
      // A session may have been left, or given way to others.
      next: async (number) => {
        if (number % 10 === 0) session = await inTurn(() => enterConsole(relay));
        const token = number % 10 === 5 ? await inTurn(() => consoleToken(relay)) : 'x';
        return operatorRequest(relay, { ...session, token }, random);
      },
      open: () => RawConnection.open(adminPort(relay)),
      // Every answer is held to the OpenAPI document besides.
      faultOf: ({ status, body }) => (status >= 500 ? `${status} ${body.toString('utf8', 0, 200)}` : undefined),
    });
    expect(result.faults).toEqual([]);
    for (const status of [200, 400, 401, 403, 404, 405]) expect([...result.statuses.keys()]).toContain(status);
    await expectServing(relay);
    tried(`${REQUESTS} random requests to the operator's listener, ${toldOf(result)}`);
  });
});

describe('the control socket', () => {
  test(`answers ${REQUESTS} random requests and serves on`, async () => {
    const relay = await started();
    const random = new SeededRandom(3);
    const result = await sendRandom(REQUESTS, {
      next: () => controlRequest(random),
      open: () => RawConnection.openUndocumented({ path: controlSocketPath(relay.folder) }),
      faultOf: faultOfControl,
    });
    expect(result.faults).toEqual([]);
    for (const status of [200, 400, 404, 405]) expect([...result.statuses.keys()]).toContain(status);
    await expectServing(relay);
    tried(`${REQUESTS} random requests to the control socket, ${toldOf(result)}`);
  });
});

const OPERATIONS = OPERATOR_OPERATIONS.filter(({ path }) => path !== STREAM);
const ID = 'a'.repeat(64);

function operatorRequest(
  relay: HttpRelay,
  { cookie, csrf, token }: Pick<EnteredSession, 'cookie' | 'csrf'> & { token: string },
  random: SeededRandom,
): FuzzedRequest {
  if (random.chance(0.02)) {
    const target = STREAM + random.pick(['', '?', '?x']);
    const headers = { host: ownHost(relay), cookie, 'x-poste-csrf': csrf };
    return { ...varied({ method: 'GET', target, headers, body: Buffer.alloc(0) }, random), isWhole: false };
  }
  const operation = random.pick(OPERATIONS);
  const method = random.chance(0.85) ? operation.method : random.pick(METHODS);
  const path = random.chance(0.97)
    ? operation.path
    : random.pick(['/', '/console/none', '/console//', '/consol', '/livez/']);
  const isConsole = path.startsWith('/console');
  const target = path + (isConsole && random.chance(0.6) ? random.pick(consoleQueries(random)) : '');
  const headers: Record<string, string> = { host: random.chance(0.95) ? ownHost(relay) : 'elsewhere.example' };
  if (random.chance(0.9)) headers['cookie'] = random.chance(0.95) ? cookie : `${cookie}x`;
  if (method === 'POST' && random.chance(0.95)) headers['origin'] = `http://${headers['host']}`;
  if (random.chance(0.95)) headers['x-poste-csrf'] = csrf;
  const isBodyless = method === 'GET' && random.chance(0.9);
  const body = isBodyless ? Buffer.alloc(0) : bodyOf(consoleDocuments(path, token, random), random);
  return varied({ method, target, headers, body }, random);
}

function consoleQueries(random: SeededRandom): string[] {
  const host = random.pick(HOSTS);
  const number = random.pick(['0', '1', String(random.below(100)), '-1', '1e9', '9007199254740993', 'x', '']);
  const key = random.pick([encodeURIComponent(host.key), host.name, '%', '%00', 'A']);
  return [
    `?lsn=${number}`,
    `?key=${key}`,
    `?since=${number}&until=${random.below(1e6)}`,
    `?search=${random.pick([host.name, '%25', '', 'x'.repeat(200), '%ff'])}&state=${random.pick(['live', 'x', ''])}`,
    `?sort=${random.pick(['name', 'bytes', 'x'])}&reverse=${random.pick(['yes', 'no', '1'])}&offset=${number}`,
    `?before=${number}&after=${number}&host=${key}&type=${random.pick(['ItemAccepted', 'HostRevoked', '<b>'])}`,
    `?item=${random.pick(['before-the-storm', 'x', '%0a'])}`,
    '?a=1&a=2',
    '?',
  ];
}

function consoleDocuments(path: string, token: string, random: SeededRandom): unknown[] {
  const doomed = random.pick(DOOMED);
  const own: Record<string, unknown[]> = {
    '/console/session': [{ token }, { token: 1 }],
    '/console/revoke': [
      { host_pubkey: doomed.key, confirm: doomed.name },
      { host_pubkey: doomed.key, confirm: alice.name },
      { host_pubkey: hostNamed('nobody').key, confirm: 'nobody' },
    ],
    '/console/invites': invites(random),
    '/console/invites/revoke': [{ id: ID }, { id: 'x' }],
  };
  return [...(own[path] ?? [{}]), ...(random.chance(0.2) ? oddDocuments(random) : [])];
}

/** Every request of the control socket and the bodies that it takes; the type says when one is missing. */
const CONTROL: { [request in keyof ControlRequests]: (random: SeededRandom) => unknown[] } = {
  'GET /v1/status': () => [{}],
  'GET /v1/hosts': () => [{}],
  'GET /v1/hosts/find': () => [{}],
  'POST /v1/hosts/revoke': (random) => [{ host: referenceOf(random.pick(DOOMED), random) }, { host: 1 }],
  'GET /v1/invites': () => [{}],
  'POST /v1/invites': invites,
  'POST /v1/verify': (random) => [{ cpu_percent: random.pick([100, 1, 0, 101, 1.5, 'x']) }],
  'POST /v1/epoch': () => [{}],
  'POST /v1/console': () => [{}],
  'GET /v1/backup': () => [{}],
};

function controlRequest(random: SeededRandom): FuzzedRequest {
  const request = random.pick(Object.keys(CONTROL)) as keyof ControlRequests;
  const [ownMethod = '', ownPath = ''] = request.split(' ');
  const method = random.chance(0.85) ? ownMethod : random.pick(METHODS);
  const path = random.chance(0.97) ? ownPath : random.pick(['/', '/v1', '/v1/hosts/', '/v2/relay/info', '//']);
  const reference = encodeURIComponent(referenceOf(random.pick(HOSTS), random));
  const query = random.pick(['', `?host=${reference}`, `?host=${reference}`, '?host=%', '?host=', '?', '?a=1&a=2']);
  const headers: Record<string, string> = random.chance(0.95) ? { host: 'localhost' } : { host: '' };
  const documents = [...CONTROL[request](random), ...(random.chance(0.2) ? oddDocuments(random) : [])];
  const isBodyless = method === 'GET' && random.chance(0.9);
  const body = isBodyless ? Buffer.alloc(0) : bodyOf(documents, random);
  return varied({ method, target: path + query, headers, body }, random);
}

function referenceOf(host: TestHost, random: SeededRandom): string {
  return random.pick([host.name, host.key, displayFingerprint(host.key), host.name.toUpperCase(), 'nobody', '\0', 'é']);
}

function invites(random: SeededRandom): unknown[] {
  return [
    { label: `label ${random.below(9)}`, lifetime_ms: 60_000 + random.below(1e6) },
    { label: random.pick(['\u0000', 'x'.repeat(101), '\ud800', '']), lifetime_ms: 60_000 },
    { label: 'x', lifetime_ms: random.pick([0, -1, 1.5, 1e300, null]) },
  ];
}

function oddDocuments(random: SeededRandom): unknown[] {
  return [null, [], 'x', 1e300, { ['__proto__']: 1 }, { a: 'x'.repeat(random.below(10_000)) }];
}

function bodyOf(documents: unknown[], random: SeededRandom): Buffer {
  if (random.chance(0.05)) return random.bytes(random.below(200));
  const bytes = Buffer.from(JSON.stringify(random.pick(documents)));
  return random.chance(0.1) ? mutated(bytes, random) : bytes;
}

/** Judges answers that no document describes: their type, and that lists and problems are what they must be. */
function faultOfControl({ status, headers, body }: RawResponse): string | undefined {
  const type = headers.get('content-type');
  if (!headers.has('x-request-id')) return status === 400 || status === 431 ? undefined : `${status} by nobody`;
  if (status >= 500) return `${status} ${body.toString('utf8', 0, 200)}`;
  if (status === 200) {
    if (type === 'application/octet-stream') return undefined;
    if (type !== 'application/json' && type !== 'application/x-ndjson') return `200 of type ${type}`;
    for (const line of body.toString().split('\n').filter(Boolean)) JSON.parse(line);
    return undefined;
  }
  if (type !== 'application/problem+json') return `${status} that is no problem`;
  if (body.length === 0) return undefined;
  const { code, status: said } = JSON.parse(body.toString()) as { code: unknown; status: unknown };
  return said === status && /^[A-Z_]+$/.test(String(code)) ? undefined : `${status} with ${String(code)}`;
}
