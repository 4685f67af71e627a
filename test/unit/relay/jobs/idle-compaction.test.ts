/** When the disk space of collected mail is given back, and when not; and on a real store, that it is. */
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Compacted, IdleCompaction } from '../../../../src/relay/jobs/idle-compaction.ts';
import { PREFIX } from '../../../../src/relay/store/keys.ts';
import { folderBytes } from '../../../../bench/disk.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { ManualClock, ManualTimers } from '../../../support/manual-time.ts';
import { verified } from '../../../support/audits.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

const MIB = 1 << 20;
const LOOK_MS = 10_000;

/** A store of so many bytes, all of them wire bytes, that says what it was asked to compact. */
class CountedStore {
  lastLsn = 7;
  bytes = 20 * MIB;
  readonly collector = { isPending: false, collectedBytes: 0 };
  readonly compacted: Buffer[] = [];
  /** Called before each compaction ends. */
  during: () => Promise<void> | void = () => undefined;

  storedBytes({ gte }: { gte: Buffer }): Promise<number> {
    return Promise.resolve(gte[0] === PREFIX.payload ? this.bytes : 0);
  }

  async compact({ gte }: { gte: Buffer }): Promise<void> {
    this.compacted.push(gte);
    await this.during();
  }
}

interface Watched {
  store: CountedStore;
  compaction: IdleCompaction;
  timers: ManualTimers;
  told: Compacted[];
  asked: number[];
  unexpected: unknown[];
}

function watched({ hasRoom = true } = {}): Watched {
  const found = { store: new CountedStore(), timers: new ManualTimers(), told: [], asked: [], unexpected: [] };
  const { store, timers, told, asked, unexpected }: Omit<Watched, 'compaction'> = found;
  const compaction = new IdleCompaction({
    store,
    hasRoom: (bytes) => {
      asked.push(bytes);
      return hasRoom;
    },
    clock: new ManualClock(),
    timers,
    onCompacted: (compacted) => told.push(compacted),
    onError: (error) => unexpected.push(error),
  });
  onTestFinished(() => compaction.stop());
  return { ...found, compaction };
}

/** Two looks between which nothing was committed. */
async function idle({ compaction }: Watched): Promise<void> {
  await compaction.look();
  await compaction.look();
}

const EVERY_TABLE = [PREFIX.payload, PREFIX.queue, PREFIX.expiry].map((prefix) => Buffer.of(prefix));

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
    expect(relay.asked).toEqual([20 * MIB, 20 * MIB]);
  });

  test('looks every ten seconds', async () => {
    const { store, compaction, timers } = watched();
    timers.pass(LOOK_MS);
    await compaction.look();
    expect(store.compacted).toEqual([]);
    timers.pass(LOOK_MS);
    await compaction.look();
    expect(store.compacted).toEqual(EVERY_TABLE);
  });

  test('compacts more than 64 MiB in sixteen pieces, which are the whole', async () => {
    const relay = watched();
    Object.assign(relay.store, { bytes: 64 * MIB + 1 });
    relay.store.collector.collectedBytes = 16 * MIB;
    await idle(relay);
    const ofPayloads = relay.store.compacted.filter(([prefix]) => prefix === PREFIX.payload);
    expect(ofPayloads).toEqual(Array.from({ length: 16 }, (_none, at) => Buffer.of(PREFIX.payload, 16 * at)));
  });
});

describe('nothing is compacted', () => {
  test('while events are committed', async () => {
    const relay = watched();
    for (; relay.store.lastLsn < 20; relay.store.lastLsn++) await relay.compaction.look();
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
    const relay = watched({ hasRoom: false });
    await idle(relay);
    expect(relay.store.compacted).toEqual([]);
  });
});

test('mail that comes meanwhile ends a compaction after its piece, and the next idle time does all of it', async () => {
  const relay = watched();
  relay.store.during = () => void relay.store.lastLsn++;
  await idle(relay);
  expect(relay.store.compacted).toEqual([Buffer.of(PREFIX.payload)]);
  expect(relay.told).toEqual([]);
  relay.store.during = () => undefined;
  await idle(relay);
  expect(relay.store.compacted.slice(1)).toEqual(EVERY_TABLE);
});

test('a stop waits for the piece under way, and no other follows', async () => {
  const relay = watched();
  const pieces = new EventEmitter();
  relay.store.during = async () => {
    pieces.emit('begun');
    await once(pieces, 'to end');
  };
  await relay.compaction.look();
  const begun = once(pieces, 'begun');
  void relay.compaction.look();
  await begun;
  const order: string[] = [];
  const stopped = relay.compaction.stop().then(() => order.push('stopped'));
  order.push('ended');
  pieces.emit('to end');
  await stopped;
  expect(order).toEqual(['ended', 'stopped']);
  expect(relay.store.compacted).toEqual([Buffer.of(PREFIX.payload)]);
});

test('on a real store: what was acked leaves the disk, what waits stays, and the store is sound', async () => {
  const relay = await openTestRelay({ limits: { max_queue_bytes: 1e9, max_sender_bytes: 1e9 } });
  await relay.enrolAll(bob);
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
  const told: Compacted[] = [];
  const compaction = new IdleCompaction({
    store: relay.store,
    hasRoom: () => true,
    clock: new ManualClock(),
    timers: new ManualTimers(),
    onCompacted: (compacted) => told.push(compacted),
    onError: (error) => {
      throw error;
    },
  });
  await compaction.look();
  await compaction.look();
  await compaction.stop();
  expect(told).toHaveLength(1);
  expect(folderBytes(relay.folder)).toBeLessThan(1e6);
  expect(await relay.wires(bob)).toEqual([waits]);
  await relay.close();
  expect((await verified(relay.folder)).findings).toEqual([]);
});
