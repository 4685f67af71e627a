/** When the disk space of collected mail is given back, and when not; and on a real store, that it is. */
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Compaction, IdleCompaction } from '../../../../src/relay/jobs/idle-compaction.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { folderBytes } from '../../../../bench/disk.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { ManualClock, ManualTimers } from '../../../support/manual-time.ts';
import { verified } from '../../../support/audits.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

const MIB = 1 << 20;
const LOOK_MS = 10_000;

const EDGES = 1 << 16;

interface Range {
  gte: Buffer;
  lt: Buffer;
}

/**
 * A store of so many wire bytes, spread evenly over the keys of all targets, that says what it was asked to compact.
 */
class CountedStore {
  lastLsn = 7;
  bytes = 20 * MIB;
  /** When all of it belongs to one target: the first two bytes of its key. */
  only: number | undefined;
  readonly collector = { isPending: false, collectedBytes: 0 };
  readonly compacted: Range[] = [];
  /** Called before each compaction ends. */
  during: () => Promise<void> | void = () => undefined;

  storedBytes({ gte, lt }: Range): Promise<number> {
    if (gte[0] !== PREFIX.payload) return Promise.resolve(0);
    const from = edgeOf(gte);
    const to = lt[0] === PREFIX.payload ? edgeOf(lt) : EDGES;
    if (this.only !== undefined) return Promise.resolve(from <= this.only && this.only < to ? this.bytes : 0);
    return Promise.resolve((this.bytes * (to - from)) / EDGES);
  }

  async compact({ gte, lt }: Range): Promise<void> {
    this.compacted.push({ gte, lt });
    await this.during();
  }

  /** The ranges of wire bytes. */
  ofPayloads(): Range[] {
    return this.compacted.filter(({ gte }) => gte[0] === PREFIX.payload);
  }
}

function edgeOf(key: Buffer): number {
  return ((key[1] ?? 0) << 8) | (key[2] ?? 0);
}

interface Watched {
  store: CountedStore;
  compaction: IdleCompaction;
  timers: ManualTimers;
  told: Compaction[];
  asked: number[];
  unexpected: unknown[];
  /** The relay says this of itself. */
  says: { hasRoom: boolean; isRead: boolean; takesWrites: boolean };
}

const REFUSED = new Error('no write is taken');

function watched(): Watched {
  const found = { store: new CountedStore(), timers: new ManualTimers(), told: [], asked: [], unexpected: [] };
  const { store, timers, told, asked, unexpected }: Omit<Watched, 'compaction' | 'says'> = found;
  const says = { hasRoom: true, isRead: false, takesWrites: true };
  const compaction = new IdleCompaction({
    store,
    hasRoomFor: (bytes) => {
      asked.push(bytes);
      return Promise.resolve(says.hasRoom);
    },
    isRead: () => says.isRead,
    write: () => (says.takesWrites ? Promise.resolve() : Promise.reject(REFUSED)),
    clock: new ManualClock(),
    timers,
    onCompacted: (compacted) => told.push(compacted),
    onError: (error) => unexpected.push(error),
  });
  onTestFinished(() => compaction.stop());
  return { ...found, compaction, says };
}

/** Two looks between which nothing was committed. */
async function idle({ compaction }: Watched): Promise<void> {
  await compaction.run();
  await compaction.run();
}

const EVERY_TABLE = [PREFIX.payload, PREFIX.queue, PREFIX.expiry].map(prefixRange);

describe('a relay that is idle', () => {
  test('compacts every table of which rows are collected, once at its start and then for 16 MiB of mail', async () => {
    const relay = watched();
    await idle(relay);
    expect(relay.store.compacted).toEqual(EVERY_TABLE);
    relay.store.collector.collectedBytes = 16 * MIB - 1;
    await idle(relay);
    expect(relay.store.compacted).toEqual(EVERY_TABLE);
    relay.store.collector.collectedBytes = 16 * MIB;
    await idle(relay);
    expect(relay.store.compacted).toEqual([...EVERY_TABLE, ...EVERY_TABLE]);
    const told = { bytesBefore: 20 * MIB, bytesAfter: 20 * MIB, durationMs: 0 };
    expect(relay.told).toEqual([told, told]);
    expect(relay.asked).toEqual([20 * MIB, 0, 0, 20 * MIB, 0, 0]);
  });

  test('looks every ten seconds', async () => {
    const { store, compaction, timers } = watched();
    timers.pass(LOOK_MS);
    await compaction.run();
    expect(store.compacted).toEqual([]);
    timers.pass(LOOK_MS);
    await compaction.run();
    expect(store.compacted).toEqual(EVERY_TABLE);
  });

  test('compacts more than 64 MiB in pieces of no more, which are the whole', async () => {
    const relay = watched();
    Object.assign(relay.store, { bytes: 150 * MIB });
    relay.store.collector.collectedBytes = 40 * MIB;
    await idle(relay);
    const edges = [0x40, 0x80, 0xc0].map((first) => Buffer.of(PREFIX.payload, first, 0));
    expect(relay.store.ofPayloads().map(({ gte }) => gte)).toEqual([Buffer.of(PREFIX.payload), ...edges]);
    expect(relay.store.ofPayloads().map(({ lt }) => lt)).toEqual([...edges, Buffer.of(PREFIX.payload + 1)]);
    expect(relay.asked).toEqual([37.5 * MIB, 37.5 * MIB, 37.5 * MIB, 37.5 * MIB, 0, 0]);
  });

  test('compacts a mailbox of more in one piece, and what is around it in others', async () => {
    const relay = watched();
    Object.assign(relay.store, { bytes: 150 * MIB, only: 0xfffe });
    relay.store.collector.collectedBytes = 40 * MIB;
    await idle(relay);
    const pieces = relay.store.ofPayloads();
    expect(relay.asked.filter((bytes) => bytes > 0)).toEqual([150 * MIB]);
    expect(pieces.slice(1).map(({ gte }) => gte)).toEqual(pieces.slice(0, -1).map(({ lt }) => lt));
    const last = Buffer.of(PREFIX.payload, 0xff, 0xff);
    expect(pieces.slice(-2)).toEqual([
      { gte: Buffer.of(PREFIX.payload, 0xff, 0xfe), lt: last },
      { gte: last, lt: Buffer.of(PREFIX.payload + 1) },
    ]);
  });
});

describe('nothing is compacted', () => {
  test('while events are committed', async () => {
    const relay = watched();
    for (; relay.store.lastLsn < 20; relay.store.lastLsn++) await relay.compaction.run();
    expect(relay.store.compacted).toEqual([]);
  });

  test('while something is left to collect', async () => {
    const relay = watched();
    relay.store.collector.isPending = true;
    await idle(relay);
    expect(relay.store.compacted).toEqual([]);
  });

  test('where four times as much would be rewritten as was collected', async () => {
    const relay = watched();
    Object.assign(relay.store, { bytes: 64 * MIB + 1 });
    await idle(relay);
    expect(relay.store.compacted).toEqual([]);
    expect(relay.asked).toEqual([]);
  });

  test('where the disk has no room for it', async () => {
    const relay = watched();
    relay.says.hasRoom = false;
    await idle(relay);
    expect(relay.store.compacted).toEqual([]);
  });

  test('while a backup or a check reads the store as it was', async () => {
    const relay = watched();
    relay.says.isRead = true;
    await idle(relay);
    expect(relay.store.compacted).toEqual([]);
    relay.says.isRead = false;
    await relay.compaction.run();
    expect(relay.store.compacted).toEqual(EVERY_TABLE);
  });
});

test('mail that comes meanwhile ends a compaction after its piece, and the next idle time does all of it', async () => {
  const relay = watched();
  relay.store.during = () => void relay.store.lastLsn++;
  await idle(relay);
  expect(relay.store.compacted).toEqual([prefixRange(PREFIX.payload)]);
  expect(relay.told).toEqual([]);
  relay.store.during = () => undefined;
  await idle(relay);
  expect(relay.store.compacted.slice(1)).toEqual(EVERY_TABLE);
});

test('what a backup that began meanwhile kept is given back after it', async () => {
  const relay = watched();
  relay.store.during = () => void (relay.says.isRead = relay.store.compacted.length === EVERY_TABLE.length);
  await idle(relay);
  expect(relay.store.compacted).toEqual(EVERY_TABLE);
  expect(relay.told).toEqual([]);
  Object.assign(relay.says, { isRead: false });
  await relay.compaction.run();
  expect(relay.store.compacted).toEqual([...EVERY_TABLE, ...EVERY_TABLE]);
  expect(relay.told).toHaveLength(1);
});

test('nothing is told of a compaction after which the store takes no write', async () => {
  const relay = watched();
  relay.says.takesWrites = false;
  await idle(relay);
  expect(relay.store.compacted).toEqual(EVERY_TABLE);
  expect([relay.told, relay.unexpected]).toEqual([[], [REFUSED]]);
});

test('a stop waits for the piece under way, and no other follows', async () => {
  const relay = watched();
  const pieces = new EventEmitter();
  relay.store.during = async () => {
    pieces.emit('begun');
    await once(pieces, 'to end');
  };
  await relay.compaction.run();
  const begun = once(pieces, 'begun');
  void relay.compaction.run();
  await begun;
  const order: string[] = [];
  const stopped = relay.compaction.stop().then(() => order.push('stopped'));
  order.push('ended');
  pieces.emit('to end');
  await stopped;
  expect(order).toEqual(['ended', 'stopped']);
  expect(relay.store.compacted).toEqual([prefixRange(PREFIX.payload)]);
});

test('on a real store: what was acked leaves the disk, what waits stays, and the store is sound', async () => {
  const relay = await openTestRelay({ limits: { max_queue_bytes: 1e9, max_sender_bytes: 1e9 }, hosts: [bob] });
  const push = async (id: string): Promise<unknown> =>
    relay.pushOne(pushOf(alice, id, [[bob, randomBytes(150_000).toString('base64')]]));
  for (let at = 0; at < 50; at++) await push(`item ${at}`);
  // The first table of a store lies where LevelDB compacts nothing until more comes.
  await relay.reopen();
  for (let at = 50; at < 100; at++) await push(`item ${at}`);
  const [waits] = (await relay.wires(bob)).slice(-1);
  await relay.ack(bob, relay.engine.head(bob.key).headSeq - 1);
  while (relay.store.collector.isPending) await relay.engine.durable();
  expect(folderBytes(relay.folder)).toBeGreaterThan(15e6);
  const told: Compaction[] = [];
  const snapshot = relay.store.snapshot();
  const compaction = new IdleCompaction({
    store: relay.store,
    hasRoomFor: () => Promise.resolve(true),
    isRead: () => relay.store.hasSnapshots,
    write: () => relay.engine.heartbeat(relay.clock.nowMs),
    clock: new ManualClock(),
    timers: new ManualTimers(),
    onCompacted: (compacted) => told.push(compacted),
    onError: (error) => {
      throw error;
    },
  });
  await compaction.run();
  await compaction.run();
  expect(told).toEqual([]);
  await snapshot.close();
  await compaction.run();
  await compaction.stop();
  expect(told).toHaveLength(1);
  expect(folderBytes(relay.folder)).toBeLessThan(1e6);
  expect(await relay.wires(bob)).toEqual([waits]);
  await relay.close();
  expect((await verified(relay.folder)).findings).toEqual([]);
});
