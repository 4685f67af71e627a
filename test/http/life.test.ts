import { verifyAsync } from '@noble/ed25519';
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ADAPTERS, relayForSuite, relayForTest } from '../support/http-relay.ts';
import { alice, bob, carol, relay as relayHost } from '../support/hosts.ts';
import { sha256 } from '../support/hops.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';

describe.each(ADAPTERS)('%s', (adapter) => {
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
      items: [
        { seq, kind: 'envelope', item_id: 'life-1', sender_pubkey: alice.key, wire_b64: wire.toString('base64') },
      ],
      last_seq: seq,
      more: false,
    });

    const acked = await relay.client(bob).ack(relay.epoch, seq);
    expect(acked).toEqual({ acked_through: seq, deleted: 1, head_seq: seq });
    const after = await relay.client(bob).pull({ after: seq });
    expect(after).toEqual({ epoch: relay.epoch, head_seq: seq, items: [], last_seq: seq, more: false });
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
    expect(Buffer.from(items[0]?.wire_b64 ?? '', 'base64')).toEqual(wire);
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
      version: '0.0.0-test',
      now: relay.clock.nowMs(),
    });
  });

  test('info with a hop says what the relay holds for the caller', async () => {
    const relay = await relayForTest(adapter);
    await relay.enrol(alice, bob);
    const you = { host: 'bob', pubkey: bob.key };
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: 0, acked_through: 0 });
    const { results } = await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    const [first = 0, second = 0] = results.map(({ targets }) => targets?.[0]?.seq ?? 0);
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: second, acked_through: 0 });
    await relay.client(bob).ack(relay.epoch, first);
    expect((await relay.client(bob).ownInfo()).you).toEqual({ ...you, head_seq: second, acked_through: first });
  });

  test('everything is still there after a restart, in the same epoch', async () => {
    const relay = await relayForTest(adapter);
    await relay.enrol(alice, bob);
    const { epoch } = relay;
    const { results } = await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    await relay.client(bob).ack(epoch, results[0]?.targets?.[0]?.seq ?? 0);
    await relay.restart();
    expect(relay.epoch).toBe(epoch);
    const { items } = await relay.client(bob).pull({ epoch });
    expect(items.map(({ item_id }) => item_id)).toEqual(['m2']);
    const again = await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    expect(again.results.map(({ status }) => status)).toEqual(['duplicate', 'duplicate']);
    expect(again.results.map(({ targets }) => targets)).toEqual(results.map(({ targets }) => targets));
  });
});
