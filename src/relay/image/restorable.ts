/**
 * Finds out what a restore must know before it replaces anything: that the backup is what it says, that it is this
 * relay's, and what can be read of the store that gives way.
 */
import { existsSync, constants } from 'node:fs';
import { basename, join } from 'node:path';
import { onlyOf } from '../../lib/caught.ts';
import { leafHash } from '../../protocol/merkle.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { ReplacedStore } from '../core/decide-restore.ts';
import type { RelayRow } from '../core/rows.ts';
import { CHECKSUM_SCHEMA, MARK_PREFIXES, ROW_PREFIXES } from '../store/checksum.ts';
import { isWholeRow } from '../store/item-run.ts';
import { damageIn, StoreRefused, openLevel } from '../store/refused.ts';
import { prefixRange } from '../store/keys.ts';
import { type Level, LEVEL_FOLDER, repairLevel } from '../store/level.ts';
import { storedLeafHashes, treeStarts } from '../store/log-tree.ts';
import { readableRelayRow, rewriteCopy } from '../store/migrate.ts';
import { checkNewestRecords, checkSchema } from '../store/open.ts';
import { declaredSchema, SCHEMA_VERSION } from '../store/marks.ts';
import { DamagedRecord } from '../store/record.ts';
import { lastStoredLsn, recordAt } from '../store/record-run.ts';
import { type ListedRow, type ListedTable, runsOf, tableRows } from '../store/scan.ts';
import { damagedTables } from '../store/level-files.ts';
import { type LevelLock, lockLevel } from '../store/unopened.ts';
import type { BackupHeader } from './backup.ts';
import { randomBytes } from 'node:crypto';
import { copyFile, link, mkdir, readdir, rm } from 'node:fs/promises';
import { pathAside } from '../../lib/files.ts';

/** Checks an unpacked backup, its whole log included. Throws `StoreRefused`. */
export async function checkUnpacked(level: Level, header: BackupHeader, own: PublicKey, file: string): Promise<void> {
  const schema = await declaredSchema(level);
  if (schema !== undefined) checkSchema(schema, file, SCHEMA_VERSION);
  const relay = await readableRelayRow(level, SCHEMA_VERSION);
  const isAsSaid = relay?.relayPubkey === header.relay_pubkey && relay.epoch === header.epoch;
  if (!schema || !isAsSaid || (await lastRecordOf(level, file)) !== header.lsn) {
    throw damagedFile(file, 'it does not hold what its header says');
  }
  if (await holdsUnreadable(level)) throw damagedFile(file, 'some of its rows cannot be read');
  if (header.relay_pubkey === own) return;
  throw new StoreRefused(
    'foreign-key',
    `${file} is of another relay, whose key has the fingerprint ` +
      `${displayFingerprint(header.relay_pubkey as PublicKey)}: restore it where that key is`,
  );
}

async function holdsUnreadable(level: Level): Promise<boolean> {
  for (const prefix of ROW_PREFIXES) {
    if (MARK_PREFIXES.has(prefix)) continue;
    for await (const run of runsOf(level, prefixRange(prefix)))
      if (run.some(([key, value]) => !isWholeRow(key, value))) return true;
  }
  return false;
}

async function lastRecordOf(level: Level, file: string): Promise<number> {
  const refused = ({ message }: DamagedRecord): never => {
    throw damagedFile(file, message);
  };
  return (await checkNewestRecords(level, Infinity).catch(onlyOf(DamagedRecord, refused))).lastLsn;
}

function damagedFile(file: string, what: string): StoreRefused {
  return new StoreRefused('damaged', `${file} cannot be used (${what}): take another backup`);
}

interface FoundStore {
  /** Open; `undefined` when it cannot be, or has damaged tables. */
  level: Level | undefined;
  /** Keeps others from opening it: the open database itself, or its lock alone. */
  lock: LevelLock | undefined;
  /** Its table files that do not match their checksums. */
  damagedTables: ReadonlySet<string>;
}

interface ReplacedPlace {
  folder: string;
  /** The name of the folder in messages. */
  shown: string;
  /** Says whether to go on when it cannot be read, or not wholly. */
  acceptsUnreadable: boolean;
}

/**
 * The database in the folder; `undefined` when there is none. Its table files are held against their checksums before
 * LevelDB opens any of them. Throws `StoreRefused`, for one that cannot be read too, unless `acceptsUnreadable`.
 */
export async function openReplaced({
  folder,
  shown,
  acceptsUnreadable,
}: ReplacedPlace): Promise<FoundStore | undefined> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  if (!existsSync(levelFolder)) return undefined;
  const lock = await lockLevel(levelFolder);
  try {
    const damagedFile = lock ? await damagedTables(levelFolder) : [];
    if (lock && damagedFile.length > 0) {
      if (!acceptsUnreadable)
        throw unread(shown, `${damagedFile.length} of its table files do not match their checksums`);
      return { level: undefined, lock, damagedTables: new Set(damagedFile.map(({ file }) => file)) };
    }
  } catch (error) {
    await lock?.close();
    throw error;
  }
  await lock?.close();
  try {
    const level = await openLevel(levelFolder, true, levelFolder);
    return { level, lock: level, damagedTables: new Set() };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    if (error.reason === 'locked') {
      throw new StoreRefused('locked', `a relay is using the store at ${shown}: stop it, and restore then`);
    }
    if (error.reason !== 'damaged') throw error;
    if (acceptsUnreadable) return { level: undefined, lock: undefined, damagedTables: new Set() };
    throw unread(shown, 'it cannot be opened');
  }
}

/**
 * Returns what is read of a store: itself, or a copy, which the caller closes and removes, where tables of it are
 * damaged or its rows are of an older schema; `undefined` when nothing can be. A copy is without damaged tables: what
 * lay in those is missing, and what they had replaced or deleted may be there again. Its rows have the form of this
 * schema.
 */
export async function readableOf(found: FoundStore, folder: string, copy: string): Promise<Level | undefined> {
  const isDamaged = found.damagedTables.size > 0;
  if (!isDamaged && !(found.level && (await olderRelayRow(found.level)))) return found.level;
  await cloneLevel(join(folder, LEVEL_FOLDER), copy, found.damagedTables);
  try {
    // Only a copy that is thrown away is repaired, never the store itself.
    if (isDamaged) await repairLevel(copy);
    const level = await openLevel(copy, true, copy);
    const older = await olderRelayRow(level);
    if (older) await rewriteCopy(level, older);
    return level;
  } catch (error) {
    if (error instanceof StoreRefused ? error.reason === 'damaged' : damageIn(error) !== undefined) return undefined;
    throw error;
  }
}

/**
 * Returns what is to be taken over; `undefined` when nothing can be read. `isPartial` of a copy without damaged tables.
 * Throws `StoreRefused`.
 */
export async function readOrRefuse(
  readable: Level,
  isPartial: boolean,
  restored: { level: Level; header: BackupHeader },
  place: ReplacedPlace,
): Promise<ReadReplaced | undefined> {
  const { acceptsUnreadable, shown } = place;
  try {
    return await read(readable, isPartial, restored, place);
  } catch (error) {
    const what = damageIn(error);
    if (what === undefined) throw error;
    if (acceptsUnreadable) return undefined;
    throw unread(shown, what);
  }
}

async function read(
  level: Level,
  isPartial: boolean,
  restored: { level: Level; header: BackupHeader },
  { acceptsUnreadable, shown }: ReplacedPlace,
): Promise<ReadReplaced | undefined> {
  const { lsn, relay_pubkey } = restored.header;
  const schema = await declaredSchema(level);
  if (schema !== undefined) checkSchema(schema, shown, SCHEMA_VERSION);
  const relay = await readableRelayRow(level, SCHEMA_VERSION);
  if (!relay) {
    if (acceptsUnreadable) return undefined;
    throw unread(shown, 'it holds no relay row');
  }
  if (relay.relayPubkey !== relay_pubkey) {
    throw new StoreRefused(
      'foreign-key',
      `the store at ${shown} is of another relay, whose key has the fingerprint ` +
        `${displayFingerprint(relay.relayPubkey)}: name another folder with --store-dir`,
    );
  }
  const record = await recordAt(restored.level, lsn);
  if (!record) throw new Error('invariant: a checked backup holds its last record');
  const replaced = await readReplaced(level, relay, { lsn, record });
  if (replaced.unreadable > 0 && !acceptsUnreadable)
    throw unread(shown, `${replaced.unreadable} of its rows cannot be read`);
  return isPartial ? { ...replaced, store: certainOf(replaced.store) } : replaced;
}

/**
 * Keeps what is certain of a store that was read in part: that a row is missing tells nothing, and neither does an
 * invite that is there.
 */
function certainOf(store: ReplacedStore): ReplacedStore {
  return { ...store, continuesBackup: false, openInvites: new Set() };
}

function unread(folder: string, what: string): StoreRefused {
  return new StoreRefused(
    'damaged',
    `the store at ${folder} is damaged (${what}), so what was revoked, rotated or published since the backup ` +
      'cannot all be taken over: add --force to restore all the same, and revoke again whom you have revoked since',
  );
}

/** The relay row of a store whose rows have no checksums, or did not all get them. */
async function olderRelayRow(level: Level): Promise<RelayRow | undefined> {
  const schema = await declaredSchema(level);
  if (schema === undefined || schema < 1 || schema > SCHEMA_VERSION) return undefined;
  const relay = await readableRelayRow(level, schema);
  return relay && relay.schemaVersion < CHECKSUM_SCHEMA ? relay : undefined;
}

/**
 * The part of the replaced store that a restore preserves. That store may be damaged: rows that cannot be read are
 * counted and skipped, and the operator decides whether to go on without them.
 */
export interface ReadReplaced {
  store: ReplacedStore;
  unreadable: number;
}

/** `lastOfBackup` is the backup's last record, as stored there. */
async function readReplaced(
  level: Level,
  relay: RelayRow,
  lastOfBackup: { lsn: number; record: Buffer },
): Promise<ReadReplaced> {
  let unreadable = 0;
  const rowsOf = async <T extends ListedTable>(table: T): Promise<ListedRow<T>[]> => {
    const rows: ListedRow<T>[] = [];
    for await (const row of tableRows(level, table)) {
      if (row) rows.push(row);
      else unreadable++;
    }
    return rows;
  };
  const byHost = async <T extends ListedTable>(table: T): Promise<Map<PublicKey, ListedRow<T>[1]>> =>
    new Map((await rowsOf(table)) as [PublicKey, ListedRow<T>[1]][]);
  const heads = (await rowsOf('target')).map(([key, { headSeq }]) => [key as PublicKey, headSeq] as const);
  const store: ReplacedStore = {
    epoch: relay.epoch,
    lastLsn: await lastStoredLsn(level),
    continuesBackup: await isOfItsHistory(level, lastOfBackup),
    enrolments: await byHost('enrolment'),
    senders: await byHost('senders'),
    encKeys: await byHost('encKey'),
    rotations: await byHost('rotation'),
    denied: (await rowsOf('deny')).map(([, row]) => row),
    openInvites: new Set((await rowsOf('invite')).map(([hash]) => hash)),
    heads: new Map(heads),
    restores: (await rowsOf('restore')).map(([, row]) => row),
  };
  return { store, unreadable };
}

/** Says whether the store has, or had, this very record there: what was pruned is known by its hash. */
async function isOfItsHistory(level: Level, { lsn, record }: { lsn: number; record: Buffer }): Promise<boolean> {
  try {
    const own = await recordAt(level, lsn);
    if (own) return own.equals(record);
    const tree = (await treeStarts(level)).findLast(({ firstLsn }) => firstLsn <= lsn);
    if (!tree) return false;
    for await (const hash of storedLeafHashes(level, [tree], lsn, lsn)) return hash?.equals(leafHash(record)) ?? false;
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
  }
  return false;
}

export interface RestoreNames {
  /** The database that is made of the backup. */
  restored: string;
  restoredPosition: string;
  /** The name that the database that served gets. */
  replaced: string;
  /** The place of a copy of it, which is made to be read. */
  replacedCopy: string;
}

const LEFT_DATABASE = /^log\.restoring-[0-9a-f]{8}$/;
const LEFT_FILE = /^(?:position\.restoring-[0-9a-f]{8}|restore\.json\.new)$/;

export function restoreNames(folder: string, nowMs: number): RestoreNames {
  const [mark, copyMark] = [randomBytes(4).toString('hex'), randomBytes(4).toString('hex')];
  return {
    restored: `${LEVEL_FOLDER}.restoring-${mark}`,
    restoredPosition: `position.restoring-${mark}`,
    replaced: basename(pathAside(join(folder, LEVEL_FOLDER), 'replaced', nowMs)),
    replacedCopy: `${LEVEL_FOLDER}.restoring-${copyMark}`,
  };
}

/** Removes what restores that were cut short left behind. Throws `StoreRefused` when one is still under way. */
export async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (LEFT_DATABASE.test(name)) {
      await refuseWhenLocked(path, folder);
      await rm(path, { recursive: true, force: true });
    } else if (LEFT_FILE.test(name)) await rm(path, { force: true });
  }
}

async function refuseWhenLocked(path: string, folder: string): Promise<void> {
  try {
    await (await openLevel(path, false, path)).close();
  } catch (error) {
    if (!(error instanceof StoreRefused) || error.reason !== 'locked') return;
    throw new StoreRefused('locked', `another restore into ${folder} is under way: wait for its end`);
  }
}

/**
 * A database that may be opened without a change to the one at `from`. What never changes is shared, not copied.
 * `without` names files that it is not to have.
 */
export async function cloneLevel(from: string, to: string, without: ReadonlySet<string> = new Set()): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  for (const name of await readdir(from)) {
    if (name === 'LOCK' || without.has(name)) continue;
    const [source, copy] = [join(from, name), join(to, name)];
    const isShared = name.endsWith('.ldb') && (await tryLink(source, copy));
    if (!isShared) await copyFile(source, copy, constants.COPYFILE_FICLONE);
  }
}

/** False where the two places share no file system. */
async function tryLink(source: string, copy: string): Promise<boolean> {
  try {
    await link(source, copy);
    return true;
  } catch {
    return false;
  }
}
