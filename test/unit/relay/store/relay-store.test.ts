import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import { PREFIX, logKey, payloadKey, prefixRange } from '../../../../src/relay/store/keys.ts';
import { wiresAt } from '../../../../src/relay/store/queue-runs.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { type Payload, EmbeddedLog } from '../../../../src/relay/store/durable-log.ts';
import { LogTree } from '../../../../src/relay/store/log-tree.ts';
import { POSITION_FILE, PositionFile } from '../../../../src/relay/store/position.ts';
import { openStore } from '../../../../src/relay/store/open.ts';
import { NOT_PRUNED } from '../../../../src/relay/store/marks.ts';
import { DamagedRecord } from '../../../../src/relay/store/record.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { WireThread } from '../../../../src/relay/store/wire-thread.ts';
import { wireOf } from '../../../support/commands.ts';
import { collected } from '../../../support/collected.ts';
import { epochSource } from '../../../support/epochs.ts';
import { type Accepted, accepted, acked, enrolled, enrolledInAccount, initialised } from '../../../support/events.ts';
import { alice, bob, carol, relay } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { loseWire } from '../../../support/stored-items.ts';

/** A store over a fresh database, with the handles that lie beneath it. */
async function freshStore(
  wires?: WireThread,
): Promise<{ store: RelayStore; level: Level; position: PositionFile; folder: string }> {
  const folder = await temporaryFolder();
  const level = levelAt(join(folder, 'level'));
  await level.open();
  const { file } = await PositionFile.open(join(folder, POSITION_FILE));
  const store = new RelayStore(
    level,
    new EmbeddedLog(file),
    { lastLsn: 0, pruned: NOT_PRUNED },
    await LogTree.open(level, 0),
    wires,
  );
  onTestFinished(() => store.close());
  await append(store, initialised);
  return { store, level, position: file, folder };
}

async function append(store: RelayStore, event: RelayEvent, payloads: Payload[] = []): Promise<void> {
  const changes = reduce({ lsn: store.lastLsn + 1, event }, store);
  await store.append({
    entries: [{ lsn: store.lastLsn + 1, event }],
    changes,
    payloads,
  });
}

/** Appends an accepted item with its wire bytes. */
async function accept(store: RelayStore, itemId: string, ...targets: Accepted[]): Promise<void> {
  const payloads = targets.map(([host, seq, text]) => ({ targetPubkey: host.key, seq, wire: wireOf(text) }));
  await append(store, accepted(alice, itemId, targets), payloads);
}

const seqs = (rows: readonly QueueRow[]): number[] => rows.map(({ seq }) => seq);

describe('append', () => {
  test('writes records, rows and wire bytes together', async () => {
    const { store, level } = await freshStore();
    await accept(store, 'm1', [bob, 100, 'for bob']);
    expect(store.lastLsn).toBe(2);
    expect(await level.get(logKey(2))).toBeDefined();
    expect(store.get('queue', `${bob.key}100`)).toMatchObject({ itemId: 'm1', bytes: 7 });
    expect(await wiresAt(level, [payloadKey(bob.key, 100)])).toEqual([Buffer.from('for bob')]);
  });

  test('notes the position of the last record before it resolves', async () => {
    const { store, level, folder } = await freshStore();
    await accept(store, 'm1', [bob, 100, 'x']);
    const { file, position } = await PositionFile.open(join(folder, POSITION_FILE));
    await file.close();
    const record = (await level.get(logKey(2))) ?? Buffer.alloc(0);
    const recordHash = createHash('sha256').update(record).digest();
    expect(position).toEqual({ lsn: 2, recordHash, epoch: initialised.epoch });
  });

  test('begins the thread that reads wire bytes with the first large ones', async () => {
    const wires = new WireThread('nowhere', undefined);
    const begin = vi.spyOn(wires, 'begin');
    const { store } = await freshStore(wires);
    await accept(store, 'm1', [bob, 100, Buffer.alloc(8192)]);
    expect(begin).not.toHaveBeenCalled();
    await accept(store, 'm2', [bob, 101, Buffer.alloc(8193)]);
    expect(begin).toHaveBeenCalled();
  });

  test('refuses a gap, and writes nothing of the batch', async () => {
    const { store, level } = await freshStore();
    for (const lsn of [0, 1, 3]) {
      const entries = [{ lsn, event: enrolled(bob) }];
      const batch = {
        entries,
        changes: reduce({ lsn, event: enrolled(bob) }, store),
        payloads: [],
      };
      await expect(store.append(batch)).rejects.toThrow('no gap');
    }
    expect(store.lastLsn).toBe(1);
    expect(await level.keys(prefixRange(PREFIX.log)).all()).toHaveLength(1);
    expect(store.get('enrolment', bob.key)).toBeUndefined();
  });

  test('takes a batch without records: a heartbeat', async () => {
    const { store } = await freshStore();
    await store.append({ entries: [], changes: [], payloads: [], node: { heartbeatMs: 5 } });
    expect(store.get('heartbeat', '')).toEqual({ atMs: 5 });
    expect(store.lastLsn).toBe(1);
  });

  test('takes nothing any more after its position could not be noted', async () => {
    const { store, position } = await freshStore();
    await position.close();
    await expect(append(store, enrolled(bob))).rejects.toMatchObject({ code: 'EBADF' });
    await expect(append(store, enrolled(carol))).rejects.toThrow('nothing is appended after a failed write');
    expect(store.get('enrolment', carol.key)).toBeUndefined();
  });

  test('takes nothing any more after LevelDB refused a batch', async () => {
    const { store, level } = await freshStore();
    const batch = level.batch.bind(level);
    level.batch = ((): ReturnType<Level['batch']> => {
      const writes = batch();
      writes.write = () => Promise.reject(new Error('EIO'));
      return writes;
    }) as Level['batch'];
    await expect(append(store, enrolled(bob))).rejects.toThrow('EIO');
    level.batch = batch;
    await expect(append(store, enrolled(carol))).rejects.toThrow('nothing is appended after a failed write');
    expect(store.lastLsn).toBe(1);
    expect(store.get('enrolment', carol.key)).toBeUndefined();
  });
});

describe('read', () => {
  test('yields every record from any LSN on', async () => {
    const { store } = await freshStore();
    await append(store, enrolled(alice));
    await accept(store, 'm1', [bob, 100, 'x']);
    const all = await collected(store.read(1));
    expect(all.map(({ lsn, event }) => [lsn, event.type])).toEqual([
      [1, 'RelayInitialised'],
      [2, 'HostEnrolled'],
      [3, 'ItemAccepted'],
    ]);
    expect(await collected(store.read(3))).toEqual(all.slice(2));
    expect(await collected(store.read(4))).toEqual([]);
  });

  test('ends where the log ended when it began', async () => {
    const { store } = await freshStore();
    const reading = store.read(1);
    const first = await reading.next();
    await append(store, enrolled(alice));
    expect(first.value).toMatchObject({ lsn: 1 });
    expect(await collected(reading)).toEqual([]);
  });

  test.each([1, 2, 3])('throws at record %i when it is missing', async (lsn) => {
    const { store, level } = await freshStore();
    await append(store, enrolled(alice));
    await append(store, enrolled(bob));
    await level.del(logKey(lsn));
    const read = collected(store.read(1));
    await expect(read).rejects.toThrow(`log record ${lsn} is missing`);
    await expect(read).rejects.toBeInstanceOf(DamagedRecord);
  });

  test('yields the records before a missing one', async () => {
    const { store, level } = await freshStore();
    for (const host of [alice, bob, carol]) await append(store, enrolled(host));
    await level.del(logKey(3));
    const lsns: number[] = [];
    const read = async (): Promise<void> => {
      for await (const { lsn } of store.read(1)) lsns.push(lsn);
    };
    await expect(read()).rejects.toThrow('log record 3 is missing');
    expect(lsns).toEqual([1, 2]);
  });

  test('throws at the first altered record', async () => {
    const { store, level } = await freshStore();
    await append(store, enrolled(alice));
    const record = await level.get(logKey(2));
    record![9]! ^= 1;
    await level.put(logKey(2), record!);
    await expect(collected(store.read(1))).rejects.toThrow('log record 2 does not match its checksum');
  });
});

describe('queueRows', () => {
  test('holds what is after `after` up to and with `through`, of one target only', async () => {
    const { store } = await freshStore();
    for (const seq of [100, 200, 300]) await accept(store, `m${seq}`, [bob, seq, 'x'], [carol, seq + 1, 'y']);
    const read = async (after: number, through: number, limit = 10) =>
      seqs(await store.queueRows(bob.key, after, through, limit));
    expect(await read(0, 300)).toEqual([100, 200, 300]);
    expect(await read(100, 299)).toEqual([200]);
    expect(await read(99, 100)).toEqual([100]);
    expect(await read(300, 300)).toEqual([]);
    expect(await read(300, 100)).toEqual([]);
    expect(await read(0, 300, 2)).toEqual([100, 200]);
    expect(seqs(await store.queueRows(alice.key, 0, 1000, 10))).toEqual([]);
  });

  test('stays in its target next to the keys that lie beside it', async () => {
    const { store } = await freshStore();
    await accept(store, 'm1', [bob, Number.MAX_SAFE_INTEGER, 'x'], [carol, 1, 'y'], [alice, 1, 'z']);
    expect(seqs(await store.queueRows(bob.key, 0, Number.MAX_SAFE_INTEGER, 10))).toEqual([Number.MAX_SAFE_INTEGER]);
    expect(seqs(await store.queueRows(carol.key, 0, 5, 10))).toEqual([1]);
  });
});

describe('payloads', () => {
  test('come in the order of their rows, with gaps where they are missing', async () => {
    const { store, level } = await freshStore();
    for (const seq of [100, 200, 300, 400]) await accept(store, `m${seq}`, [bob, seq, `wire ${seq}`]);
    await loseWire(level, bob.key, 200);
    const rows = await store.queueRows(bob.key, 0, 400, 10);
    const texts = async (of: readonly QueueRow[]) => (await store.payloads(of)).map((wire) => wire?.toString());
    expect(await texts(rows)).toEqual(['wire 100', undefined, 'wire 300', 'wire 400']);
    expect(await texts([rows[0]!, rows[3]!])).toEqual(['wire 100', 'wire 400']);
    expect(await texts([])).toEqual([]);
  });

  test('are found where a rotation left them', async () => {
    const { store } = await freshStore();
    await accept(store, 'm1', [bob, 100, 'for bob'], [carol, 50, 'for carol']);
    const rows = await store.queueRows(bob.key, 0, 100, 10);
    const moved: QueueRow = { ...rows[0]!, payloadTarget: carol.key, payloadSeq: 50, payloadBound: 50, bytes: 9 };
    expect((await store.payloads([rows[0]!, moved])).map(String)).toEqual(['for bob', 'for carol']);
    expect(store.hasPayload(moved)).toBe(true);
    expect(store.hasPayload({ ...moved, payloadSeq: 51 })).toBe(false);
  });

  test('may be empty and may be large', async () => {
    const { store } = await freshStore();
    const large = Buffer.alloc(524_288, 0xab);
    await accept(store, 'm1', [bob, 1, '']);
    await accept(store, 'm2', [bob, 2, large]);
    const wires = await store.payloads(await store.queueRows(bob.key, 0, 2, 10));
    expect(wires[0]).toEqual(Buffer.alloc(0));
    expect(wires[1]?.equals(large)).toBe(true);
    expect(store.hasPayload((await store.queueRows(bob.key, 0, 1, 1))[0]!)).toBe(true);
  });
});

test('enrolments come in the order in which they were made', async () => {
  const { store } = await freshStore();
  const hosts = [alice, bob, carol, relay];
  for (const [at, host] of hosts.entries()) await append(store, enrolled(host, { enrolledAtMs: NOON_MS - at }));
  const order = (await store.enrolments()).map(({ hostPubkey }) => hostPubkey);
  expect(order).toEqual(hosts.map(({ key }) => key).toReversed());
});

test('rawRows shows every row table and none of the indexes', async () => {
  const { store } = await freshStore();
  await append(store, enrolledInAccount(bob, 'acme'));
  await accept(store, 'm1', [bob, 100, 'x']);
  const prefixes = (await collected(store.rawRows())).map(([key]) => key[0]);
  expect(prefixes.toSorted((a = 0, b = 0) => a - b)).toEqual([
    PREFIX.relay,
    PREFIX.enrolment,
    PREFIX.target,
    PREFIX.share,
    PREFIX.account,
    PREFIX.sender,
    PREFIX.queue,
    PREFIX.dedup,
  ]);
});

test('an item that is lost takes its wire bytes with it', async () => {
  const { store, level } = await freshStore();
  await accept(store, 'm1', [bob, 100, 'x']);
  const { senderPubkey, itemId } = accepted(alice, 'm1', []);
  await append(store, {
    type: 'ItemLost',
    targetPubkey: bob.key,
    seq: 100,
    kind: 'envelope',
    senderPubkey,
    itemId,
    pushedTo: bob.key,
    bytes: 1,
    account: null,
    reason: 'missing',
    atMs: NOON_MS,
  });
  expect(await level.get(payloadKey(bob.key, 100))).toBeUndefined();
  expect(await store.queueRow(bob.key, 100)).toBeUndefined();
});

test('an ack deletes nothing by itself', async () => {
  const { store, level } = await freshStore();
  await accept(store, 'm1', [bob, 100, 'x']);
  await append(store, acked(bob, 100, [[alice, 1, 1]]));
  expect(await level.get(payloadKey(bob.key, 100))).toBeDefined();
  expect(store.collector.isPending).toBe(false);
  await store.findUncollected();
  expect(store.collector.isPending).toBe(true);
});

test('a store is closed once and for all', async () => {
  const { store } = await openStore({ folder: await temporaryFolder(), nowMs: NOON_MS, newEpoch: epochSource() });
  await store.close();
  expect(() => store.get('relay', '')).toThrow('not open');
});
