/**
 * Tests what a backup finds while it is written: wire bytes that are not those that were accepted, against a naive
 * look.
 */
import { randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { checkImage } from '../../../../src/lib/image.ts';
import { writeImageFile } from '../../../../src/lib/image-file.ts';
import { BACKUP_KIND, backupOf } from '../../../../src/relay/image/backup.ts';
import { PREFIX, dueKey, payloadKey, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { wiresAt } from '../../../../src/relay/store/queue-runs.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { waitingRows } from '../../../../src/relay/store/scan.ts';
import type { WireDamage } from '../../../../src/relay/store/wire-check.ts';
import { collected } from '../../../support/collected.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { restored } from '../../../support/restores.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { share } from '../../../support/thorough.ts';
import { alterWire, loseRow, loseWire } from '../../../support/stored-items.ts';

/** Three items of alice's for bob and for carol; bob went on as dave, who had one of his own. */
async function filled(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol, dave);
  for (const target of [bob, carol]) {
    await relay.push(...[0, 1, 2].map((n) => pushOf(alice, `m${n}`, [[target, `${target.name} ${n}`]])));
  }
  await relay.pushOne(pushOf(alice, 'own', [[dave, 'own']]));
  await relay.rotate(rotateOf(bob, dave));
  return relay;
}

/** Lets `work` at the closed store, and takes a backup of what is left. */
async function backedUp(
  relay: TestRelay,
  work: (level: Level) => Promise<unknown>,
): Promise<{ bytes: Buffer; damage: WireDamage; naive: string[] }> {
  await relay.atRest(work);
  const naive = await withRawLevel(relay.folder, naiveDamage);
  const offline = await openOffline(relay.folder);
  const snapshot = offline.store.snapshot();
  try {
    let damage: WireDamage | undefined;
    const chunks = backupOf(snapshot, { created_at: NOON_MS, version: '0' }, async (found) => void (damage = found));
    const bytes = Buffer.concat(await collected(chunks));
    if (!damage) throw new Error('nobody was told');
    return { bytes, damage, naive };
  } finally {
    await snapshot.close();
    await offline.close();
  }
}

/** Every waiting row looked up by itself. */
async function naiveDamage(level: Level): Promise<string[]> {
  const damaged: string[] = [];
  for await (const { rows } of waitingRows(level)) {
    for (const { targetPubkey, seq, wireHash, payloadTarget, payloadSeq } of rows) {
      const [wire] = await wiresAt(level, [payloadKey(payloadTarget, payloadSeq)]);
      if (!wire || sha256Hex(wire) !== wireHash) damaged.push(`${targetPubkey} ${seq}`);
    }
  }
  return damaged.toSorted();
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

const placesOf = ({ places }: WireDamage): string[] =>
  places.map(({ targetPubkey, seq }) => `${targetPubkey} ${seq}`).toSorted();

const ROUNDS = share(80);

const CASES: readonly [string, (level: Level) => Promise<unknown>, number][] = [
  ['nothing', async () => undefined, 0],
  ['altered bytes', (level) => alterWire(level, carol.key, NOON_MS + 1, Buffer.from('carol X')), 1],
  ['missing bytes', (level) => loseWire(level, carol.key, NOON_MS), 1],
  ['missing bytes at the end', (level) => loseWire(level, carol.key, NOON_MS + 2), 1],
  ['altered bytes of a moved item', (level) => alterWire(level, bob.key, NOON_MS, Buffer.from('bob X')), 1],
  ['missing bytes of a moved item', (level) => loseWire(level, bob.key, NOON_MS + 2), 1],
  ['bytes that nobody names', (level) => level.put(payloadKey(alice.key, 7), Buffer.from('x')), 0],
  [
    'all bytes',
    async (level) => {
      for (const { key } of [bob, carol]) for (const n of [0, 1, 2]) await loseWire(level, key, NOON_MS + n);
      await loseWire(level, dave.key, NOON_MS);
    },
    7,
  ],
];

describe('a backup of a store with', () => {
  test.each(CASES)('%s says what waits and is damaged, and holds it as it is', async (_what, work, count) => {
    const { bytes, damage, naive } = await backedUp(await filled(), work);
    expect(damage).toMatchObject({ items: count, unreadable: 0 });
    expect(placesOf(damage)).toEqual(naive);
    expect(naive).toHaveLength(count);
    expect(await checkImage(once(bytes), BACKUP_KIND)).toMatchObject({ items: 7, damagedItems: count });
  });

  test('damage of any kind and place says what a look at each item says', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { damage, naive } = await backedUp(await filled(), async (level) => {
        for (const seq of [NOON_MS, NOON_MS + 1, NOON_MS + 2]) {
          for (const { key } of [bob, carol]) {
            const what = randomInt(4);
            if (what === 0) await loseWire(level, key, seq);
            if (what === 1) await alterWire(level, key, seq, Buffer.from('x'));
          }
          if (randomInt(6) === 0) await loseRow(level, carol.key, seq);
        }
      });
      expect(placesOf(damage)).toEqual(naive);
      expect(damage.items).toBe(naive.length);
    }
  });

  test('an acked item that lost its bytes and is not collected yet says nothing of it', async () => {
    const relay = await filled();
    relay.store.collector.nextSlice = () => Promise.resolve(undefined);
    await relay.ack(carol, NOON_MS + 1);
    const { damage } = await backedUp(relay, (level) => loseWire(level, carol.key, NOON_MS + 1));
    expect(damage).toEqual({ items: 0, places: [], unreadable: 0 });
  });

  test('damaged items can be restored: they are dropped, and their senders push them again', async () => {
    const { bytes } = await backedUp(await filled(), (level) => loseWire(level, carol.key, NOON_MS));
    const folder = await temporaryFolder();
    const file = join(folder, 'relay.backup');
    expect(await writeImageFile(once(bytes), { path: file, replaces: false }, BACKUP_KIND)).toMatchObject({
      damagedItems: 1,
    });
    const report = await restored(file, join(folder, 'store'), NOON_MS + 1);
    expect(report).toMatchObject({ items: 6, carried: { lost: 1 } });
  });
});

test.each([
  ['of a queue', queueKey(carol.key, NOON_MS)],
  ['of a sender', rowKeyBytes('sender', alice.key)],
  ['of what expires', dueKey(PREFIX.expiry, NOON_MS, 1)],
])(
  'a backup with a damaged row %s is no backup: a restore would refuse it, and an older file stays',
  async (_of, key) => {
    const { bytes, damage } = await backedUp(await filled(), (level) => level.put(key, Buffer.from('no row')));
    expect(damage).toMatchObject({ items: 0, unreadable: 1 });
    const path = join(await temporaryFolder(), 'relay.backup');
    const refusal = { reason: 'unreadable', message: expect.stringContaining('1 of its rows is damaged') };
    await expect(writeImageFile(once(bytes), { path, replaces: false }, BACKUP_KIND)).rejects.toMatchObject(refusal);
    expect(existsSync(path)).toBe(false);
    await writeFile(path, 'older');
    await expect(writeImageFile(once(bytes), { path, replaces: true }, BACKUP_KIND)).rejects.toMatchObject(refusal);
    expect(await readFile(path, 'utf8')).toBe('older');
  },
);
