/**
 * A store that no relay serves from, opened to be looked at: a store folder, or a backup file.
 *
 * Nothing is appended and no epoch begins. A folder is locked while it is open, so a running relay refuses it. A backup
 * is unpacked into a temporary folder, which `close` removes.
 */
import { createReadStream, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BackupHeader, BackupDamaged, readBackup } from './backup.ts';
import { PREFIX, lsnOf, prefixRange } from './keys.ts';
import { LEVEL_FOLDER, type Level, levelAt } from './level.ts';
import { SCHEMA_VERSION, openLevel } from './open.ts';
import { LogTree } from './log-tree.ts';
import { PositionFile } from './position.ts';
import { StoreRefused } from './refused.ts';
import { RelayStore } from './relay-store.ts';
import { finishSwap } from './restore-swap.ts';

export interface OfflineStore {
  store: RelayStore;
  level: Level;
  /** Of a backup. */
  header: BackupHeader | undefined;
  close(): Promise<void>;
}

/** Throws `StoreRefused`: locked, missing, damaged. */
export async function openOffline(folder: string): Promise<OfflineStore> {
  await finishSwap(folder);
  const levelFolder = join(folder, LEVEL_FOLDER);
  if (!existsSync(levelFolder)) {
    throw new StoreRefused('missing', `there is no store at ${folder}: name its folder with --store-dir`);
  }
  return opened(await openLevel(levelFolder, true, folder), undefined, () => Promise.resolve());
}

/** Throws `StoreRefused` for a file that is no whole backup, or of a newer schema. */
export async function openBackup(file: string): Promise<OfflineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-backup-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const { level, header } = await unpackBackup(file, join(folder, LEVEL_FOLDER));
    return await opened(level, header, remove);
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Writes the pairs of a backup into a new database, which is left open. Throws `StoreRefused`. */
export async function unpackBackup(file: string, levelFolder: string): Promise<{ level: Level; header: BackupHeader }> {
  const level = levelAt(levelFolder);
  const source = createReadStream(file, { highWaterMark: 1 << 20 });
  try {
    const { header, pairs } = await readBackup(source);
    if (header.schema_version > SCHEMA_VERSION) {
      throw new StoreRefused(
        'newer-schema',
        `${file} is of schema ${header.schema_version} and this software knows schemas up to ${SCHEMA_VERSION}: use the newer software`,
      );
    }
    await level.open({ createIfMissing: true, errorIfExists: true });
    for await (const run of pairs) {
      const writes = level.batch();
      for (const [key, value] of run) writes.put(key, value);
      await writes.write();
    }
    return { level, header };
  } catch (error) {
    await level.close();
    if (error instanceof BackupDamaged) {
      throw new StoreRefused('damaged', `${file} cannot be used (${error.message}): take another backup`);
    }
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof StoreRefused || typeof code !== 'string') throw error;
    if (code.startsWith('LEVEL_')) {
      throw new StoreRefused('unusable', `${file} cannot be unpacked into ${levelFolder} (${code}): make room there`);
    }
    throw new StoreRefused(code === 'ENOENT' ? 'missing' : 'unusable', `${file} cannot be read (${code})`);
  } finally {
    // What was not read to its end would stay open.
    source.destroy();
  }
}

async function opened(
  level: Level,
  header: BackupHeader | undefined,
  remove: () => Promise<void>,
): Promise<OfflineStore> {
  // Nothing is appended, so nothing is noted in it.
  const scratch = await mkdtemp(join(tmpdir(), 'poste-offline-'));
  const removeAll = async (): Promise<void> => {
    await rm(scratch, { recursive: true, force: true });
    await remove();
  };
  try {
    const [last] = await level.keys({ ...prefixRange(PREFIX.log), reverse: true, limit: 1 }).all();
    const { file } = await PositionFile.open(join(scratch, 'position'));
    const store = new RelayStore(level, file, last ? lsnOf(last) : 0, LogTree.none(level));
    const close = async (): Promise<void> => {
      await store.close();
      await removeAll();
    };
    return { store, level, header, close };
  } catch (error) {
    await level.close();
    await removeAll();
    throw error;
  }
}
