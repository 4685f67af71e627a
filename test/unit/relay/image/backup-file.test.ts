import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, readdir, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BACKUP_KIND, type WrittenBackup, backupOf } from '../../../../src/relay/image/backup.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { enrolledTestRelay } from '../../../support/test-relay.ts';
import { type ImageFileOptions, ImageUnwritten, writeImageFile } from '../../../../src/lib/image-file.ts';

/** The chunks of a backup of two items that wait and one that was acked. */
async function chunks(): Promise<Buffer[]> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  const { seqs } = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
  await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]));
  await relay.pushOne(pushOf(alice, 'm3', [[carol, 'three']]));
  await relay.ack(bob, seqs[0] ?? 0);
  const snapshot = await relay.engine.snapshot();
  const all: Buffer[] = [];
  for await (const chunk of backupOf(snapshot, { created_at: 5, version: '1.2.3' })) all.push(chunk);
  await snapshot.close();
  await relay.close();
  return all;
}

async function* sourceOf(parts: readonly Buffer[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield await Promise.resolve(part);
}

function written(
  parts: readonly Buffer[],
  options: Partial<ImageFileOptions> & { path: string },
): Promise<WrittenBackup> {
  return writeImageFile(sourceOf(parts), { replaces: false, ...options }, BACKUP_KIND);
}

test('a file is the chunks, for its owner alone, and is told of as it is', async () => {
  const parts = await chunks();
  const path = join(await temporaryFolder(), 'relay.backup');
  const told: number[] = [];
  const result = await written(parts, { path, progress: (bytes) => told.push(bytes) });
  const bytes = await readFile(path);
  expect(bytes.equals(Buffer.concat(parts))).toBe(true);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(result).toMatchObject({ bytes: bytes.length, items: 2, header: { version: '1.2.3', created_at: 5 } });
  expect(result.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  expect(told.at(-1)).toBe(bytes.length);
  expect(await readdir(join(path, '..'))).toEqual(['relay.backup']);
});

describe('a file that is there', () => {
  test('is kept, unless it may be replaced', async () => {
    const parts = await chunks();
    const path = join(await temporaryFolder(), 'relay.backup');
    await writeFile(path, 'mine');
    await expect(written(parts, { path })).rejects.toMatchObject({ reason: 'exists' });
    expect(await readFile(path, 'utf8')).toBe('mine');
    await written(parts, { path, replaces: true });
    expect((await readFile(path)).equals(Buffer.concat(parts))).toBe(true);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(path, '..'))).toEqual(['relay.backup']);
  });

  test('is kept also when it comes while the backup is being written', async () => {
    const parts = await chunks();
    const path = join(await temporaryFolder(), 'relay.backup');
    const source = async function* (): AsyncGenerator<Buffer> {
      await writeFile(path, 'mine');
      yield* parts;
    };
    await expect(writeImageFile(source(), { path, replaces: false }, BACKUP_KIND)).rejects.toMatchObject({
      reason: 'exists',
    });
    expect(await readFile(path, 'utf8')).toBe('mine');
    expect(await readdir(join(path, '..'))).toEqual(['relay.backup']);
  });

  test('is kept when what would replace it does not come whole', async () => {
    const parts = await chunks();
    const path = join(await temporaryFolder(), 'relay.backup');
    await writeFile(path, 'mine');
    await expect(written(parts.slice(0, -1), { path, replaces: true })).rejects.toMatchObject({ reason: 'not-whole' });
    expect(await readFile(path, 'utf8')).toBe('mine');
    expect(await readdir(join(path, '..'))).toEqual(['relay.backup']);
  });
});

describe('there is no file, and nothing left of one', () => {
  test('when the source breaks off, at every chunk, or goes on after its end', async () => {
    const parts = await chunks();
    const folder = await temporaryFolder();
    const path = join(folder, 'relay.backup');
    for (let count = 0; count < parts.length; count++) {
      await expect(written(parts.slice(0, count), { path })).rejects.toMatchObject({ reason: 'not-whole' });
    }
    await expect(written([...parts, Buffer.of(0)], { path })).rejects.toMatchObject({ reason: 'not-whole' });
    expect(await readdir(folder)).toEqual([]);
  });

  test('when the source throws: that is what is thrown', async () => {
    const folder = await temporaryFolder();
    const failure = new Error('the relay is gone');
    const parts = await chunks();
    const source = async function* (): AsyncGenerator<Buffer> {
      yield* parts.slice(0, 1);
      throw failure;
    };
    const path = join(folder, 'relay.backup');
    await expect(writeImageFile(source(), { path, replaces: false }, BACKUP_KIND)).rejects.toBe(failure);
    expect(await readdir(folder)).toEqual([]);
  });

  test.each([
    ['no-folder', 'none/relay.backup'],
    ['no-folder', 'file/relay.backup'],
    ['is-folder', 'folder'],
    ['no-space', 'full'],
  ])('%s: one sentence', async (reason, name) => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    await mkdir(join(folder, 'folder'));
    const parts = await chunks();
    const path = join(folder, name);
    const thrown: unknown = await (name === 'full'
      ? full(parts, path)
      : written(parts, { path, replaces: true })
    ).catch((error: unknown) => error);
    if (!(thrown instanceof ImageUnwritten)) throw thrown;
    expect(thrown).toMatchObject({ reason });
    expect(thrown.message).toMatch(/^[^\n]+: [^\n]+$/);
    expect((await readdir(folder)).toSorted()).toEqual(['file', 'folder']);
  });

  test.skipIf(process.getuid?.() === 0)('no-right: a folder that may not be written to', async () => {
    const folder = await temporaryFolder();
    await chmod(folder, 0o500);
    const parts = await chunks();
    await expect(written(parts, { path: join(folder, 'x') })).rejects.toMatchObject({ reason: 'no-right' });
  });
});

/** As a disk that has no room for it. */
async function full(parts: readonly Buffer[], path: string): Promise<WrittenBackup> {
  const source = async function* (): AsyncGenerator<Buffer> {
    yield* parts.slice(0, 1);
    throw Object.assign(new Error('no space left'), { code: 'ENOSPC', syscall: 'write' });
  };
  return writeImageFile(source(), { path, replaces: false }, BACKUP_KIND);
}

test('a device is no file, and is never replaced by one', async () => {
  const path = join(await temporaryFolder(), 'link');
  await symlink('/dev/null', path);
  for (const replaces of [false, true]) {
    await expect(written([], { path, replaces })).rejects.toMatchObject({ reason: 'no-file' });
  }
  expect(await readlink(path)).toBe('/dev/null');
});

test('a symbolic link is replaced and not followed', async () => {
  const parts = await chunks();
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'mine'), 'mine');
  const path = join(folder, 'relay.backup');
  await symlink(join(folder, 'mine'), path);
  await expect(written(parts, { path })).rejects.toMatchObject({ reason: 'exists' });
  await written(parts, { path, replaces: true });
  expect(await readFile(join(folder, 'mine'), 'utf8')).toBe('mine');
  expect(existsSync(path)).toBe(true);
});
