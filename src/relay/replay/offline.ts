/**
 * A store that no relay serves from, opened for reading: a store folder, a backup file, or an archive of the log.
 *
 * Nothing is appended and no epoch begins. A folder is locked while it is open, so a running relay refuses it. A file
 * is unpacked into a temporary folder, which `close` removes.
 */
import { type ReadStream, createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nothing, onlyOf } from '../../lib/caught.ts';
import { type BackupHeader, unpackBackup, unpackFailure } from '../image/backup.ts';
import { LEVEL_FOLDER, type Level, atThisMoment, levelAt } from '../store/level.ts';
import { StoreRefused } from '../store/refused.ts';
import { ARCHIVE_KIND } from '../image/archive.ts';
import { checkImage } from '../../lib/image.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { readableRelayRow } from '../store/migrate.ts';
import { checkSchema, openStopped } from '../store/open.ts';
import { BulkDatabase } from '../store/bulk-database.ts';
import { CHECKSUM_SCHEMA } from '../store/checksum.ts';
import { declaredSchema, NOT_PRUNED, type Pruned, readPruned, SCHEMA_VERSION } from '../store/marks.ts';
import { positionPathOf } from '../store/position.ts';
import { DamagedRecord } from '../store/record.ts';
import { firstStoredLsn, lastStoredLsn } from '../store/record-run.ts';
import { type LogBounds, StoreReader } from '../store/store-reader.ts';
import { damagedTablesUnopened } from '../store/unopened.ts';

export interface OfflineStore {
  store: StoreReader;
  level: Level;
  /** The header of a backup. */
  header: BackupHeader | undefined;
  close(): Promise<void>;
}

/**
 * Throws `StoreRefused`: locked, missing, damaged, of a newer schema. With `isChecked` the table files are held against
 * their checksums before LevelDB opens any of them.
 */
export async function openOffline(folder: string, { isChecked = false } = {}): Promise<OfflineStore> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  const place = positionPathOf(folder, undefined);
  const check = isChecked ? () => refuseDamagedTables(levelFolder) : undefined;
  const level = await openStopped(folder, { place, isShared: true, check });
  try {
    const schema = await declaredSchema(level);
    // The audit reports anything else that is wrong with it.
    if (schema !== undefined && schema > 0) {
      checkSchema(schema, levelFolder, SCHEMA_VERSION);
      refuseOlderSchema(schema, (await readableRelayRow(level, schema))?.schemaVersion ?? schema, folder);
    }
  } catch (error) {
    await level.close();
    throw error;
  }
  return openRecords(level, undefined, () => Promise.resolve());
}

/** The store that this process serves from, as it is at this moment; `location` is that of its open database. */
export async function openServed(location: string): Promise<OfflineStore> {
  const level = levelAt(location, { isShared: true });
  await level.open({ createIfMissing: false });
  return openRecords(atThisMoment(level), undefined, () => Promise.resolve());
}

/** Files that are named in one sentence. */
const NAMED_TABLES_MAX = 5;

async function refuseDamagedTables(levelFolder: string): Promise<void> {
  const damages = await damagedTablesUnopened(levelFolder);
  if (damages.length === 0) return;
  const named = damages.slice(0, NAMED_TABLES_MAX).map(({ file, what, offset }) => `${file} ${what} at byte ${offset}`);
  const more = damages.length > named.length ? `, and ${damages.length - named.length} more` : '';
  throw new StoreRefused(
    'damaged',
    `the database at ${levelFolder} has damaged table files (${named.join('; ')}${more}), of which nothing was ` +
      'read: restore the newest backup that verifies; senders push again what it lacks',
  );
}

/** Only the relay gives rows their checksums: an audit writes nothing, and reads the schemas behind as they are. */
function refuseOlderSchema(said: number, ofRelay: number, place: string): void {
  const version = Math.min(said, ofRelay);
  if (version >= CHECKSUM_SCHEMA) return;
  throw new StoreRefused(
    'unusable',
    `${place} is of schema ${version} and this software reads schema ${CHECKSUM_SCHEMA} and newer ones: start the ` +
      'relay on it once, which brings it there',
  );
}

/**
 * A backup of this schema or an older one. Throws `StoreRefused` for a file that is no whole backup, or of a newer
 * schema, and why the signal aborted.
 */
export async function openBackup(file: string, signal?: AbortSignal): Promise<OfflineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-backup-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const { level, header } = await unpackBackup(file, join(folder, LEVEL_FOLDER), signal);
    return await openRecords(level, header, remove);
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * An archive of the log, as a store that holds nothing but records and what places them in the hash trees. Throws
 * `StoreRefused` for a file that is no whole archive, and why the signal aborted.
 */
export async function openArchive(file: string, signal?: AbortSignal): Promise<OfflineStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-archive-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  let database: BulkDatabase | undefined;
  let source: ReadStream | undefined;
  try {
    const filled = (database = await BulkDatabase.create(join(folder, LEVEL_FOLDER)));
    // In the same breath as it is read: an error that nobody listens for ends the process.
    source = createReadStream(file, { highWaterMark: 1 << 20 });
    const take = (run: readonly Pair[]): Promise<void> => {
      signal?.throwIfAborted();
      return filled.take(run);
    };
    const { header } = await checkImage(source, ARCHIVE_KIND, { take });
    await filled.flush();
    const pruned = { throughLsn: header.first_lsn - 1, atMs: header.first_time };
    return await openRecords(filled.level, undefined, remove, { lastLsn: header.last_lsn, pruned });
  } catch (error) {
    await database?.close();
    await remove();
    throw unpackFailure(error, file, 'use another copy of it', folder);
  } finally {
    source?.destroy();
  }
}

async function openRecords(
  level: Level,
  header: BackupHeader | undefined,
  remove: () => Promise<void>,
  known?: LogBounds,
): Promise<OfflineStore> {
  try {
    const bounds = known ?? { lastLsn: await lastStoredLsn(level), pruned: await prunedAsFound(level) };
    const store = new StoreReader(level, bounds);
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

/** With a damaged mark, which the audit reports, the log begins with the first record that is there. */
async function prunedAsFound(level: Level): Promise<Pruned> {
  const read = await readPruned(level).catch(onlyOf(DamagedRecord, nothing));
  if (read) return read;
  const first = await firstStoredLsn(level);
  return first === 0 ? NOT_PRUNED : { throughLsn: first - 1, atMs: 0 };
}
