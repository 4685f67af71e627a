/** The daily scrub over a whole engine: what it finds, what it leaves alone, and how it makes room for others. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { publicKeyBytes } from '../../../../src/protocol/public-key.ts';
import type { Timers } from '../../../../src/lib/clock.ts';
import { type LostFinder, LostItems } from '../../../../src/relay/engine/lost-items.ts';
import { Scrub, type ScrubPass } from '../../../../src/relay/jobs/scrub.ts';
import { PREFIX, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { RUN_ROWS_MAX } from '../../../../src/relay/store/item-run.ts';
import { DamagedRow, rowName, withChecksum } from '../../../../src/relay/store/checksum.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { collected } from '../../../support/collected.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { epochSource } from '../../../support/epochs.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { flipValue, keysUnder } from '../../../support/flipped-rows.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { TurnWork } from '../../../support/turn-work.ts';
import { alterWire, breakRow, loseWire } from '../../../support/stored-items.ts';

const TEN_MINUTES_MS = 600_000;
const DAY_MS = 86_400_000;
const RETENTION_MS = 14 * DAY_MS;

/** Every pause is over at once; `pausesMs` is what they would have been. */
class EagerTimers implements Timers {
  readonly pausesMs: number[] = [];

  after(ms: number, run: () => void): () => void {
    if (ms === TEN_MINUTES_MS) return () => undefined;
    this.pausesMs.push(ms);
    const immediate = setImmediate(run);
    return () => clearImmediate(immediate);
  }

  every(): () => void {
    return () => undefined;
  }
}

interface Scrubbed {
  scrub: Scrub;
  passes: ScrubPass[];
  /** The number of items that were compared, slice by slice. */
  slices: number[];
  lost: [items: number, foundBy: LostFinder][];
  /** Rows that were told of. */
  unreadable: number[];
  unexpected: unknown[];
  /** The work of the comparison; one item takes a millisecond. */
  work: TurnWork;
}

function scrubOf(relay: TestRelay, timers: Timers = new EagerTimers(), begin: Buffer = Buffer.alloc(32)): Scrubbed {
  const work = new TurnWork(1);
  const found: Omit<Scrubbed, 'scrub'> = { passes: [], slices: [], lost: [], unreadable: [], unexpected: [], work };
  const { engine } = relay;
  const clock = { nowMs: () => relay.clock.nowMs, monotonicMs: work.monotonicMs };
  const onLost = (items: number, foundBy: LostFinder): void => void found.lost.push([items, foundBy]);
  const onUnreadable = (rows: number): void => void found.unreadable.push(rows);
  const scrub = new Scrub({
    engine,
    lostItems: new LostItems({ engine, clock, newEpoch: epochSource(50), onLost, onUnreadable }),
    clock,
    timers,
    randomBytes: () => begin,
    onScrubbed: (items) => {
      work.add('compared', items);
      found.slices.push(items);
    },
    onPassEnded: (pass) => found.passes.push(pass),
    onError: (error) => found.unexpected.push(error),
  });
  onTestFinished(async () => {
    work.stop();
    await scrub.stop();
  });
  return { scrub, ...found };
}

/** Lets `work` at the database behind the relay's back. */
async function damage(relay: TestRelay, work: (level: Level) => Promise<unknown>): Promise<void> {
  await relay.altered(work);
}

/** Three items for each of two hosts. */
async function filled(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  for (const target of [bob, carol]) await pushThree(relay, target);
  return relay;
}

async function pushThree(relay: TestRelay, target: TestHost): Promise<void> {
  await relay.push(...[1, 2, 3].map((n) => pushOf(alice, `m${n}`, [[target, `${target.name} ${n}`]])));
}

const others = { bytes: expect.any(Number) as number, durationMs: expect.any(Number) as number };

describe('a pass', () => {
  test('over a sound store compares everything that waits, and changes nothing', async () => {
    const relay = await filled();
    const { lastLsn } = relay.store;
    const { scrub, passes, slices, lost } = scrubOf(relay);
    await scrub.run();
    const bytes = 3 * ('bob 1'.length + 'carol 1'.length);
    expect(passes).toEqual([{ ...others, atMs: relay.clock.nowMs, items: 6, bytes, lost: 0, unreadable: 0 }]);
    expect(scrub.last).toEqual(passes[0]);
    expect(slices).toEqual([3, 3]);
    expect(lost).toEqual([]);
    expect(relay.store.lastLsn).toBe(lastLsn);
  });

  test.each([
    ['altered', (level: Level) => alterWire(level, bob.key, NOON_MS + 1, Buffer.from('bob X'))],
    ['cut short', (level: Level) => alterWire(level, bob.key, NOON_MS + 1, Buffer.alloc(0))],
    ['missing', (level: Level) => loseWire(level, bob.key, NOON_MS + 1)],
  ])(
    'finds bytes that are %s: the item is lost, the epoch rotates, and its sender pushes it again',
    async (_, work) => {
      const relay = await filled();
      await damage(relay, work);
      const { epoch } = relay.engine;
      const logEnd = relay.store.lastLsn;
      const { scrub, passes, lost } = scrubOf(relay);
      await scrub.run();
      expect(passes).toMatchObject([{ items: 6, lost: 1, unreadable: 0 }]);
      expect(lost).toEqual([[1, 'scrub']]);
      expect(relay.engine.epoch).not.toBe(epoch);
      expect(await relay.wires(bob)).toEqual(['bob 1', 'bob 3']);
      const events = await collected(relay.store.read(logEnd + 1));
      expect(events.map(({ event }) => event)).toMatchObject([
        { type: 'ItemLost', targetPubkey: bob.key, seq: NOON_MS + 1, itemId: 'm2', reason: 'corrupt' },
        { type: 'EpochRotated', reason: 'item-lost', epoch: relay.engine.epoch },
      ]);
      expect(await relay.pushOne(pushOf(alice, 'm2', [[bob, 'bob 2']]))).toMatchObject({ verdict: 'accepted' });
      await scrub.run();
      expect(passes[1]).toMatchObject({ items: 6, lost: 0 });
    },
  );

  test('finds by their hash what a page serves by its checksum: bytes that are altered under a right one', async () => {
    const relay = await filled();
    await damage(relay, (level) =>
      alterWire(level, bob.key, NOON_MS + 1, Buffer.from('bob X'), { isChecksumRight: true }),
    );
    expect(await relay.wires(bob)).toEqual(['bob 1', 'bob X', 'bob 3']);
    const { scrub, passes } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 6, lost: 1 }]);
    expect(await relay.wires(bob)).toEqual(['bob 1', 'bob 3']);
  });

  test('reports what a slice has lost together: hosts see one new epoch', async () => {
    const relay = await filled();
    await damage(relay, async (level) => {
      for (const at of [0, 1, 2]) await loseWire(level, carol.key, NOON_MS + at);
    });
    const gate = new AppendGate(relay.store);
    const { scrub, passes } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 6, lost: 3 }]);
    expect(gate.batches).toHaveLength(1);
    expect(await relay.wires(carol)).toEqual([]);
  });

  test('leaves alone what was acked and is not collected yet', async () => {
    const relay = await filled();
    await damage(relay, (level) => loseWire(level, bob.key, NOON_MS));
    await relay.ack(bob, NOON_MS);
    const { scrub, passes } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 5, lost: 0 }]);
  });

  test('compares what a rotation moved, in the queue where it is now', async () => {
    const relay = await filled();
    await relay.enrolAll(dave);
    await relay.pushOne(pushOf(alice, 'own', [[dave, 'own']]));
    await relay.rotate(rotateOf(bob, dave));
    await damage(relay, (level) => loseWire(level, bob.key, NOON_MS + 2));
    const { scrub, passes } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 7, lost: 1 }]);
    expect(await relay.wires(dave)).toEqual(['own', 'bob 1', 'bob 2']);
  });

  test('drops a notice whose bytes are gone, and begins no epoch for it', async () => {
    const relay = await filled();
    relay.clock.move(RETENTION_MS);
    await relay.expire();
    const [notice] = await relay.queue(alice);
    await damage(relay, (level) => loseWire(level, alice.key, notice?.seq ?? 0));
    const { epoch } = relay.engine;
    const { scrub, passes } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 6, lost: 1 }]);
    expect(await relay.queue(alice)).toHaveLength(5);
    expect(relay.engine.epoch).toBe(epoch);
  });

  test('notes every row that does not match its checksum, also of what nobody reads', async () => {
    const relay = await filled();
    await relay.close();
    const keys: Buffer[] = [];
    for (const prefix of [PREFIX.sender, PREFIX.dedup, PREFIX.dedupUntil]) {
      const [key] = await keysUnder(relay.folder, prefix);
      keys.push(await flipValue(relay.folder, key as Buffer, 99));
    }
    await relay.open();
    const { scrub, unexpected } = scrubOf(relay);
    await scrub.run();
    // What the start reads of the rows it comes by first, so the order is not the scrub's alone.
    expect(relay.engine.damagedRows.map(({ name }) => name).toSorted()).toEqual(keys.map(rowName).toSorted());
    await scrub.run();
    expect(relay.engine.damagedRows).toHaveLength(keys.length);
    expect(unexpected).toEqual([]);
  });

  test('counts a row that cannot be read, and passes on to the next', async () => {
    const relay = await filled();
    await damage(relay, async (level) => {
      await breakRow(level, bob.key, NOON_MS);
      // One that lies alone, and is no row though its checksum is right.
      const key = queueKey(carol.key, NOON_MS + 5);
      await level.put(key, withChecksum(key, Buffer.of(0xff)));
      await loseWire(level, carol.key, NOON_MS + 1);
    });
    const { scrub, passes, unreadable, unexpected } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 3, lost: 1, unreadable: 2 }]);
    expect(unreadable).toEqual([2]);
    expect(unexpected).toEqual([]);
  });

  test.each(['target', 'enrolment'])('passes by a queue whose %s row was damaged since the start', async (damaged) => {
    const relay = await filled();
    await damage(relay, async (level) => {
      for (const { key } of [bob, carol]) await loseWire(level, key, NOON_MS);
    });
    const get = relay.store.get.bind(relay.store);
    vi.spyOn(relay.store, 'get').mockImplementation((table, key) => {
      if (table === damaged && key === bob.key) throw new DamagedRow(rowKeyBytes(table, key), 'is damaged');
      return get(table, key);
    });
    const { scrub, passes, lost, unexpected } = scrubOf(relay);
    await scrub.run();
    expect(passes).toMatchObject([{ lost: 1 }]);
    expect(lost).toEqual([[1, 'scrub']]);
    expect(unexpected).toEqual([]);
  });

  test('comes by every item once, wherever it begins', async () => {
    const relay = await filled();
    const begins = [bob, carol].flatMap(({ key }) => {
      const before = Buffer.from(publicKeyBytes(key));
      return [before, Buffer.concat([before, Buffer.of(0)]).subarray(0, 32)];
    });
    for (const begin of [...begins, Buffer.alloc(32), Buffer.alloc(32, 0xff), Buffer.alloc(32, 0x80)]) {
      const { scrub, passes } = scrubOf(relay, new EagerTimers(), begin);
      await scrub.run();
      expect(passes).toMatchObject([{ items: 6, lost: 0 }]);
    }
  });

  test('ends when the store fails, which says so by itself', async () => {
    const relay = await filled();
    await damage(relay, (level) => loseWire(level, bob.key, NOON_MS));
    const gate = AppendGate.closed(relay.store);
    const { scrub, passes, unexpected } = scrubOf(relay);
    const pass = scrub.run();
    await gate.arrived(1);
    gate.failOne(new Error('no space'));
    await pass;
    expect([passes, unexpected]).toEqual([[], []]);
    expect(relay.failures).toHaveLength(1);
  });
});

describe('room for others', () => {
  test('every slice is small and followed by a pause nine times as long, in a turn of its own', async () => {
    const limits = { max_queue_items: 10_000, max_sender_items: 10_000, max_queue_bytes: 1 << 30 };
    const relay = await openTestRelay({ limits: { ...limits, max_sender_bytes: 1 << 30 }, hosts: [alice, bob, carol] });
    const big = Buffer.alloc(512 << 10, 'x');
    for (let n = 0; n < 8; n++) await relay.pushOne(pushOf(alice, `big${n}`, [[bob, big]]));
    await relay.push(...Array.from({ length: 2000 }, (_none, n) => pushOf(alice, `s${n}`, [[carol, `small ${n}`]])));
    const timers = new EagerTimers();
    const { scrub, passes, slices, work } = scrubOf(relay, timers);
    await scrub.run();
    expect(passes).toMatchObject([{ items: 2008, lost: 0, durationMs: 2008 }]);
    expect(slices.toSorted((a, b) => a - b).slice(0, 8)).toEqual(Array.from({ length: 8 }, () => 1));
    expect(Math.max(...slices)).toBeLessThanOrEqual(RUN_ROWS_MAX);
    const pauses = slices.map((items) => Math.max(50, 9 * items));
    expect(timers.pausesMs.slice(0, pauses.length)).toEqual(pauses);
    // Then come the rows of every table, 500 at a time: more than 4,000 of items alone.
    const ofRows = timers.pausesMs.slice(pauses.length);
    expect(ofRows.length).toBeGreaterThan(8);
    expect(new Set(ofRows)).toEqual(new Set([50]));
    expect(work.mostInOneTurn('compared')).toBeLessThanOrEqual(RUN_ROWS_MAX);
  });
});

describe('the timers', () => {
  test('begin a pass ten minutes after the start and one each day; only one pass is under way', async () => {
    const relay = await filled();
    const timers = new ManualTimers();
    const { scrub, passes } = scrubOf(relay, timers);
    const ended = async (count: number): Promise<void> => {
      await expect.poll(() => (timers.pass(50), passes.length), { interval: 2 }).toBe(count);
    };
    timers.pass(TEN_MINUTES_MS - 1);
    expect(timers.underWay(TEN_MINUTES_MS)).toBe(1);
    timers.pass(1);
    expect(scrub.run()).toBe(scrub.run());
    await ended(1);
    timers.pass(DAY_MS);
    await ended(2);
  });

  test('a stop gives up the pass, in a pause too, and nothing begins afterwards', async () => {
    const relay = await filled();
    const timers = new ManualTimers();
    const { scrub, passes, slices } = scrubOf(relay, timers);
    const pass = scrub.run();
    await expect.poll(() => slices.length, { interval: 2 }).toBeGreaterThan(0);
    await scrub.stop();
    await pass;
    timers.pass(2 * DAY_MS);
    expect(passes).toEqual([]);
    expect(scrub.last).toBeUndefined();
  });
});
