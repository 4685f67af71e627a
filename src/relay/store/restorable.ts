/**
 * What a restore must know before it replaces anything: that the backup is what it says, that it is this relay's, and
 * what can be read of the store that gives way.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { type RelayRow, rowKey } from '../core/rows.ts';
import type { BackupHeader } from './backup.ts';
import { SCHEMA_KEY, logKey, rowKeyBytes } from './keys.ts';
import { LEVEL_FOLDER, type Level } from './level.ts';
import { SCHEMA_VERSION, checkNewestRecords, checkSchema, openLevel } from './open.ts';
import { DamagedRecord } from './record.ts';
import { StoreRefused } from './refused.ts';
import { type ReadReplaced, readReplaced } from './replaced.ts';
import { decodeRow } from './row-codec.ts';
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
}

/**
 * The database in `folder`; `undefined` when there is none. `shown` is how messages name the folder. Throws
 * `StoreRefused`, for one that cannot be opened too, unless `goesOnUnread`.
 */
export async function openReplaced(
  folder: string,
  shown: string,
  goesOnUnread: boolean,
): Promise<FoundStore | undefined> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  if (!existsSync(levelFolder)) return undefined;
  try {
    return { level: await openLevel(levelFolder, true, levelFolder) };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    if (error.reason === 'locked') {
      throw new StoreRefused('locked', `a relay is using the store at ${shown}: stop it, and restore then`);
    }
    if (error.reason !== 'damaged') throw error;
    if (goesOnUnread) return { level: undefined };
    throw unread(shown, 'it cannot be opened');
  }
}

/** What is to be taken over; `undefined` when nothing can be read. Throws `StoreRefused`. */
export async function readOrRefuse(
  level: Level,
  restored: { level: Level; header: BackupHeader },
  shown: string,
  goesOnUnread: boolean,
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
  const read = await readReplaced(level, relay, { lsn, record });
  if (read.unreadable === 0 || goesOnUnread) return read;
  throw unread(shown, `${read.unreadable} of its rows cannot be read`);
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
