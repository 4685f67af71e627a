/** A batch that is encoded while the one before is being written becomes what it would have become alone. */
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { LogEntry, RelayEvent } from '../../../../src/relay/core/event.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import { LOG_FORMAT } from '../../../../src/relay/core/log-format.ts';
import { OverlaidRows } from '../../../../src/relay/engine/open-batch.ts';
import type { DurableLog, LogBatch, ViewBatch, ViewWrites } from '../../../../src/relay/store/durable-log.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { LogTree } from '../../../../src/relay/store/log-tree.ts';
import { NOT_PRUNED } from '../../../../src/relay/store/marks.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { wireOf } from '../../../support/commands.ts';
import { type Deferred, deferred } from '../../../support/deferred.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { accepted, enrolled, initialised } from '../../../support/events.ts';
import { alice, bob, carol, relay } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

/** Writes each batch when it is told to. */
class HeldLog implements DurableLog {
  readonly isShared = true;
  readonly format = LOG_FORMAT;
  readonly effects: Buffer[] = [];
  readonly epochs: unknown[] = [];
  held: Deferred | undefined;

  async append({ effects, epoch }: ViewBatch, view: ViewWrites, written: () => void): Promise<void> {
    await this.held?.promise;
    this.effects.push(effects?.taken(this.effects.at(-1) ?? Buffer.alloc(0)).effects ?? Buffer.alloc(0));
    this.epochs.push(epoch);
    await view.write({ sync: false });
    written();
  }

  async close(): Promise<void> {}
}

interface Opened {
  store: RelayStore;
  level: Level;
  log: HeldLog;
  /** Everything so far, whether it is stored or not. */
  rows: OverlaidRows;
  lsn: number;
}

async function opened(): Promise<Opened> {
  const level = levelAt(join(await temporaryFolder(), 'level'));
  await level.open();
  const log = new HeldLog();
  const store = new RelayStore(level, log, { lastLsn: 0, pruned: NOT_PRUNED }, await LogTree.open(level, 0));
  onTestFinished(() => store.close());
  return { store, level, log, rows: new OverlaidRows(store), lsn: 0 };
}

function batchOf(to: Opened, events: readonly RelayEvent[]): LogBatch {
  const own = new OverlaidRows(to.rows);
  const entries = events.map((event): LogEntry => {
    const entry = { lsn: ++to.lsn, event };
    for (const change of reduce(entry, own)) own.changes.set(change);
    return entry;
  });
  const changes = own.changes.changes();
  for (const change of changes) to.rows.changes.set(change);
  const payloads = events.flatMap((event) =>
    event.type === 'ItemAccepted'
      ? event.targets.map(({ hostPubkey, seq }) => ({ targetPubkey: hostPubkey, seq, wire: wireOf(`${seq}`) }))
      : [],
  );
  return { entries, changes, payloads };
}

/** An item leaves the queue with its wire bytes. */
const expired = (seq: number): RelayEvent => ({
  type: 'ItemsExpired',
  targetPubkey: bob.key,
  relayPubkey: relay.key,
  items: [{ seq, kind: 'envelope', itemId: `m${seq}` as ItemId, senderPubkey: alice.key, pushedTo: bob.key, bytes: 4 }],
  account: null,
  dedupUntilMs: NOON_MS,
  notices: [],
  atMs: NOON_MS,
});

/** Records enough to fill a tile of the hash tree in each batch, and an epoch that begins in one of them. */
const ITEMS = 300;
const items = (from: number): RelayEvent[] =>
  Array.from({ length: ITEMS }, (_none, at) => accepted(alice, `m${from + at}`, [[bob, from + at, `${from + at}`]]));
const epochRotated: RelayEvent = {
  type: 'EpochRotated',
  epoch: epochNumbered(9),
  reason: 'reset',
  atMs: NOON_MS,
};
const BATCHES: readonly RelayEvent[][] = [
  [initialised, enrolled(alice), enrolled(bob)],
  items(1000),
  [...items(2000), epochRotated],
  [...items(3000), enrolled(carol)],
];

/** Appends batches, each but the first encoded while the one before it is being written. */
async function appendAhead(to: Opened, batches: readonly RelayEvent[][]): Promise<void> {
  const [first = [], ...rest] = batches;
  to.log.held = deferred();
  let appending = to.store.append(batchOf(to, first));
  for (const events of rest) {
    const batch = batchOf(to, events);
    const encoded = await to.store.encodeAhead(batch);
    expect(encoded?.lastLsn).toBe(to.lsn);
    to.log.held.resolve();
    await appending;
    to.log.held = deferred();
    appending = to.store.append(batch, encoded);
  }
  to.log.held.resolve();
  await appending;
}

test('what is stored is the same, to the byte', async () => {
  const alone = await opened();
  for (const events of BATCHES) await alone.store.append(batchOf(alone, events));

  const ahead = await opened();
  await appendAhead(ahead, BATCHES);

  expect(await ahead.level.iterator().all()).toEqual(await alone.level.iterator().all());
  expect(ahead.log.effects).toEqual(alone.log.effects);
  expect(ahead.log.epochs).toEqual(alone.log.epochs);
  expect(ahead.store.lastLsn).toBe(alone.store.lastLsn);
  expect(ahead.store.tree.view()?.size).toBe(alone.store.tree.view()?.size);
});

test('a batch that drops what the one before brings is encoded ahead; one that is not the next is not', async () => {
  const held = await opened();
  await held.store.append(batchOf(held, [initialised, enrolled(alice), enrolled(bob)]));
  held.log.held = deferred();
  const appending = held.store.append(batchOf(held, items(1000)));
  const dropping = batchOf(held, [expired(1000)]);
  const encoded = await held.store.encodeAhead(dropping);
  expect(encoded).toBeDefined();
  const later = batchOf(held, items(2000));
  expect(await held.store.encodeAhead(later)).toBeUndefined();
  held.log.held.resolve();
  await appending;
  held.log.held = undefined;
  await held.store.append(dropping, encoded);
  await held.store.append(later);
  expect(held.store.lastLsn).toBe(held.lsn);
  const rows = await held.store.queueRows(bob.key, 0, 2000, 3);
  expect(rows.map(({ seq }) => seq)).toEqual([1001, 1002, 1003]);
  expect(await held.store.payloads(rows)).toEqual(rows.map(({ seq }) => wireOf(`${seq}`)));
});

test('attack 3: a batch that is encoded ahead leaves what the one before does to the same run', async () => {
  const held = await opened();
  await held.store.append(batchOf(held, [initialised, enrolled(alice), enrolled(bob)]));
  await held.store.append(batchOf(held, items(1000).slice(0, 5)));
  await appendAhead(
    held,
    [1001, 1003, 1004].map((seq) => [expired(seq)]),
  );
  const rows = await held.store.queueRows(bob.key, 0, 2000, 10);
  expect(rows.map(({ seq, payloadBound }) => [seq, payloadBound])).toEqual([
    [1000, 1004],
    [1002, 1004],
  ]);
  expect(await held.store.payloads(rows)).toEqual([wireOf('1000'), wireOf('1002')]);
  expect(held.store.hasPayload({ ...rows[0]!, seq: 1003, payloadSeq: 1003 })).toBe(false);
});
