/** Pushes of items whose dedup row is gone from the disk, and the counts by which that is noticed. */
import { cp, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { PushItem } from '../../../../src/relay/core/command.ts';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { rowName } from '../../../../src/relay/store/checksum.ts';
import { DedupCounts, countDedupRows } from '../../../../src/relay/store/dedup-counts.ts';
import { PREFIX, prefixRange, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { pushOf } from '../../../support/commands.ts';
import { KnownItems } from '../../../../src/relay/store/known-items.ts';
import { alice, bob, hostNamed } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { TestRelay, enrolledTestRelay, outcomeOf } from '../../../support/test-relay.ts';
import { IS_THOROUGH, share } from '../../../support/thorough.ts';
import { loseWire } from '../../../support/stored-items.ts';

const DAY_MS = 86_400_000;
/** The part of a key that lies in a table as it is. */
const KEY_END_BYTES = 28;

function keyOf(id: string): Buffer {
  return rowKeyBytes('dedup', rowKey.dedup(alice.key, bob.key, id as ItemId));
}

/** Resolves when each relay that was opened since has counted its rows. */
function whenCounted(): () => Promise<unknown> {
  const filled = vi.spyOn(RelayStore.prototype, 'fillKnownItems');
  onTestFinished(() => filled.mockRestore());
  return () => Promise.all(filled.mock.results.map(({ value }) => value as Promise<void>));
}

/** The row lies under a key of which one bit is another, or some are. */
async function flip({ store: { level } }: TestRelay, id: string, bits = 1): Promise<void> {
  const key = keyOf(id);
  const other = Buffer.from(key);
  other[32]! ^= bits;
  await level
    .batch()
    .del(key)
    .put(other, (await level.get(key))!)
    .write();
}

describe('an item that is known, and whose dedup row is gone', () => {
  test('is not stored twice: its push is refused, others go on, and after a rebuild it is a duplicate', async () => {
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await counted();
    await flip(relay, 'm1');
    const refused = { verdict: 'rejected:target unavailable', seqs: [] };
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual(refused);
    expect(relay.engine.damagedRows).toEqual([{ kind: 'dedup', name: rowName(keyOf('m1')) }]);
    expect(await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]))).toMatchObject({ verdict: 'accepted' });
    // So it is after a start, at which the rows are counted.
    await relay.reopen();
    await counted();
    expect(relay.engine.damagedRows).toMatchObject([{ kind: 'dedup' }]);
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual(refused);
    expect(await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]))).toMatchObject({ verdict: 'accepted' });
    await relay.close();
    await rebuilt(relay.folder);
    await relay.open();
    await counted();
    expect(relay.engine.damagedRows).toEqual([]);
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual({ verdict: 'duplicate', seqs });
  });

  test.each([false, true])(
    'and whose time passes before a rebuild is charged to nobody afterwards (with a thread: %s)',
    async (isHelped) => {
      const counted = whenCounted();
      const relay = await enrolledTestRelay(alice, bob);
      const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
      await counted();
      await relay.ack(bob, seqs[0]!);
      await flip(relay, 'm1');
      await relay.sweepAfter(60 * DAY_MS);
      await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]));
      await relay.close();
      await rebuilt(relay.folder, isHelped ? { helpedFrom: 0 } : {});
      expect((await verified(relay.folder)).findings).toEqual([]);
      await relay.open();
      await counted();
      expect(relay.engine.damagedRows).toEqual([]);
      expect(relay.dedupRows(alice)).toBe(1);
      expect(await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]))).toMatchObject({ verdict: 'duplicate' });
      expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toMatchObject({ verdict: 'accepted' });
      // As the log has it, too.
      await relay.close();
      expect((await verified(relay.folder)).findings).toEqual([]);
    },
  );

  test.each([
    [1, 'accepted'],
    [3, 'rejected:target unavailable'],
  ])('and whose entry is damaged, is known by its checksum, or nothing is new (%i)', async (bits, anew) => {
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]));
    await flip(relay, 'm1', bits);
    const { level } = relay.store;
    const [entry] = await level.iterator(prefixRange(PREFIX.dedupUntil)).all();
    entry![1][20]! ^= 1;
    await level.put(...entry!);
    await relay.reopen();
    await counted();
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toMatchObject({
      verdict: 'rejected:target unavailable',
    });
    expect(await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]))).toMatchObject({ verdict: 'duplicate' });
    expect(await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]))).toMatchObject({ verdict: anew });
    await relay.close();
    await rebuilt(relay.folder);
    await relay.open();
    await counted();
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual({ verdict: 'duplicate', seqs });
    expect(await relay.pushOne(pushOf(alice, 'm4', [[bob, 'four']]))).toMatchObject({ verdict: 'accepted' });
  });

  test('an item whose sender has no row any more is known all the same', async () => {
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await relay.altered((level) => level.del(rowKeyBytes('sender', alice.key)));
    await counted();
    expect(relay.engine.damagedRows).toMatchObject([{ name: 'the sender row that is missing' }]);
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual({ verdict: 'duplicate', seqs });
  });

  test('one that was forgotten in time and is pushed anew is accepted, after its bucket was counted', async () => {
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    await counted();
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    relay.clock.move(10 * DAY_MS);
    // A filter goes with the last of its rows, so this one still knows of the first.
    const { seqs } = await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]));
    await relay.ack(bob, seqs[0]!);
    await relay.sweepAfter(30 * DAY_MS);
    expect(relay.dedupRows(alice)).toBe(1);
    const asked = vi.spyOn(DedupCounts.prototype, 'assertNew');
    onTestFinished(() => asked.mockRestore());
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toMatchObject({ verdict: 'accepted' });
    expect(asked.mock.results.map(({ type }) => type)).toEqual(['throw', 'return']);
    expect(relay.engine.damagedRows).toEqual([]);
  });

  test('one that comes while the rows are counted apart is counted once, on whichever side of the count', async () => {
    const counting = vi.spyOn(DedupCounts.prototype, 'counted');
    onTestFinished(() => counting.mockRestore());
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    const ids = Array.from({ length: 40 }, (_none, at) => `item ${at}`);
    const { seqs } = await relay.pushOne(pushOf(alice, 'gone', [[bob, 'x']]));
    await relay.ack(bob, seqs[0]!);
    await counted();
    const counts = counting.mock.contexts.at(-1) as DedupCounts;
    const apart = new DedupCounts(relay.store.level, { onDamaged: () => undefined, monotonicMs: () => 0 });
    for (const method of ['added', 'removed'] as const) {
      const told = vi.spyOn(counts, method).mockImplementation((...given) => {
        apart[method](...given);
        DedupCounts.prototype[method].apply(counts, given);
      });
      onTestFinished(() => told.mockRestore());
    }
    await relay.push(...ids.slice(0, 20).map((id) => pushOf(alice, id, [[bob, 'x']])));
    const count = await resultOf(countDedupRows(relay.store.level, relay.store.lastLsn));
    await relay.push(...ids.slice(20).map((id) => pushOf(alice, id, [[bob, 'x']])));
    await relay.sweepAfter(36 * DAY_MS);
    apart.counted(count);
    const [stored, least] = await bucketsOf(relay, apart);
    expect(least).toEqual(stored);
    expect(stored.length).toBe(40);
  });

  test('an item for many targets, each of which is in doubt, is accepted after as many looks', async () => {
    const counted = whenCounted();
    const hosts = Array.from({ length: 5 }, (_none, at) => hostNamed(`doubted ${at}`));
    const relay = await enrolledTestRelay(alice, bob, ...hosts);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await counted();
    const lacks = vi.spyOn(KnownItems.prototype, 'lacks').mockReturnValue(false);
    onTestFinished(() => lacks.mockRestore());
    const asked = vi.spyOn(DedupCounts.prototype, 'assertNew');
    onTestFinished(() => asked.mockRestore());
    const targets = hosts.map((host) => [host, 'x'] as const);
    expect(await relay.pushOne(pushOf(alice, 'm2', targets))).toMatchObject({ verdict: 'accepted' });
    expect(asked.mock.results.filter(({ type }) => type === 'throw').length).toBe(hosts.length);
  });
});

function push(id: number): PushItem {
  return pushOf(alice, `item ${id}`, [[bob, 'x']]);
}

/** The rows of a relay in every bucket, as they are and as they are to be at least. */
async function bucketsOf(relay: TestRelay, counts: DedupCounts): Promise<[stored: number[], least: number[]]> {
  const { buckets } = await resultOf(countDedupRows(relay.store.level, 0));
  const names = [...buckets.keys()].filter((bucket) => (buckets[bucket] ?? 0) > 0 || counts.leastIn(bucket) !== 0);
  return [names.map((bucket) => buckets[bucket] ?? 0), names.map((bucket) => counts.leastIn(bucket) ?? NaN)];
}

describe('attack 9: the rows that there must be in each bucket', () => {
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ what: fc.constant('push' as const), ids: fc.uniqueArray(fc.nat(12), { minLength: 1 }) }),
    },
    { weight: 2, arbitrary: fc.record({ what: fc.constant('ack' as const) }) },
    { weight: 2, arbitrary: fc.record({ what: fc.constant('sweep' as const), days: fc.integer({ min: 1, max: 50 }) }) },
    { weight: 2, arbitrary: fc.record({ what: fc.constant('lose' as const), id: fc.nat(12) }) },
    { weight: 1, arbitrary: fc.record({ what: fc.constant('reopen' as const) }) },
    { weight: 1, arbitrary: fc.record({ what: fc.constant('together' as const), id: fc.nat(12) }) },
  );

  test('stay where an item that was lost is stored anew, and become fewer where it is not', async () => {
    const counting = vi.spyOn(DedupCounts.prototype, 'counted');
    onTestFinished(() => counting.mockRestore());
    const counted = whenCounted();
    const relay = await enrolledTestRelay(alice, bob);
    const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await counted();
    const counts = counting.mock.contexts.at(-1) as DedupCounts;
    await loseWire(relay.store.level, bob.key, seqs[0]!);
    const anew = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(anew.verdict).toBe('accepted');
    expect(await bucketsOf(relay, counts)).toEqual([[1], [1]]);
    await relay.engine.lost.report({
      type: 'ReportLostItem',
      targetPubkey: bob.key,
      seq: anew.seqs[0]!,
      freshEpoch: epochNumbered(98),
      nowMs: relay.clock.nowMs,
    });
    expect(await bucketsOf(relay, counts)).toEqual([[], []]);
  });

  test('property: are as many as there are, under accept, purge, accept anew, loss, repair and restart', async () => {
    const counted = whenCounted();
    const counting = vi.spyOn(DedupCounts.prototype, 'counted');
    onTestFinished(() => counting.mockRestore());
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        const relay = new TestRelay(await temporaryFolder(), {});
        await relay.open();
        await relay.enrolAll(alice, bob);
        const lost = new Set<number>();
        for (const one of steps) {
          if (one.what === 'push') await relay.push(...one.ids.map(push));
          else if (one.what === 'ack') await relay.ack(bob, relay.engine.head(bob.key).headSeq);
          else if (one.what === 'sweep') await relay.sweepAfter(one.days * DAY_MS);
          else if (one.what === 'reopen') await relay.reopen();
          else if (one.what === 'lose') {
            const row = relay.store.get('dedup', rowKey.dedup(alice.key, bob.key, `item ${one.id}` as ItemId));
            const waiting = await relay.queue(bob);
            if (!row || lost.has(row.seq) || !waiting.some(({ seq }) => seq === row.seq)) continue;
            lost.add(row.seq);
            await loseWire(relay.store.level, bob.key, row.seq);
          } else {
            // What is forgotten and what is accepted anew may share a batch.
            relay.clock.move(36 * DAY_MS);
            await relay.expire();
            await Promise.all([relay.purge(), relay.push(push(one.id))]);
          }
          await counted();
          const [stored, least] = await bucketsOf(relay, counting.mock.contexts.at(-1) as DedupCounts);
          expect(least).toEqual(stored);
          expect(relay.engine.damagedRows).toEqual([]);
        }
        await relay.close();
      }),
      { numRuns: share(100) },
    );
  });
});

/** A folder with a store whose rows lie in a table file, and where in the files the keys of dedup rows lie. */
async function storeInTables(
  ids: readonly string[],
): Promise<{ folder: string; places: { file: string; at: number }[] }> {
  const relay = await enrolledTestRelay(alice, bob);
  for (const id of ids) await relay.pushOne(pushOf(alice, id, [[bob, `mail ${id}`]]));
  await relay.close();
  const { folder } = relay;
  await (await openOffline(folder)).close();
  const places: { file: string; at: number }[] = [];
  for (const file of await readdir(join(folder, LEVEL_FOLDER))) {
    if (!file.endsWith('.ldb')) continue;
    const bytes = await readFile(join(folder, LEVEL_FOLDER, file));
    for (const id of ids) {
      // A table leaves out what a key begins with as the one before it does.
      const end = keyOf(id).subarray(-KEY_END_BYTES);
      for (let at = bytes.indexOf(end); at >= 0; at = bytes.indexOf(end, at + 1)) places.push({ file, at });
    }
  }
  return { folder, places };
}

test('a bit of a dedup key that flips in a table file lets nothing be stored twice, and new items in', async () => {
  const ids = Array.from({ length: 30 }, (_none, at) => `item ${at}`);
  const counted = whenCounted();
  const { folder, places } = await storeInTables(ids);
  expect(places.length).toBeGreaterThanOrEqual(ids.length);
  const flips = IS_THOROUGH ? 60 : 6;
  const outcomes = new Set<string>();
  for (let turn = 0; turn < flips; turn++) {
    const { file, at } = places[(turn * 7) % places.length]!;
    const copy = await temporaryFolder();
    await cp(folder, copy, { recursive: true });
    const path = join(copy, LEVEL_FOLDER, file);
    const bytes = await readFile(path);
    bytes[at + (turn % KEY_END_BYTES)]! ^= 1 << (turn % 8);
    await writeFile(path, bytes);
    outcomes.add(await outcomeOfStart(copy, ids, counted));
  }
  expect([...outcomes]).toEqual(['noticed']);
});

/** Starts a relay at which everything is pushed again. */
async function outcomeOfStart(
  folder: string,
  ids: readonly string[],
  counted: () => Promise<unknown>,
): Promise<string> {
  const relay = new TestRelay(folder, {});
  try {
    await relay.open();
  } catch (error) {
    if (error instanceof StoreRefused) return 'refused';
    throw error;
  }
  try {
    await counted();
    const kinds = new Set(relay.engine.damagedRows.map(({ kind }) => kind));
    const pushed = await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, `mail ${id}`]])));
    if (kinds.size === 0) return 'unnoticed';
    if (pushed.map((one) => outcomeOf(one).verdict).includes('accepted')) return 'stored twice';
    return (await relay.pushOne(pushOf(alice, 'new', [[bob, 'x']]))).verdict === 'accepted' ? 'noticed' : 'nothing new';
  } finally {
    await relay.close();
  }
}
