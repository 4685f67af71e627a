/**
 * What a restore must know before it replaces anything: that the backup is what it says, that it is this relay's, and
 * what can be read of the store that gives way.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { ReplacedStore } from '../core/decide-restore.ts';
import { type RelayRow, rowKey } from '../core/rows.ts';
import type { BackupHeader } from './backup.ts';
import { damageIn } from './damage.ts';
import { SCHEMA_KEY, logKey, rowKeyBytes } from './keys.ts';
import { LEVEL_FOLDER, type Level } from './level.ts';
import { SCHEMA_VERSION, checkNewestRecords, checkSchema, openLevel } from './open.ts';
import { DamagedRecord } from './record.ts';
import { StoreRefused } from './refused.ts';
import { type ReadReplaced, readReplaced } from './replaced.ts';
import { cloneLevel } from './restore-files.ts';
import { decodeRow } from './row-codec.ts';
import { damagedTables } from './table-check.ts';
import { LISTED_TABLES, tableRows } from './table-rows.ts';
import { waitingRows } from './waiting-rows.ts';

/** Checks an unpacked backup, its whole log included. Throws `StoreRefused`. */
export async function checkUnpacked(level: Level, header: BackupHeader, own: PublicKey, file: string): Promise<void> {
  const schema = await level.get(SCHEMA_KEY);
  if (schema) checkSchema(schema, file, SCHEMA_VERSION);
  const relay = await relayRowOf(level);
  const isAsSaid = relay?.relayPubkey === header.relay_pubkey && relay.epoch === header.epoch;
  if (!schema || !isAsSaid || (await lastRecordOf(level, file)) !== header.lsn) {
    throw damaged(file, 'it does not hold what its header says');
  }
  if (await holdsUnreadable(level)) throw damaged(file, 'some of its rows cannot be read');
  if (header.relay_pubkey === own) return;
  throw new StoreRefused(
    'foreign-key',
    `${file} is of another relay, whose key has the fingerprint ${displayFingerprint(header.relay_pubkey as PublicKey)}: restore it where that key is`,
  );
}

async function holdsUnreadable(level: Level): Promise<boolean> {
  for (const table of LISTED_TABLES) {
    for await (const listed of tableRows(level, table)) if (!listed) return true;
  }
  for await (const { unreadable } of waitingRows(level)) if (unreadable > 0) return true;
  return false;
}

async function lastRecordOf(level: Level, file: string): Promise<number> {
  try {
    return (await checkNewestRecords(level, Infinity)).lastLsn;
  } catch (error) {
    if (error instanceof DamagedRecord) throw damaged(file, error.message);
    throw error;
  }
}

function damaged(file: string, what: string): StoreRefused {
  return new StoreRefused('damaged', `${file} cannot be used (${what}): take another backup`);
}

/** The store that gives way. */
export interface FoundStore {
  /** Open, and so locked; `undefined` when it cannot be opened. */
  level: Level | undefined;
  /** Its table files that do not match their checksums. */
  damagedTables: ReadonlySet<string>;
}

export interface ReplacedPlace {
  folder: string;
  /** How messages name the folder. */
  shown: string;
  /** Whether to go on when it cannot be read, or not wholly. */
  goesOnUnread: boolean;
}

/**
 * The database in the folder; `undefined` when there is none. Its table files are held against their checksums before
 * anything of them is believed. Throws `StoreRefused`, for one that cannot be read too, unless `goesOnUnread`.
 */
export async function openReplaced({ folder, shown, goesOnUnread }: ReplacedPlace): Promise<FoundStore | undefined> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  if (!existsSync(levelFolder)) return undefined;
  let level: Level;
  try {
    level = await openLevel(levelFolder, true, levelFolder);
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    if (error.reason === 'locked') {
      throw new StoreRefused('locked', `a relay is using the store at ${shown}: stop it, and restore then`);
    }
    if (error.reason !== 'damaged') throw error;
    if (goesOnUnread) return { level: undefined, damagedTables: new Set() };
    throw unread(shown, 'it cannot be opened');
  }
  try {
    const damaged = new Set((await damagedTables(levelFolder)).map(({ file }) => file));
    if (damaged.size === 0 || goesOnUnread) return { level, damagedTables: damaged };
    throw unread(shown, `${damaged.size} of its table files do not match their checksums`);
  } catch (error) {
    await level.close();
    throw error;
  }
}

/**
 * What is read of a store: itself, or where tables of it are damaged a copy without those, which the caller closes and
 * removes; `undefined` when nothing can be. In a copy what lay in those tables is missing, and what they had replaced
 * or deleted may be there again.
 */
export async function readableOf(found: FoundStore, folder: string, copy: string): Promise<Level | undefined> {
  if (found.damagedTables.size === 0) return found.level;
  await cloneLevel(join(folder, LEVEL_FOLDER), copy, found.damagedTables);
  try {
    // Of a copy that is thrown away: the store itself is never repaired.
    await ClassicLevel.repair(copy);
    return await openLevel(copy, true, copy);
  } catch (error) {
    if (error instanceof StoreRefused ? error.reason === 'damaged' : damageIn(error) !== undefined) return undefined;
    throw error;
  }
}

/**
 * What is to be taken over; `undefined` when nothing can be read. `isPartial` of a copy without damaged tables. Throws
 * `StoreRefused`.
 */
export async function readOrRefuse(
  readable: Level,
  isPartial: boolean,
  restored: { level: Level; header: BackupHeader },
  place: ReplacedPlace,
): Promise<ReadReplaced | undefined> {
  const { goesOnUnread, shown } = place;
  try {
    return await read(readable, isPartial, restored, place);
  } catch (error) {
    const what = damageIn(error);
    if (what === undefined) throw error;
    if (goesOnUnread) return undefined;
    throw unread(shown, what);
  }
}

async function read(
  level: Level,
  isPartial: boolean,
  restored: { level: Level; header: BackupHeader },
  { goesOnUnread, shown }: ReplacedPlace,
): Promise<ReadReplaced | undefined> {
  const { lsn, relay_pubkey } = restored.header;
  const schema = await level.get(SCHEMA_KEY);
  if (schema) checkSchema(schema, shown, SCHEMA_VERSION);
  const relay = await relayRowOf(level);
  if (!relay) {
    if (goesOnUnread) return undefined;
    throw unread(shown, 'it holds no relay row');
  }
  if (relay.relayPubkey !== relay_pubkey) {
    throw new StoreRefused(
      'foreign-key',
      `the store at ${shown} is of another relay, whose key has the fingerprint ${displayFingerprint(relay.relayPubkey)}: name another folder with --store-dir`,
    );
  }
  const record = await restored.level.get(logKey(lsn));
  if (!record) throw new Error('invariant: a checked backup holds its last record');
  const replaced = await readReplaced(level, relay, { lsn, record });
  if (replaced.unreadable > 0 && !goesOnUnread)
    throw unread(shown, `${replaced.unreadable} of its rows cannot be read`);
  return isPartial ? { ...replaced, store: certainOf(replaced.store) } : replaced;
}

/** Of a store that was read in part: that a row is missing tells nothing, and neither does an invite that is there. */
function certainOf(store: ReplacedStore): ReplacedStore {
  return { ...store, continuesBackup: false, openInvites: new Set() };
}

function unread(folder: string, what: string): StoreRefused {
  return new StoreRefused(
    'damaged',
    `the store at ${folder} is damaged (${what}), so what was revoked, rotated or published since the backup cannot all be taken over: say --force to restore all the same, and revoke again whom you have revoked since`,
  );
}

async function relayRowOf(level: Level): Promise<RelayRow | undefined> {
  const bytes = await level.get(rowKeyBytes('relay', rowKey.relay));
  try {
    return bytes && decodeRow('relay', rowKey.relay, bytes);
  } catch {
    return undefined;
  }
}
