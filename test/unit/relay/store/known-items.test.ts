/** Tests what is in memory of the dedup rows: never less than what is stored and not forgotten. */
import { hash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { withChecksum } from '../../../../src/relay/store/checksum.ts';
import { PREFIX, dedupKey, dueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { flatPairs } from '../../../../src/relay/core/decide-push.ts';
import { KnownItems } from '../../../../src/relay/store/known-items.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { type PublicKey, publicKeyBytes } from '../../../../src/protocol/public-key.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { DedupRow } from '../../../../src/relay/core/rows.ts';
import { alice, hostNamed } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

function keyOf(name: number): Buffer {
  return dedupKey(hash('sha256', `item ${name}`, 'buffer'));
}

async function levelWith(rows: readonly number[], untilMs: number): Promise<Level> {
  const level = levelAt(await temporaryFolder());
  await level.open();
  const batch = level.batch();
  // As they are written: an entry for each batch, with the sender and the name of each row.
  const entries = rows.length > 0 ? [rows.slice(0, 1), rows.slice(1)] : [];
  for (const [at, names] of entries.entries()) {
    const key = dueKey(PREFIX.dedupUntil, untilMs, at + 1);
    const runs = names.flatMap((name) => [publicKeyBytes(alice.key), keyOf(name).subarray(1)]);
    batch.put(key, withChecksum(key, Buffer.concat(runs)));
  }
  const sender = rowKeyBytes('sender', alice.key);
  if (rows.length > 0) batch.put(sender, encodeRow('sender', sender, { dedupRows: rows.length }));
  await batch.write();
  return level;
}

function range(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_none, at) => from + at);
}

describe('the items that are known in memory', () => {
  test('before they are read nothing is known to be new', async () => {
    const known = new KnownItems();
    expect(known.lacks(keyOf(1))).toBe(false);
    known.add(keyOf(1), 10);
    expect(known.lacks(keyOf(2))).toBe(false);
  });

  test('what is stored, and what was added while that was being read and afterwards, is never new', async () => {
    const level = await levelWith(range(5_000), 100);
    const known = new KnownItems(2_000);
    const filled = known.fill(level);
    known.add(keyOf(5_000), 200);
    expect(known.lacks(keyOf(9_000))).toBe(false);
    await filled;
    known.add(keyOf(5_001), 200);
    for (const name of range(5_002)) expect(known.lacks(keyOf(name))).toBe(false);
    await level.close();
  });

  test('of what is neither, all but a few in a thousand are new', async () => {
    const level = await levelWith(range(5_000), 100);
    const known = new KnownItems();
    await known.fill(level);
    expect(range(20_000, 10_000).filter((name) => !known.lacks(keyOf(name))).length).toBeLessThan(200);
    await level.close();
  });

  test('attack 8: an id ground so that each part of its key begins as that of a known one is new', async () => {
    const level = await levelWith([], 0);
    const known = new KnownItems();
    await known.fill(level);
    for (const name of range(100)) known.add(keyOf(name), 10);
    const ground = range(100).map((name) => {
      const key = keyOf(name);
      for (let at = 4; at < key.length; at += 4) key[at]! ^= 0x55;
      return key;
    });
    expect(ground.filter((key) => !known.lacks(key))).toEqual([]);
    await level.close();
  });

  test('a filter goes when all of its rows may be forgotten, and not a moment before', async () => {
    const level = await levelWith(range(10), 100);
    const known = new KnownItems(10);
    await known.fill(level);
    known.add(keyOf(10), 300);
    known.purged(99);
    for (const name of range(11)) expect(known.lacks(keyOf(name))).toBe(false);
    known.purged(100);
    expect(known.lacks(keyOf(0))).toBe(true);
    expect(known.lacks(keyOf(10))).toBe(false);
    known.purged(300);
    expect(known.lacks(keyOf(10))).toBe(true);
    await level.close();
  });

  test('with more rows than the filters are for, LevelDB is asked', async () => {
    const level = await levelWith([], 0);
    const known = new KnownItems(1);
    await known.fill(level);
    for (const name of range(32)) known.add(keyOf(name), 10);
    expect(known.lacks(keyOf(99))).toBe(true);
    known.add(keyOf(32), 10);
    expect(known.lacks(keyOf(99))).toBe(false);
    known.add(keyOf(33), 10);
    known.purged(20);
    expect(known.lacks(keyOf(99))).toBe(false);
    await level.close();
  });

  test('where an entry of the index is damaged or gone, LevelDB is asked', async () => {
    const key = dueKey(PREFIX.dedupUntil, 100, 2);
    for (const damage of ['flipped', 'gone'] as const) {
      const level = await levelWith(range(5_000), 100);
      const value = (await level.get(key)) ?? Buffer.alloc(0);
      value[200] = (value[200] ?? 0) ^ 1;
      await (damage === 'gone' ? level.del(key) : level.put(key, value));
      const known = new KnownItems();
      await known.fill(level);
      expect(known.lacks(keyOf(9_000))).toBe(false);
      await level.close();
    }
  });

  test('of the pairs of two hosts, those are asked that were noted, and those of senders from before', async () => {
    const level = await levelWith(range(10), 100);
    const known = new KnownItems();
    const others = range(40).map((name) => hostNamed(`keys ${name}`).key);
    const itemId = 'm1' as ItemId;
    const note = (at: number, to: number, dedupUntilMs: number): void =>
      known.note({ senderPubkey: others[at]!, targetPubkey: others[to]!, itemId, dedupUntilMs } as DedupRow);
    const pairs = (senders: readonly PublicKey[], id: string = itemId): unknown[] => [
      ...flatPairs(known.pairs(senders, others, id as ItemId)),
    ];
    const every = others.flatMap((sender) => others.map((target) => [sender, target]));
    expect(pairs(others)).toEqual(every);
    const filled = known.fill(level);
    note(1, 2, 300);
    expect(pairs(others)).toEqual(every);
    await filled;
    note(3, 4, 300);
    note(3, 1, 300);
    const noted = [
      [others[1], others[2]],
      [others[3], others[1]],
      [others[3], others[4]],
    ];
    expect(pairs(others)).toEqual(noted);
    expect(pairs(others, 'm2')).toEqual([]);
    const ofAlice = others.map((target) => [alice.key, target]);
    expect(pairs([alice.key, ...others])).toEqual([...ofAlice, ...noted]);
    known.purged(100);
    expect(pairs([alice.key, ...others])).toEqual(noted);
    await level.close();
  });

  test('a database that is closed meanwhile leaves everything to LevelDB', async () => {
    const level = await levelWith(range(5_000), 100);
    const known = new KnownItems();
    const filled = known.fill(level);
    await level.close();
    await filled;
    expect(known.lacks(keyOf(9_000))).toBe(false);
  });

  test('property: against a set of rows with their times', async () => {
    const level = await levelWith([], 0);
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.record({ name: fc.nat(200), untilMs: fc.nat(50) }) },
      { weight: 1, arbitrary: fc.record({ purgedMs: fc.nat(50) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const known = new KnownItems(7);
        await known.fill(level);
        const rows = new Map<number, number>();
        let purgedMs = -1;
        for (const one of steps) {
          if ('purgedMs' in one) known.purged((purgedMs = Math.max(purgedMs, one.purgedMs)));
          else {
            const untilMs = Math.max(one.untilMs, purgedMs + 1);
            known.add(keyOf(one.name), untilMs);
            rows.set(one.name, Math.max(untilMs, rows.get(one.name) ?? 0));
          }
          const stored = [...rows].filter(([, until]) => until > purgedMs).map(([name]) => name);
          expect(stored.filter((name) => known.lacks(keyOf(name)))).toEqual([]);
        }
      }),
      { numRuns: 50 },
    );
    await level.close();
  });
});
