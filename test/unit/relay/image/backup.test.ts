import { randomBytes } from 'node:crypto';
import { readFile, readdir, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type BackupHeader, readBackup, writeBackup, unpackBackup } from '../../../../src/relay/image/backup.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { collected } from '../../../support/collected.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { relay } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { ImageDamaged } from '../../../../src/lib/image.ts';
import type { Pair } from '../../../../src/lib/pair-block.ts';

const HEADER: BackupHeader = {
  relay_pubkey: relay.key,
  epoch: epochNumbered(1),
  schema_version: SCHEMA_VERSION,
  lsn: 7,
  created_at: NOON_MS,
  version: '0.0.0-test',
};

/** Returns what the descriptors of this process name. */
async function openFiles(): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd');
  return Promise.all(descriptors.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')));
}

async function levelWith(pairs: readonly Pair[]): Promise<Level> {
  const level = levelAt(join(await temporaryFolder(), 'level'));
  await level.open();
  const writes = level.batch();
  for (const [key, value] of pairs) writes.put(key, value);
  await writes.write();
  return level;
}

async function backupOf(pairs: readonly Pair[]): Promise<Buffer> {
  const level = await levelWith(pairs);
  try {
    return Buffer.concat(await collected(writeBackup(level, HEADER)));
  } finally {
    await level.close();
  }
}

async function* inChunks(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function pairsOf(bytes: Buffer, chunk = 1 << 20): Promise<Pair[]> {
  const { pairs } = await readBackup(inChunks(bytes, chunk));
  return (await collected(pairs)).flat();
}

const numbered = (count: number): Pair[] =>
  Array.from({ length: count }, (_none, at) => [
    Buffer.from(`key ${String(at).padStart(6, '0')}`),
    randomBytes(at % 50),
  ]);

describe('a backup', () => {
  test('gives back every pair, in order, however it is cut into chunks', async () => {
    const pairs = numbered(2_000);
    const bytes = await backupOf(pairs);
    for (const chunk of [7, 4_096, 1 << 20]) expect(await pairsOf(bytes, chunk)).toEqual(pairs);
  });

  test('of more than one block gives back every pair, and says what it counted', async () => {
    const pairs = Array.from(
      { length: 300 },
      (_none, at): Pair => [Buffer.of(1, at >> 8, at & 255), randomBytes(16_384)],
    );
    const bytes = await backupOf(pairs);
    const back = await pairsOf(bytes);
    expect(Buffer.concat(back.flat()).equals(Buffer.concat(pairs.flat()))).toBe(true);
    const reader = await readBackup(inChunks(bytes, 1 << 16));
    let next = await reader.pairs.next();
    while (!next.done) next = await reader.pairs.next();
    expect(reader.header).toEqual(HEADER);
    expect(next.value).toMatchObject({ pairs: 300, bytes: 300 * (3 + 16_384) });
  });

  test('is as small as its contents allow: noise in base64 by a quarter, what repeats itself by more', async () => {
    const sealed = Array.from(
      { length: 200 },
      (_none, at): Pair => [Buffer.of(at), Buffer.from(randomBytes(12_288).toString('base64'))],
    );
    expect((await backupOf(sealed)).length / Buffer.concat(sealed.flat()).length).toBeLessThan(0.77);
    const sender = randomBytes(64);
    const rows = Array.from({ length: 20_000 }, (_none, at): Pair => {
      const key = Buffer.alloc(8);
      key.writeUInt32BE(at);
      return [key, sender];
    });
    // Bytes of noise that come again and again: shortened one by one they would keep their size.
    expect((await backupOf(rows)).length / Buffer.concat(rows.flat()).length).toBeLessThan(0.2);
  });

  test('of an empty store is whole', async () => {
    expect(await pairsOf(await backupOf([]))).toEqual([]);
  });

  test('shows one moment, whatever is written meanwhile', async () => {
    const pairs = numbered(3_000);
    const level = await levelWith(pairs);
    const snapshot = level.snapshot();
    await level.put(Buffer.from('key 000000a'), Buffer.from('later'));
    await level.del(Buffer.from('key 000005'));
    const bytes = Buffer.concat(await collected(writeBackup(level, HEADER, snapshot)));
    await snapshot.close();
    await level.close();
    expect(await pairsOf(bytes)).toEqual(pairs);
  });
});

function isRefused(altered: Buffer): Promise<boolean> {
  return pairsOf(altered).then(
    () => false,
    (error: unknown) => error instanceof ImageDamaged,
  );
}

describe('a backup is refused', () => {
  test('where it was cut, at every length', async () => {
    const bytes = await backupOf(numbered(20));
    const passed: number[] = [];
    for (let length = 0; length < bytes.length; length++) {
      if (!(await isRefused(bytes.subarray(0, length)))) passed.push(length);
    }
    expect(passed).toEqual([]);
  });

  test('where a byte is another, at every offset', async () => {
    const bytes = await backupOf(numbered(20));
    const passed: number[] = [];
    for (let at = 0; at < bytes.length; at++) {
      const altered = Buffer.from(bytes);
      altered[at]! ^= 1 << (at % 8);
      if (!(await isRefused(altered))) passed.push(at);
    }
    expect(passed).toEqual([]);
  });

  test('for the first of two faults, also where the second is seen while blocks are unpacked ahead', async () => {
    const large = Array.from({ length: 256 }, (_none, at): Pair => [Buffer.of(at), randomBytes(16_384)]);
    const bytes = (await backupOf(large)).subarray(0, -20_000);
    const firstBlockAt = bytes.indexOf(Buffer.of(0x1f, 0x8b));
    bytes[firstBlockAt + 1000]! ^= 1;
    await expect(pairsOf(bytes)).rejects.toThrow('a block of it is altered');
    bytes[firstBlockAt + 1000]! ^= 1;
    await expect(pairsOf(bytes)).rejects.toThrow('it ends before its end');
  });

  test('where something follows its end', async () => {
    const bytes = await backupOf(numbered(20));
    expect(await isRefused(Buffer.concat([bytes, Buffer.of(0)]))).toBe(true);
    expect(await isRefused(Buffer.concat([bytes, bytes]))).toBe(true);
  });

  test('by unpacking too, which leaves a sentence and no open database', async () => {
    const bytes = await backupOf(numbered(20));
    const folder = await temporaryFolder();
    const file = join(folder, 'file');
    await writeFile(file, bytes.subarray(0, -1));
    const refused = unpackBackup(file, join(folder, 'level'));
    await expect(refused).rejects.toThrow(/^\S+ cannot be used \(it ends before its end\): take another backup$/);
    await expect(refused).rejects.toBeInstanceOf(StoreRefused);
    await expect(unpackBackup(join(folder, 'nothing'), join(folder, 'other'))).rejects.toMatchObject({
      reason: 'missing',
    });
  });

  test.runIf(process.platform === 'linux')('and is not held open', async () => {
    const file = join(await temporaryFolder(), 'file');
    // More than is read at once follows what is wrong.
    await writeFile(file, Buffer.concat([(await backupOf(numbered(20))).subarray(0, 40), Buffer.alloc(3 << 20)]));
    await expect(unpackBackup(file, `${file}-level`)).rejects.toBeInstanceOf(StoreRefused);
    await expect.poll(() => openFiles()).not.toContain(file);
  });

  test('when its schema is newer', async () => {
    const level = await levelWith([]);
    const newer = Buffer.concat(await collected(writeBackup(level, { ...HEADER, schema_version: SCHEMA_VERSION + 1 })));
    await level.close();
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), newer);
    await expect(unpackBackup(join(folder, 'file'), join(folder, 'level'))).rejects.toMatchObject({
      reason: 'newer-schema',
    });
    expect((await readFile(join(folder, 'file'))).equals(newer)).toBe(true);
  });
});
