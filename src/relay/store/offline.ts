/**
 * A store that no relay serves from, opened to be looked at: a store folder, a backup file, or an archive of the log.
 *
 * Nothing is appended and no epoch begins. A folder is locked while it is open, so a running relay refuses it. A file is
 * unpacked into a temporary folder, which `close` removes.
 */
import { createReadStream, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BackupDamaged } from '../../system/backup-container.ts';
import { type BackupHeader, readBackup } from './backup.ts';
import { PREFIX, SCHEMA_KEY, lsnOf, prefixRange } from './keys.ts';
import { LEVEL_FOLDER, type Level, levelAt } from './level.ts';
import { readArchive } from './log-archive.ts';
import { LogTree } from './log-tree.ts';
import { POSITION_FILE, SCHEMA_VERSION, checkSchema, openLevel, openServing } from './open.ts';
import type { Pair } from '../../system/pair-block.ts';
import { PositionFile } from './position.ts';
import { NOT_PRUNED, type Pruned, readPruned } from './pruned.ts';
import { DamagedRecord } from './record.ts';
import { StoreRefused } from './refused.ts';
import { type LogBounds, RelayStore } from './relay-store.ts';
import { damagedTables } from './table-check.ts';
import { finishSwaps } from './unfinished-swaps.ts';

export interface OfflineStore {
  store: RelayStore;
  level: Level;
  /** Of a backup. */
  header: BackupHeader | undefined;
  close(): Promise<void>;
}

/**
 * Throws `StoreRefused`: locked, missing, damaged, of a newer schema. With `isChecked` the table files are held against
 * their checksums before anything of them is read.
 */
export async function openOffline(folder: string, { isChecked = false } = {}): Promise<OfflineStore> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  await finishSwaps(folder);
  if (!existsSync(levelFolder)) {
    throw new StoreRefused('missing', `there is no store at ${folder}: name its folder with --store-dir`);
  }
  const level = await openServing(folder, () => openLevel(levelFolder, true, join(folder, POSITION_FILE)));
  if (!level) return openOffline(folder, { isChecked });
  try {
    if (isChecked) await refuseDamagedTables(levelFolder);
    const schema = await level.get(SCHEMA_KEY);
    // Anything else that is wrong with it is for whoever looks at the store to find.
    if (schema?.length === 4) refuseOtherSchema(checkSchema(schema, levelFolder, SCHEMA_VERSION), folder);
  } catch (error) {
    await level.close();
    throw error;
  }
  return opened(level, undefined, () => Promise.resolve());
}

/** Files that are named in one sentence. */
const NAMED_TABLES_MAX = 5;

async function refuseDamagedTables(levelFolder: string): Promise<void> {
  const damages = await damagedTables(levelFolder);
  if (damages.length === 0) return;
  const named = damages.slice(0, NAMED_TABLES_MAX).map(({ file, what, offset }) => `${file} ${what} at byte ${offset}`);
  const more = damages.length > named.length ? `, and ${damages.length - named.length} more` : '';
  throw new StoreRefused(
    'damaged',
    `the database at ${levelFolder} has damaged table files (${named.join('; ')}${more}), of which nothing was read: restore the newest backup that verifies; senders push again what it lacks`,
  );
}

/** Rows of an older schema are brought to this one by the relay, and by nobody who only looks. */
function refuseOtherSchema(version: number, place: string): void {
  if (version === SCHEMA_VERSION) return;
  throw new StoreRefused(
    'unusable',
    `${place} is of schema ${version} and this software looks at schema ${SCHEMA_VERSION}: start the relay on it once, which brings it there`,
  );
}

/** Throws `StoreRefused` for a file that is no whole backup, or of a newer schema, and why the signal aborted. */
export async function openBackup(file: string, signal?: AbortSignal): Promise<OfflineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-backup-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const { level, header } = await unpackBackup(file, join(folder, LEVEL_FOLDER), signal);
    try {
      refuseOtherSchema(header.schema_version, file);
    } catch (error) {
      await level.close();
      throw error;
    }
    return await opened(level, header, remove);
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * Writes the pairs of a backup into a new database, which is left open. Throws `StoreRefused`, and why the signal
 * aborted.
 */
export async function unpackBackup(
  file: string,
  levelFolder: string,
  signal?: AbortSignal,
): Promise<{ level: Level; header: BackupHeader }> {
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
      signal?.throwIfAborted();
      await written(level, run);
    }
    return { level, header };
  } catch (error) {
    await level.close();
    throw unreadable(error, file, 'take another backup', levelFolder);
  } finally {
    // What was not read to its end would stay open.
    source.destroy();
  }
}

/**
 * An archive of the log, as a store that holds nothing but records and what places them in the hash trees. Throws
 * `StoreRefused` for a file that is no whole archive, and why the signal aborted.
 */
export async function openArchive(file: string, signal?: AbortSignal): Promise<OfflineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-archive-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  const level = levelAt(join(folder, LEVEL_FOLDER));
  const source = createReadStream(file, { highWaterMark: 1 << 20 });
  try {
    await level.open({ createIfMissing: true, errorIfExists: true });
    const { header } = await readArchive(source, async (run) => {
      signal?.throwIfAborted();
      await written(level, run);
    });
    const pruned = { throughLsn: header.first_lsn - 1, atMs: header.first_time };
    return await opened(level, undefined, remove, { lastLsn: header.last_lsn, pruned });
  } catch (error) {
    await level.close();
    await remove();
    throw unreadable(error, file, 'use another copy of it', folder);
  } finally {
    source.destroy();
  }
}

async function written(level: Level, run: readonly Pair[]): Promise<void> {
  const writes = level.batch();
  for (const [key, value] of run) writes.put(key, value);
  await writes.write();
}

/** What keeps a file from being unpacked into `folder`, in a sentence. */
function unreadable(error: unknown, file: string, advice: string, folder: string): unknown {
  if (error instanceof BackupDamaged)
    return new StoreRefused('damaged', `${file} cannot be used (${error.message}): ${advice}`);
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof StoreRefused || typeof code !== 'string') return error;
  if (code.startsWith('LEVEL_'))
    return new StoreRefused('unusable', `${file} cannot be unpacked into ${folder} (${code}): make room there`);
  return new StoreRefused(code === 'ENOENT' ? 'missing' : 'unusable', `${file} cannot be read (${code})`);
}

async function opened(
  level: Level,
  header: BackupHeader | undefined,
  remove: () => Promise<void>,
  known?: LogBounds,
): Promise<OfflineStore> {
  try {
    const bounds = known ?? { lastLsn: await lastRecord(level), pruned: await prunedAsFound(level) };
    const store = new RelayStore(level, await unnotedPosition(), bounds, LogTree.none(level));
    const close = async (): Promise<void> => {
      try {
        await store.close();
      } finally {
        await remove();
      }
    };
    return { store, level, header, close };
  } catch (error) {
    await level.close();
    await remove();
    throw error;
  }
}

/** A mark that is damaged is for whoever looks at the store to find: the log begins with the first record that is there. */
async function prunedAsFound(level: Level): Promise<Pruned> {
  try {
    return await readPruned(level);
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    for await (const key of level.keys(prefixRange(PREFIX.log))) {
      if (lsnOf(key) > 0) return { throughLsn: lsnOf(key) - 1, atMs: 0 };
    }
    return NOT_PRUNED;
  }
}

/** Nothing is appended, so nothing is noted in it: its name goes at once, and however the process ends nothing is left. */
async function unnotedPosition(): Promise<PositionFile> {
  const scratch = await mkdtemp(join(tmpdir(), 'poste-offline-'));
  try {
    return (await PositionFile.open(join(scratch, 'position'))).file;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** The last LSN, whatever keys lie there besides. */
async function lastRecord(level: Level): Promise<number> {
  for await (const key of level.keys({ ...prefixRange(PREFIX.log), reverse: true })) {
    if (lsnOf(key) > 0) return lsnOf(key);
  }
  return 0;
}
