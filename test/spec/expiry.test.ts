/** "Item at the relay", the expiry row; "Expiry notice"; "Dedup record". */
import { canonicalize } from 'json-canonicalize';
import { expect, test } from 'vitest';
import { verifySignature } from '../../src/protocol/ed25519.ts';
import { verified } from '../support/audits.ts';
import { collected } from '../support/collected.ts';
import { enrolOf, expireOf, pushOf, rotateOf } from '../support/commands.ts';
import { epochNumbered } from '../support/epochs.ts';
import { accepted, enrolled } from '../support/events.ts';
import { withoutCharge } from '../support/faulty-history.ts';
import { given } from '../support/given.ts';
import { alice, bob, carol, dave, relay as relayHost } from '../support/hosts.ts';
import { expectReplayed } from '../support/replay.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, openTestRelay, outcomeOf } from '../support/test-relay.ts';

const DAY_MS = 86_400_000;
const RETENTION_MS = 14 * DAY_MS;
const HORIZON_MS = RETENTION_MS + 7 * DAY_MS;

async function open(options: Parameters<typeof openTestRelay>[0] = {}): Promise<TestRelay> {
  const relay = await openTestRelay({ ...options, hosts: [alice, bob, carol] });
  return relay;
}

test('item at the relay: not a millisecond before expires_at, and then deleted with its quota', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const [row] = await relay.queue(bob);
  await relay.sweepAfter(RETENTION_MS - 1);
  expect(await relay.queue(bob)).toHaveLength(1);
  await relay.sweepAfter(1);
  expect(await relay.queue(bob)).toEqual([]);
  expect(relay.store.hasPayload(row!)).toBe(false);
  expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0, ackedThrough: 0, headSeq: NOON_MS });
  expect(relay.store.get('share', bob.key + alice.key)).toBeUndefined();
});

test('item at the relay: a tombstone is kept, so that a late retry is a duplicate with its seq', async () => {
  const relay = await open();
  const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.sweepAfter(RETENTION_MS);
  expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).toEqual({ verdict: 'duplicate', seqs });
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]))).verdict).toBe('rejected:conflict');
  expect(await relay.queue(bob)).toEqual([]);
});

test('item at the relay: an expired notice is queued for the sender of an envelope', async () => {
  const relay = await open();
  await relay.pushOne(
    pushOf(alice, 'm1', [
      [bob, 'x'],
      [carol, 'x'],
    ]),
  );
  const expiredAtMs = await relay.sweepAfter(RETENTION_MS + 5);
  const notices = await relay.queue(alice);
  expect(notices.map(({ itemId }) => itemId).toSorted()).toEqual(
    [`expired:m1:${bob.key}`, `expired:m1:${carol.key}`].toSorted(),
  );
  expect(notices.map(({ seq }) => seq)).toEqual([expiredAtMs, expiredAtMs + 1]);
  for (const { kind, senderPubkey, expiresAtMs } of notices) {
    expect([kind, senderPubkey, expiresAtMs]).toEqual(['expired', relayHost.key, expiredAtMs + RETENTION_MS]);
  }
});

test('expiry notice: the wire is canonical {rec, sig} under the relay key', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const expiredAtMs = await relay.sweepAfter(RETENTION_MS);
  const [wire] = await relay.wires(alice);
  const document = JSON.parse(wire!) as { rec: object; sig: string };
  expect(wire).toBe(canonicalize(document));
  expect(document.rec).toEqual({
    v: 1,
    type: 'relay-expired',
    item_id: 'm1',
    target_pubkey: bob.key,
    accepted_at: NOON_MS,
    expired_at: expiredAtMs,
  });
  expect(verifySignature(relayHost.key, Buffer.from(canonicalize(document.rec)), document.sig)).toBe(true);
});

test('item at the relay: an expired receipt is dropped without notice, and known for the horizon', async () => {
  const relay = await open();
  const id = 'receipt:m1:a@b:1';
  await relay.pushOne(pushOf(bob, id, [[alice, 'x']], { kind: 'receipt' }));
  await relay.sweepAfter(RETENTION_MS);
  expect(await relay.queue(alice)).toEqual([]);
  expect(await relay.queue(bob)).toEqual([]);
  expect((await relay.pushOne(pushOf(bob, id, [[alice, 'x']], { kind: 'receipt' }))).verdict).toBe('duplicate');
});

test('expiry notice: one that itself expires is dropped, and nobody is told', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.sweepAfter(RETENTION_MS);
  expect(await relay.queue(alice)).toHaveLength(1);
  await relay.sweepAfter(RETENTION_MS);
  for (const host of [alice, bob, carol]) expect(await relay.queue(host)).toEqual([]);
  expect(relay.dedupRows(alice)).toBe(1);
});

test('expiry notice: exempt from every quota', async () => {
  const relay = await open({ limits: { max_queue_items: 2, max_queue_bytes: 4, max_sender_items: 2 } });
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
  await relay.pushOne(pushOf(bob, 'm3', [[alice, 'x']]));
  await relay.pushOne(pushOf(bob, 'm4', [[alice, 'x']]));
  await relay.ack(alice, NOON_MS);
  await relay.sweepAfter(RETENTION_MS);
  expect((await relay.queue(alice)).map(({ kind }) => kind)).toEqual(['expired', 'expired']);
  expect(relay.engine.head(alice.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  for (const id of ['m5', 'm6']) {
    expect((await relay.pushOne(pushOf(bob, id, [[alice, 'x']]))).verdict).toBe('accepted');
  }
  expect((await relay.pushOne(pushOf(bob, 'm7', [[alice, 'x']]))).verdict).toBe('rejected:quota:queue_items');
  const head = relay.engine.head(alice.key).headSeq;
  expect(await relay.ack(alice, head)).toMatchObject({ deleted: 4 });
  expect(relay.engine.head(alice.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  await expectReplayed(relay.store);
});

test('expiry notice: mail to oneself expires and tells oneself', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[alice, 'x']]));
  await relay.sweepAfter(RETENTION_MS);
  expect((await relay.queue(alice)).map(({ itemId }) => itemId)).toEqual([`expired:m1:${alice.key}`]);
  await relay.reopen();
  expect(await relay.wires(alice)).toHaveLength(1);
});

test('expiry notice: a sender that is no host any more is told nothing', () => {
  const world = given(enrolled(bob), accepted(dave, 'm1', [[bob, NOON_MS, 'x']]));
  const expiry = world.whenExpiring(expireOf(bob, [NOON_MS], NOON_MS + RETENTION_MS));
  expect(expiry).toMatchObject({ items: [{ seq: NOON_MS, itemId: 'm1' }], notices: [] });
});

test('item at the relay: what is acked, gone or not due is left alone by the sweep', () => {
  const world = given(enrolled(alice), enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, 'x']]));
  expect(world.whenExpiring(expireOf(bob, [NOON_MS], NOON_MS + RETENTION_MS - 1))).toBeUndefined();
  expect(world.whenExpiring(expireOf(bob, [NOON_MS + 1], NOON_MS + RETENTION_MS))).toBeUndefined();
  const ackedWorld = given(
    enrolled(alice),
    enrolled(bob),
    accepted(alice, 'm1', [[bob, NOON_MS, 'x']]),
    ...world.when({
      type: 'AckItems',
      targetPubkey: bob.key,
      epoch: world.rows.get('relay', '')!.epoch,
      through: NOON_MS,
      nowMs: NOON_MS,
    }).events,
  );
  expect(ackedWorld.whenExpiring(expireOf(bob, [NOON_MS], NOON_MS + RETENTION_MS))).toBeUndefined();
});

test('dedup record: kept for the horizon after its item expired, then forgotten and its quota given back', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.sweepAfter(RETENTION_MS);
  await relay.sweepAfter(HORIZON_MS - 1);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('duplicate');
  await relay.sweepAfter(1);
  expect(relay.dedupRows(alice)).toBe(0);
  const anew = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]));
  expect(anew).toEqual({ verdict: 'accepted', seqs: [relay.clock.nowMs] });
  expect(relay.dedupRows(alice)).toBe(1);
});

test('dedup record: what is forgotten is one event, by the time until which it was to be known', () => {
  const senders = [{ senderPubkey: alice.key, rows: 2 }];
  const purge = given(
    accepted(alice, 'm1', [
      [bob, NOON_MS, 'x'],
      [carol, NOON_MS, 'x'],
    ]),
  ).when({ type: 'PurgeDedup', beforeMs: NOON_MS + 5, senders, nowMs: NOON_MS + 9 });
  expect(purge.outcome).toEqual({ type: 'Done' });
  expect(purge.events).toEqual([{ type: 'DedupPurged', beforeMs: NOON_MS + 5, senders, atMs: NOON_MS + 9 }]);
  expect(purge.after().get('sender', alice.key)).toBeUndefined();
  expect(purge.after().get('relay', '')?.dedupPurgedMs).toBe(NOON_MS + 5);
});

test('dedup record: the horizon counts from the expiry, also when the relay slept through it', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  // The relay was down for two months.
  relay.clock.move(60 * DAY_MS);
  await relay.reopen();
  await relay.sweep();
  expect(await relay.queue(alice)).toHaveLength(1);
  await relay.sweepAfter(HORIZON_MS - 1);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('duplicate');
  await relay.sweepAfter(1);
  expect(relay.dedupRows(alice)).toBe(0);
  await expectReplayed(relay.store);
});

test('dedup record: kept for the horizon after its item is acked', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.clock.move(RETENTION_MS - 1);
  await relay.ack(bob, NOON_MS);
  await relay.sweepAfter(HORIZON_MS);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('duplicate');
  await relay.sweepAfter(1);
  expect(relay.dedupRows(alice)).toBe(0);
});

test('dedup record: kept for the horizon after its item is acked, even if that is long after expires_at', async () => {
  const relay = await open();
  // More than one event extends; carol's is on time.
  const ids = Array.from({ length: 150 }, (_none, at) => `m${at}`);
  const push = () => relay.push(...ids.map((id) => pushOf(alice, id, [[bob, 'x']])));
  await push();
  await relay.rotate(rotateOf(bob, dave));
  await relay.pushOne(pushOf(alice, 'on time', [[carol, 'x']]));
  relay.clock.move(RETENTION_MS - 1);
  await relay.ack(carol, relay.engine.head(carol.key).headSeq);
  // Nothing swept in time: the relay slept.
  relay.clock.move(5 * DAY_MS + 1);
  await relay.reopen();
  const late = relay.engine.head(dave.key).headSeq;
  const lsn = relay.store.lastLsn;
  expect(await relay.ack(dave, late)).toMatchObject({ type: 'Acked', deleted: 150, ackedThrough: late });
  const ackedAtMs = relay.clock.nowMs;
  const types = (await collected(relay.store.read(lsn + 1))).map(({ event }) => event.type);
  expect([...new Set(types)]).toEqual(['DedupExtended', 'ItemsAcked']);
  expect(types.length).toBeGreaterThan(2);
  relay.clock.nowMs = ackedAtMs + HORIZON_MS - 1;
  await relay.sweep();
  // The others went at their time.
  expect(relay.dedupRows(alice)).toBe(150);
  const again = await relay.push(...ids.map((id) => pushOf(alice, id, [[dave, 'x']])));
  expect(new Set(again.map((outcome) => outcomeOf(outcome).verdict))).toEqual(new Set(['duplicate']));
  await relay.sweepAfter(1);
  expect(relay.dedupRows(alice)).toBe(0);
  await relay.close();
  expect((await verified(relay.folder)).findings).toEqual([]);
});

test('dedup record: an ack that is refused keeps nothing for longer, however often it comes', async () => {
  const relay = await open();
  await relay.push(pushOf(alice, 'm1', [[bob, 'x']]), pushOf(alice, 'm2', [[carol, 'x']]));
  await withoutCharge(relay, bob);
  relay.clock.move(RETENTION_MS);
  const { lastLsn } = relay.store;
  const { headSeq } = relay.engine.head(carol.key);
  for (let times = 0; times < 3; times++) {
    expect(await relay.ack(bob, headSeq)).toMatchObject({ code: 'UNAVAILABLE' });
    expect(await relay.ack(carol, headSeq + 1)).toMatchObject({ code: 'BAD_ACK' });
    expect(await relay.ack(carol, headSeq, { epoch: epochNumbered(99) })).toMatchObject({ code: 'EPOCH_CHANGED' });
  }
  expect(relay.store.lastLsn).toBe(lastLsn);
});

test('dedup record: not forgotten while its item waits because its queue is at fault', async () => {
  const relay = await open();
  await relay.push(pushOf(alice, 'm1', [[bob, 'x']]), pushOf(alice, 'm2', [[carol, 'x']]));
  await withoutCharge(relay, bob);
  await relay.sweepAfter(RETENTION_MS + 2 * HORIZON_MS);
  expect(relay.engine.brokenQueues).toHaveLength(1);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('duplicate');
  expect(await relay.queue(bob)).toHaveLength(1);
});

test('dedup record: a purge gives back quota:dedup_rows', async () => {
  const relay = await open({ dedupRowsMax: 2 });
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
  await relay.ack(bob, NOON_MS + 1);
  await relay.sweepAfter(RETENTION_MS + HORIZON_MS - 1);
  expect((await relay.pushOne(pushOf(alice, 'm3', [[bob, 'x']]))).verdict).toBe('rejected:quota:dedup_rows');
  await relay.sweepAfter(1);
  expect((await relay.pushOne(pushOf(alice, 'm3', [[bob, 'x']]))).verdict).toBe('accepted');
  expect(relay.dedupRows(alice)).toBe(1);
});

test('dedup record: an item lost and accepted anew is not purged with its first due entry', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.clock.move(DAY_MS);
  const lost = { type: 'ReportLostItem', targetPubkey: bob.key, seq: NOON_MS, nowMs: relay.clock.nowMs } as const;
  await relay.engine.lost.report({ ...lost, freshEpoch: relay.engine.epoch });
  const anew = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  expect(anew.verdict).toBe('accepted');
  await relay.ack(bob, anew.seqs[0]!);
  relay.clock.nowMs = NOON_MS + RETENTION_MS + HORIZON_MS;
  await relay.sweep();
  expect(relay.dedupRows(alice)).toBe(1);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('duplicate');
  await relay.sweepAfter(DAY_MS);
  expect(relay.dedupRows(alice)).toBe(0);
});

test('dedup record: an id pushed anew in the middle of its purge stays known and is counted once', async () => {
  const relay = await open();
  // Two entries of one time: one batch each.
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
  await relay.ack(bob, NOON_MS + 1);
  relay.clock.move(RETENTION_MS + HORIZON_MS);
  const purging = relay.purge();
  // Until one of them is forgotten.
  let pushes = 0;
  for (let verdict = 'duplicate'; verdict === 'duplicate'; pushes++) {
    [{ verdict }] = await Promise.all([
      relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']])),
      new Promise((resolve) => {
        setImmediate(resolve);
      }),
    ]);
  }
  await purging;
  expect(pushes).toBeGreaterThan(0);
  expect(relay.dedupRows(alice)).toBe(1);
  expect((await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]))).verdict).toBe('duplicate');
  await relay.reopen();
  expect((await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]))).verdict).toBe('duplicate');
});

test('expiry sweep: stops and reopens between slices leave one notice per envelope', async () => {
  const relay = await open();
  const ids = Array.from({ length: 250 }, (_none, at) => `m${at}`);
  await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, 'x']])));
  relay.clock.move(RETENTION_MS);
  for (let round = 0; round < 4; round++) {
    let asked = 0;
    const sweep = relay.engine.expiry.expire(() => relay.clock.nowMs, {
      get aborted() {
        return asked++ > 0;
      },
    });
    await Promise.all([sweep, relay.engine.durable()]);
    await relay.reopen();
  }
  await relay.sweep();
  const notices = (await relay.queue(alice)).map(({ itemId }) => itemId);
  expect(notices.toSorted()).toEqual(ids.map((id) => `expired:${id}:${bob.key}`).toSorted());
  expect(await relay.queue(bob)).toEqual([]);
});

test('expiry sweep: the same due entry again, as after a crash before it is gone, tells nobody twice', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const nowMs = relay.clock.move(RETENTION_MS);
  const due = await relay.store.due.items(nowMs);
  await relay.expire();
  const dueItems = relay.store.due.items.bind(relay.store.due);
  let isFirst = true;
  relay.store.due.items = async (atMs) => {
    if (!isFirst) return dueItems(atMs);
    isFirst = false;
    return due;
  };
  await relay.expire();
  expect(await relay.queue(alice)).toHaveLength(1);
});

test('expiry sweep: a clock set back in the middle forgets no item', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.clock.move(RETENTION_MS);
  const sweep = relay.expire();
  relay.clock.move(-1);
  await sweep;
  relay.clock.move(1);
  await relay.expire();
  expect(await relay.queue(bob)).toEqual([]);
  expect(await relay.queue(alice)).toHaveLength(1);
});

test('expiry sweep: pushes and acks in its middle', async () => {
  const relay = await open();
  const ids = Array.from({ length: 300 }, (_none, at) => `m${at}`);
  await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, 'x']])));
  relay.clock.move(RETENTION_MS);
  const sweep = relay.sweep();
  const acked = relay.ack(bob, NOON_MS + 149);
  const fresh = Array.from({ length: 20 }, (_none, at) =>
    pushOf(carol, `n${at}`, [
      [bob, 'y'],
      [alice, 'y'],
    ]),
  );
  await Promise.all([...fresh.map((command) => relay.pushOne(command)), acked, sweep]);
  await relay.sweep();
  expect((await relay.queue(bob)).map(({ itemId }) => itemId).toSorted()).toEqual(
    fresh.map(({ item }) => item.itemId).toSorted(),
  );
  const outcome = await acked;
  const notices = (await relay.queue(alice)).filter(({ kind }) => kind === 'expired');
  expect(outcome).toMatchObject({ type: 'Acked' });
  expect(notices.length + (outcome.type === 'Acked' ? outcome.deleted : 0)).toBe(300);
  expect(new Set(notices.map(({ itemId }) => itemId)).size).toBe(notices.length);
  expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 20, queueBytes: 20 });
  await expectReplayed(relay.store);
});

test('an enrolment that lapsed and came again still gets the mail that waits, or its sender the notice', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.clock.move(RETENTION_MS);
  await relay.enrol(enrolOf(bob));
  await relay.sweep();
  expect(await relay.queue(alice)).toHaveLength(1);
});

test('dedup record: an id accepted anew in the very batch that forgets it is known', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.ack(bob, NOON_MS);
  relay.clock.move(RETENTION_MS + HORIZON_MS);
  const dueDedup = relay.store.due.dedup.bind(relay.store.due);
  const pushed: Promise<{ verdict: string }>[] = [];
  relay.store.due.dedup = async (atMs) => {
    const due = await dueDedup(atMs);
    // When the purge is admitted, and before its batch is written.
    if (due) process.nextTick(() => pushed.push(relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]))));
    return due;
  };
  await relay.purge();
  expect((await Promise.all(pushed)).map(({ verdict }) => verdict)).toEqual(['accepted']);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]))).verdict).toBe('duplicate');
  expect(relay.dedupRows(alice)).toBe(1);
});

test('expiry notice: one whose bytes are lost is dropped; nobody is charged, epoch and relay go on', async () => {
  const relay = await open();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.sweepAfter(RETENTION_MS);
  const [notice] = await relay.queue(alice);
  const { epoch } = relay.engine;
  const freshEpoch = epoch;
  const nowMs = relay.clock.nowMs;
  await relay.engine.lost.report({
    type: 'ReportLostItem',
    targetPubkey: alice.key,
    seq: notice!.seq,
    freshEpoch,
    nowMs,
  });
  expect(await relay.queue(alice)).toEqual([]);
  expect(relay.engine.head(alice.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  expect((await relay.pushOne(pushOf(bob, 'm2', [[alice, 'x']]))).verdict).toBe('accepted');
  expect(relay.failures).toEqual([]);
  await expectReplayed(relay.store);
});
