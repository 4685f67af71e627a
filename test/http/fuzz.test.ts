/** Thousands of random requests, most of them nearly right. None may be answered with 5xx or end the relay. */
import { describe, expect, test } from 'vitest';
import { PROBLEMS, type ProblemCode } from '../../src/protocol/problem.ts';
import { ADAPTERS, type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { type Signed, hopHeaders } from '../support/hops.ts';
import { alice, bob, carol, dave } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { RawConnection, type RawResponse, requestBytes } from '../support/raw-http.ts';
import { SeededRandom } from '../support/seeded-random.ts';

const REQUESTS = 3000;
const AT_ONCE = 32;
/** How long a request that may be half a request is given. */
const QUIET_MS = 40;

describe.each(ADAPTERS)('%s', (adapter) => {
  test(`the relay answers ${REQUESTS} random requests and serves on`, async () => {
    const relay = await relayForTest(adapter, { limits: { max_queue_items: 50 } });
    await relay.enrol(alice, bob, carol);
    const random = new SeededRandom(20_251_120);
    const requests = Array.from({ length: REQUESTS }, () => randomRequest(relay, random));
    const statuses = new Map<number, number>();
    const faults: string[] = [];
    let next = 0;
    const sendMany = async (): Promise<void> => {
      for (let bytes = requests[next++]; bytes; bytes = requests[next++]) {
        const number = next;
        for (const response of await responsesTo(relay.port, bytes)) {
          statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
          const fault = faultOf(response);
          if (fault !== undefined) faults.push(`${fault}: request ${number} ${bytes.toString('latin1').slice(0, 300)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, sendMany));

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
    await relay.start();
  });
});

const TARGETS = [
  '/v1/relay/challenge',
  '/v1/relay/enrol',
  '/v2/relay/info',
  '/v2/relay/items',
  '/v2/relay/ack',
  '/v2/relay/rotate',
  '/v1/relay/messages',
  '/v2/relay/log/consistency',
  '/v2/relay/log/proof',
  '/',
] as const;
const METHODS = ['GET', 'GET', 'POST', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'get', 'X'] as const;
const QUERIES = [
  '',
  '',
  '?',
  '?after=0',
  '?after=-1',
  '?limit=1&wait=0',
  '?epoch=x',
  '?after=9e9',
  '?%',
  '?a#b',
] as const;
const HEADERS: readonly (readonly [string, string])[] = [
  ['content-length', '99999999'],
  ['content-length', '-1'],
  ['content-length', '0'],
  ['transfer-encoding', 'chunked'],
  ['transfer-encoding', 'identity'],
  ['host', 'other'],
  ['connection', 'close'],
  ['connection', 'upgrade'],
  ['upgrade', 'websocket'],
  ['expect', '100-continue'],
  ['x-forwarded-for', '1.2.3.4, not an address'],
  ['x-mail-ts', '1'],
  ['x-mail-key', 'AAAA'],
  ['x-mail-sig', ''],
  ['x-mail-host', '\xff'],
  ['a', 'x'.repeat(4000)],
];

/** The bytes of a request that was right before something happened to it, or twice, or not. */
function randomRequest(relay: HttpRelay, random: SeededRandom): Buffer {
  const method = random.pick(METHODS);
  const target = random.pick(TARGETS) + random.pick(QUERIES);
  const body = method === 'GET' && random.chance(0.8) ? Buffer.alloc(0) : randomBody(relay, random);
  const host = random.pick([alice, alice, bob, carol, dave]);
  const signed: Signed = random.chance(0.1) ? { target: '/elsewhere' } : {};
  const headers: Record<string, string> = random.chance(0.85)
    ? hopHeaders({ ...relay.hop(host, method, target), body }, signed)
    : {};
  // In other letters, so that it stands beside the one that is there.
  for (let more = random.below(3); more > 0 && random.chance(0.3); more--) {
    const [name, value] = random.pick(HEADERS);
    headers[random.chance(0.5) ? name : name.toUpperCase()] = value;
  }
  let bytes = requestBytes(method, target, headers, body);
  if (random.chance(0.05))
    bytes = Buffer.from(bytes.toString('latin1').replace(/content-length: [0-9]+\r\n/, ''), 'latin1');
  for (let mutations = random.chance(0.3) ? 1 + random.below(3) : 0; mutations > 0; mutations--) {
    bytes = mutated(bytes, random);
  }
  return bytes;
}

function randomBody(relay: HttpRelay, random: SeededRandom): Buffer {
  const id = `fuzz-${random.below(40)}`;
  const seq = relay.relay.engine.head(bob.key).headSeq;
  const bodies: (() => unknown)[] = [
    () => ({ items: [itemTo([bob], id, envelopeWire(id, random.below(2000)))] }),
    () => ({ items: [itemTo([bob, carol], id), itemTo([dave], id), itemTo([bob, bob], id)] }),
    () => ({ items: [itemTo([alice], receiptId(id, 'a@bob', 1), receiptWire(bob, id, 'a@bob', 1))] }),
    () => ({ items: Array.from({ length: random.below(300) }, () => random.pick([null, 1, 'x', {}, []])) }),
    () => ({ epoch: relay.epoch, through: random.pick([0, seq, seq + 1, -1, 1.5]) }),
    () => ({ pubkey: random.pick([alice.key, dave.key, 'x', Buffer.alloc(32).toString('base64')]) }),
    () => ({ host: 'x', pubkey: dave.key, owner_fp: '', sig: dave.signer.sign(Buffer.from(id)) }),
  ];
  if (random.chance(0.1)) return random.bytes(random.below(200));
  const bytes = Buffer.from(JSON.stringify(random.pick(bodies)()));
  return random.chance(0.2) ? mutated(bytes, random) : bytes;
}

function mutated(bytes: Buffer, random: SeededRandom): Buffer {
  const at = random.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + random.below(20));
  const [before, middle, after] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, middle, middle, after]);
    case 2:
      return Buffer.concat([before, random.bytes(random.below(10)), after]);
    case 3:
      return before;
    default:
      return Buffer.concat([before, Buffer.from(random.pick(['\r\n', '\0', ':', ' ', '"', '{', '\\', '}'])), after]);
  }
}

/** What comes back on a connection of its own, until it ends or stays quiet. */
async function responsesTo(port: number, bytes: Buffer): Promise<RawResponse[]> {
  const connection = await RawConnection.open(port);
  const to = bytes.subarray(0, 4).toString('latin1') === 'HEAD' ? 'HEAD' : 'GET';
  connection.send(bytes);
  const responses: RawResponse[] = [];
  const quiet = setTimeout(() => connection.close(), QUIET_MS);
  for (let response = await connection.response(to); response; response = await connection.response(to)) {
    responses.push(response);
    if (response.status !== 200) quiet.refresh();
  }
  clearTimeout(quiet);
  return responses;
}

/** What is wrong with an answer; `undefined` when nothing is. */
function faultOf({ status, headers, body }: RawResponse): string | undefined {
  const isByRelay = headers.has('x-request-id');
  if (!isByRelay) return status >= 400 && (status < 500 || status === 505) ? undefined : `${status} by nobody`;
  if (status === 200)
    return headers.get('content-type') === 'application/json' ? undefined : 'an answer that is no JSON';
  if (status >= 500) return `${status} ${body.toString()}`;
  if (headers.get('content-type') !== 'application/problem+json') return `${status} that is no problem`;
  if (body.length === 0) return undefined;
  const { code, status: said } = JSON.parse(body.toString()) as { code: ProblemCode; status: number };
  return PROBLEMS[code]?.status === status && said === status ? undefined : `${status} with ${code}`;
}
