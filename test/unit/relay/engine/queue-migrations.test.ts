import { cp } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { StoreFailed } from '../../../../src/relay/engine/committer.ts';
import type { PushItem } from '../../../../src/relay/core/command.ts';
import { MOVED_AT_ONCE } from '../../../../src/relay/core/decide-rotation.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { rebuilt } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { ackOf, pushOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { settled } from '../../../support/settled.ts';
import { SlowDisk, turns } from '../../../support/slow-disk.ts';
import { disposableFolder, temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { TestRelay, openTestRelay, outcomeOf } from '../../../support/test-relay.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { BrokenQueue } from '../../../../src/relay/core/decision.ts';
import { breakRow } from '../../../support/stored-items.ts';

/** More than two batches take: a batch has room for three or four slices. */
const MANY = (IS_THOROUGH ? 12 : 9) * MOVED_AT_ONCE + 7;

function itemsFor(target: TestHost, count: number): PushItem[] {
  return Array.from({ length: count }, (_none, at) => pushOf(alice, `m${at}`, [[target, `wire ${at}`]]));
}

/** Everything waits for bob; dave is enrolled, and carol is not. */
async function fill(relay: TestRelay, count: number): Promise<TestRelay> {
  await relay.enrolAll(alice, bob, dave);
  await relay.push(...itemsFor(bob, count));
  await relay.pushOne(pushOf(alice, 'own', [[dave, 'own']]));
  return relay;
}

/** A store in which MANY items wait for bob, closed: filled once, and copied for each test. */
let filled: { folder: string; remove: () => Promise<void> };

beforeAll(async () => {
  filled = await disposableFolder();
  const relay = new TestRelay(filled.folder, {});
  await relay.open();
  await fill(relay, MANY);
  await relay.close();
});
afterAll(() => filled.remove());

async function relayWithQueue(): Promise<TestRelay> {
  const folder = await temporaryFolder();
  await cp(filled.folder, folder, { recursive: true });
  return openTestRelay({ folder });
}

/** A relay whose rotation from bob to `to` has begun and goes no further: the log has it, and no item has moved. */
async function relayInMove(to: TestHost): Promise<{ relay: TestRelay; gate: AppendGate; rotated: Promise<unknown> }> {
  const relay = await relayWithQueue();
  // The index is there, so that the rotation is decided at once.
  await relay.ack(bob, 0);
  const gate = AppendGate.closed(relay.store);
  const rotated = relay.rotate(rotateOf(bob, to));
  await gate.arrived(1);
  gate.letOnePass();
  await gate.arrived(2);
  onTestFinished(() => gate.open());
  return { relay, gate, rotated };
}

describe('while the items of a rotation are moved', () => {
  test('a push to the new key waits, and gets the seq after the last of them', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    const push = relay.pushOne(pushOf(alice, 'late', [[dave, 'late']]));
    expect(await settled({ rotated, push })).toEqual([]);
    gate.open();
    expect(await rotated).toMatchObject({ movedItems: MANY, headSeq: NOON_MS + 2 * MANY - 1 });
    expect(await push).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 2 * MANY] });
    expect((await relay.wires(dave)).at(-1)).toBe('late');
  });

  test('a pull waits, and then shows all of it in order', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    const page = relay.engine.page(dave.key, 0, 5000);
    expect(await settled({ page })).toEqual([]);
    gate.open();
    const { rows, headSeq } = await page;
    expect(rows.map(({ itemId }) => itemId)).toEqual(['own', ...Array.from({ length: MANY }, (_none, at) => `m${at}`)]);
    expect(rows.at(-1)?.seq).toBe(headSeq);
    await rotated;
  });

  test('an ack under the new key waits, and releases what arrived', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    const ack = relay.ack(dave, NOON_MS + 2 * MANY - 1);
    expect(await settled({ ack })).toEqual([]);
    gate.open();
    expect(await ack).toMatchObject({ type: 'Acked', deleted: MANY + 1 });
    await rotated;
    expect(await relay.queue(dave)).toEqual([]);
    expect(relay.store.get('share', dave.key + alice.key)).toBeUndefined();
  });

  test('the same rotation again waits too, and a rotation onwards comes after it', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    const again = relay.rotate(rotateOf(bob, dave));
    const onwards = relay.rotate(rotateOf(dave, carol));
    expect(await settled({ again, onwards })).toEqual([]);
    gate.open();
    await rotated;
    expect(await again).toMatchObject({ type: 'KeyRotated', movedItems: 0, headSeq: NOON_MS + 2 * MANY - 1 });
    expect(await onwards).toMatchObject({ type: 'KeyRotated', movedItems: MANY + 1 });
    expect((await relay.wires(carol)).slice(0, 3)).toEqual(['own', 'wire 0', 'wire 1']);
    await expectReplayed(relay.store);
  });

  test('a push to the old key waits and is then refused, and so is another rotation of it', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    const push = relay.pushOne(pushOf(alice, 'late', [[bob, 'late']]));
    const elsewhere = relay.rotate(rotateOf(bob, carol));
    expect(await settled({ push, elsewhere })).toEqual([]);
    gate.open();
    await rotated;
    expect((await push).verdict).toBe('rejected:target revoked');
    expect(await elsewhere).toMatchObject({ code: 'ENROL_REFUSED' });
  });

  test('mail for other hosts goes on: it is answered before the last item has moved', async () => {
    const { relay, gate, rotated } = await relayInMove(carol);
    const push = relay.pushOne(pushOf(dave, 'between', [[alice, 'x']]));
    const isAnswered = async (): Promise<boolean> => (await settled({ push })).length > 0;
    for (let batches = 3; !(await isAnswered()); batches++) {
      gate.letOnePass();
      await gate.arrived(batches);
    }
    expect((await push).verdict).toBe('accepted');
    expect(await settled({ rotated })).toEqual([]);
    gate.open();
    await rotated;
  });

  test('what expires waits for its new place', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    relay.clock.move(14 * 86_400_000);
    const swept = relay.expire();
    expect(await settled({ swept })).toEqual([]);
    gate.open();
    await Promise.all([rotated, swept]);
    expect(await relay.queue(dave)).toEqual([]);
    // One notice for each, and each names the key that was pushed to.
    const told = (await relay.queue(alice)).map(({ itemId }) => itemId);
    expect(told).toHaveLength(MANY + 1);
    expect(told.filter((id) => id.endsWith(bob.key))).toHaveLength(MANY);
  });

  test('a stop lets it end', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    // Nothing is being written while the move reads on.
    const queueRows = relay.store.queueRows.bind(relay.store);
    relay.store.queueRows = async (...asked) => {
      await turns(20_000);
      return queueRows(...asked);
    };
    const closed = relay.close();
    gate.open();
    await Promise.all([rotated, closed]);
    await relay.open();
    expect(relay.store.get('move', bob.key)).toBeUndefined();
    expect(await relay.queue(dave)).toHaveLength(MANY + 1);
    expect(relay.failures).toEqual([]);
  });
});

test('a pull that waits under the old key ends, so that the host looks again', async () => {
  const relay = await fill(await openTestRelay(), 0);
  const ended = new Promise<number | null | undefined>((resolve) => {
    relay.engine.onArrival(bob.key, () => resolve(relay.engine.directory.get(bob.key)?.revokedAtMs));
  });
  await relay.rotate(rotateOf(bob, carol));
  expect(await ended).toBe(NOON_MS);
});

test('a pull that waits under the new key hears of the items when all are there', async () => {
  const relay = await relayWithQueue();
  const heard = new Promise<number>((resolve, reject) => {
    relay.engine.onArrival(dave.key, () => {
      relay.engine.page(dave.key, 0, 5000).then(({ rows }) => resolve(rows.length), reject);
    });
  });
  await relay.rotate(rotateOf(bob, dave));
  expect(await heard).toBe(MANY + 1);
});

test('no event of a move is larger than a slice, and the bytes of the mail are not written again', async () => {
  const relay = await relayWithQueue();
  const gate = new AppendGate(relay.store);
  await relay.rotate(rotateOf(bob, dave));
  const events = gate.batches.flatMap(({ entries }) => entries.map(({ event }) => event));
  expect(events[0]).toMatchObject({ type: 'KeyRotated', moved: MANY });
  const moved = events.filter((event) => event.type === 'ItemsMoved');
  const sizes = moved.map(({ fromSeqs }) => fromSeqs.length);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(MOVED_AT_ONCE);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(MANY);
  expect(gate.batches.flatMap(({ payloads }) => payloads)).toEqual([]);
  expect(gate.batches.length).toBeGreaterThan(3);
});

/** Returns what the relay keeps, and what bob's mail became. */
async function outcome(relay: TestRelay): Promise<unknown> {
  const rows = (await collected(relay.store.rawRows())).map(([key, value]) => [
    key.toString('hex'),
    value.toString('hex'),
  ]);
  return { rows, queue: await relay.queue(dave), wires: await relay.wires(dave) };
}

/** One that is closed and removed before its test ends. */
const relayAnew = async (): Promise<{ relay: TestRelay; remove: () => Promise<void> }> => {
  const { folder, remove } = await disposableFolder();
  await cp(filled.folder, folder, { recursive: true });
  const relay = new TestRelay(folder, {});
  await relay.open();
  return { relay, remove };
};

describe('a rotation that is cut anywhere', () => {
  test.each(['unwritten', 'written'] as const)(
    'goes on at the next start and ends as if nothing had happened, when the batch that failed was %s',
    async (fails) => {
      const whole = await relayAnew();
      await whole.relay.rotate(rotateOf(bob, dave));
      const expected = await outcome(whole.relay);
      await whole.relay.close();
      await whole.remove();
      // Cut after one more batch until none is left to cut. A batch that was written and not answered is mended by the
      // same start as one that was not written: the first two show it.
      const passedMax = IS_THOROUGH || fails === 'unwritten' ? Infinity : 1;
      for (let passed = 0, isCut = true; isCut && passed <= passedMax; passed++) {
        const { relay, remove } = await relayAnew();
        const healthy = { turnsBefore: 0, turnsAfter: 0, fails: 'no' } as const;
        const delays = [...Array.from({ length: passed }, () => healthy), { ...healthy, fails }];
        const disk = new SlowDisk(relay.store, delays);
        const failure: unknown = await relay.rotate(rotateOf(bob, dave)).catch((error: unknown) => error);
        isCut = failure instanceof StoreFailed;
        await relay.reopen();
        expect(failure).toMatchObject(isCut ? {} : { type: 'KeyRotated', movedItems: MANY });
        expect(isCut || passed > 3).toBe(true);
        expect(disk.durable.length === 0).toBe(passed === 0);
        const isUnknown = passed === 0 && fails === 'unwritten';
        // The client never heard of it and asks again.
        const again = { type: 'KeyRotated', movedItems: isUnknown ? MANY : 0, headSeq: NOON_MS + 2 * MANY - 1 };
        expect(await relay.rotate(rotateOf(bob, dave))).toMatchObject(again);
        expect(await outcome(relay)).toEqual(expected);
        await expectReplayed(relay.store);
        await relay.close();
        await remove();
      }
    },
    60_000,
  );

  test('whatever comes before the rest has arrived waits for it, also after the start', async () => {
    const { relay, gate, rotated } = await relayInMove(dave);
    gate.failOne(new Error('EIO'));
    await expect(rotated).rejects.toBeInstanceOf(StoreFailed);
    await relay.reopen();
    const page = relay.engine.page(dave.key, 0, 5000);
    const push = relay.pushOne(pushOf(alice, 'late', [[dave, 'late']]));
    const known = relay.pushOne(pushOf(alice, 'm0', [[dave, 'wire 0']]));
    expect((await page).rows.length).toBeGreaterThanOrEqual(MANY + 1);
    expect(await push).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 2 * MANY] });
    expect(await known).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  });
});

test('a move that meets an unreadable row holds both keys until the rows are rebuilt, and loses nothing', async () => {
  const { relay, gate, rotated } = await relayInMove(dave);
  gate.failOne(new Error('EIO'));
  await expect(rotated).rejects.toBeInstanceOf(StoreFailed);
  await relay.altered((level) => breakRow(level, bob.key, NOON_MS + MANY - 2));
  const late = pushOf(alice, 'late', [[dave, 'late']]);
  // Nobody else is held up, nor what else comes in the same request.
  const outcomes = await relay.push(late, pushOf(alice, 'other', [[alice, 'x']]), late);
  expect(outcomes.map((outcome) => outcomeOf(outcome).verdict)).toEqual([
    'rejected:target unavailable',
    'accepted',
    'rejected:target unavailable',
  ]);
  await expect(relay.queue(dave)).rejects.toBeInstanceOf(BrokenQueue);
  expect(await relay.ack(dave, 0)).toMatchObject({ type: 'Refusal', code: 'UNAVAILABLE' });
  expect(relay.engine.brokenQueues).toMatchObject([{ targetPubkey: bob.key, reason: expect.stringContaining('row') }]);
  expect(relay.failures).toHaveLength(1);
  await relay.close();
  await rebuilt(relay.folder);
  await relay.open();
  expect((await relay.pushOne(late)).verdict).toBe('accepted');
  expect(await relay.wires(dave)).toEqual([
    'own',
    ...Array.from({ length: MANY }, (_none, at) => `wire ${at}`),
    'late',
  ]);
});

test('an ack under the old key that comes while it is rotated leaves the moved mail where it is', async () => {
  const relay = await fill(await openTestRelay(), 20);
  const [rotated, acked] = await Promise.all([
    relay.rotate(rotateOf(bob, carol)),
    relay.engine.acks.ack({ ...ackOf(bob, NOON_MS + 9), epoch: relay.engine.epoch }),
  ]);
  expect(rotated).toMatchObject({ movedItems: 20 });
  expect(acked).toMatchObject({ type: 'Acked' });
  await relay.reopen();
  expect(await relay.wires(carol)).toHaveLength(20);
  expect(await relay.wires(carol)).not.toContain(undefined);
  expect((await relay.pushOne(pushOf(alice, 'm0', [[carol, 'wire 0']]))).verdict).toBe('duplicate');
});
