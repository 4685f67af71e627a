/**
 * Random requests, most of them nearly right, at the listener that paired hosts call: signed by a paired host, by a
 * stranger, and not at all. None may be answered with 5xx or end the listener.
 */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { TSchema } from 'typebox';
import { lanHopHeaders } from '../../../../src/host/lan/lan-hop.ts';
import { wireOf } from '../../../../src/host/outbox/outbox.ts';
import { encKeyDocument } from '../../../../src/host/peers/identity.ts';
import { setAddress } from '../../../../src/host/peers/peers.ts';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import { LAN_ROUTES, LanAgents, LanDone, LanHello, LanItemsAnswer, LanPairing } from '../../../../src/protocol/lan.ts';
import { PROBLEMS, type ProblemCode } from '../../../../src/protocol/problem.ts';
import { parserOf } from '../../../../src/protocol/schemas.ts';
import { type FuzzedRequest, METHODS, mutated, sendRandom, toldOf, varied } from '../../../support/fuzzed-requests.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { type LanHost, inviteAt, outboxRowsOf, pairedLanHosts } from '../../../support/lan-hosts.ts';
import { hop, keyOf, signerOf } from '../../../support/lan-requests.ts';
import { accepted, addAgents, send } from '../../../support/mail-context.ts';
import { RawConnection, type RawResponse } from '../../../support/raw-http.ts';
import { rotationBody } from '../../../support/rotations.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { IS_THOROUGH, TIMES, tried } from '../../../support/thorough.ts';

/** Each takes some ten times as long as one of the relay's listener. */
const TIMES_MAX = 20;
const REQUESTS = IS_THOROUGH ? 1200 * Math.min(TIMES, TIMES_MAX) : 200;
/** Strangers have 60 requests in a minute, and all of these come from one address. */
const REQUESTS_A_MINUTE = 50;

interface Item {
  kind: string;
  item_id: string;
  wire_b64: string;
}

interface LanFuzzedRequest extends FuzzedRequest {
  method: string;
  path: string;
}

const OPERATIONS: readonly (readonly [method: 'GET' | 'POST', path: string, answer: TSchema])[] = [
  ['GET', LAN_ROUTES.hello, LanHello],
  ['POST', LAN_ROUTES.pair, LanPairing],
  ['POST', LAN_ROUTES.items, LanItemsAnswer],
  ['GET', LAN_ROUTES.agents, LanAgents],
  ['POST', LAN_ROUTES.agents, LanDone],
  ['POST', LAN_ROUTES.rotate, LanDone],
  ['POST', LAN_ROUTES.encKey, LanDone],
];
const answers = new Map(OPERATIONS.map(([method, path, answer]) => [`${method} ${path}`, parserOf(answer)]));

test(`the listener answers ${REQUESTS} random requests and serves on`, async () => {
  const [here, there] = await pairedLanHosts();
  await addAgents(here.context, ['eve']);
  await addAgents(there.context, ['bob']);
  const [last, ...items] = await sealedItems(there, here);
  const random = new SeededRandom(4);
  const result = await sendRandom<LanFuzzedRequest>(REQUESTS, {
    next: async (number) => {
      if (number % REQUESTS_A_MINUTE === 0) here.clock.aheadMs += 60_000;
      // A code is good for a while and for a few attempts.
      if (number % 100 === 1) await inviteAt(here);
      return randomRequest(here, there, items, random);
    },
    open: () => RawConnection.openUndocumented({ host: '127.0.0.1', port: here.lan.port ?? 0 }),
    faultOf,
  });
  expect(result.faults).toEqual([]);
  for (const status of [200, 400, 401, 403, 404, 405, 413]) expect([...result.statuses.keys()]).toContain(status);
  here.clock.aheadMs += 60_000;
  const asked = { signer: signerOf(there), called: keyOf(here), nowMs: here.context.nowMs() };
  const taken = await hop(here, { ...asked, method: 'POST', target: LAN_ROUTES.items, body: { items: [last] } });
  expect(taken).toMatchObject({ status: 200, document: { results: [{ status: 'accepted' }] } });
  tried(`${REQUESTS} random requests to a host's listener, ${toldOf(result)}`);
});

/** Mail of `from` for `to` that waits in the outbox, as it would go out. */
async function sealedItems(from: LanHost, to: LanHost): Promise<Item[]> {
  await setAddress(from.context, 'here', '127.0.0.1:1');
  for (const subject of ['one', 'two', 'three', 'four']) {
    accepted(await send(from.context, 'bob', { to: [`eve@${to.context.identity().hostName}`], subject }));
  }
  const rows = await outboxRowsOf(from);
  return from.context.store.read((reader) =>
    rows.map(({ kind, itemId, rowId }) => ({
      kind,
      item_id: itemId,
      wire_b64: wireOf(reader, rowId).toString('base64'),
    })),
  );
}

const stranger = signerFromSeed(randomBytes(32));

function randomRequest(here: LanHost, there: LanHost, items: readonly Item[], random: SeededRandom): LanFuzzedRequest {
  const [ownMethod, ownPath] = random.pick(OPERATIONS);
  const method = random.chance(0.9) ? ownMethod : random.pick(METHODS);
  const path = random.chance(0.97) ? ownPath : random.pick(['/', '/v1/lan', '/v1/lan/hello/', '/v2/relay/info']);
  const target = path + (random.chance(0.3) ? random.pick(queries(here, random)) : '');
  const isBodyless = method === 'GET' && random.chance(0.9);
  const body = isBodyless ? Buffer.alloc(0) : bodyOf(documents(ownPath, there, items, random), random);
  const headers: Record<string, string> = { host: 'x' };
  if (random.chance(0.85)) {
    const signer = random.chance(0.8) ? signerOf(there) : stranger;
    const called = random.chance(0.97) ? keyOf(here) : alice.key;
    const nowMs = here.context.nowMs() - random.pick([0, 0, 0, 0, 0, 0, 0, 0, 0, 400_000]);
    // What is signed is not always what is sent, and a body that is no text never is. A nonce may come again.
    const text = random.chance(0.97) ? body.toString() : 'other';
    const nonce = random.chance(0.02) ? 'A'.repeat(22) : random.bytes(16).toString('base64url');
    Object.assign(headers, lanHopHeaders({ signer, hostName: 'there', nowMs }, called, method, target, text, nonce));
  }
  return { ...varied({ method, target, headers, body }, random), method, path };
}

function queries({ lan }: LanHost, random: SeededRandom): string[] {
  const nonce = random.bytes(random.pick([16, 16, 16, 3, 60])).toString('base64url');
  const address = random.pick([`127.0.0.1%3A${lan.port}`, '10.0.0.1%3A1', 'x', '%', '[::1]:1']);
  return [`?nonce=${nonce}&address=${address}`, `?nonce=${nonce}`, `?address=${address}`, '?', '?all', '?a#b'];
}

/** Returns what the route takes, right and wrong. */
function documents(path: string, there: LanHost, items: readonly Item[], random: SeededRandom): unknown[] {
  const identity = there.context.identity();
  const encKey = encKeyDocument(identity);
  const item = random.pick(items);
  const garbage = { kind: 'envelope', item_id: `fuzz-${random.below(40)}`, wire_b64: 'e30=' };
  const { hostName, signer } = identity;
  const word = { host: hostName, pubkey: signer.publicKey, enc_key: encKey, port: 9, mac: `${'A'.repeat(43)}=` };
  const own: Record<string, unknown[]> = {
    [LAN_ROUTES.pair]: [
      word,
      { ...word, address: random.pick(['x', '10.0.0.1:1', ':']) },
      { ...word, pubkey: bob.key },
    ],
    [LAN_ROUTES.items]: [
      { items: [item] },
      { items: [item, garbage, { ...item, wire_b64: garbage.wire_b64 }] },
      { items: [garbage, { ...garbage, kind: 'receipt' }, { ...garbage, kind: 'x' }, null, 1] },
      { items: Array.from({ length: random.below(300) }, () => random.pick([null, 1, 'x', {}, []])) },
    ],
    [LAN_ROUTES.agents]: [
      { agents: [{ name: 'bob', roles: [] }] },
      { agents: Array.from({ length: random.below(50) }, (_none, at) => ({ name: `agent-${at}`, roles: ['r'] })) },
      { agents: [{ name: random.pick(['', 'x'.repeat(500), '\u0000', 'BOB']), roles: [] }] },
    ],
    [LAN_ROUTES.rotate]: [
      rotationBody(alice, bob),
      rotationBody(alice, bob, { sent: { iat: random.pick([0, -1, 'x', 1e300]) } }),
      { rotation: { ...rotationBody(alice, bob).rotation, old_sig: 'A' } },
    ],
    [LAN_ROUTES.encKey]: [encKey, { ...encKey, at: random.pick([0, -1, 'x', encKey.at + 1]) }, { ...encKey, sig: 'A' }],
  };
  return own[path] && random.chance(0.9) ? own[path] : [...Object.values(own).flat(), null, [], 'x', {}];
}

function bodyOf(choices: unknown[], random: SeededRandom): Buffer {
  if (random.chance(0.05)) return random.bytes(random.below(200));
  const bytes = Buffer.from(JSON.stringify(random.pick(choices)));
  return random.chance(0.1) ? mutated(bytes, random) : bytes;
}

/** Returns what is wrong with an answer; `undefined` when nothing is. */
function faultOf(
  { status, headers, body }: RawResponse,
  { isWhole, method, path }: LanFuzzedRequest,
): string | undefined {
  const type = headers.get('content-type');
  // What node:http cannot read it refuses in its own words.
  if (type === undefined) return status === 400 || status === 431 ? undefined : `${status} by nobody`;
  const text = body.toString();
  if (status === 200) {
    if (type !== 'application/json') return `200 of type ${type}`;
    // Which route an altered request meant cannot be told.
    return !isWhole || answers.get(`${method} ${path}`)?.(JSON.parse(text))
      ? undefined
      : `an answer of no form ${text}`;
  }
  if (type !== 'application/problem+json') return `${status} that is no problem`;
  if (body.length === 0) return undefined;
  const { code, status: said, detail } = JSON.parse(text) as { code: ProblemCode; status: number; detail: string };
  // An altered length can ask for more room than one address has.
  if (status >= 500 && detail !== 'too many bodies at once') return `${status} ${text}`;
  return PROBLEMS[code]?.status === status && said === status ? undefined : `${status} with ${code}`;
}
