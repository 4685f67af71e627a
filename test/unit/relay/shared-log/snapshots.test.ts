/**
 * Snapshots of a shared log: taken beside the mail, read back before they count, and enough to fill the view of a node
 * whose disk is empty.
 */
import { rm } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { LogRefused, LogUnreachable } from '../../../../src/relay/shared-log/shared-log.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { readViewMark } from '../../../../src/relay/store/marks.ts';
import { SnapshotDamaged, decodeManifest } from '../../../../src/relay/shared-log/snapshot.ts';
import { keepLog } from '../../../support/log-keeping.ts';
import { verified } from '../../../support/audits.ts';
import { pushOf } from '../../../support/commands.ts';
import { hostNamed } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { SharedTestRelay } from '../../../support/shared-test-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { found } from '../../../support/found.ts';

const [ALICE, BOB] = [hostNamed('alice'), hostNamed('bob')];

/** A relay of so many nodes, with hosts, items that wait, and some that are acked and collected. */
async function relayWithMail(nodes = 2): Promise<SharedTestRelay> {
  const relay = new SharedTestRelay(await temporaryFolder(), nodes, {});
  await relay.open();
  onTestFinished(() => relay.close());
  await relay.enrolAll(ALICE, BOB);
  await pushed(relay, 1, 6);
  await acked(relay, 3);
  await acked(relay, 1);
  return relay;
}

async function pushed(relay: SharedTestRelay, from: number, through: number): Promise<void> {
  for (let item = from; item <= through; item++) await relay.push(pushOf(ALICE, `item-${item}`, [[BOB, 'some mail']]));
}

/** Acks the oldest items that wait. */
async function acked(relay: SharedTestRelay, items: number): Promise<void> {
  const rows = await relay.queue(BOB);
  const last = found(rows[items - 1], 'fewer items wait');
  await relay.ack(BOB, last.seq);
}

function snapshotParts(relay: SharedTestRelay): Map<number, Buffer> {
  const { row } = relay.server;
  return found(relay.server.of(row?.logId ?? '').parts.get(row?.snapshotNo ?? 0), 'there is no snapshot');
}

test('a node with an empty disk comes to the very keys of one that followed from the first batch', async () => {
  const relay = await relayWithMail(2);
  const followed = await relay.followed(relay.folders[1] ?? '');
  expect(followed.size).toBeGreaterThan(20);
  await relay.takeSnapshot();
  await relay.prune(1);
  await pushed(relay, 7, 9);
  await acked(relay, 1);
  const { epoch } = relay.engine;
  const second = await relay.pushOne(pushOf(ALICE, 'item-2', [[BOB, 'some mail']]));
  const [wires, root] = [await relay.wires(BOB), relay.engine.log.checkpoint()];
  await relay.close();
  const before = await relay.followed(relay.folders[0] ?? '');
  await rm(relay.folders[1] ?? '', { recursive: true });
  expect(await relay.followed(relay.folders[1] ?? '')).toEqual(before);
  const kinds = new Set([...before.keys()].map((key) => key.slice(0, 2)));
  for (const kind of ['01', '02', '12', '20', '30', '40', '41', '42', '43', '50', '51']) expect(kinds).toContain(kind);

  await relay.open();
  expect(relay.engine.epoch).toBe(epoch);
  expect(await relay.wires(BOB)).toEqual(wires);
  expect(relay.engine.log.checkpoint()).toBe(root);
  expect(second.verdict).toBe('duplicate');
  expect(await relay.pushOne(pushOf(ALICE, 'item-2', [[BOB, 'some mail']]))).toEqual(second);
  expect(await relay.pushOne(pushOf(ALICE, 'item-10', [[BOB, 'some mail']]))).toMatchObject({ verdict: 'accepted' });
  await relay.close();
  expect((await verified(relay.folders[1] ?? '')).findings).toEqual([]);
});

test('without pruned batches such a node has every record, and with them those that the log has', async () => {
  const relay = await relayWithMail(1);
  await relay.takeSnapshot();
  await relay.wipe([0]);
  expect(relay.notices.join()).toContain('A new view was filled from the snapshot of batch');
  expect(relay.store.firstLsn).toBe(1);
  await relay.prune(0.5);
  const kept = relay.server.stored[relay.server.row?.prunedNo ?? 0];
  await relay.wipe([0]);
  expect(relay.store.firstLsn).toBe(Math.min(kept?.firstLsn ?? 0, relay.store.firstLsn));
  await relay.close();
  expect((await verified(relay.folders[0] ?? '')).findings).toEqual([]);
});

test('a lost disk of every node is filled with the epoch, also after another lead and a second snapshot', async () => {
  const relay = await relayWithMail(2);
  const { epoch } = relay.engine;
  await relay.takeSnapshot();
  await relay.wipe([0, 1]);
  await pushed(relay, 7, 8);
  await relay.takeSnapshot();
  expect(relay.server.of(relay.server.row?.logId ?? '').parts.size).toBe(1);
  await relay.prune(1);
  await relay.wipe([0, 1]);
  expect(relay.engine.epoch).toBe(epoch);
  expect(await relay.wires(BOB)).toHaveLength(4);
  expect(relay.failures).toEqual([]);
});

test.each([0, 1])('a snapshot whose part %i comes back altered is not valid, and the relay goes on', async (bad) => {
  const relay = await relayWithMail(1);
  const { log } = relay.node;
  const put = log.putPart.bind(log);
  log.putPart = async (tenure, throughNo, part, body) => {
    const altered = Buffer.from(body);
    if (part === bad) altered[altered.length - 1] = (altered.at(-1) ?? 0) ^ 1;
    await put(tenure, throughNo, part, altered);
  };
  await expect(relay.takeSnapshot()).rejects.toThrow(SnapshotDamaged);
  expect(relay.server.row?.snapshotNo).toBe(0);
  log.putPart = put;
  await relay.takeSnapshot();
  expect(relay.server.row?.snapshotNo).toBeGreaterThan(0);
  expect(await relay.pushOne(pushOf(ALICE, 'item-7', [[BOB, 'some mail']]))).toMatchObject({ verdict: 'accepted' });
});

test('a lead that is lost in the middle makes no snapshot valid, and the next leader drops its parts', async () => {
  const relay = await relayWithMail(2);
  const { log, tenure } = relay.node;
  const part = log.part.bind(log);
  const { row } = relay.server;
  if (!row) throw new Error('the log has begun');
  const before = { ...row };
  // While the parts are read back.
  log.part = (...asked) => {
    Object.assign(row, { term: tenure.term + 1, tenure: 'another' });
    return part(...asked);
  };
  // A relay that lost the lead hears of it from its batches: the job says nothing.
  await relay.takeSnapshot().catch((error: unknown) => error);
  expect(row.snapshotNo).toBe(0);
  await relay.close().catch(() => undefined);
  Object.assign(row, { term: before.term + 1, tenure: 'another', isFree: true, beat: row.beat + 1 });
  await relay.open();
  const stored = relay.server.of(row.logId).parts;
  const cutShort = [...stored.keys()];
  expect(cutShort).toHaveLength(1);
  await pushed(relay, 7, 7);
  await relay.takeSnapshot();
  expect([...stored.keys()]).toEqual([row.snapshotNo]);
  expect(cutShort).not.toContain(row.snapshotNo);
});

test('one whose batches are pruned is refused, with a remedy, when a part is gone, altered or older', async () => {
  const relay = await relayWithMail(2);
  await relay.takeSnapshot();
  await relay.prune(1);
  const parts = snapshotParts(relay);
  const whole = new Map(parts);
  const empty = relay.folders[1] ?? '';
  await relay.close();
  const damaged: Record<string, () => void> = {
    'its part 1 is missing': () => parts.delete(1),
    'its part 0 is missing': () => parts.delete(0),
    'its part 1 does not match its checksum': () =>
      void parts.set(1, Buffer.concat([whole.get(1) ?? Buffer.alloc(0), Buffer.of(0)])),
    'its part 0 does not match its checksum': () => void parts.set(0, whole.get(1) ?? Buffer.alloc(0)),
  };
  for (const [what, damage] of Object.entries(damaged)) {
    damage();
    const refused = await relay.followed(empty).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(LogRefused);
    expect((refused as Error).message).toContain(what);
    expect((refused as Error).message).toContain('start a relay of this log whose view is whole');
    for (const [part, body] of whole) parts.set(part, body);
  }
  parts.set(0, Buffer.concat([Buffer.of(2), (whole.get(0) ?? Buffer.alloc(0)).subarray(1)]));
  await expect(relay.followed(empty)).rejects.toThrow('start the newer software');
  parts.set(0, whole.get(0) ?? Buffer.alloc(0));
  expect((await relay.followed(empty)).size).toBeGreaterThan(20);
});

test('one that is damaged is passed over while the log has every batch, and the next leader replaces it', async () => {
  const relay = await relayWithMail(2);
  await relay.takeSnapshot();
  const [first] = relay.server.of(relay.server.row?.logId ?? '').parts.keys();
  snapshotParts(relay).delete(1);
  await relay.wipe([0, 1]);
  expect(relay.notices.join()).toContain('The view is made from the batches of the log, because the snapshot');
  expect(await relay.wires(BOB)).toHaveLength(2);
  const { job, failures } = relay.snapshotJob([{ batches: 1, ageMs: 0 }]);
  await job.run();
  expect(failures.map(String).join()).toContain('its part 1 is missing');
  expect(relay.server.row?.snapshotNo).toBeGreaterThan(first ?? 0);
  await relay.wipe([0]);
  expect(await relay.wires(BOB)).toHaveLength(2);
});

test('one that is damaged is replaced as soon as the log has grown, however little', async () => {
  const relay = await relayWithMail(1);
  await relay.takeSnapshot();
  const damaged = relay.server.row?.snapshotNo ?? 0;
  snapshotParts(relay).delete(1);
  await pushed(relay, 7, 7);
  const { job, failures } = relay.snapshotJob([{ batches: 1_000, ageMs: DAY_MS }]);
  await job.run();
  expect(failures.map(String).join()).toContain('its part 1 is missing');
  const replaced = relay.server.row?.snapshotNo ?? 0;
  expect(replaced).toBeGreaterThan(damaged);
  await pushed(relay, 8, 8);
  await job.run();
  expect(relay.server.row?.snapshotNo).toBe(replaced);
  await relay.wipe([0]);
  expect(await relay.wires(BOB)).toHaveLength(4);
});

test('a process that ends anywhere while it fills its view leaves one that the next start fills anew', async () => {
  const relay = await relayWithMail(2);
  const [leading = '', empty = ''] = relay.folders;
  const ended = new Error('the process ended');
  let endings = 0;
  for (let left = 1; ; left++) {
    // Something of the snapshot before is gone in this one: a view that keeps it is found out below.
    await pushed(relay, 10 * left, 10 * left + 1);
    await acked(relay, 2);
    await relay.takeSnapshot();
    await relay.prune(0.5);
    let questions = 0;
    const filled = await relay
      .followed(empty, () => {
        if (++questions === left) throw ended;
      })
      .catch((error: unknown) => error);
    if (filled !== ended) break;
    endings++;
    // It counts as no view of the log: nothing but the mark of a new one says what it is.
    expect(await withRawLevel(empty, readViewMark)).toMatchObject({ no: 0, lastLsn: 0 });
  }
  await relay.close();
  expect(await relay.followed(empty)).toEqual(await relay.followed(leading));
  // Two parts, the record that vouches for it, batches before it, and wire bytes.
  expect(endings).toBeGreaterThanOrEqual(5);
});

test('a view that cannot be filled yet is filled later; one that the log was pruned beyond is put aside', async () => {
  const relay = await relayWithMail(2);
  const [, behind = ''] = relay.folders;
  await relay.followed(behind);
  await pushed(relay, 7, 8);
  await relay.takeSnapshot();
  await relay.prune(1);
  const parts = snapshotParts(relay);
  const [last = 0] = [...parts.keys()].toSorted((a, b) => b - a);
  await relay.close();
  const atEnd = await relay.followed(relay.folders[0] ?? '');
  // The view is older than the log: it is put aside, and filling a new one ends before it is whole.
  const body = parts.get(last) ?? Buffer.alloc(0);
  parts.set(last, Buffer.alloc(0));
  await expect(relay.followed(behind)).rejects.toThrow(LogRefused);
  parts.set(last, body);
  expect(await relay.followed(behind)).toEqual(atEnd);
});

test('a node that reads a snapshot while the leader replaces it begins with the new one', async () => {
  const relay = await relayWithMail(2);
  await relay.takeSnapshot();
  await relay.prune(1);
  const client = relay.server.client.bind(relay.server);
  let isReplaced = false;
  relay.server.client = () => {
    const log = client();
    const part = log.part.bind(log);
    log.part = async (...asked) => {
      if (asked[2] === 1 && !isReplaced) {
        isReplaced = true;
        await pushed(relay, 7, 8);
        await relay.takeSnapshot();
        await relay.prune(1);
      }
      return part(...asked);
    };
    return log;
  };
  const filled = await relay.followed(relay.folders[1] ?? '');
  expect(isReplaced).toBe(true);
  await relay.close();
  expect(filled).toEqual(await relay.followed(relay.folders[0] ?? ''));
});

test('a node whose snapshot is replaced after its last part was read begins with the new one, all of it', async () => {
  const relay = await relayWithMail(2);
  await relay.takeSnapshot();
  await relay.prune(1);
  const client = relay.server.client.bind(relay.server);
  let isReplaced = false;
  relay.server.client = () => {
    const log = client();
    const batches = log.batches.bind(log);
    log.batches = async (...asked) => {
      if (!isReplaced) {
        isReplaced = true;
        await pushed(relay, 7, 8);
        await relay.takeSnapshot();
        await relay.prune(1);
      }
      return batches(...asked);
    };
    return log;
  };
  const filled = await relay.followed(relay.folders[1] ?? '');
  expect(isReplaced).toBe(true);
  await relay.close();
  expect(filled).toEqual(await relay.followed(relay.folders[0] ?? ''));
});

test('a snapshot is taken when enough has happened since the last, and not before', async () => {
  const relay = await relayWithMail(1);
  const due = [
    { batches: 50, ageMs: 3_600_000 },
    { batches: 3, ageMs: DAY_MS },
  ];
  const { job, failures } = relay.snapshotJob(due);
  const taken = async (): Promise<number | undefined> => {
    const before = relay.server.row?.snapshotNo;
    await job.run();
    const after = relay.server.row?.snapshotNo;
    return after === before ? undefined : after;
  };
  expect(await taken()).toBeGreaterThan(0);
  await pushed(relay, 7, 12);
  expect(await taken()).toBeUndefined();
  relay.clock.nowMs += DAY_MS;
  expect(await taken()).toBeGreaterThan(0);
  relay.clock.nowMs += DAY_MS;
  expect(await taken()).toBeUndefined();
  await pushed(relay, 13, 70);
  expect(await taken()).toBeGreaterThan(0);
  expect(job.gauges).toEqual({
    snapshotNo: relay.server.row?.snapshotNo,
    snapshotAtMs: decodeManifest(snapshotParts(relay).get(0) ?? Buffer.alloc(0)).atMs,
    prunedNo: 0,
  });
  expect(failures).toEqual([]);
});

/** A relay of one node whose view was pruned, and whose log was not. */
async function relayWithPrunedView(): Promise<SharedTestRelay> {
  const relay = await relayWithMail(1);
  const archiveFolder = await temporaryFolder();
  await keepLog(relay, { archiveFolder });
  relay.clock.nowMs += 2 * DAY_MS;
  // More than a tile of the hash tree: records on its edge are not pruned.
  await pushed(relay, 7, 300);
  await keepLog(relay, { archiveFolder });
  return relay;
}

test('a run that ends while it prunes leaves the rest to the next, also of another process', async () => {
  const relay = await relayWithPrunedView();
  const { log } = relay.node;
  const prune = log.prune.bind(log);
  const left = (): number => {
    const { row } = relay.server;
    return (row?.prunedNo ?? 0) - relay.server.of(row?.logId ?? '').deletedNo;
  };
  const ended = new LogUnreachable('the connection was lost');
  let calls = 0;
  log.prune = async (...given) => {
    if (++calls > 3) throw ended;
    return prune(...given);
  };
  const first = relay.snapshotJob();
  await first.job.run();
  expect(first.failures).toEqual([ended]);
  expect(left()).toBeGreaterThan(0);
  log.prune = prune;
  const next = relay.snapshotJob();
  await next.job.run();
  expect(left()).toBe(0);
  calls = 0;
  log.prune = async () => {
    throw new Error(`nothing is left (${++calls})`);
  };
  await next.job.run();
  expect([calls, next.failures]).toEqual([0, []]);
});

test('the log is pruned as the view of the leader was, by age and after archives, up to its snapshot', async () => {
  const relay = await relayWithPrunedView();
  const { firstLsn } = relay.store;
  expect(firstLsn).toBeGreaterThan(1);
  const { job, failures } = relay.snapshotJob();
  await job.run();
  const { prunedNo = 0, snapshotNo = 0 } = relay.server.row ?? {};
  expect(prunedNo).toBeGreaterThan(0);
  expect(prunedNo).toBeLessThan(snapshotNo);
  expect(relay.server.stored[prunedNo - 1]?.lastLsn).toBeLessThan(firstLsn);
  expect(relay.server.stored[prunedNo]?.lastLsn).toBeGreaterThanOrEqual(firstLsn);
  expect(failures).toEqual([]);
  await relay.wipe([0]);
  expect(relay.store.firstLsn).toBeLessThanOrEqual(firstLsn);
});
