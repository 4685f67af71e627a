/**
 * Looks into a store that no relay serves from, without opening its database. LevelDB writes when it opens one: a new
 * manifest, its newest writes as a table; and it begins to compact, and so reads tables and writes them anew.
 *
 * `poste relay doctor` changes nothing: LevelDB opens a folder of its own beside, in which the tables are links to
 * those of the store, and what LevelDB would replace are copies. What looks at the files themselves takes the lock of
 * the database: it is LevelDB's own, of an empty database in a temporary folder whose LOCK file is a link to the other
 * one.
 */
import { copyFile, mkdtemp, readFile, readdir, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { PublicKey } from '../../protocol/public-key.ts';
import { eventTimeMs } from '../core/event.ts';
import { LEVEL_FOLDER, type Level, levelAt } from './level.ts';
import { declaredSchema, type ViewMark, readViewMark } from './marks.ts';
import { readableRelayRow } from './migrate.ts';
import { checkNewestRecords } from './open.ts';
import { type Position, heartbeatFault, heartbeatOf, positionFault } from './position.ts';
import { decodeRecord } from './record.ts';
import { refusedIfDamaged } from './refused.ts';
import { logKey } from './keys.ts';
import { StoreReader } from './store-reader.ts';
import { isCurrentTorn, mendCurrent, damagedTables, type TableDamage } from './level-files.ts';

export interface StoreLook {
  /** As it declares it: 0 when that cannot be read, `undefined` when it declares none. */
  schema: number | undefined;
  /** The mark of a store that is a view of a log elsewhere. */
  view: ViewMark | undefined;
  relayPubkey: PublicKey | undefined;
  lastLsn: number;
  /** When its newest event was written, by the clock of then. */
  newestMs: number | undefined;
  /** Says why the next start begins a new epoch, as a clause; `undefined` when the store proves that it is current. */
  epochFault: string | undefined;
}

/** The number of the newest records that are checked: enough to see that the end of the log is there. */
const CHECKED_RECORDS = 1_000;
const TABLE = /\.(?:ldb|sst)$/;
/** The files that LevelDB locks and logs to for itself. */
const OWN = new Set(['LOCK', 'LOG', 'LOG.old']);

/** `position`: as noted outside. Throws `StoreRefused` for a damaged store, and errors of the system and LevelDB. */
export async function lookAtStore(folder: string, position: Position | undefined, nowMs: number): Promise<StoreLook> {
  const database = join(folder, LEVEL_FOLDER);
  const beside = await mkdtemp(join(tmpdir(), 'poste-doctor-'));
  try {
    await mirror(resolve(database), beside);
    const level = levelAt(beside);
    await level.open({ createIfMissing: false });
    try {
      return await lookInto(level, position, nowMs);
    } finally {
      await level.close();
    }
  } catch (error) {
    throw refusedIfDamaged((error as { cause?: unknown }).cause ?? error, database);
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
}

async function mirror(database: string, beside: string): Promise<void> {
  for (const name of await readdir(database)) {
    if (OWN.has(name)) continue;
    const [from, to] = [join(database, name), join(beside, name)];
    if (TABLE.test(name)) await symlink(from, to);
    else await copyFile(from, to);
  }
}

async function lookInto(level: Level, position: Position | undefined, nowMs: number): Promise<StoreLook> {
  const [schema, view] = [await declaredSchema(level), await readViewMark(level)];
  const bounds = await checkNewestRecords(level, CHECKED_RECORDS);
  const { lastLsn, pruned } = bounds;
  const newest = await level.get(logKey(lastLsn));
  const store = new StoreReader(level, bounds);
  const fault = (await positionFault(level, position, pruned)) ?? heartbeatFault(heartbeatOf(store), nowMs);
  return {
    schema,
    view,
    relayPubkey: schema ? (await readableRelayRow(level, schema))?.relayPubkey : undefined,
    lastLsn,
    newestMs: newest && eventTimeMs(decodeRecord(lastLsn, newest).event),
    epochFault: lastLsn === 0 || view ? undefined : fault?.clause,
  };
}

/** The process that holds the database of a store open; `undefined` when none does, or the system does not say. */
export async function storeHolder(folder: string): Promise<number | undefined> {
  try {
    const { ino } = await stat(join(folder, LEVEL_FOLDER, 'LOCK'));
    // Linux alone lists them: a number, POSIX, how, the process, the device and the inode, the bytes.
    for (const line of (await readFile('/proc/locks', 'utf8')).split('\n')) {
      const [, kind, , , pid, place] = line.trim().split(/ +/);
      if (kind === 'POSIX' && place?.split(':')[2] === String(ino)) return Number(pid);
    }
    return undefined;
  } catch {
    return undefined;
  }
}

export interface LevelLock {
  close(): Promise<void>;
}

/**
 * `undefined` where the lock cannot be had: to open the database then says why. Throws errors of the system about the
 * temporary folder. Not for a database that this process has open: the system drops a process's lock on a file as soon
 * as one of its descriptors is closed.
 */
export async function lockLevel(folder: string): Promise<LevelLock | undefined> {
  const beside = await mkdtemp(join(tmpdir(), 'poste-lock-'));
  const remove = () => rm(beside, { recursive: true, force: true });
  try {
    await symlink(join(resolve(folder), 'LOCK'), join(beside, 'LOCK'));
    const level = levelAt(beside);
    await level.open();
    const close = async (): Promise<void> => {
      await level.close();
      await remove();
    };
    return { close };
  } catch (error) {
    await remove();
    const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (code === 'LEVEL_LOCKED' || /\/LOCK: /.test(message)) return undefined;
    throw error;
  }
}

/** The damaged tables of a database that this process does not have open; none where its lock cannot be had. */
export async function damagedTablesUnopened(folder: string): Promise<TableDamage[]> {
  return (await withLock(folder, damagedTables)) ?? [];
}

/** As `mendCurrent`, for a database that is not open here: `undefined` too where nothing is to be mended. */
export async function mendCurrentUnopened(folder: string): Promise<string | undefined> {
  return (await isCurrentTorn(folder)) ? withLock(folder, mendCurrent) : undefined;
}

/** The result of `work` under the lock of the database; `undefined` where that cannot be had. */
async function withLock<T>(folder: string, work: (folder: string) => Promise<T>): Promise<T | undefined> {
  const lock = await lockLevel(folder);
  try {
    return lock && (await work(folder));
  } finally {
    await lock?.close();
  }
}
