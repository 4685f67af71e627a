import { describe, expect, onTestFinished, test } from 'vitest';
import { isoTime, timeMsOf } from '../../../../src/protocol/time.ts';
import type { AgentId, MessageRef, OutboxRow } from '../../../../src/host/core/rows.ts';
import { UNDELIVERED_ALERT_MS } from '../../../../src/host/core/outbox.ts';
import { cancelOutbox, listOutbox } from '../../../../src/host/outbox/outbox-list.ts';
import { afterAttempt, afterPeerChange, dueRows, wireOf } from '../../../../src/host/outbox/outbox.ts';
import { type Envelope, openSeal } from '../../../../src/host/wire/sealing.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { HostStore, Reader } from '../../../../src/host/store/host-store.ts';
import { relay } from '../../../support/hosts.ts';
import { nextDueMs } from '../../../support/outbox-rows.ts';
import {
  type PairedContext,
  addAgent,
  pairedContext,
  peerIdOf,
  pin,
  sendTo,
} from '../../../support/paired-contexts.ts';

interface World {
  alice: PairedContext;
  bob: PairedContext;
  carol: PairedContext;
}

async function world(): Promise<World> {
  const alice = await pairedContext('alice');
  onTestFinished(() => alice.close());
  const bob = await pairedContext('bob', alice.clock);
  onTestFinished(() => bob.close());
  const carol = await pairedContext('carol', alice.clock);
  onTestFinished(() => carol.close());
  await pin(alice, bob);
  await pin(alice, carol);
  await addAgent(alice, 'anna');
  return { alice, bob, carol };
}

const due = ({ alice }: World, peer: PairedContext, limit = 100): Promise<OutboxRow[]> =>
  dueRows(alice.context, peerIdOf(peer.host), limit);

const step = ({ alice }: World, ...given: [rowId: number, event: Parameters<typeof afterAttempt>[3]]): Promise<void> =>
  alice.store().transact((tx) => void afterAttempt(tx, alice.context, ...given));

const alertsOf = ({ alice }: World): Promise<{ subject: string; body: string; thread: MessageRef }[]> =>
  alice.store().read(async (reader) => {
    const alerts = [];
    for await (const { row } of reader.range('entry', ['agent-anna' as AgentId])) {
      const message = reader.get('message', row.ref);
      if (message)
        alerts.push({ subject: message.subject, body: reader.get('body', row.ref) ?? '', thread: message.thread });
    }
    return alerts;
  });

describe('the outbox', () => {
  test('holds one sealed item for each host: its bytes hide the words and open there', async () => {
    const w = await world();
    const message = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert', 'berta'], body: 'secret words' });
    const [row] = await due(w, w.bob);
    const wire = await w.alice.store().read((reader) => wireOf(reader, row?.rowId ?? 0));
    expect(row).toMatchObject({ kind: 'envelope', itemId: message.id, recipients: ['bert@bob', 'berta@bob'] });
    expect(row).toMatchObject({ wireHash: sha256Hex(wire), wireBytes: wire.length, state: 'pending' });
    const envelope = JSON.parse(wire.toString('utf8')) as Envelope;
    expect(envelope).toMatchObject({ to: ['bert@bob', 'berta@bob'], to_host: 'bob', from: 'anna@alice', hops: 0 });
    expect(wire.toString('utf8')).not.toContain('secret');
    const opened = JSON.parse((await openSeal(envelope, w.bob.sealKey)).toString('utf8')) as object;
    expect(opened).toEqual({
      kind: 'message',
      needs_reply: false,
      origin: 'agent',
      refs: [],
      reply_to: null,
      thread: message.id,
      body: 'secret words',
    });
    expect(w.alice.told).toContainEqual({ type: 'outbox-changed', peerId: peerIdOf(w.bob.host) });
  });

  test('gives the due rows of a peer in sending order, and none before its time but with a later one', async () => {
    const w = await world();
    for (const peer of [w.bob, w.carol, w.bob, w.bob]) {
      await sendTo(w.alice, peer, { from: 'anna', to: ['x'] });
      w.alice.clock.nowMs += 10;
    }
    expect((await due(w, w.bob)).map(({ rowId }) => rowId)).toEqual([1, 3, 4]);
    expect((await due(w, w.carol)).map(({ rowId }) => rowId)).toEqual([2]);
    expect((await due(w, w.bob, 2)).map(({ rowId }) => rowId)).toEqual([1, 3]);
    await step(w, 1, { type: 'lan-failed', reason: 'x' });
    expect((await due(w, w.bob)).map(({ rowId }) => rowId)).toEqual([1, 3, 4]);
    await step(w, 1, { type: 'lan-failed', reason: 'x' });
    await step(w, 3, { type: 'lan-failed', reason: 'x' });
    await step(w, 4, { type: 'lan-failed', reason: 'x' });
    const nextMs = await w.alice.store().read((reader) => nextDueMs(reader, peerIdOf(w.bob.host)));
    expect(nextMs).toBeGreaterThan(w.alice.clock.nowMs);
    w.alice.clock.nowMs = (nextMs ?? 0) - 1;
    expect(await due(w, w.bob)).toEqual([]);
    w.alice.clock.nowMs += 1;
    const first = (await due(w, w.bob)).map(({ rowId }) => rowId);
    expect(first).toEqual([1, 3, 4].slice(0, Math.max(1, first.length)));
    await w.alice
      .store()
      .transact((tx) => afterPeerChange(tx, w.alice.context, peerIdOf(w.bob.host), { type: 'peer-reached' }));
    expect(await due(w, w.bob)).toHaveLength(3);
  });

  test('reads no more rows than it gives, none that were taken, and none that wait while nothing is due', async () => {
    const w = await world();
    for (let count = 0; count < 20; count++) await sendTo(w.alice, w.bob, { from: 'anna', to: ['x'] });
    let read = 0;
    const counted = <T>(work: (reader: Reader) => T): ((reader: Reader) => T) => {
      return (reader) =>
        work({
          get: (table, ...key) => {
            if (table === 'outbox') read++;
            return reader.get(table, ...key);
          },
          range: (...range) => reader.range(...range),
          keys: (...range) => reader.keys(...range),
        });
    };
    const store = { read: (work: (reader: Reader) => unknown) => w.alice.store().read(counted(work)) } as HostStore;
    const look = (taken?: ReadonlySet<number>): Promise<OutboxRow[]> =>
      dueRows({ ...w.alice.context, store }, peerIdOf(w.bob.host), 5, taken);
    expect((await look()).map(({ rowId }) => rowId)).toEqual([1, 2, 3, 4, 5]);
    expect(read).toBe(5);
    read = 0;
    expect((await look(new Set([1, 2, 4]))).map(({ rowId }) => rowId)).toEqual([3, 5, 6, 7, 8]);
    expect(read).toBe(5);
    for (let rowId = 1; rowId <= 20; rowId++) await step(w, rowId, { type: 'lan-failed', reason: 'x' });
    read = 0;
    expect(await look()).toEqual([]);
    expect(read).toBe(0);
  });

  test('reads a bounded number of waiting rows to keep the order', async () => {
    const w = await world();
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['x'] });
    await w.alice.store().transact((tx) => {
      const [row, wire] = [tx.get('outbox', 1)!, tx.get('outboxWire', 1)!];
      for (let rowId = 2; rowId <= 2100; rowId++) {
        const copy = { ...row, rowId, nextAtMs: w.alice.clock.nowMs + 1000, lastError: 'no answer' };
        tx.put('outbox', [rowId], copy);
        tx.put('outboxWire', [rowId], wire);
        tx.put('outboxDue', [row.peerId, copy.nextAtMs, rowId], true);
      }
    });
    let read = 0;
    const store = {
      read: (work: (reader: Reader) => unknown) =>
        w.alice.store().read((reader) =>
          work({
            get: (table, ...key) => {
              if (table === 'outbox') read++;
              return reader.get(table, ...key);
            },
            range: (...range) => reader.range(...range),
            keys: (...range) => reader.keys(...range),
          }),
        ),
    } as HostStore;
    await dueRows({ ...w.alice.context, store }, peerIdOf(w.bob.host), 5);
    expect(read).toBe(2001);
  });

  test('survives the daemon: rows, bytes and due times are in the store', async () => {
    const w = await world();
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    const before = await due(w, w.bob);
    await w.alice.reopen();
    expect(await due(w, w.bob)).toEqual(before);
  });

  test('alerts the sending agent in the thread of the message, once, and marks its record', async () => {
    const w = await world();
    const { ref } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'], subject: 'Nightly build' });
    w.alice.clock.nowMs += UNDELIVERED_ALERT_MS;
    await step(w, 1, { type: 'lan-failed', reason: 'x' });
    await step(w, 1, { type: 'lan-failed', reason: 'x' });
    const alerts = await alertsOf(w);
    expect(alerts).toMatchObject([{ subject: 'Undelivered to bob', thread: ref }]);
    expect(alerts[0]?.body).toMatch(/"Nightly build" to bert@bob has not been delivered for 72 hours/);
    expect(w.alice.told).toContainEqual(expect.objectContaining({ type: 'mail-stored', wakes: true }));
    const sent = await w.alice.store().read((reader) => reader.get('sent', ref));
    expect(sent?.recipients).toMatchObject([{ address: 'bert@bob', state: 'undelivered' }]);
  });

  test('of an unpaired peer: nothing is left that waits, and the sender knows', async () => {
    const w = await world();
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    const id = peerIdOf(w.bob.host);
    await w.alice.store().transact((tx) => afterPeerChange(tx, w.alice.context, id, { type: 'peer-unpaired' }));
    expect(await w.alice.store().read((reader) => nextDueMs(reader, id))).toBeNull();
    expect(await w.alice.store().read((reader) => reader.get('outboxWire', 1))).toBeUndefined();
    expect(await alertsOf(w)).toMatchObject([{ subject: 'Undelivered to bob' }]);
  });

  test('a event for a row that is gone changes nothing', async () => {
    const w = await world();
    expect(
      await w.alice.store().transact((tx) => afterAttempt(tx, w.alice.context, 77, { type: 'lan-accepted' })),
    ).toBeUndefined();
  });
});

test('a message that waits behind an earlier one that was refused is reported in time nonetheless', async () => {
  const w = await world();
  await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  w.alice.clock.nowMs += 300_000;
  const laterAtMs = w.alice.clock.nowMs;
  await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  w.alice.clock.nowMs = laterAtMs + UNDELIVERED_ALERT_MS - 1000;
  // The earlier one is past its own report, and its pause is as long as pauses get.
  for (let tries = 0; tries < 12; tries++)
    await step(w, 1, { type: 'relay-refused', relayPubkey: relay.key, code: 'quota:queue_items' });
  expect((await due(w, w.bob)).map(({ rowId }) => rowId)).toEqual([]);
  const [later, earlier] = (await listOutbox(w.alice.context, {})).rows;
  expect(timeMsOf(earlier?.next_at ?? '')).toBeGreaterThan(laterAtMs + UNDELIVERED_ALERT_MS);
  expect(later?.next_at).toBe(isoTime(laterAtMs + UNDELIVERED_ALERT_MS));
});

describe('what the owner sees and cancels', () => {
  test('open rows by default, newest first, of one host, in pages', async () => {
    const w = await world();
    for (const peer of [w.bob, w.carol, w.bob]) await sendTo(w.alice, peer, { from: 'anna', to: ['x'] });
    const rowsOf = async (input: Parameters<typeof listOutbox>[1]): Promise<number[]> =>
      (await listOutbox(w.alice.context, input)).rows.map(({ row }) => row);
    expect(await rowsOf({})).toEqual([3, 2, 1]);
    expect(await rowsOf({ host: 'BOB' })).toEqual([3, 1]);
    const page = await listOutbox(w.alice.context, { limit: 2 });
    expect(page).toMatchObject({ rows: [{ row: 3 }, { row: 2 }], next_before: 2 });
    expect(await listOutbox(w.alice.context, { limit: 2, before: 2 })).toMatchObject({
      rows: [{ row: 1 }],
      next_before: null,
    });
    await cancelOutbox(w.alice.context, { row: 2 });
    expect(await rowsOf({})).toEqual([3, 1]);
    expect(await rowsOf({ show: 'all' })).toEqual([3, 2, 1]);
    expect(await rowsOf({ show: 'undelivered' })).toEqual([]);
    w.alice.clock.nowMs += UNDELIVERED_ALERT_MS;
    await step(w, 3, { type: 'time-passed' });
    expect(await rowsOf({ show: 'undelivered' })).toEqual([3]);
  });

  test('a pending row is cancelled: nothing is sent any more, and the record says so', async () => {
    const w = await world();
    const { ref } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    // It is due: nobody can tell that it is not being sent just now.
    expect(await cancelOutbox(w.alice.context, { row: 1 })).toMatchObject({
      cancelled: { state: 'cancelled' },
      was_tried: true,
    });
    expect(await due(w, w.bob)).toEqual([]);
    expect(await w.alice.store().read((reader) => reader.get('outboxWire', 1))).toBeUndefined();
    const sent = await w.alice.store().read((reader) => reader.get('sent', ref));
    expect(sent?.recipients).toMatchObject([{ state: 'cancelled' }]);
    expect(await alertsOf(w)).toEqual([]);
  });

  test('a row that another host accepted, that was cancelled, or that is not there is refused', async () => {
    const w = await world();
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    await step(w, 1, { type: 'lan-accepted' });
    expect(await cancelOutbox(w.alice.context, { row: 1 })).toMatchObject({
      code: 'NOT_CANCELLABLE',
      details: { row: 1, state: 'lan-accepted' },
    });
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    await step(w, 2, { type: 'lan-failed', reason: 'x' });
    expect(await cancelOutbox(w.alice.context, { row: 2 })).toMatchObject({ was_tried: true });
    expect(await cancelOutbox(w.alice.context, { row: 2 })).toMatchObject({ code: 'NOT_CANCELLABLE' });
    expect(await cancelOutbox(w.alice.context, { row: 9 })).toMatchObject({ code: 'NO_SUCH_ROW' });
  });
});
