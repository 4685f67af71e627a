import { cp, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { PREFIX, firstKeyOf, prefixRange, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { REBUILDING_FOLDER } from '../../../../src/relay/store/cutover.ts';
import { withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { rebuilt, verified } from '../../../support/audits.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { carolAfter, liveALife } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { alterWire, loseWire } from '../../../support/stored-items.ts';

/** A relay that lived and is closed. */
async function lived(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  return relay;
}

/** Every pair of the closed store, but the due indexes and marks, which a rebuild words otherwise. */
async function contents(folder: string): Promise<Map<string, string>> {
  const pairs = await withRawLevel(folder, (level) => level.iterator().all());
  const worded = new Set<number>([PREFIX.expiry, PREFIX.dedupUntil, PREFIX.collected]);
  return new Map(
    pairs
      .filter(([key]) => !worded.has(key[0] ?? 0))
      .map(([key, value]) => [key.toString('hex'), value.toString('hex')]),
  );
}

describe('a rebuild', () => {
  test('gives every row, record and payload byte for byte, and a store that is verified', async () => {
    const { folder } = await lived();
    const before = await contents(folder);
    expect(await rebuilt(folder)).toMatchObject({ lost: 0, payloads: 4 });
    expect(await contents(folder)).toEqual(before);
    expect((await verified(folder)).findings).toEqual([]);
  });

  test('keeps the former database beside it', async () => {
    const { folder } = await lived();
    const before = await contents(folder);
    const { replaced } = await rebuilt(folder);
    const kept = join(await readdirOnly(folder, 'log.replaced-'));
    expect(join(folder, kept)).toBe(replaced);
    await rename(join(folder, LEVEL_FOLDER), join(folder, 'new'));
    await rename(replaced, join(folder, LEVEL_FOLDER));
    expect(await contents(folder)).toEqual(before);
  });

  test('mends rows and indexes that were damaged, under the same sequence numbers', async () => {
    const relay = await lived();
    const before = await contents(relay.folder);
    await withRawLevel(relay.folder, async (level) => {
      await level.del(rowKeyBytes('target', bob.key));
      await level.put(rowKeyBytes('share', bob.key + alice.key), Buffer.from('rubbish'));
      for (const prefix of [PREFIX.dedup, PREFIX.queue, PREFIX.expiry]) {
        for (const key of await level.keys(prefixRange(prefix)).all()) await level.del(key);
      }
    });
    expect((await verified(relay.folder)).found).toBeGreaterThan(5);
    await rebuilt(relay.folder);
    expect(await contents(relay.folder)).toEqual(before);
    expect((await verified(relay.folder)).findings).toEqual([]);
    await relay.open();
    expect(relay.notices).toEqual([]);
    expect(await relay.wires(bob)).toContain('last for bob');
  });

  test('goes on where it was: the same push is a duplicate, the next one gets the next seq', async () => {
    const relay = await lived();
    await rebuilt(relay.folder);
    await relay.open();
    const head = relay.engine.head(bob.key).headSeq;
    const again = await relay.pushOne(
      pushOf(alice, 'last', [
        [bob, 'last for bob'],
        [carolAfter, 'last for carol'],
      ]),
    );
    expect(again).toMatchObject({ verdict: 'duplicate', seqs: [head, expect.any(Number)] });
    const next = await relay.pushOne(pushOf(alice, 'next', [[bob, 'next']]));
    expect(next).toEqual({ verdict: 'accepted', seqs: [head + 1] });
    // What is due is found by the new indexes.
    relay.clock.move(100 * 86_400_000);
    await relay.sweep();
    expect(await relay.queue(bob)).toEqual([]);
    expect((await relay.queue(alice)).map(({ kind }) => kind)).toEqual(['expired', 'expired', 'expired']);
    relay.clock.move(100 * 86_400_000);
    await relay.purge();
    expect(relay.dedupRows(alice)).toBe(0);
  });

  test('names the waiting items whose wire bytes are gone or altered', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[bob, 'two']]));
    const seqs = (await relay.queue(bob)).map(({ seq }) => seq);
    await relay.atRest(async (level) => {
      await loseWire(level, bob.key, seqs[0]!);
      await alterWire(level, bob.key, seqs[1]!, Buffer.from('other'));
    });
    const { lost, lostItems, payloads } = await rebuilt(relay.folder);
    expect({ lost, payloads, ids: lostItems.map(({ itemId }) => itemId) }).toEqual({
      lost: 2,
      payloads: 0,
      ids: ['m1', 'm2'],
    });
    expect((await verified(relay.folder)).findings.map(({ code }) => code)).toEqual([
      'PAYLOAD_MISSING',
      'PAYLOAD_MISSING',
    ]);
  });

  test('is refused where the log is not whole, and changes nothing', async () => {
    const { folder } = await lived();
    await withRawLevel(folder, (level) => level.del(Buffer.from('100000000000000005', 'hex')));
    const before = await contents(folder);
    await expect(rebuilt(folder)).rejects.toThrow(
      /^nothing was rebuilt, because the log is damaged \(log record 5 is missing\)/,
    );
    expect(await contents(folder)).toEqual(before);
    expect(await readdir(folder)).not.toContain(REBUILDING_FOLDER);
  });

  test('writes many due entries where many rows are due at once', async () => {
    const relay = await enrolledTestRelay(bob);
    for (let from = 0; from < 1_200; from += 300) {
      await relay.push(...Array.from({ length: 300 }, (_none, at) => pushOf(alice, `m${from + at}`, [[bob, 'x']])));
    }
    await relay.close();
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
    const due = await withRawLevel(relay.folder, (level) => level.iterator(prefixRange(PREFIX.expiry)).all());
    expect(Buffer.concat(due.map((entry) => withoutChecksum(...entry)))).toHaveLength(1_200 * 40);
    expect(firstKeyOf(queueKey(bob.key, 1))).toBe(bob.key);
  });
});

describe('a crash in the middle of a rebuild', () => {
  test('before the new database is whole leaves the old one in use', async () => {
    const relay = await lived();
    const before = await contents(relay.folder);
    await cp(join(relay.folder, LEVEL_FOLDER), join(relay.folder, REBUILDING_FOLDER), { recursive: true });
    await relay.open();
    await relay.close();
    expect(await readdir(relay.folder)).not.toContain(REBUILDING_FOLDER);
    expect(await contents(relay.folder)).toEqual(before);
  });

  test.each<[string, (relay: TestRelay) => Promise<unknown>]>([
    ['the next start of the relay', (relay) => relay.open()],
    ['the next audit', async (relay) => (await openOffline(relay.folder)).close()],
  ])('between the renames is mended by %s', async (_who, come) => {
    const relay = await lived();
    const before = await contents(relay.folder);
    await rebuilt(relay.folder);
    await rename(join(relay.folder, LEVEL_FOLDER), join(relay.folder, 'log.rebuilt'));
    await come(relay);
    expect(relay.notices).toEqual([]);
    await relay.close();
    expect(await contents(relay.folder)).toEqual(before);
  });

  test('that left a whole one beside the old one is forgotten when a relay has run', async () => {
    const relay = await lived();
    await cp(join(relay.folder, LEVEL_FOLDER), join(relay.folder, 'log.rebuilt'), { recursive: true });
    await relay.open();
    await relay.close();
    expect((await readdir(relay.folder)).filter((name) => name.startsWith('log'))).toEqual([LEVEL_FOLDER]);
  });
});

async function readdirOnly(folder: string, prefix: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.startsWith(prefix));
  expect(names).toHaveLength(1);
  return names[0] ?? '';
}
