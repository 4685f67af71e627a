/** Tests what every shared log keeps, whatever it is made of. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  BATCH_BYTES_AT_ONCE,
  type EncodedBatch,
  Fenced,
  type LogState,
  type SharedLog,
  type Tenure,
} from '../../src/relay/shared-log/shared-log.ts';
import { LOG_FORMAT } from '../../src/relay/core/log-format.ts';

const CANDIDATE = { holder: 'one', settings: Buffer.from('{}') };

/** A place of wire bytes: a target and a seq. */
function place(target: number, seq: number): Buffer {
  const bytes = Buffer.alloc(40, target);
  bytes.writeBigUInt64BE(BigInt(seq), 32);
  return bytes;
}

export function batchOf(
  no: number,
  firstLsn: number,
  records: readonly string[],
  more: Partial<EncodedBatch> = {},
): EncodedBatch {
  return {
    no,
    firstLsn,
    lastLsn: firstLsn + records.length - 1,
    records: records.map((record) => Buffer.from(record)),
    payloads: [],
    dropped: [],
    shared: Buffer.from('shared'),
    effects: Buffer.alloc(32, no),
    ...more,
  };
}

async function stateOf(log: SharedLog): Promise<LogState> {
  const { state } = await log.open();
  if (!state) throw new Error('the log has not begun');
  return state;
}

async function begun(log: SharedLog): Promise<Tenure> {
  await log.initialise(randomUUID());
  return leading(log);
}

async function leading(log: SharedLog, holder = 'one'): Promise<Tenure> {
  const tenure = await log.lead(await stateOf(log), { ...CANDIDATE, holder });
  if (tenure === 'held') throw new Error('the lead is held');
  return tenure;
}

async function bodiesOf(log: SharedLog, logId: string, throughNo: number): Promise<(string | undefined)[]> {
  const found = [];
  for (const part of [0, 1, 2]) found.push((await log.part(logId, throughNo, part))?.toString());
  return found;
}

/** A leader, and a log of so many batches. */
async function withBatches(log: SharedLog, count: number): Promise<Tenure> {
  const tenure = await begun(log);
  for (let no = 1; no <= count; no++) await log.append(tenure, batchOf(no, no, [`record ${no}`]), no - 1);
  return tenure;
}

async function valid(log: SharedLog, tenure: Tenure, throughNo: number, lastNo: number): Promise<void> {
  for (const part of [0, 1, 2]) await log.putPart(tenure, throughNo, part, Buffer.from(`${throughNo}.${part}`));
  await log.makeValid(tenure, throughNo, lastNo);
}

async function pruned(log: SharedLog, tenure: Tenure, throughNo: number): Promise<void> {
  while (await log.prune(tenure, throughNo));
}

/** `client` gives another client of one log that is empty when a test begins, of a software that reads that format. */
export function keepsWhatASharedLogPromises(client: (format?: number) => SharedLog): void {
  test('an empty one says so, and is begun once', async () => {
    const log = client();
    expect((await log.open()).state).toBeUndefined();
    const logId = randomUUID();
    await log.initialise(logId);
    await client().initialise(randomUUID());
    expect(await stateOf(log)).toMatchObject({ logId, state: 'serving', term: 0, isFree: true, lastNo: 0, lastLsn: 0 });
  });

  test('is one log when several begin it at the same time', async () => {
    const logs = [client(), client(), client(), client()];
    for (const log of logs) expect((await log.open()).state).toBeUndefined();
    await Promise.all(logs.map((log) => log.initialise(randomUUID())));
    const states = await Promise.all(logs.map(stateOf));
    expect(new Set(states.map(({ logId }) => logId)).size).toBe(1);
  });

  test('batches come back as they were given, in their order, with their boundaries', async () => {
    const log = client();
    const tenure = await begun(log);
    await log.append(tenure, batchOf(1, 1, ['a', 'bb']), 0);
    await log.append(tenure, batchOf(2, 3, []), 1);
    await log.append(tenure, batchOf(3, 3, ['ccc'], { shared: Buffer.alloc(0) }), 2);
    const batches = await log.batches(tenure.logId, 0, tenure);
    expect(batches.map(({ no, firstLsn, lastLsn, records }) => [no, firstLsn, lastLsn, records.map(String)])).toEqual([
      [1, 1, 2, ['a', 'bb']],
      [2, 3, 2, []],
      [3, 3, 3, ['ccc']],
    ]);
    expect(batches.map(({ shared }) => String(shared))).toEqual(['shared', 'shared', '']);
    expect(batches.map(({ effects }) => effects[0])).toEqual([1, 2, 3]);
    expect(await log.batches(tenure.logId, 2, tenure)).toHaveLength(1);
    expect(await log.batch(tenure.logId, 3)).toMatchObject({ term: 1, lastLsn: 3 });
    expect(await log.batch(tenure.logId, 4)).toBeUndefined();
    expect(await stateOf(log)).toMatchObject({ lastNo: 3, lastLsn: 3 });
  });

  test('a gap in the numbers, a gap in the records, or a number that was used is fenced', async () => {
    const log = client();
    const tenure = await begun(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    for (const wrong of [batchOf(3, 2, ['b']), batchOf(2, 3, ['b']), batchOf(2, 1, ['b'])])
      await expect(log.append(tenure, wrong, 1)).rejects.toThrow(Fenced);
    expect(await stateOf(log)).toMatchObject({ lastNo: 1, lastLsn: 1 });
    await log.append(tenure, batchOf(2, 2, ['b']), 1);
  });

  test('the tenure before is fenced, in appends and in renewals, and what it began never comes', async () => {
    const log = client();
    const before = await begun(log);
    await log.append(before, batchOf(1, 1, ['a']), 0);
    const other = client();
    const after = await leading(other, 'two');
    expect(after.term).toBe(before.term + 1);
    await expect(log.append(before, batchOf(2, 2, ['late']), 1)).rejects.toThrow(Fenced);
    await expect(log.renew(before, batchOf(1, 1, []))).rejects.toThrow(Fenced);
    await expect(log.clearDoubt(before, '')).rejects.toThrow(Fenced);
    await other.append(after, batchOf(2, 2, ['b']), 1);
    expect((await other.batches(after.logId, 1, after)).map(({ records }) => records.map(String))).toEqual([['b']]);
  });

  test('a tenure of the same term but another run is fenced', async () => {
    const log = client();
    const tenure = await begun(log);
    const other = { ...tenure, tenure: randomUUID() };
    await expect(log.append(other, batchOf(1, 1, ['a']), 0)).rejects.toThrow(Fenced);
    await expect(log.append({ ...tenure, logId: randomUUID() }, batchOf(1, 1, ['a']), 0)).rejects.toThrow(Fenced);
    await expect(log.append({ ...tenure, term: tenure.term + 1 }, batchOf(1, 1, ['a']), 0)).rejects.toThrow(Fenced);
  });

  test('the lead is taken from what was seen, and from nothing newer', async () => {
    const log = client();
    const tenure = await begun(log);
    const seen = await stateOf(log);
    await log.renew(tenure, batchOf(0, 1, []));
    expect(await client().lead(seen, { ...CANDIDATE, holder: 'two' })).toBe('held');
    const now = await stateOf(log);
    for (const other of [{ tenure: randomUUID() }, { tenure: undefined }, { logId: randomUUID() }, { term: 0 }])
      expect(await log.lead({ ...now, ...other }, CANDIDATE)).toBe('held');
    expect(now).toMatchObject({ holder: 'one', tenure: tenure.tenure, isFree: false, settings: CANDIDATE.settings });
    const [first, second] = await Promise.all([
      client().lead(now, { ...CANDIDATE, holder: 'two' }),
      client().lead(now, { ...CANDIDATE, holder: 'three' }),
    ]);
    expect([first, second].filter((one) => one === 'held')).toHaveLength(1);
  });

  test('the lead is not taken past a doubt that came after what was seen, nor past one that ended', async () => {
    const log = client();
    const tenure = await begun(log);
    const before = await stateOf(log);
    await client().doubt(tenure.logId, 'a batch is missing');
    expect(await log.lead(before, CANDIDATE)).toBe('held');
    const doubted = await stateOf(log);
    await log.clearDoubt(tenure, 'a batch is missing');
    expect(await log.lead(doubted, CANDIDATE)).toBe('held');
    expect(await log.lead(await stateOf(log), CANDIDATE)).toMatchObject({ term: tenure.term + 1 });
  });

  test('a doubt of another log changes nothing', async () => {
    const log = client();
    await begun(log);
    await log.doubt(randomUUID(), 'a batch is missing');
    expect((await stateOf(log)).doubt).toBeUndefined();
  });

  test('a lead that is taken with a doubt leaves it in the log, and an older doubt stays', async () => {
    const log = client();
    const tenure = await begun(log);
    await log.lead(await stateOf(log), { ...CANDIDATE, doubt: 'another server' });
    expect((await stateOf(log)).doubt).toBe('another server');
    await log.lead(await stateOf(log), { ...CANDIDATE, doubt: 'a third server' });
    await log.lead(await stateOf(log), { ...CANDIDATE, doubt: 'another server' });
    await log.lead(await stateOf(log), CANDIDATE);
    expect((await stateOf(log)).doubt).toBe('another server; a third server');
    await expect(log.clearDoubt(tenure, '')).rejects.toThrow(Fenced);
  });

  test('a lead that was given back is free, and its tenure is over', async () => {
    const log = client();
    const tenure = await begun(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    await log.resign(tenure, 1);
    expect(await stateOf(log)).toMatchObject({ isFree: true, tenure: tenure.tenure, ackedNo: 1 });
    await expect(log.append(tenure, batchOf(2, 2, ['b']), 1)).rejects.toThrow(Fenced);
    expect((await leading(client(), 'two')).term).toBe(2);
  });

  test('nobody but the leader is shown what was not acknowledged', async () => {
    const log = client();
    const tenure = await begun(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    await log.append(tenure, batchOf(2, 2, ['b']), 1);
    const follower = client();
    expect((await follower.batches(tenure.logId, 0)).map(({ no }) => no)).toEqual([1]);
    await log.renew(tenure, batchOf(2, 1, []));
    expect((await follower.batches(tenure.logId, 0)).map(({ no }) => no)).toEqual([1, 2]);
  });

  test('wire bytes are there until they are dropped', async () => {
    const log = client();
    const tenure = await begun(log);
    const wires = [1, 2, 3].map((seq) => ({ place: place(7, seq), wire: Buffer.alloc(seq * 100, seq) }));
    await log.append(tenure, batchOf(1, 1, ['a'], { payloads: wires }), 0);
    const places = [...wires.map((one) => one.place), place(7, 4)];
    expect((await log.payloads(tenure.logId, places)).map((wire) => wire?.length)).toEqual([100, 200, 300, undefined]);
    await log.append(tenure, batchOf(2, 2, [], { dropped: [place(7, 2), place(9, 9)] }), 1);
    expect((await log.payloads(tenure.logId, places)).map((wire) => wire?.length)).toEqual([
      100,
      undefined,
      300,
      undefined,
    ]);
    expect(await log.payloads(tenure.logId, [])).toEqual([]);
  });

  test('a doubt comes with appends and renewals until the leader ends it; reasons add up and end singly', async () => {
    const log = client();
    const tenure = await begun(log);
    expect(await log.append(tenure, batchOf(1, 1, ['a']), 0)).toEqual({ doubt: undefined });
    const other = client();
    await other.open();
    await other.doubt(tenure.logId, 'a batch is missing');
    expect(await log.append(tenure, batchOf(2, 2, ['b']), 1)).toEqual({ doubt: 'a batch is missing' });
    for (const reason of ['another reason', 'a batch is missing']) await other.doubt(tenure.logId, reason);
    const both = 'a batch is missing; another reason';
    expect(await log.renew(tenure, batchOf(2, 2, []))).toMatchObject({ doubt: both });
    await log.clearDoubt(tenure, 'a third reason');
    await log.clearDoubt(tenure, 'a batch is missing');
    expect(await log.renew(tenure, batchOf(2, 2, []))).toMatchObject({ doubt: 'another reason' });
    await log.clearDoubt(tenure, 'another reason');
    expect(await log.renew(tenure, batchOf(2, 2, []))).toMatchObject({ doubt: undefined });
  });

  test('a renewal says whether the batch that was acknowledged is still there', async () => {
    const log = client();
    const tenure = await begun(log);
    const one = batchOf(1, 1, ['a']);
    await log.append(tenure, one, 0);
    expect(await log.renew(tenure, batchOf(0, 1, []))).toMatchObject({ holds: true });
    expect(await log.renew(tenure, one)).toMatchObject({ holds: true });
    expect(await log.renew(tenure, { ...one, effects: Buffer.alloc(32, 9) })).toMatchObject({ holds: false });
    expect(await log.renew(tenure, batchOf(2, 2, []))).toMatchObject({ holds: false });
  });

  test('says of a batch whose answer was lost whether it is there; then it is not appended twice', async () => {
    const log = client();
    const tenure = await begun(log);
    const one = batchOf(1, 1, ['a']);
    expect(await log.settle(tenure, one)).toBe('absent');
    await log.append(tenure, one, 0);
    expect(await log.settle(tenure, one)).toBe('stored');
    await expect(log.settle(tenure, { ...one, effects: Buffer.alloc(32, 9) })).rejects.toThrow(Fenced);
    await leading(client(), 'two');
    await expect(log.settle(tenure, one)).rejects.toThrow(Fenced);
  });

  test('its heartbeat is that of the last renewal, by the server', async () => {
    const log = client();
    const tenure = await begun(log);
    const { nowMs } = await log.renew(tenure, batchOf(0, 1, []));
    expect(Math.abs((await stateOf(log)).beatMs - nowMs)).toBeLessThan(1000);
  });

  test('a change of the row is made once, from what was seen, and ends every tenure before', async () => {
    const log = client();
    const before = await begun(log);
    await log.append(before, batchOf(1, 1, ['a']), 0);
    const seen = await stateOf(log);
    const change = { state: 'moved two', tenure: randomUUID() };
    expect(await client().change(seen, change)).toBe(true);
    const changed = await stateOf(log);
    expect(changed).toMatchObject({ state: 'moved two', term: 2, tenure: change.tenure, isFree: true, lastNo: 1 });
    expect(changed.holder).toBe('one');
    expect(await log.change(seen, change)).toBe(false);
    await expect(log.append(before, batchOf(2, 2, ['late']), 1)).rejects.toThrow(Fenced);
    await expect(log.renew(before, batchOf(1, 1, []))).rejects.toThrow(Fenced);
    expect(await log.lead(changed, CANDIDATE)).toBe('held');
    expect(await log.change({ ...changed, state: 'unknown two' }, { ...change, state: 'serving' })).toBe(false);
    expect(await log.change(changed, { state: 'serving', tenure: randomUUID() })).toBe(true);
    expect(await leading(log, 'two')).toMatchObject({ logId: seen.logId, term: 4 });
  });

  test('a log that was loaded takes the place of the one before, with its batches and wire bytes', async () => {
    const log = client();
    const before = await begun(log);
    await log.append(before, batchOf(1, 1, ['a'], { payloads: [{ place: place(1, 1), wire: Buffer.from('old') }] }), 0);
    const [logId, tenure] = [randomUUID(), randomUUID()];
    expect(await log.change(await stateOf(log), { state: `loading ${logId} two`, tenure })).toBe(true);
    const held = await stateOf(log);
    const hold = { logId: held.logId, term: held.term, tenure };
    await log.loadPayloads(hold, logId, [{ place: place(1, 1), wire: Buffer.from('new') }]);
    await log.loadBatch(hold, logId, batchOf(1, 8, []));
    await log.loadPart(hold, logId, 1, 0, Buffer.from('part 0'));
    await expect(log.loadPart(before, logId, 1, 1, Buffer.from('part 1'))).rejects.toThrow(Fenced);
    await expect(log.loadPayloads(before, logId, [{ place: place(1, 2), wire: Buffer.from('x') }])).rejects.toThrow(
      Fenced,
    );
    await expect(log.loadBatch({ ...hold, term: 9 }, logId, batchOf(2, 8, []))).rejects.toThrow(Fenced);
    expect(await log.sweep()).toBe(0);
    expect(await stateOf(log)).toMatchObject({ logId: before.logId, lastNo: 1, lastLsn: 1 });

    const replacedBy = { logId, no: 1 };
    expect(await log.change(held, { state: 'serving', tenure: randomUUID(), replacedBy })).toBe(true);
    expect(await stateOf(log)).toMatchObject({ logId, holder: '', lastNo: 1, lastLsn: 7, prunedNo: 1, snapshotNo: 1 });
    expect(await stateOf(log)).toMatchObject({ settings: Buffer.alloc(0), ackedNo: 1, doubt: undefined });
    expect(await bodiesOf(log, logId, 1)).toEqual(['part 0', undefined, undefined]);
    const led = await leading(log);
    await log.append(led, batchOf(2, 8, ['b']), 1);
    expect((await log.payloads(logId, [place(1, 1)])).map(String)).toEqual(['new']);
    expect((await log.payloads(before.logId, [place(1, 1)])).map(String)).toEqual(['old']);
    expect((await log.batches(logId, 1, led)).map(({ firstLsn }) => firstLsn)).toEqual([8]);

    while ((await log.sweep()) > 0);
    expect(await log.batches(before.logId, 0, led)).toEqual([]);
    expect(await log.payloads(before.logId, [place(1, 1)])).toEqual([undefined]);
    expect(await log.batches(logId, 0, led)).toHaveLength(2);
    expect((await log.payloads(logId, [place(1, 1)])).map(String)).toEqual(['new']);
  });

  test('a log that was loaded into one of an older format is refused by software that does not read it', async () => {
    const [older, log] = [client(), client(LOG_FORMAT + 1)];
    await older.initialise(randomUUID());
    const seen = await stateOf(log);
    expect(seen.format).toBe(LOG_FORMAT);
    const replacedBy = { logId: randomUUID(), no: 1 };
    await log.change(seen, { state: 'serving', tenure: randomUUID(), replacedBy });
    expect((await stateOf(log)).format).toBe(LOG_FORMAT + 1);
    await expect(older.open()).rejects.toThrow(`reads formats up to ${LOG_FORMAT}: start the newer software`);
  });

  describe('snapshots', () => {
    test('are read part by part, by anybody, and are valid when the leader says so', async () => {
      const log = client();
      const tenure = await withBatches(log, 3);
      await log.putPart(tenure, 2, 1, Buffer.from('first try'));
      await log.putPart(tenure, 2, 1, Buffer.from('one'));
      await log.putPart(tenure, 2, 0, Buffer.from('zero'));
      const other = client();
      expect((await stateOf(other)).snapshotNo).toBe(0);
      expect(await bodiesOf(other, tenure.logId, 2)).toEqual(['zero', 'one', undefined]);
      expect(await bodiesOf(other, tenure.logId, 1)).toEqual([undefined, undefined, undefined]);
      expect(await bodiesOf(other, randomUUID(), 2)).toEqual([undefined, undefined, undefined]);
      await log.makeValid(tenure, 2, 3);
      expect(await stateOf(other)).toMatchObject({ snapshotNo: 2, ackedNo: 3, prunedNo: 0 });
    });

    test('are valid only with a first part, after the valid one, and before a batch', async () => {
      const log = client();
      const tenure = await withBatches(log, 4);
      await log.putPart(tenure, 2, 1, Buffer.from('one'));
      await expect(log.makeValid(tenure, 2, 4)).rejects.toThrow(Fenced);
      await log.putPart(tenure, 4, 0, Buffer.from('of the last batch'));
      await expect(log.makeValid(tenure, 4, 4)).rejects.toThrow(Fenced);
      await valid(log, tenure, 3, 4);
      await log.dropOtherParts(tenure);
      await expect(log.putPart(tenure, 3, 1, Buffer.from('late'))).rejects.toThrow(Fenced);
      await expect(log.putPart(tenure, 2, 0, Buffer.from('older'))).rejects.toThrow(Fenced);
      await expect(log.makeValid(tenure, 3, 4)).rejects.toThrow(Fenced);
      expect(await bodiesOf(log, tenure.logId, 3)).toEqual(['3.0', '3.1', '3.2']);
    });

    test('the one before, and what was cut short, goes; the valid one stays', async () => {
      const log = client();
      const tenure = await withBatches(log, 6);
      await valid(log, tenure, 2, 6);
      await log.putPart(tenure, 3, 0, Buffer.from('cut short'));
      await valid(log, tenure, 5, 6);
      // Somebody may still read the one before: it gets no part of another.
      expect(await log.part(tenure.logId, 2, 1)).toEqual(Buffer.from('2.1'));
      while (await log.dropOtherParts(tenure));
      for (const gone of [2, 3])
        expect(await bodiesOf(client(), tenure.logId, gone)).toEqual([undefined, undefined, undefined]);
      expect(await bodiesOf(client(), tenure.logId, 5)).toEqual(['5.0', '5.1', '5.2']);
      expect((await stateOf(log)).snapshotNo).toBe(5);
    });

    test('batches are pruned in slices, through the valid one and no further', async () => {
      const log = client();
      const tenure = await withBatches(log, 8);
      await expect(log.prune(tenure, 1)).rejects.toThrow(Fenced);
      await valid(log, tenure, 5, 8);
      await expect(log.prune(tenure, 6)).rejects.toThrow(Fenced);
      expect((await log.batches(tenure.logId, 0, tenure)).map(({ no }) => no)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      await log.prune(tenure, 3);
      // However little one call deletes, it says first how far the log is pruned.
      expect(await stateOf(log)).toMatchObject({ prunedNo: 3, snapshotNo: 5, lastNo: 8, lastLsn: 8 });
      await pruned(log, tenure, 3);
      expect((await log.batches(tenure.logId, 0, tenure)).map(({ no }) => no)).toEqual([4, 5, 6, 7, 8]);
      expect(await log.batch(tenure.logId, 3)).toBe('pruned');
      expect(await log.batch(tenure.logId, 9)).toBeUndefined();
      expect(await log.batch(randomUUID(), 3)).toBeUndefined();
      await pruned(log, tenure, 2);
      expect((await stateOf(log)).prunedNo).toBe(3);
      await pruned(log, tenure, 5);
      await log.append(tenure, batchOf(9, 9, ['record 9']), 8);
      expect(await stateOf(log)).toMatchObject({ prunedNo: 5, lastNo: 9, lastLsn: 9 });
      expect((await log.batches(tenure.logId, 5, tenure)).map(({ no }) => no)).toEqual([6, 7, 8, 9]);
    });

    test('a tenure that was fenced, or gave the lead back, changes nothing of them', async () => {
      const log = client();
      const before = await withBatches(log, 4);
      await valid(log, before, 2, 4);
      await log.putPart(before, 3, 0, Buffer.from('begun'));
      const after = await leading(client(), 'two');
      const attempts = async (tenure: Tenure): Promise<void> => {
        await expect(log.putPart(tenure, 3, 1, Buffer.from('late'))).rejects.toThrow(Fenced);
        await expect(log.makeValid(tenure, 3, 4)).rejects.toThrow(Fenced);
        await expect(log.dropOtherParts(tenure)).rejects.toThrow(Fenced);
        await expect(log.prune(tenure, 2)).rejects.toThrow(Fenced);
      };
      await attempts(before);
      await attempts({ ...after, tenure: randomUUID() });
      await attempts({ ...after, logId: randomUUID() });
      await log.resign(after, 4);
      await attempts(after);
      expect(await stateOf(log)).toMatchObject({ snapshotNo: 2, prunedNo: 0, lastNo: 4 });
      expect(await bodiesOf(log, after.logId, 3)).toEqual(['begun', undefined, undefined]);
      expect(await log.batches(after.logId, 0, after)).toHaveLength(4);
    });
  });

  test('a node that is to lead is told to the leader, until one has the lead', async () => {
    const log = client();
    const tenure = await begun(log);
    await client().want(tenure.logId, 'two');
    await client().want(randomUUID(), 'three');
    expect(await log.renew(tenure, batchOf(0, 1, []))).toMatchObject({ wantedBy: 'two' });
    await log.resign(tenure, 0);
    expect(await stateOf(log)).toMatchObject({ wantedBy: 'two', isFree: true });
    await leading(log, 'two');
    expect(await stateOf(log)).toMatchObject({ wantedBy: undefined });
  });

  test('nodes are listed with what they noted last, each log its own', async () => {
    const log = client();
    const { logId } = await begun(log);
    for (const [name, version] of [
      ['two', '1.0.0'],
      ['one', '1.0.0'],
      ['one', '1.1.0'],
    ] as const)
      await log.noteNode(logId, { name, version });
    await log.noteNode(randomUUID(), { name: 'three', version: '1.0.0' });
    const nodes = await client().nodes(logId);
    expect(nodes.map(({ name, version, format }) => [name, version, format])).toEqual([
      ['one', '1.1.0', LOG_FORMAT],
      ['two', '1.0.0', LOG_FORMAT],
    ]);
    const { nowMs } = await log.open();
    for (const { seenMs } of nodes) expect(Math.abs(nowMs - seenMs)).toBeLessThan(60_000);
  });

  test('its format is raised when every node reads it, and software that does not is refused after that', async () => {
    const older = client();
    const tenure = await begun(older);
    const newer = client(LOG_FORMAT + 1);
    await older.noteNode(tenure.logId, { name: 'one', version: '1.0.0' });
    await newer.noteNode(tenure.logId, { name: 'two', version: '1.1.0' });
    expect(await newer.raise(tenure)).toBe(LOG_FORMAT);
    expect((await stateOf(older)).format).toBe(LOG_FORMAT);
    await newer.noteNode(tenure.logId, { name: 'one', version: '1.1.0' });
    await expect(newer.raise({ ...tenure, tenure: randomUUID() })).rejects.toThrow(Fenced);
    expect(await newer.raise(tenure)).toBe(LOG_FORMAT + 1);
    expect((await stateOf(newer)).format).toBe(LOG_FORMAT + 1);
    await expect(older.open()).rejects.toThrow(`reads formats up to ${LOG_FORMAT}: start the newer software`);
    expect(await newer.raise(tenure)).toBe(LOG_FORMAT + 1);
  });

  test('batches are read by bytes: at least one, and no more than fit', async () => {
    const log = client();
    const tenure = await begun(log);
    const large = 'x'.repeat(BATCH_BYTES_AT_ONCE * 0.4);
    for (const no of [1, 2, 3]) await log.append(tenure, batchOf(no, no, [large]), no - 1);
    await log.append(tenure, batchOf(4, 4, ['x'.repeat(BATCH_BYTES_AT_ONCE + 1)]), 3);
    await log.append(tenure, batchOf(5, 5, ['a']), 4);
    const read = async (afterNo: number): Promise<number[]> =>
      (await log.batches(tenure.logId, afterNo, tenure)).map(({ no }) => no);
    expect([await read(0), await read(2), await read(3), await read(4), await read(5)]).toEqual([
      [1, 2],
      [3],
      [4],
      [5],
      [],
    ]);
  });
}
