/**
 * Opens the folder and the database of a store, or says why they cannot be opened, and which errors mean that stored
 * bytes are damaged. The message of a refusal is one sentence for the operator, with the next step; it never holds key
 * material.
 */
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemRemedy } from '../../lib/file-fault.ts';
import { makeFolders } from '../../lib/files.ts';
import { unreadableFile } from '../../lib/recovered-files.ts';
import { bulkCause } from './bulk-database.ts';
import { isCurrentTorn } from './level-files.ts';
import { type Level, type LevelSharing, levelAt, makeLevelFolder } from './level.ts';
import { DamagedRow } from './checksum.ts';
import { DamagedRecord } from './record.ts';

export type RefusedReason =
  | 'locked'
  | 'missing'
  | 'foreign-key'
  | 'missing-key'
  | 'missing-key-file'
  | 'unreadable-key'
  | 'newer-schema'
  | 'damaged'
  | 'view'
  | 'not-allowed'
  | 'unusable';

export class StoreRefused extends Error {
  readonly reason: RefusedReason;

  constructor(reason: RefusedReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Throws `StoreRefused` for a store folder that is a file, or that this user may not use; one may be absent. */
export function refuseUnusableFolder(folder: string): void {
  try {
    readdirSync(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    const refused = folderRefused(folder, error);
    if (refused) throw refused;
  }
}

/** Says why a store folder cannot be used, when the error of the system says that of the folder itself. */
export function folderRefused(folder: string, error: unknown): StoreRefused | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOTDIR')
    return new StoreRefused(
      'unusable',
      `${folder} ${fileThere(folder)}, and no store folder: name it with --store-dir`,
    );
  if (code === 'EACCES' || code === 'EPERM')
    return new StoreRefused(
      'not-allowed',
      `this user may not use the store at ${folder} (${code}): give the command as the user of the relay`,
    );
  return undefined;
}

/** Words a path that has a file in its place, or in that of a folder above it. */
function fileThere(folder: string): string {
  return existsSync(folder) ? 'is a file' : 'lies below a file';
}

/** A missing file is lost data; any other I/O error of LevelDB comes from the system and proves no damage. */
const LOST_FILE = /No such file or directory/;

/** Returns what is wrong with the stored bytes, as text for brackets; `undefined` for other errors. */
export function damageIn(error: unknown): string | undefined {
  if (error instanceof DamagedRow) return error.sentence;
  if (error instanceof DamagedRecord) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  const isRead = code === 'LEVEL_CORRUPTION' || (code === 'LEVEL_IO_ERROR' && !isSystemError(message));
  return isRead ? message : undefined;
}

/** Says whether LevelDB passes on an error of the system (EIO, EACCES, ENOSPC): the stored bytes may all be right. */
export function isSystemError(said: string): boolean {
  return said.startsWith('IO error') && !LOST_FILE.test(said);
}

/** A refusal of the store at `place` when the error means damage; every other error as it is. */
export function refusedIfDamaged(error: unknown, place: string): unknown {
  const what = damageIn(error);
  if (what === undefined) return error;
  const advice =
    error instanceof DamagedRow
      ? 'if poste relay log verify finds its log whole, poste relay log rebuild makes the rows anew; otherwise ' +
        'restore a backup; senders will push again what was not confirmed'
      : 'restore a backup, or move the folder aside to begin empty; senders will push again what was not confirmed';
  return new StoreRefused('damaged', `the store at ${place} is damaged (${what}): ${advice}`);
}

export async function makeFolder(folder: string): Promise<void> {
  try {
    await makeFolders(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isFile = code === 'EEXIST' || code === 'ENOTDIR';
    throw new StoreRefused(
      'unusable',
      `${folder} cannot be used as the store folder ` +
        `(${isFile ? `it ${fileThere(folder)}` : (code ?? 'unknown error')}): name another one with --store-dir`,
    );
  }
}

/** Says whether LevelDB ever finished creating itself there, whatever was lost since. */
export function holdsDatabase(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).some((name) => name === 'CURRENT' || /\.(?:ldb|log)$/.test(name));
}

/** A database that LevelDB lets several threads open is not locked against this process. */
const openedHere = new Set<string>();

function lockedRefusal(folder: string): StoreRefused {
  return new StoreRefused(
    'locked',
    `another process is using the store at ${folder}: stop it first, or name another folder with --store-dir`,
  );
}

export async function openLevel(
  folder: string,
  existed: boolean,
  positionPath: string,
  sharing?: LevelSharing,
): Promise<Level> {
  if (existed) await refuseUnreadableFiles(folder);
  else await makeLevelFolder(folder);
  const place = resolve(folder);
  if (openedHere.has(place)) throw lockedRefusal(folder);
  const level = levelAt(folder, sharing);
  try {
    await level.open({ createIfMissing: !existed });
    openedHere.add(place);
    level.once('closed', () => openedHere.delete(place));
    return level;
  } catch (error) {
    const cause = (error as { cause?: { code?: string; message?: string } }).cause;
    if (cause?.code === 'LEVEL_LOCKED') throw lockedRefusal(folder);
    if (await isCurrentTorn(folder)) {
      throw new StoreRefused(
        'damaged',
        `the database at ${folder} is missing, or lost its CURRENT file or holds a torn one, although the relay ` +
          'has run here before: poste relay log rebuild makes that file anew where all else is there; otherwise ' +
          `restore a backup, or move ${folder} and ${positionPath} aside to begin empty`,
      );
    }
    const said = cause?.message ?? 'unknown error';
    if (isSystemError(said)) {
      throw new StoreRefused(
        'unusable',
        `the database at ${folder} cannot be opened (${said}): ${systemRemedy(said)}, and start the relay again`,
      );
    }
    throw new StoreRefused(
      'damaged',
      `the database at ${folder} cannot be opened (${said}): restore a backup, or move it aside to begin empty`,
    );
  }
}

/** Throws `StoreRefused`. */
async function refuseUnreadableFiles(folder: string): Promise<void> {
  const unreadable = await unreadableFile(folder);
  if (!unreadable) return;
  throw new StoreRefused(
    'unusable',
    `the database at ${folder} cannot be opened (${unreadable.code} while reading ${unreadable.name}): ` +
      `${systemRemedy(unreadable.code)}, and start the relay again`,
  );
}

/** The error to throw for `error`: a refusal when the system or LevelDB could not read or write the store. */
export function unusableStore(met: unknown, folder: string): unknown {
  const error = bulkCause(met);
  const { code, message } = error as NodeJS.ErrnoException;
  if (met instanceof StoreRefused || typeof code !== 'string') return met;
  if (damageIn(error) !== undefined) return refusedIfDamaged(error, folder);
  // The code of a LevelDB error is too general.
  const what = code.startsWith('LEVEL_') ? message : code;
  return new StoreRefused(
    'unusable',
    `the store at ${folder} cannot be used (${what}): ${systemRemedy(what)}, and start the relay again`,
  );
}
