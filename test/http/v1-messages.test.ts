/** The v1 routes: docs/protocol.md, "v1"; "Enrolment record", rules 6 and 7. */
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { epochNumbered } from '../support/epochs.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { hopV1Bytes } from '../support/hops.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';

const PATH = '/v1/relay/messages';
const ACK = '/v1/relay/ack';
const DAY_MS = 86_400_000;

function envelope(id: string, toHost = 'bob', ct = 'c'): Record<string, unknown> {
  return { v: 1, id, to_host: toHost, sealed: { enc: 'e', ct, alg: 'test' } };
}

function named(seed: string, name: string): TestHost {
  return { ...hostNamed(seed), name: name as TestHost['name'] };
}

const push = (relay: HttpRelay, envelopes: readonly unknown[], from = alice): Promise<RawResponse> =>
  relay.sendByName(from, 'POST', PATH, { envelopes });

const pull = async (
  relay: HttpRelay,
  after = '',
  host = bob,
): Promise<{ envelopes: object[]; cursor: string; more: boolean }> => {
  const response = await relay.sendByName(host, 'GET', after === '' ? PATH : `${PATH}?after=${after}`);
  expect(response.status).toBe(200);
  return JSON.parse(response.body.toString()) as { envelopes: object[]; cursor: string; more: boolean };
};

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const opened = async (changes: HttpRelayChanges = {}): Promise<HttpRelay> => {
    const relay = await relayForTest(adapter, changes);
    await relay.enrolInV1(alice, bob, carol);
    return relay;
  };

  test('push, pull and ack by name', async () => {
    const relay = await opened();
    const envelopes = [envelope('m1'), envelope('m2', 'BOB', 'ü€😀')];
    const pushed = await push(relay, envelopes);
    expect([pushed.status, jsonOf(pushed)]).toEqual([
      200,
      {
        results: [
          { id: 'm1', status: 'stored' },
          { id: 'm2', status: 'stored' },
        ],
        stopped: false,
      },
    ]);
    const page = await pull(relay);
    expect(page).toMatchObject({ envelopes, more: false });
    const acked = await relay.sendByName(bob, 'POST', ACK, { cursor: page.cursor });
    expect([acked.status, jsonOf(acked)]).toEqual([200, { cursor: page.cursor }]);
    expect(await pull(relay)).toMatchObject({ envelopes: [], more: false });
    expect(await pull(relay, page.cursor)).toEqual({ envelopes: [], cursor: page.cursor, more: false });
  });

  test('a known id is a duplicate whatever its bytes, over v1 and after v2, before and after its ack', async () => {
    const relay = await opened();
    await push(relay, [envelope('m1')]);
    await relay.client(alice).push([itemTo([bob], 'm2')]);
    const again = [envelope('m1', 'bob', 'other'), envelope('m2'), envelope('m1')];
    const duplicates = again.map(({ id }) => ({ id, status: 'duplicate' }));
    const pushByKey = async (): Promise<unknown> =>
      jsonOf(await relay.send(relay.hop(alice, 'POST', PATH, JSON.stringify({ envelopes: again }))));
    expect(await pushByKey()).toEqual({ results: duplicates, stopped: false });
    const { cursor, envelopes } = await pull(relay);
    expect(envelopes).toHaveLength(2);
    await relay.sendByName(bob, 'POST', ACK, { cursor });
    expect(await pushByKey()).toEqual({ results: duplicates, stopped: false });
    // Another sender's item of the same id is another item.
    expect(jsonOf(await push(relay, [envelope('m1')], carol))).toMatchObject({ results: [{ status: 'stored' }] });
    expect((await relay.client(alice).push([itemTo([bob], 'm1')])).results[0]?.status).toBe('rejected:conflict');
  });

  test('what is wrong with one envelope is said of that one', async () => {
    const relay = await opened();
    const results = jsonOf(
      await push(relay, [
        envelope('m1', 'nobody'),
        { ...envelope('m2'), body: 'plain' },
        { ...envelope('m3'), sealed: undefined },
        { ...envelope('m4'), to_host: 7 },
        envelope('not an id'),
        'text',
        null,
        envelope('m5', 'bob', 'c'.repeat(524_288)),
        envelope('m6'),
      ]),
    );
    expect(results).toEqual({
      results: [
        { id: 'm1', status: 'error', error: 'recipient host unknown' },
        { id: 'm2', status: 'error', error: 'not sealed' },
        { id: 'm3', status: 'error', error: 'not sealed' },
        { id: 'm4', status: 'error', error: 'malformed' },
        { id: null, status: 'error', error: 'malformed' },
        { id: null, status: 'error', error: 'malformed' },
        { id: null, status: 'error', error: 'malformed' },
        { id: 'm5', status: 'error', error: 'too large' },
        { id: 'm6', status: 'stored' },
      ],
      stopped: false,
    });
  });

  test('over a limit the push stops there: 429 with a retry-after, and the rest is not tried', async () => {
    const relay = await opened({ limits: { max_sender_items: 2 } });
    const ids = ['m1', 'm2', 'm3', 'm4'];
    const envelopes = [envelope('m0', 'nobody'), ...ids.map((id) => envelope(id))];
    const response = await push(relay, envelopes);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(jsonOf(response)).toEqual({
      results: [
        { id: 'm0', status: 'error', error: 'recipient host unknown' },
        { id: 'm1', status: 'stored' },
        { id: 'm2', status: 'stored' },
        { id: 'm3', status: 'error', error: 'quota:sender_items' },
      ],
      stopped: true,
    });
    expect(await relay.queue(bob)).toHaveLength(2);
  });

  test('enrolment record rule 7: an ambiguous name is said to be one and stores nothing', async () => {
    const relay = await opened();
    await relay.enrolInV1(named('other bob', 'BOB'));
    expect(jsonOf(await push(relay, [envelope('m1')]))).toEqual({
      results: [{ id: 'm1', status: 'error', error: 'recipient host ambiguous' }],
      stopped: false,
    });
    expect(await relay.queue(bob)).toEqual([]);
  });

  test('enrolment record rule 6 and 7: 16 namesakes hop by name, each as itself; 17 only by key', async () => {
    const relay = await opened();
    const namesakes = Array.from({ length: 17 }, (_none, at) => named(`namesake ${at}`, at % 2 ? 'Same' : 'same'));
    await relay.enrolInV1(...namesakes.slice(0, 16));
    for (const [at, host] of namesakes.slice(0, 16).entries()) {
      await relay.client(alice).push([itemTo([host], `m${at}`)]);
      expect((await pull(relay, '', host)).envelopes).toEqual([expect.objectContaining({ id: `m${at}` })]);
    }
    expect(await relay.sendByName(named('an impostor', 'same'), 'GET', PATH)).toBeProblem('BAD_SIGNATURE');
    await relay.enrol(namesakes[16]!);
    expect((await relay.sendByName(namesakes[0]!, 'GET', PATH)).status).toBe(401);
    expect((await relay.send(relay.hop(namesakes[0]!, 'GET', PATH))).status).toBe(200);
    expect(jsonOf(await push(relay, [envelope('n1', 'same')], bob))).toMatchObject({
      results: [{ error: 'recipient host ambiguous' }],
    });
  });

  test('a hop by key is taken on v1 routes too', async () => {
    const relay = await opened();
    const body = JSON.stringify({ envelopes: [envelope('m1')] });
    expect((await relay.send(relay.hop(alice, 'POST', PATH, body))).status).toBe(200);
    expect((await relay.send(relay.hop(bob, 'GET', `${PATH}?after=`))).status).toBe(200);
  });

  test('a v1 hop is refused once the key made a v2 hop, after a restart too, and one of its next key too', async () => {
    const relay = await opened();
    const forAnother = hopV1Bytes(relay.hop(bob, 'GET', PATH));
    const replay = (): Promise<RawResponse> => rawRequest(relay.port, forAnother);
    expect((await replay()).status).toBe(200);
    await relay.client(bob).ownInfo();
    expect(await replay()).toBeProblem('NOT_ENROLLED');
    await relay.restart();
    expect(await replay()).toBeProblem('NOT_ENROLLED');
    expect((await pull(relay, '', carol)).envelopes).toEqual([]);
    const anew = named('bob anew', bob.name);
    const rotate = requestBytes('POST', '/v2/relay/rotate', {}, JSON.stringify(rotationBody(bob, anew)));
    expect((await rawRequest(relay.port, rotate)).status).toBe(200);
    expect(await relay.sendByName(anew, 'GET', PATH)).toBeProblem('NOT_ENROLLED');
    expect((await relay.send(relay.hop(anew, 'GET', PATH))).status).toBe(200);
    // Enrolled again, it is no new host.
    await relay.client(anew).enrol();
    expect(await relay.sendByName(anew, 'POST', ACK, { cursor: '' })).toBeProblem('NOT_ENROLLED');
  });

  test('a relay without v1 takes hops by key alone, on every route', async () => {
    const relay = await opened({ takesV1: false });
    for (const target of [PATH, '/v1/relay/enc-key?host=bob']) {
      expect(await relay.sendByName(alice, 'GET', target)).toBeProblem('NOT_ENROLLED');
      expect((await relay.send(relay.hop(alice, 'GET', target))).status).toBe(200);
    }
  });

  test('an unknown or malformed name opens nothing', async () => {
    const relay = await opened();
    expect(await relay.sendByName(hostNamed('nobody'), 'GET', PATH)).toBeProblem('NOT_ENROLLED');
    expect(await relay.sendByName(named('bob', '!'), 'GET', PATH)).toBeProblem('BAD_SIGNATURE');
    expect(await relay.sendByName(named('alice', 'bob'), 'GET', PATH)).toBeProblem('BAD_SIGNATURE');
  });

  test('receipts and notices are passed over by the cursor and deleted by its ack', async () => {
    const relay = await opened({ limits: { max_pull: 2 } });
    for (const seq of [1, 2, 3]) {
      const wire = receiptWire(carol, 'm', 'coder@bob', seq);
      await relay.client(carol).push([itemTo([bob], receiptId('m', 'coder@bob', seq), wire)]);
    }
    await push(relay, [envelope('m1')]);
    const first = await pull(relay);
    expect(first).toMatchObject({ envelopes: [], more: true });
    const second = await pull(relay, first.cursor);
    expect(second).toMatchObject({ envelopes: [envelope('m1')], more: false });
    await relay.sendByName(bob, 'POST', ACK, { cursor: first.cursor });
    expect(await relay.queue(bob)).toHaveLength(2);
    await relay.sendByName(bob, 'POST', ACK, { cursor: second.cursor });
    expect(await relay.queue(bob)).toEqual([]);
    // A notice for alice, in front of an envelope.
    await push(relay, [envelope('m2')]);
    relay.clock.move(14 * DAY_MS);
    await relay.relay.engine.expiry.expire(() => relay.clock.nowMs(), new AbortController().signal);
    await push(relay, [envelope('m3', 'alice')], bob);
    expect((await relay.queue(alice)).map(({ kind }) => kind)).toEqual(['expired', 'envelope']);
    const page = await pull(relay, '', alice);
    expect(page.envelopes).toEqual([envelope('m3', 'alice')]);
    await relay.sendByName(alice, 'POST', ACK, { cursor: page.cursor });
    expect(await relay.queue(alice)).toEqual([]);
  });

  test('a cursor of another epoch is 409, one that is none is 400, one beyond the head is BAD_ACK', async () => {
    const relay = await opened();
    const { cursor } = await pull(relay);
    const [, seq] = cursor.split('.');
    const foreign = `${epochNumbered(77)}.${seq}`;
    const { epoch } = relay;
    expect(await relay.sendByName(bob, 'GET', `${PATH}?after=${foreign}`)).toBeProblem('EPOCH_CHANGED', { epoch });
    expect(await relay.sendByName(bob, 'POST', ACK, { cursor: foreign })).toBeProblem('EPOCH_CHANGED', { epoch });
    for (const bad of ['x', '5', `${epoch}.`, `${epoch}.-1`, `${epoch}.1e3`, `${epoch}.99999999999999999`]) {
      expect(await relay.sendByName(bob, 'GET', `${PATH}?after=${bad}`)).toBeProblem('BAD_REQUEST');
      expect(await relay.sendByName(bob, 'POST', ACK, { cursor: bad })).toBeProblem('BAD_REQUEST');
    }
    expect(await relay.sendByName(bob, 'GET', `${PATH}?after=${cursor}&after=${cursor}`)).toBeProblem('BAD_REQUEST');
    expect(await relay.sendByName(bob, 'POST', ACK, { cursor: `${epoch}.5` })).toBeProblem('BAD_ACK', { head_seq: 0 });
  });

  test('a body that is no list of envelopes, or one of more than max_batch, is 400', async () => {
    const relay = await opened({ limits: { max_batch: 2 } });
    for (const body of [{}, { envelopes: 5 }, []]) {
      expect(await relay.sendByName(alice, 'POST', PATH, body)).toBeProblem('BAD_REQUEST');
    }
    expect(await push(relay, [envelope('a'), envelope('b'), envelope('c')])).toBeProblem('BAD_REQUEST');
    expect(jsonOf(await push(relay, []))).toEqual({ results: [], stopped: false });
  });

  test('a repeated push, pull and ack changes nothing', async () => {
    const relay = await opened();
    await push(relay, [envelope('m1')]);
    const { cursor } = await pull(relay);
    await relay.sendByName(bob, 'POST', ACK, { cursor });
    const lsn = await relay.lastLsn();
    await push(relay, [envelope('m1')]);
    expect(jsonOf(await relay.sendByName(bob, 'POST', ACK, { cursor }))).toEqual({ cursor });
    expect(await relay.lastLsn()).toBe(lsn);
  });
});
