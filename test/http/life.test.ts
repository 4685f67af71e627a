import { verifyAsync } from '@noble/ed25519';
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { revokeOf } from '../support/commands.ts';
import { postJson } from '../support/enrolments.ts';
import { enrolledRelay, relayForSuite, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, relay as relayHost } from '../support/hosts.ts';
import { sha256 } from '../support/hops.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  test('two hosts enrol; one pushes, the other pulls and acks', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const wire = envelopeWire('life-1');
    const pushed = await relay.client(alice).push([itemTo([bob], 'life-1', wire)]);
    const [result] = pushed.results;
    expect(pushed.epoch).toBe(relay.epoch);
    expect(result).toMatchObject({ item_id: 'life-1', status: 'accepted' });
    const seq = result?.targets?.[0]?.seq ?? 0;

    const page = await relay.client(bob).pull({ epoch: relay.epoch });
    expect(page).toEqual({
      epoch: relay.epoch,
      head_seq: seq,
      items: [{ seq, kind: 'envelope', item_id: 'life-1', sender_pubkey: alice.key, wire }],
      unreadable: [],
      last_seq: seq,
      more: false,
    });

    const acked = await relay.client(bob).ack(relay.epoch, seq);
    expect(acked).toEqual({ acked_through: seq, deleted: 1, head_seq: seq });
    const after = await relay.client(bob).pull({ after: seq });
    expect(after).toEqual({ epoch: relay.epoch, head_seq: seq, items: [], unreadable: [], last_seq: seq, more: false });
  });

  test('a receipt travels back to the sender', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob);
    const id = receiptId('life-1', 'coder@bob', 1);
    const wire = receiptWire(bob, 'life-1', 'coder@bob', 1);
    const { results } = await relay.client(bob).push([itemTo([alice], id, wire)]);
    expect(results[0]?.status).toBe('accepted');
    const { items } = await relay.client(alice).pull();
    expect(items.map(({ kind, item_id, sender_pubkey }) => [kind, item_id, sender_pubkey])).toEqual([
      ['receipt', id, bob.key],
    ]);
    expect(items[0]?.wire).toEqual(wire);
  });

  test('the accept receipt verifies with the key of the relay over its canonical form', async () => {
    const relay = suite.current;
    await relay.enrol(alice, bob, carol);
    const item = itemTo([bob, carol], 'life-accept');
    const [first] = (await relay.client(alice).push([item])).results;
    const { accept, sig, targets } = first ?? {};
    expect(accept).toEqual({
      v: 1,
      type: 'relay-accept',
      relay_pubkey: relayHost.key,
      epoch: relay.epoch,
      sender_pubkey: alice.key,
      item_id: 'life-accept',
      targets: targets?.map((target) => ({ ...target, wire_hash: sha256(envelopeWire('life-accept')) })),
      at: relay.clock.nowMs(),
    });
    expect(targets?.map(({ host_pubkey }) => host_pubkey)).toEqual([bob.key, carol.key]);
    const message = Buffer.from(canonicalize(accept));
    const key = Buffer.from(relayHost.key, 'base64');
    expect(await verifyAsync(Buffer.from(sig ?? '', 'base64'), message, key)).toBe(true);
    message[0] = 0;
    expect(await verifyAsync(Buffer.from(sig ?? '', 'base64'), message, key)).toBe(false);

    relay.clock.move(1000);
    const [again] = (await relay.client(alice).push([item])).results;
    expect(again).toEqual({ ...first, status: 'duplicate' });
  });

  test('info without a hop has exactly the documented members and exactly twelve limits', async () => {
    const relay = suite.current;
    const response = await rawRequest(relay.port, requestBytes('GET', '/v2/relay/info'));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{16}$/);
    expect(jsonOf(response)).toEqual({
      v: 2,
      relay_pubkey: relayHost.key,
      epoch: relay.epoch,
      limits: {
        max_item_bytes: 524_288,
        max_batch: 200,
        max_pull: 500,
        max_pull_bytes: 8_388_608,
        max_targets: 64,
        retention_days: 14,
        max_queue_items: 10_000,
        max_queue_bytes: 52_428_800,
        max_sender_items: 2000,
        max_sender_bytes: 20_971_520,
        max_owner_items: 10_000,
        max_owner_bytes: 52_428_800,
      },
      forms: ['application/vnd.poste+msgpack'],
      receipts: ['tree'],
      version: '0.0.0-test',
      now: relay.clock.nowMs(),
    });
  });

  test('info with a hop says what the relay holds for the caller', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const you = { host: 'bob', pubkey: bob.key };
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: 0, acked_through: 0 });
    const { results } = await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    const [first = 0, second = 0] = results.map(({ targets }) => targets?.[0]?.seq ?? 0);
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: second, acked_through: 0 });
    await relay.client(bob).ack(relay.epoch, first);
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: second, acked_through: first });
  });

  test('two hosts walk through a life: enrol, publish, push, rotate, expire, revoke', async () => {
    const relay = await relayForTest(adapter);
    const laptop = alice;
    const server = bob;
    const serverAnew = { ...carol, name: server.name };
    const laptopAnew = { ...dave, name: laptop.name };
    const post = async (host: TestHost, target: string, body: object): Promise<Record<string, unknown>> =>
      relay.client(host).request('POST', target, body);
    const statusOf = async (from: TestHost, to: TestHost, id: string): Promise<string | undefined> =>
      (await relay.client(from).push([itemTo([to], id)])).results[0]?.status;

    // Enrol.
    expect(await relay.client(laptop).enrol()).toMatchObject({ host_pubkey: laptop.key, authorized_by: 'host-key' });
    await relay.enrol(server);

    // Publish.
    const advertise = async (host: TestHost, byte: number): Promise<void> => {
      const advertised = { enc_pub: Buffer.alloc(32, byte).toString('base64'), at: relay.clock.nowMs() };
      const document = { v: 1, type: 'relay-enc-key', host_pubkey: host.key, ...advertised };
      const sig = host.signer.sign(Buffer.from(canonicalize(document)));
      expect(await post(host, '/v1/relay/enc-key', { ...advertised, sig })).toEqual({ at: advertised.at });
    };
    const encKeyOf = async (host: TestHost): Promise<unknown> =>
      (await relay.client(laptop).request('GET', `/v2/relay/enc-key?key=${encodeURIComponent(host.key)}`))['enc_key'];
    await advertise(server, 1);
    expect(await encKeyOf(server)).toMatchObject({ host_pubkey: server.key });
    const list = {
      v: 1,
      type: 'relay-senders',
      host_pubkey: server.key,
      senders: [laptop.key],
      iat: relay.clock.nowMs(),
    };
    const listed = { list, sig: server.signer.sign(Buffer.from(canonicalize(list))) };
    expect(await post(server, '/v2/relay/senders', listed)).toMatchObject({ senders: 1 });

    // Push, pull, ack.
    for (const id of ['first', 'second', 'third']) expect(await statusOf(laptop, server, id)).toBe('accepted');
    const page = await relay.client(server).pull({ limit: 1 });
    expect(page.items.map(({ item_id }) => item_id)).toEqual(['first']);
    await relay.client(server).ack(relay.epoch, page.last_seq);

    // Rotate: the server, and then the laptop.
    relay.clock.move(1000);
    const rotated = await postJson(relay, '/v2/relay/rotate', rotationBody(server, serverAnew));
    expect(jsonOf(rotated)).toMatchObject({ host_pubkey: serverAnew.key, moved_items: 2 });
    await expect(relay.client(server).pull()).rejects.toMatchObject({ status: 401 });
    expect(await encKeyOf(serverAnew)).toBeNull();
    await advertise(serverAnew, 2);
    expect(await encKeyOf(serverAnew)).toMatchObject({ host_pubkey: serverAnew.key });
    expect(await statusOf(laptop, serverAnew, 'second')).toBe('duplicate');
    expect(await statusOf(laptop, serverAnew, 'fourth')).toBe('accepted');
    await postJson(relay, '/v2/relay/rotate', rotationBody(laptop, laptopAnew));
    // The list names the laptop's old key, and takes the mail of its new one.
    expect(await statusOf(laptopAnew, serverAnew, 'fourth')).toBe('duplicate');
    expect(await statusOf(laptopAnew, serverAnew, 'fifth')).toBe('accepted');
    const second = await relay.client(serverAnew).pull({ limit: 1 });
    expect(second.items.map(({ item_id }) => item_id)).toEqual(['second']);
    await relay.client(serverAnew).ack(relay.epoch, second.last_seq);

    // Expire: the server sleeps, and the laptop is told once for each, under the keys that it pushed to.
    relay.clock.move(14 * 86_400_000);
    const arrival = (): Promise<void> =>
      new Promise((resolve) => {
        relay.relay.engine.onArrival(laptopAnew.key, resolve);
      });
    let arrived = arrival();
    relay.timers.pass(59_000);
    for (; (await relay.queue(laptopAnew)).length < 3; arrived = arrival()) await arrived;
    const { items: notices } = await relay.client(laptopAnew).pull();
    expect(notices.map(({ kind, item_id, sender_pubkey }) => [kind, item_id, sender_pubkey])).toEqual(
      [
        ['third', server],
        ['fourth', serverAnew],
        ['fifth', serverAnew],
      ].map(([id, to]) => ['expired', `expired:${id as string}:${(to as TestHost).key}`, relayHost.key]),
    );
    expect((await relay.client(serverAnew).pull()).items).toEqual([]);
    expect(await statusOf(laptopAnew, serverAnew, 'third')).toBe('duplicate');

    // Revoke: the server is let in no more, and nothing is stored for it.
    await relay.relay.engine.admissions.revokeHost(revokeOf(serverAnew));
    await expect(relay.client(serverAnew).pull()).rejects.toMatchObject({ status: 401 });
    await expect(relay.client(serverAnew).enrol()).rejects.toMatchObject({ status: 403 });
    expect(await statusOf(laptopAnew, serverAnew, 'sixth')).toBe('rejected:target revoked');
    await relay.restart();
    await expect(relay.client(serverAnew).pull()).rejects.toMatchObject({ status: 401 });
    const { items: still } = await relay.client(laptopAnew).pull();
    expect(still).toEqual(notices);
    expect(relay.errors).toEqual([]);
  });
});
