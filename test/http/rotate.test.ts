/** POST /v2/relay/rotate: docs/protocol.md, "Keys that change", and what the host and its peers see of it. */
import { canonicalize } from 'json-canonicalize';
import { setImmediate as immediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SMALL_BODY_BYTES_MAX } from '../../src/protocol/limits.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { rotateOf } from '../support/commands.ts';
import { postJson } from '../support/enrolments.ts';
import { type HttpRelay, enrolledRelay, relayForSuite, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';
import { type RotationChanges, rotationBody } from '../support/rotations.ts';
import { NOON_MS } from '../support/test-clock.ts';

const PATH = '/v2/relay/rotate';
const SHOWN = '/v2/relay/rotation';
const SMALL_ORDER = Buffer.from(`01${'00'.repeat(31)}`, 'hex').toString('base64');

function rotate(relay: HttpRelay, from: TestHost, to: TestHost, changes: RotationChanges = {}): Promise<RawResponse> {
  return postJson(relay, PATH, rotationBody(from, to, changes));
}

/** Returns what the relay shows `asker` of how the key of `host` was replaced. */
async function shownRotation(relay: HttpRelay, asker: TestHost, host: TestHost): Promise<unknown> {
  const response = await relay.send(relay.hop(asker, 'GET', `${SHOWN}?key=${encodeURIComponent(host.key)}`));
  expect(response.status).toBe(200);
  return jsonOf(response);
}

/** A receipt for alice, with number `seq`. */
function receiptOf(signer: TestHost, seq: number): ReturnType<typeof itemTo> {
  return itemTo([alice], receiptId('m1', 'coder@bob', seq), receiptWire(signer, 'm1', 'coder@bob', seq));
}

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('a host goes on under its new key, with its mail and its name', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    for (const id of ['m1', 'm2']) await relay.client(alice).push([itemTo([bob], id)]);
    relay.clock.move(1000);
    const response = await rotate(relay, bob, carol);
    expect([response.status, jsonOf(response)]).toEqual([
      200,
      { host_pubkey: carol.key, moved_items: 2, head_seq: NOON_MS + 1001, epoch: relay.epoch },
    ]);
    const { items, head_seq } = await relay.client(carol).pull({ epoch: relay.epoch });
    expect(items.map(({ item_id, seq }) => [item_id, seq])).toEqual([
      ['m1', NOON_MS + 1000],
      ['m2', head_seq],
    ]);
    expect(items[0]?.wire).toEqual(envelopeWire('m1'));
    expect((await relay.client(carol).ownInfo()).you).toEqual({
      host: 'bob',
      pubkey: carol.key,
      head_seq,
      acked_through: 0,
    });
    expect(await relay.client(carol).ack(relay.epoch, head_seq)).toMatchObject({ deleted: 2 });
  });

  test('the record is shown under the old key as posted, to any enrolled host, also after a restart', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const posted = rotationBody(bob, carol, { rec: { unknown: { 'signed too': [1] } } });
    expect((await postJson(relay, PATH, posted)).status).toBe(200);
    await postJson(relay, PATH, rotationBody(carol, dave));
    for (const isRestarted of [false, true]) {
      if (isRestarted) await relay.restart();
      expect(await shownRotation(relay, alice, bob)).toEqual(posted);
      // One record a request: the new key asks for the next.
      expect(await shownRotation(relay, dave, carol)).toEqual(rotationBody(carol, dave));
      for (const host of [alice, dave, hostNamed('nobody')])
        expect(await shownRotation(relay, alice, host)).toEqual({ rotation: null });
    }
  });

  test('the record is shown to enrolled hosts alone, and asked for by a key', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    await rotate(relay, bob, carol);
    const target = `${SHOWN}?key=${encodeURIComponent(bob.key)}`;
    expect(await relay.send(relay.hop(bob, 'GET', target))).toBeProblem('NOT_ENROLLED');
    expect(await relay.send(relay.hop(dave, 'GET', target))).toBeProblem('NOT_ENROLLED');
    for (const query of ['', '?key=', '?key=bob', `?key=${bob.key.slice(1)}`, `?key=${bob.key}&key=${bob.key}`])
      expect(await relay.send(relay.hop(alice, 'GET', SHOWN + query))).toBeProblem('BAD_REQUEST');
  });

  test('afterwards the old key is not enrolled on any route, and is no target', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    await rotate(relay, bob, carol);
    for (const [method, target] of [
      ['GET', '/v2/relay/items'],
      ['POST', '/v2/relay/items'],
      ['POST', '/v2/relay/ack'],
      ['POST', '/v2/relay/senders'],
      ['POST', '/v1/relay/enc-key'],
      ['GET', '/v1/relay/messages'],
    ] as const) {
      const body = method === 'POST' ? '{}' : undefined;
      expect(await relay.send(relay.hop(bob, method, target, body))).toBeProblem('NOT_ENROLLED');
    }
    const info = await relay.send(relay.hop(bob, 'GET', '/v2/relay/info'));
    expect([info.status, jsonOf(info)['you']]).toEqual([200, undefined]);
    const { results } = await relay.client(alice).push([itemTo([bob], 'late')]);
    expect(results[0]?.status).toBe('rejected:target revoked');
  });

  test('a v1 hop and v1 mail by name find the new key', async () => {
    const relay = await relayForTest(adapter);
    await relay.enrolInV1(alice, bob);
    const anew = { ...hostNamed('bob anew'), name: bob.name };
    const envelope = { ...(JSON.parse(envelopeWire('v1-1').toString()) as object), to_host: 'bob' };
    const push = (): Promise<RawResponse> =>
      relay.sendByName(alice, 'POST', '/v1/relay/messages', { envelopes: [envelope] });
    expect(jsonOf(await push())).toMatchObject({ results: [{ id: 'v1-1', status: 'stored' }] });
    await rotate(relay, bob, anew);
    expect(jsonOf(await push())).toMatchObject({ results: [{ id: 'v1-1', status: 'duplicate' }] });
    expect(await relay.sendByName(bob, 'GET', '/v1/relay/messages')).toBeProblem('BAD_SIGNATURE');
    const pulled = jsonOf(await relay.sendByName(anew, 'GET', '/v1/relay/messages'));
    expect(pulled['envelopes']).toEqual([envelope]);
  });

  test('a long poll of the old key ends with 401, and one of the new key with the mail', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob, carol]);
    await relay.client(alice).push([itemTo([bob], 'm1')]);
    relay.clock.move(1000);
    // Of a length that no other timer has.
    const target = `/v2/relay/items?wait=29&after=${NOON_MS}`;
    const polls = [bob, carol].map((host) => relay.send(relay.hop(host, 'GET', target)));
    while (relay.timers.underWay(29_000) < 2) await immediate();
    await rotate(relay, bob, carol);
    const [old, fresh] = await Promise.all(polls);
    expect(old).toBeProblem('NOT_ENROLLED');
    expect(jsonOf(fresh)).toMatchObject({ items: [{ item_id: 'm1', seq: NOON_MS + 1000 }] });
  });

  test('a pull that reads while its key is rotated is not held', async () => {
    const relay = await enrolledRelay(adapter, [bob]);
    const { engine } = relay.relay;
    const page = engine.page.bind(engine);
    engine.page = async (...asked) => {
      const read = await page(...asked);
      await rotate(relay, bob, carol);
      return read;
    };
    expect(await relay.send(relay.hop(bob, 'GET', '/v2/relay/items?wait=30'))).toBeProblem('NOT_ENROLLED');
  });

  test('a list that is inspected while its key is rotated is not taken', async () => {
    const relay = await enrolledRelay(adapter, [bob]);
    const { engine } = relay.relay;
    const [first, ...others] = Array.from({ length: 256 }, (_none, at) => hostNamed(`unknown-${at}`).key);
    const list = { v: 1, type: 'relay-senders', host_pubkey: bob.key, senders: [first, ...others], iat: NOON_MS };
    const body = JSON.stringify({ list, sig: bob.signer.sign(Buffer.from(canonicalize(list))) });
    const { directory } = engine;
    const enrolment = directory.get.bind(directory);
    let rotated: Promise<unknown> | undefined;
    let isRotated = false;
    directory.get = (key) => {
      if (key === first) {
        rotated ??= engine.admissions
          .rotateKey({ ...rotateOf(bob, carol), nowMs: relay.clock.nowMs() })
          .finally(() => (isRotated = true));
      } else if (rotated && !isRotated) {
        // The inspection pauses at each key, and the disk gets time to write, until the key is rotated.
        relay.clock.move(5);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      }
      return enrolment(key);
    };
    expect(await relay.send(relay.hop(bob, 'POST', '/v2/relay/senders', body))).toBeProblem('NOT_ENROLLED');
    expect(await rotated).toMatchObject({ type: 'KeyRotated' });
    await relay.stop();
    const { events } = await relay.stored();
    expect(events.map(({ type }) => type)).not.toContain('SendersPublished');
    await relay.start();
  });

  test('a sender that rotated between two attempts gets duplicate, under the keys of its request', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const [first] = (await relay.client(alice).push([itemTo([bob], 'm1')])).results;
    await rotate(relay, alice, carol);
    await rotate(relay, bob, dave);
    relay.clock.move(1000);
    const [again] = (await relay.client(carol).push([itemTo([dave], 'm1')])).results;
    expect(again).toMatchObject({
      status: 'duplicate',
      targets: [{ host_pubkey: dave.key, seq: first?.targets?.[0]?.seq }],
    });
    expect(again?.accept).toMatchObject({
      sender_pubkey: carol.key,
      targets: [{ host_pubkey: dave.key, seq: first?.targets?.[0]?.seq }],
      at: NOON_MS,
      epoch: relay.epoch,
    });
  });

  test('a receipt signed by a retired key of the pusher is taken, one of another host is not', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob, dave]);
    await rotate(relay, bob, carol);
    const statusOf = async (signer: TestHost, seq: number): Promise<string | undefined> =>
      (await relay.client(carol).push([receiptOf(signer, seq)])).results[0]?.status;
    expect([await statusOf(bob, 1), await statusOf(carol, 2)]).toEqual(['accepted', 'accepted']);
    expect([await statusOf(dave, 3), await statusOf(alice, 4)]).toEqual([
      'rejected:bad receipt',
      'rejected:bad receipt',
    ]);
    // What the old key signed is not for another host to push.
    const { results } = await relay.client(dave).push([receiptOf(bob, 5)]);
    expect(results[0]?.status).toBe('rejected:bad receipt');
  });

  test('is limited by client address, apart from challenge and enrol', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { enrolRate: 3 });
    const statuses: number[] = [];
    for (let count = 0; count < 4; count++) statuses.push((await rotate(relay, bob, carol)).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect(await rotate(relay, alice, dave)).toBeProblem('RATE_LIMITED');
    expect((await relay.client(dave).enrol())['host']).toBe('dave');
    relay.clock.move(60_000);
    expect(await rotate(relay, alice, hostNamed('alice anew'))).toMatchObject({ status: 200 });
  });
});

describe.each(ANY_ADAPTER)('%s: a rotation is refused', (adapter) => {
  const suite = relayForSuite(adapter);

  /** Two hosts of this test alone, the first of them enrolled; nothing that the test does may be logged. */
  const hosts = async (): Promise<{ relay: HttpRelay; old: TestHost; fresh: TestHost }> => {
    const relay = suite.current;
    const number = relay.relay.engine.directory.liveCount;
    const [old, fresh] = [hostNamed(`old-${number}`), hostNamed(`fresh-${number}`)];
    await relay.enrol(old);
    return { relay, old, fresh };
  };

  test.each<[string, (body: ReturnType<typeof rotationBody>) => unknown]>([
    ['a body that is no object', () => [1]],
    ['no rotation', () => ({})],
    ['no record', ({ rotation: { rec: _rec, ...signatures } }) => ({ rotation: signatures })],
    ['a missing signature', ({ rotation: { new_sig: _sig, ...others } }) => ({ rotation: others })],
    ['a signature of another length', ({ rotation }) => ({ rotation: { ...rotation, old_sig: 'AAAA' } })],
    ['a signature that is a number', ({ rotation }) => ({ rotation: { ...rotation, new_sig: 1 } })],
  ])('as BAD_REQUEST for %s', async (_what, change) => {
    const { relay, old, fresh } = await hosts();
    const lsn = await relay.lastLsn();
    expect(await postJson(relay, PATH, change(rotationBody(old, fresh)))).toBeProblem('BAD_REQUEST');
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test.each<[string, Record<string, unknown>]>([
    ['another version', { v: 2 }],
    ['another type', { type: 'relay-senders' }],
    ['no iat', { iat: undefined }],
    ['a negative iat', { iat: -1 }],
    ['a fractional iat', { iat: NOON_MS + 0.5 }],
    ['an iat of text', { iat: String(NOON_MS) }],
    ['a key that is not base64', { new_pubkey: '!'.repeat(44) }],
    ['a key that is not canonical base64', { new_pubkey: `${'A'.repeat(42)}B=` }],
    ['a key of 31 bytes', { old_pubkey: Buffer.alloc(31).toString('base64') }],
    ['no old key', { old_pubkey: undefined }],
  ])('as BAD_REQUEST for a record with %s', async (_what, rec) => {
    const { relay, old, fresh } = await hosts();
    const body = JSON.parse(JSON.stringify(rotationBody(old, fresh, { sent: rec }))) as object;
    expect(await postJson(relay, PATH, body)).toBeProblem('BAD_REQUEST');
  });

  test('as BAD_REQUEST when both keys are the same', async () => {
    const { relay, old } = await hosts();
    expect(await rotate(relay, old, old)).toBeProblem('BAD_REQUEST');
  });

  test('as BODY_TOO_LARGE over 8 KiB', async () => {
    const { relay, old, fresh } = await hosts();
    const rec = { more: 'x'.repeat(SMALL_BODY_BYTES_MAX) };
    expect(await rotate(relay, old, fresh, { rec })).toBeProblem('BODY_TOO_LARGE');
  });

  test('as NOT_ENROLLED for an old key that nobody enrolled', async () => {
    const { relay, old, fresh } = await hosts();
    expect(await rotate(relay, fresh, hostNamed('elsewhere'))).toBeProblem('NOT_ENROLLED');
    // Before anything is said of the signatures.
    expect(await rotate(relay, fresh, old, { oldSigner: alice })).toBeProblem('NOT_ENROLLED');
  });

  test.each<[string, (old: TestHost, fresh: TestHost) => RotationChanges]>([
    ['that the old key did not make', () => ({ oldSigner: alice })],
    ['that the new key did not make', () => ({ newSigner: alice })],
    ['of each key in the place of the other', (old, fresh) => ({ oldSigner: fresh, newSigner: old })],
    ['of the new key alone', (_old, fresh) => ({ oldSigner: fresh })],
    ['of the old key alone', (old) => ({ newSigner: old })],
    ['over another time', () => ({ sent: { iat: NOON_MS + 1 } })],
    ['over a record with a member less', () => ({ sent: { more: true } })],
    ['over a record with a member more', () => ({ rec: { more: true }, sent: { more: undefined } })],
  ])('as BAD_SIGNATURE for a signature %s', async (_what, changes) => {
    const { relay, old, fresh } = await hosts();
    const lsn = await relay.lastLsn();
    expect(await rotate(relay, old, fresh, changes(old, fresh))).toBeProblem('BAD_SIGNATURE');
    expect(relay.relay.engine.directory.get(old.key)?.revokedAtMs).toBeNull();
    expect(await relay.lastLsn()).toBe(lsn);
  });

  test('not for unknown members of the record, which the signatures cover, nor for others beside it', async () => {
    const { relay, old, fresh } = await hosts();
    const body = rotationBody(old, fresh, { rec: { more: { of: ['it', null] } } });
    const response = await postJson(relay, PATH, { ...body, beside: 1, rotation: { ...body.rotation, beside: 2 } });
    expect([response.status, jsonOf(response)['host_pubkey']]).toEqual([200, fresh.key]);
  });

  test('as ENROL_REFUSED into a key that is no acceptable point', async () => {
    const { relay, old } = await hosts();
    for (const key of [SMALL_ORDER, Buffer.alloc(32, 255).toString('base64')]) {
      const weak = { ...hostNamed('weak'), key: key as TestHost['key'] };
      expect(await rotate(relay, old, weak)).toBeProblem('ENROL_REFUSED');
    }
  });

  test('as ENROL_REFUSED for another rotation of a key that rotated, and for a circle', async () => {
    const { relay, old, fresh } = await hosts();
    expect((await rotate(relay, old, fresh)).status).toBe(200);
    expect(await rotate(relay, old, hostNamed('elsewhere'))).toBeProblem('ENROL_REFUSED');
    expect(await rotate(relay, fresh, old)).toBeProblem('ENROL_REFUSED', { reason: 'the host had this key before' });
  });

  test('without a word of its bytes in the answer', async () => {
    const { relay, old, fresh } = await hosts();
    for (const changes of [{ oldSigner: alice }, { rec: { iat: NOON_MS * 2 } }, { sent: { type: 'a-secret' } }]) {
      const text = (await rotate(relay, old, fresh, changes)).body.toString();
      for (const word of [old.key, fresh.key, 'a-secret', String(NOON_MS * 2)]) expect(text).not.toContain(word);
    }
  });
});
