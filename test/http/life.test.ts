import { verifyAsync } from '@noble/ed25519';
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { alice, bob, carol, relay as relayHost } from '../support/hosts.ts';
import { sha256 } from '../support/hops.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';

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
});
