/**
 * Why a store cannot be opened, and which errors mean that stored bytes are damaged. The message of a refusal is one
 * sentence for the operator, with the next step; it never holds key material.
 */
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
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

/** Why a store folder cannot be used, when the error of the system says that of the folder itself. */
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

/** What a path is where a file is in its place, or in that of a folder above it. */
export function fileThere(folder: string): string {
  return existsSync(folder) ? 'is a file' : 'lies below a file';
}

/** A missing file is lost data; any other I/O error of LevelDB comes from the system and proves no damage. */
const LOST_FILE = /No such file or directory/;

/** What is wrong with the stored bytes, as text for brackets; `undefined` for other errors. */
export function damageIn(error: unknown): string | undefined {
  if (error instanceof DamagedRow) return error.sentence;
  if (error instanceof DamagedRecord) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  const isRead = code === 'LEVEL_CORRUPTION' || (code === 'LEVEL_IO_ERROR' && !isSystemError(message));
  return isRead ? message : undefined;
}

/** Whether LevelDB passes on an error of the system (EIO, EACCES, ENOSPC): the stored bytes may all be right. */
export function isSystemError(said: string): boolean {
  return said.startsWith('IO error') && !LOST_FILE.test(said);
}

/** A refusal of the store at `place` when the error means damage; every other error as it is. */
export function refusedIfDamaged(error: unknown, place: string): unknown {
  const what = damageIn(error);
  if (what === undefined) return error;
  const advice =
    error instanceof DamagedRow
      ? 'if poste relay log verify finds its log whole, poste relay log rebuild makes the rows anew; otherwise restore a backup; senders will push again what was not confirmed'
      : 'restore a backup, or move the folder aside to begin empty; senders will push again what was not confirmed';
  return new StoreRefused('damaged', `the store at ${place} is damaged (${what}): ${advice}`);
}
