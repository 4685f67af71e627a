import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { consistencyProof, rootHash, verifyConsistency } from '../../../../src/protocol/merkle.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import type { RowChange } from '../../../../src/relay/core/rows.ts';
import { PREFIX, logKey, logLinkKey, prefixRange, tileKey } from '../../../../src/relay/store/keys.ts';
import { type Level, levelAt, LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { LogTree } from '../../../../src/relay/store/log-tree.ts';
import { POSITION_FILE, PositionFile } from '../../../../src/relay/store/position.ts';
import { openStore } from '../../../../src/relay/store/open.ts';
import { NOT_PRUNED } from '../../../../src/relay/store/marks.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import { epochNumbered, epochSource } from '../../../support/epochs.ts';
import { enrolled } from '../../../support/events.ts';
import { alice, relay } from '../../../support/hosts.ts';
import { naiveTrees, shownTree, storedAndNaive, unprovenLeaves } from '../../../support/log-trees.ts';
import { unpackRecords, withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { EmbeddedLog } from '../../../../src/relay/store/durable-log.ts';

async function open(folder: string, firstEpoch = 1): Promise<RelayStore> {
  const newEpoch = epochSource(firstEpoch);
  const { store } = await openStore({ folder, signer: relay.signer, nowMs: NOON_MS, newEpoch });
  return store;
}

/** A store in a folder of its own, closed when the test ends, and opened again by `reopened`. */
class Subject {
  store!: RelayStore;
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Subject> {
    const subject = new Subject(await temporaryFolder());
    subject.store = await open(subject.folder);
    onTestFinished(() => subject.store.close());
    return subject;
  }

  async reopen(): Promise<void> {
    await this.store.close();
    this.store = await open(this.folder);
  }

  /** Appends events whose rows do not matter, in one batch. */
  async append(...events: RelayEvent[]): Promise<void> {
    const first = this.store.lastLsn + 1;
    const entries = events.map((event, at) => ({ lsn: first + at, event }));
    const changes = events.flatMap((event, at): RowChange[] =>
      event.type === 'EpochRotated' ? reduce({ lsn: first + at, event }, this.store) : [],
    );
    await this.store.append({ entries, changes, payloads: [] });
  }

  /** Appends until the tree of this epoch has `size` leaves. */
  async growTo(size: number): Promise<void> {
    const count = size - (this.store.tree.view()?.size ?? 0);
    const { lastLsn } = this.store;
    await this.append(...Array.from({ length: count }, (_none, at) => event(lastLsn + at)));
  }
}

async function expectRight({ store }: Subject): Promise<void> {
  const [stored, naive] = await storedAndNaive(store);
  expect(stored).toEqual(naive);
}

/** An event of its own for every number. */
function event(number: number): RelayEvent {
  return { type: 'HostSeen', hostPubkey: alice.key, atMs: NOON_MS + number };
}

function rotated(number: number): RelayEvent {
  return { type: 'EpochRotated', epoch: epochNumbered(number), reason: 'reset', atMs: NOON_MS };
}

describe('a new store', () => {
  test('has a tree of its link and its first record', async () => {
    const { store } = await Subject.make();
    const link =
      `{"epoch":"${epochNumbered(1)}","previous":null,"relay_pubkey":"${relay.key}",` +
      '"type":"relay-log-link","v":1}';
    expect(shownTree(store)).toMatchObject({ epoch: epochNumbered(1), firstLsn: 1, size: 2, link });
    const [stored, naive] = await storedAndNaive(store);
    expect(stored).toEqual(naive);
  });

  test('has no tree of another epoch', async () => {
    const { store } = await Subject.make();
    expect(store.tree.view('')).toBeUndefined();
    expect(store.tree.view(epochNumbered(2))).toBeUndefined();
    expect(store.tree.viewOf(0)).toBeUndefined();
    expect(store.tree.viewOf(1)?.epoch).toBe(epochNumbered(1));
    expect(store.tree.viewOf(2)).toBeUndefined();
  });
});

describe('a restart changes nothing', () => {
  test('at every size around the edges of tiles', async () => {
    const subject = await Subject.make();
    // Past the second tile each is like the one before.
    for (const edge of IS_THOROUGH ? [3, 256, 512, 1024] : [3, 256, 512]) {
      for (let size = Math.max(3, edge - 3); size <= edge + 3; size++) {
        await subject.growTo(size);
        const before = shownTree(subject.store);
        expect(before.size).toBe(size);
        await subject.reopen();
        expect(shownTree(subject.store)).toEqual(before);
        await expectRight(subject);
      }
    }
  });

  // 65,536 records: the tiles of the first level are written and read by the same code.
  test.runIf(IS_THOROUGH)(
    'around the first full tile of the second level',
    async () => {
      const subject = await Subject.make();
      await subject.growTo(65_534);
      for (let size = 65_535; size <= 65_538; size++) {
        await subject.growTo(size);
        const before = shownTree(subject.store);
        await subject.reopen();
        expect(shownTree(subject.store)).toEqual(before);
      }
      await expectRight(subject);
      const { size, read } = subject.store.tree.view() ?? { size: 0, read: () => Buffer.alloc(0) };
      for (const from of [1, 255, 256, 257, 65_535, 65_536, 65_537]) {
        const proof = consistencyProof(from, size, read);
        const roots = { fromRoot: rootHash(from, read), toRoot: rootHash(size, read) };
        expect(verifyConsistency({ from, to: size, proof, ...roots })).toBe(true);
      }
    },
    60_000,
  );

  test('one batch of many tiles is many batches', async () => {
    const [one, many] = [await Subject.make(), await Subject.make()];
    const end = IS_THOROUGH ? 1500 : 600;
    await one.growTo(end);
    for (let size = 100; size <= end; size += 100) await many.growTo(size);
    expect(shownTree(many.store)).toEqual(shownTree(one.store));
    const [tree] = await naiveTrees(many.store);
    expect(unprovenLeaves(many.store, tree!)).toEqual([]);
    await expectRight(many);
  });
});

describe('an epoch', () => {
  test('begins a tree that links to the last one, in the middle of a batch too', async () => {
    const subject = await Subject.make();
    await subject.append(event(1), rotated(2), event(2), event(3), rotated(3), rotated(4), event(4));
    await expectRight(subject);
    const sizes = [1, 2, 3, 4].map((number) => shownTree(subject.store, epochNumbered(number)).size);
    expect(sizes).toEqual([3, 4, 2, 3]);
    await subject.reopen();
    await expectRight(subject);
    expect(subject.store.tree.viewOf(3)?.epoch).toBe(epochNumbered(2));
    expect(subject.store.tree.viewOf(2)?.epoch).toBe(epochNumbered(1));
  });

  test.each([254, 255, 256, 257, 600])('of %i leaves is proven when it has ended', async (size) => {
    const subject = await Subject.make();
    await subject.growTo(size);
    const ended = shownTree(subject.store);
    await subject.append(rotated(2), event(1));
    await subject.reopen();
    await subject.append(event(2));
    expect(shownTree(subject.store, epochNumbered(1))).toEqual(ended);
    for (const tree of await naiveTrees(subject.store)) expect(unprovenLeaves(subject.store, tree)).toEqual([]);
    await expectRight(subject);
  });
});

test('a store that was set back goes on in another tree, and the one before ends with what is left of it', async () => {
  const subject = await Subject.make();
  await subject.growTo(300);
  const left = shownTree(subject.store);
  await subject.store.close();
  const level = join(subject.folder, LEVEL_FOLDER);
  await cp(level, `${level}.copy`, { recursive: true });
  subject.store = await open(subject.folder);
  await subject.growTo(600);
  const { size, read } = subject.store.tree.view()!;
  const signed = rootHash(size, read);
  const proof = consistencyProof(left.size, size, read);
  await subject.store.close();
  await rm(level, { recursive: true });
  await rename(`${level}.copy`, level);
  subject.store = await open(subject.folder, 2);
  await subject.append(event(7));
  expect(shownTree(subject.store)).toMatchObject({ epoch: epochNumbered(2), size: 3 });
  expect(shownTree(subject.store, epochNumbered(1))).toEqual(left);
  // What was signed before continues what is left: no two histories under one name.
  const roots = { fromRoot: Buffer.from(left.root, 'hex'), toRoot: signed };
  expect(verifyConsistency({ from: left.size, to: size, proof, ...roots })).toBe(true);
  await expectRight(subject);
});

/** A closed store of 255 leaves opened again by its parts: the next record but one fills a tile. */
async function fullButOne(): Promise<{ subject: Subject; level: Level; position: PositionFile }> {
  const subject = await Subject.make();
  await subject.growTo(255);
  const { lastLsn } = subject.store;
  await subject.store.close();
  const level = levelAt(join(subject.folder, LEVEL_FOLDER));
  await level.open();
  const { file } = await PositionFile.open(join(subject.folder, POSITION_FILE));
  subject.store = new RelayStore(
    level,
    new EmbeddedLog(file),
    { lastLsn, pruned: NOT_PRUNED },
    await LogTree.open(level, lastLsn),
  );
  return { subject, level, position: file };
}

describe('a batch that is not durable', () => {
  test('is in no tree: LevelDB refused it', async () => {
    const { subject, level } = await fullButOne();
    const before = shownTree(subject.store);
    const batch = level.batch.bind(level);
    level.batch = ((): ReturnType<Level['batch']> => {
      const writes = batch();
      writes.write = () => Promise.reject(new Error('EIO'));
      return writes;
    }) as Level['batch'];
    await expect(subject.append(event(1), event(2), rotated(2))).rejects.toThrow('EIO');
    level.batch = batch;
    expect(shownTree(subject.store)).toEqual(before);
    expect(subject.store.tree.view(epochNumbered(2))).toBeUndefined();
    await subject.reopen();
    expect(shownTree(subject.store)).toEqual(before);
    await expectRight(subject);
  });

  test('is in no tree until the next start: its position could not be noted', async () => {
    const { subject, position } = await fullButOne();
    const before = shownTree(subject.store);
    position.write = () => Promise.reject(new Error('EIO'));
    await expect(subject.append(event(1), event(2), rotated(2))).rejects.toThrow('EIO');
    expect(shownTree(subject.store)).toEqual(before);
    await subject.reopen();
    expect(shownTree(subject.store)).toMatchObject({ epoch: epochNumbered(2), size: 2 });
    await expectRight(subject);
  });

  test('is in no tree: it had a gap, and the next one has none', async () => {
    const subject = await Subject.make();
    await subject.growTo(255);
    const before = shownTree(subject.store);
    const entries = [
      { lsn: subject.store.lastLsn + 1, event: event(1) },
      { lsn: subject.store.lastLsn + 3, event: event(2) },
    ];
    const batch = { entries, changes: [], payloads: [] };
    await expect(subject.store.append(batch)).rejects.toThrow('no gap');
    expect(shownTree(subject.store)).toEqual(before);
    await subject.append(event(3), event(4));
    await expectRight(subject);
  });

  test('a view stays what it was while the log grows over the edge of a tile', async () => {
    const subject = await Subject.make();
    await subject.growTo(255);
    const view = subject.store.tree.view()!;
    const root = rootHash(255, view.read);
    await subject.growTo(600);
    const { read, size } = subject.store.tree.view()!;
    expect(rootHash(view.size, view.read)).toEqual(root);
    const proof = consistencyProof(255, size, read);
    expect(verifyConsistency({ from: 255, to: size, proof, fromRoot: root, toRoot: rootHash(size, read) })).toBe(true);
  });
});

/** Takes the tree away and has it made again. Answers in how many batches. */
async function madeAgain(subject: Subject): Promise<number> {
  await subject.store.close();
  await withRawLevel(subject.folder, async (level) => {
    await level.clear(prefixRange(PREFIX.tile));
    await level.clear(prefixRange(PREFIX.logLink));
  });
  const level = levelAt(join(subject.folder, LEVEL_FOLDER));
  await level.open();
  const batch = level.batch.bind(level);
  let batches = 0;
  level.batch = ((): ReturnType<Level['batch']> => {
    batches++;
    return batch();
  }) as Level['batch'];
  await LogTree.open(level, subject.store.lastLsn);
  await level.close();
  subject.store = await open(subject.folder);
  return batches;
}

describe('a log without a tree', () => {
  test('gets the one it would have had', async () => {
    const subject = await Subject.make();
    await subject.growTo(700);
    await subject.append(rotated(2));
    await subject.growTo(300);
    const before = await storedAndNaive(subject.store);
    await subject.store.close();
    const stored = await withRawLevel(subject.folder, async (level) => {
      const ranges = [prefixRange(PREFIX.tile), prefixRange(PREFIX.logLink)];
      const pairs = await Promise.all(ranges.map((range) => level.iterator(range).all()));
      for (const range of ranges) await level.clear(range);
      return pairs.flat();
    });
    // Two full tiles, the two that the first epoch ended with, one full one, and two links.
    expect(stored).toHaveLength(7);
    subject.store = await open(subject.folder);
    expect(await storedAndNaive(subject.store)).toEqual(before);
    await subject.store.close();
    const made = await withRawLevel(subject.folder, async (level) => [
      ...(await level.iterator(prefixRange(PREFIX.tile)).all()),
      ...(await level.iterator(prefixRange(PREFIX.logLink)).all()),
    ]);
    expect(made).toEqual(stored);
    subject.store = await open(subject.folder);
  });

  test('gets them in more than one batch when its epochs are many', async () => {
    const subject = await Subject.make();
    await subject.append(...Array.from({ length: 100 }, (_none, at) => [rotated(at + 2), event(at)]).flat());
    const before = await storedAndNaive(subject.store);
    expect(await madeAgain(subject)).toBeGreaterThan(1);
    expect(await storedAndNaive(subject.store)).toEqual(before);
  });

  // 38,400 records: what is more than one batch is tried with many epochs as well.
  test.runIf(IS_THOROUGH)('gets its tiles in more than one batch when they are many', async () => {
    const subject = await Subject.make();
    await subject.growTo(150 * 256);
    const before = shownTree(subject.store);
    expect(await madeAgain(subject)).toBeGreaterThan(1);
    expect(shownTree(subject.store)).toEqual(before);
  });
});

describe('records behind full tiles', () => {
  test.each([2, 256, 257, 513, 1000])('of %i leaves may be pruned: roots and proofs stay', async (size) => {
    const subject = await Subject.make();
    await subject.growTo(300);
    await subject.append(rotated(2));
    await subject.growTo(size);
    const trees = await naiveTrees(subject.store);
    const before = shownTree(subject.store);
    const { lastLsn } = subject.store;
    const through = subject.store.tree.prunableThrough;
    const firstLsn = before.firstLsn;
    const inFullTiles = Math.floor(size / 256) * 256;
    expect(through).toBe(inFullTiles === 0 ? firstLsn - 1 : firstLsn + inFullTiles - 2);
    await subject.store.close();
    await withRawLevel(subject.folder, async (level) => {
      await unpackRecords(level);
      await level.clear({ gte: logKey(1), lte: logKey(through) });
      const tree = await LogTree.open(level, lastLsn);
      const views = { tree } as RelayStore;
      expect(shownTree(views)).toEqual(before);
      for (const naive of trees) expect(unprovenLeaves(views, naive)).toEqual([]);
      // One more is one too many, if there is one more.
      await level.del(logKey(through + 1));
      const opened = LogTree.open(level, lastLsn).then(() => 'opened', String);
      expect(await opened).toBe(through === lastLsn ? 'opened' : `Error: log record ${through + 1} is missing`);
    });
    // What was taken away is not put back: the store is not opened again.
    subject.store = await open(await temporaryFolder());
  });
});

/** A store of two full tiles, closed. */
async function closedStore(): Promise<{ subject: Subject; again: () => Promise<RelayStore> }> {
  const subject = await Subject.make();
  await subject.growTo(520);
  await subject.store.close();
  const again = async (): Promise<RelayStore> => {
    subject.store = await open(subject.folder);
    return subject.store;
  };
  return { subject, again };
}

describe('damage of the tree refuses the store', () => {
  test('when any byte of a tile was changed', async () => {
    const { subject, again } = await closedStore();
    for (const at of [0, 3, 4, 100, 8195]) {
      const key = tileKey(1, 0, 1);
      const tile = await withRawLevel(subject.folder, (level) => level.get(key));
      const damaged = Buffer.from(tile!);
      damaged[at]! ^= 0x10;
      await withRawLevel(subject.folder, (level) => level.put(key, damaged));
      await expect(again()).rejects.toThrow('a part of the hash tree does not match its checksum');
      await withRawLevel(subject.folder, (level) => level.put(key, tile!));
    }
    await again();
  });

  test('when a tile lies in the place of another, or is cut', async () => {
    const { subject, again } = await closedStore();
    const [first, second] = [tileKey(1, 0, 0), tileKey(1, 0, 1)];
    const tile = await withRawLevel(subject.folder, (level) => level.get(first));
    const kept = await withRawLevel(subject.folder, (level) => level.get(second));
    for (const wrong of [tile!, kept!.subarray(0, 3), kept!.subarray(0, 8000), Buffer.alloc(0)]) {
      await withRawLevel(subject.folder, (level) => level.put(second, wrong));
      await expect(again()).rejects.toBeInstanceOf(StoreRefused);
    }
    await withRawLevel(subject.folder, (level) => level.put(second, kept!));
    await again();
  });

  test('when a tile in the middle is missing; a missing last one is made again', async () => {
    const { subject, again } = await closedStore();
    await withRawLevel(subject.folder, (level) => level.del(tileKey(1, 0, 1)));
    await again();
    await expectRight(subject);
    await subject.store.close();
    await withRawLevel(subject.folder, (level) => level.del(tileKey(1, 0, 0)));
    await expect(again()).rejects.toThrow('a part of the hash tree is missing');
    subject.store = await open(await temporaryFolder());
  });

  test('when a link was changed', async () => {
    const { subject, again } = await closedStore();
    const link = await withRawLevel(subject.folder, (level) => level.get(logLinkKey(1)));
    const damaged = Buffer.from(link!);
    damaged[20]! ^= 1;
    await withRawLevel(subject.folder, (level) => level.put(logLinkKey(1), damaged));
    await expect(again()).rejects.toThrow('a part of the hash tree does not match its checksum');
    await withRawLevel(subject.folder, (level) => level.put(logLinkKey(1), link!));
    await again();
  });

  test('when the log ends before its tiles do', async () => {
    const { subject, again } = await closedStore();
    await withRawLevel(subject.folder, async (level) => {
      await unpackRecords(level);
      await level.clear({ gte: logKey(400), lt: logKey(1000) });
    });
    await expect(again()).rejects.toThrow('the hash tree goes beyond the log');
    subject.store = await open(await temporaryFolder());
  });
});

test('rows and enrolments know nothing of the tree', async () => {
  const subject = await Subject.make();
  const { store } = subject;
  const lsn = store.lastLsn + 1;
  const entries = [{ lsn, event: enrolled(alice) }];
  await store.append({
    entries,
    changes: reduce(entries[0]!, store),
    payloads: [],
  });
  const prefixes = new Set<number | undefined>();
  for await (const [key] of store.rawRows()) prefixes.add(key[0]);
  expect(prefixes.has(PREFIX.tile) || prefixes.has(PREFIX.logLink)).toBe(false);
  await expectRight(subject);
});
