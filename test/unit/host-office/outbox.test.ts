import { describe, expect, onTestFinished, test } from 'vitest';
import type { AgentId, MessageRef, OutboxRow } from '../../../src/host/core/rows.ts';
import { UNDELIVERED_ALERT_MS } from '../../../src/host/core/outbox.ts';
import { cancelOutbox, listOutbox } from '../../../src/host/office/outbox-list.ts';
import { afterAttempt, afterPeerChange, dueRows, nextDueMs, wireOf } from '../../../src/host/office/outbox.ts';
import { type Envelope, openSeal } from '../../../src/host/office/sealing.ts';
import { sha256Hex } from '../../../src/protocol/digest.ts';
import { type PairedOffice, addAgent, officeOf, peerIdOf, pin, sendTo } from '../../support/paired-offices.ts';

interface World {
  alice: PairedOffice;
  bob: PairedOffice;
  carol: PairedOffice;
}

async function world(): Promise<World> {
  const alice = await officeOf('alice');
  onTestFinished(() => alice.close());
  const bob = await officeOf('bob', alice.clock);
  onTestFinished(() => bob.close());
  const carol = await officeOf('carol', alice.clock);
  onTestFinished(() => carol.close());
  await pin(alice, bob);
  await pin(alice, carol);
  await addAgent(alice, 'anna');
  return { alice, bob, carol };
}

const due = ({ alice }: World, peer: PairedOffice, limit = 100): Promise<OutboxRow[]> =>
  alice.store().read((reader) => dueRows(reader, peerIdOf(peer.host), alice.clock.nowMs, limit));

const step = (
  { alice }: World,
  ...given: [rowId: number, happening: Parameters<typeof afterAttempt>[3]]
): Promise<void> => alice.store().transact((tx) => void afterAttempt(tx, alice.office, ...given));

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

  test('gives the due rows of one peer, longest due first, and no row before its time', async () => {
    const w = await world();
    for (const peer of [w.bob, w.carol, w.bob, w.bob]) {
      await sendTo(w.alice, peer, { from: 'anna', to: ['x'] });
      w.alice.clock.nowMs += 10;
    }
    expect((await due(w, w.bob)).map(({ rowId }) => rowId)).toEqual([1, 3, 4]);
    expect((await due(w, w.carol)).map(({ rowId }) => rowId)).toEqual([2]);
    expect((await due(w, w.bob, 2)).map(({ rowId }) => rowId)).toEqual([1, 3]);
    await step(w, 1, { type: 'lan-failed', reason: 'x' });
    expect((await due(w, w.bob)).map(({ rowId }) => rowId)).toEqual([3, 4]);
    await step(w, 3, { type: 'lan-failed', reason: 'x' });
    await step(w, 4, { type: 'lan-failed', reason: 'x' });
    const nextMs = await w.alice.store().read((reader) => nextDueMs(reader, peerIdOf(w.bob.host)));
    expect(nextMs).toBeGreaterThan(w.alice.clock.nowMs);
    w.alice.clock.nowMs = (nextMs ?? 0) - 1;
    expect(await due(w, w.bob)).toEqual([]);
    w.alice.clock.nowMs += 1;
    expect(await due(w, w.bob)).toHaveLength(1);
    await w.alice
      .store()
      .transact((tx) => afterPeerChange(tx, w.alice.office, peerIdOf(w.bob.host), { type: 'peer-reached' }));
    expect(await due(w, w.bob)).toHaveLength(3);
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
    await w.alice.store().transact((tx) => afterPeerChange(tx, w.alice.office, id, { type: 'peer-unpaired' }));
    expect(await w.alice.store().read((reader) => nextDueMs(reader, id))).toBeNull();
    expect(await w.alice.store().read((reader) => reader.get('outboxWire', 1))).toBeUndefined();
    expect(await alertsOf(w)).toMatchObject([{ subject: 'Undelivered to bob' }]);
  });

  test('a happening for a row that is gone changes nothing', async () => {
    const w = await world();
    expect(
      await w.alice.store().transact((tx) => afterAttempt(tx, w.alice.office, 77, { type: 'lan-accepted' })),
    ).toBeUndefined();
  });
});

describe('what the owner sees and cancels', () => {
  test('open rows by default, newest first, of one host, in pages', async () => {
    const w = await world();
    for (const peer of [w.bob, w.carol, w.bob]) await sendTo(w.alice, peer, { from: 'anna', to: ['x'] });
    const rowsOf = async (input: Parameters<typeof listOutbox>[1]): Promise<number[]> =>
      (await listOutbox(w.alice.office, input)).rows.map(({ row }) => row);
    expect(await rowsOf({})).toEqual([3, 2, 1]);
    expect(await rowsOf({ host: 'BOB' })).toEqual([3, 1]);
    const page = await listOutbox(w.alice.office, { limit: 2 });
    expect(page).toMatchObject({ rows: [{ row: 3 }, { row: 2 }], next_before: 2 });
    expect(await listOutbox(w.alice.office, { limit: 2, before: 2 })).toMatchObject({
      rows: [{ row: 1 }],
      next_before: null,
    });
    await cancelOutbox(w.alice.office, { row: 2 });
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
    expect(await cancelOutbox(w.alice.office, { row: 1 })).toMatchObject({
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
    expect(await cancelOutbox(w.alice.office, { row: 1 })).toMatchObject({
      code: 'NOT_CANCELLABLE',
      details: { row: 1, state: 'lan-accepted' },
    });
    await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
    await step(w, 2, { type: 'lan-failed', reason: 'x' });
    expect(await cancelOutbox(w.alice.office, { row: 2 })).toMatchObject({ was_tried: true });
    expect(await cancelOutbox(w.alice.office, { row: 2 })).toMatchObject({ code: 'NOT_CANCELLABLE' });
    expect(await cancelOutbox(w.alice.office, { row: 9 })).toMatchObject({ code: 'NO_SUCH_ROW' });
  });
});
