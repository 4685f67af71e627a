/**
 * Why a store cannot be opened, and which errors mean that stored bytes are damaged. The message of a refusal is one
 * sentence for the operator, with the next step; it never holds key material.
 */
import { DamagedRow } from './checksum.ts';
import { DamagedRecord } from './record.ts';

export type RefusedReason =
  | 'locked'
  | 'missing'
  | 'foreign-key'
  | 'missing-key'
  | 'unreadable-key'
  | 'newer-schema'
  | 'damaged'
  | 'view'
  | 'unusable';

export class StoreRefused extends Error {
  readonly reason: RefusedReason;

  constructor(reason: RefusedReason, message: string) {
    super(message);
    this.reason = reason;
  }
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
