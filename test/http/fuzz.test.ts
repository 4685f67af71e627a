/** Thousands of random requests, most of them nearly right. None may be answered with 5xx or end the relay. */
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { PROBLEMS, type ProblemCode } from '../../src/protocol/problem.ts';
import { RELAY_OPERATIONS } from '../../src/relay/http/operations.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { type Signed, hopBytes, hopHeaders, hopV1Headers } from '../support/hops.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import {
  type FuzzedRequest,
  METHODS,
  mutated,
  sendRandom,
  toldOf,
  varied,
  withLength,
} from '../support/fuzzed-requests.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { IS_THOROUGH, TIMES, tried } from '../support/thorough.ts';

/** As many as it takes until every kind of event is in the log. */
const REQUESTS = IS_THOROUGH ? 4800 * TIMES : 600;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test(`the relay answers ${REQUESTS} random requests and serves on`, async () => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol, ROTATING[0]!], { limits: { max_queue_items: 50 } });
    await relay.client(alice).push([itemTo([ROTATING[0]!], 'before-the-storm')]);
    const random = new SeededRandom(1);
    const result = await sendRandom(REQUESTS, {
      next: () => randomRequest(relay, random),
      open: () => RawConnection.open(relay.port),
      faultOf,
    });
    const { statuses, faults } = result;

    expect(faults).toEqual([]);
    expect(relay.errors).toEqual([]);
    // The fuzz reached every depth.
    for (const status of [200, 400, 401, 404, 405, 411, 413]) expect([...statuses.keys()]).toContain(status);

    const queue = await relay.queue(bob);
    await relay.client(bob).ack(relay.epoch, (await relay.client(bob).ownInfo()).you?.head_seq ?? 0);
    const { results } = await relay.client(alice).push([itemTo([bob], 'after-the-storm')]);
    expect(results[0]?.status).toBe('accepted');
    const { items } = await relay.client(bob).pull();
    expect(items.map(({ item_id }) => item_id)).toEqual(['after-the-storm']);
    // Nothing is in the queue that the log does not know, and the log can be read from end to end.
    await relay.stop();
    const { events } = await relay.stored();
    const accepted = events.flatMap((event) =>
      event.type === 'ItemAccepted' ? event.targets.map(({ seq }) => seq) : [],
    );
    expect(accepted).toEqual(expect.arrayContaining(queue.map(({ seq }) => seq)));
    const types = new Set(events.map(({ type }) => type));
    for (const type of [
      'ItemAccepted',
      'ItemsAcked',
      'KeyRotated',
      'ItemsMoved',
      'SendersPublished',
      'EncKeyPublished',
    ] as const)
      expect([...types]).toContain(type);
    await relay.start();
    tried(`${REQUESTS} random requests (${adapter}), ${toldOf(result)}`);
  });
});

/** Every route of hosts, and one that is none. */
const TARGETS = [...new Set(RELAY_OPERATIONS.map(({ path }) => path)), '/'];
const QUERIES = [
  '',
  '',
  '?',
  '?after=0',
  '?after=-1',
  '?limit=1&wait=0',
  '?epoch=x',
  '?host=bob',
  `?key=${encodeURIComponent(bob.key)}`,
  '?after=9e9',
  '?%',
  '?a#b',
] as const;
/** The bytes of a request that is right, or was before something happened to it, or twice, or not. */
function randomRequest(relay: HttpRelay, random: SeededRandom): FuzzedRequest {
  // Most routes take POST, and another method seldom comes further than the routes.
  const method = random.chance(0.4) ? 'POST' : random.pick(METHODS);
  const path = random.pick(TARGETS);
  const publisher = path === '/v2/relay/senders' ? carol : bob;
  if (random.chance(0.1)) {
    const ownBody = Buffer.from(JSON.stringify(randomDocument(relay, random, path, true)));
    const right = hopBytes(relay.hop(random.pick([publisher, alice]), 'POST', path, ownBody));
    const head = right.subarray(0, right.indexOf('\r\n\r\n') + 4);
    // The length is right more often than not; without one, or with too large a one, there is no body either.
    const length = random.pick(['right', 'right', 'right', 'right', 'right', 'right', 'none', '99999999']);
    return { bytes: length === 'right' ? right : withLength(head, length === 'none' ? '' : length), isWhole: true };
  }
  const target = path + random.pick(QUERIES);
  const body = method === 'GET' && random.chance(0.8) ? Buffer.alloc(0) : randomBody(relay, random, path);
  const host = random.chance(0.3) ? publisher : random.pick([alice, alice, bob, carol, dave]);
  const wrong: Signed = random.chance(0.1) ? { target: '/elsewhere' } : {};
  const hop = { ...relay.hop(host, method, target), body };
  const headers: Record<string, string> = random.chance(0.85)
    ? random.chance(0.1)
      ? hopV1Headers(hop)
      : hopHeaders(hop, wrong)
    : {};
  return varied({ method, target, headers, body }, random);
}

/** Hosts that rotate into one another; the first is enrolled. */
const ROTATING = Array.from({ length: 5 }, (_none, at) => hostNamed(`rotating-${at}`));
const FIRST_ROTATING = Array.from({ length: 7 }, () => ROTATING[0]!);

function randomBody(relay: HttpRelay, random: SeededRandom, path: string): Buffer {
  if (random.chance(0.1)) return random.bytes(random.below(200));
  const bytes = Buffer.from(JSON.stringify(randomDocument(relay, random, path, random.chance(0.6))));
  return random.chance(0.2) ? mutated(bytes, random) : bytes;
}

/** Returns what the route at `path` takes, if `isOwn` and it takes anything; otherwise what any route takes. */
function randomDocument(relay: HttpRelay, random: SeededRandom, path: string, isOwn: boolean): unknown {
  const id = `fuzz-${random.below(40)}`;
  const seq = relay.relay.engine.head(bob.key).headSeq;
  const at = relay.clock.nowMs() + random.below(1000);
  const items: (() => unknown)[] = [
    () => ({ items: [itemTo([bob], id, envelopeWire(id, random.below(2000)))] }),
    () => ({ items: [itemTo([bob, carol], id), itemTo([dave], id), itemTo([bob, bob], id)] }),
    () => ({ items: [itemTo([alice], receiptId(id, 'a@bob', 1), receiptWire(bob, id, 'a@bob', 1))] }),
    () => ({ items: [itemTo([random.pick(ROTATING)], id)] }),
    () => ({ items: Array.from({ length: random.below(300) }, () => random.pick([null, 1, 'x', {}, []])) }),
  ];
  const acks = [() => ({ epoch: relay.epoch, through: random.pick([0, seq, seq + 1, -1, 1.5]) })];
  const challenges = [() => ({ pubkey: random.pick([alice.key, dave.key, 'x', Buffer.alloc(32).toString('base64')]) })];
  const enrolments = [() => ({ host: 'x', pubkey: dave.key, owner_fp: '', sig: dave.signer.sign(Buffer.from(id)) })];
  const rotations = [
    // From the one that is enrolled more often than not: the others become so by it alone.
    () => rotationBody(random.pick([...FIRST_ROTATING, ...ROTATING]), random.pick(ROTATING), { rec: { iat: at } }),
    () =>
      rotationBody(random.pick(ROTATING), random.pick(ROTATING), { sent: { iat: random.pick([0, -1, 'x', 1e300]) } }),
  ];
  const lists = [
    () => signed(carol, 'list', { v: 1, type: 'relay-senders', host_pubkey: carol.key, senders: [alice.key], iat: at }),
    () => signed(carol, 'list', { v: 1, type: 'relay-senders', host_pubkey: carol.key, senders: [id, null], iat: at }),
  ];
  const advertisements = [
    () => {
      const advertised = { enc_pub: random.bytes(32).toString('base64'), at };
      const { sig } = signed(bob, 'of', { v: 1, type: 'relay-enc-key', host_pubkey: bob.key, ...advertised });
      return { ...advertised, sig };
    },
  ];
  const envelopes = [
    () => ({ envelopes: [{ ...(JSON.parse(envelopeWire(id).toString()) as object), to_host: 'bob' }] }),
    () => ({ envelopes: [null, { id }, { id, to_host: random.pick(['bob', 'nobody', 'BOB', '', 1]), sealed: {} }] }),
  ];
  const cursors = [() => ({ cursor: random.pick(['', 'x', `${relay.epoch}.0`, `${relay.epoch}.${seq}`]) })];
  const ofRoute: Partial<Record<string, (() => unknown)[]>> = {
    '/v1/relay/challenge': challenges,
    '/v1/relay/enrol': enrolments,
    '/v2/relay/items': items,
    '/v2/relay/ack': acks,
    '/v2/relay/rotate': rotations,
    '/v2/relay/senders': lists,
    '/v1/relay/enc-key': advertisements,
    '/v1/relay/messages': envelopes,
    '/v1/relay/ack': cursors,
  };
  const own = isOwn ? ofRoute[path] : undefined;
  return random.pick(own ?? Object.values(ofRoute).flatMap((all) => all ?? []))();
}

/** A document of `host` with the signature beside it, as `name`. */
function signed(host: TestHost, name: string, document: Record<string, unknown>): Record<string, unknown> {
  return { [name]: document, sig: host.signer.sign(Buffer.from(canonicalize(document))) };
}

/** Returns what is wrong with an answer; `undefined` when nothing is. */
function faultOf({ status, headers, body }: RawResponse): string | undefined {
  const isByRelay = headers.has('x-request-id');
  if (!isByRelay) return status >= 400 && (status < 500 || status === 505) ? undefined : `${status} by nobody`;
  // Of which type it is for each route, every response is held to by the document.
  if (status === 200)
    return /^(?:application\/json$|text\/plain)/.test(headers.get('content-type') ?? '') ? undefined : 'no known type';
  if (status >= 500) return `${status} ${body.toString()}`;
  if (headers.get('content-type') !== 'application/problem+json') return `${status} that is no problem`;
  if (body.length === 0) return undefined;
  const { code, status: said } = JSON.parse(body.toString()) as { code: ProblemCode; status: number };
  return PROBLEMS[code]?.status === status && said === status ? undefined : `${status} with ${code}`;
}
