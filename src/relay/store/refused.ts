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
  | 'unusable';

export class StoreRefused extends Error {
  readonly reason: RefusedReason;

  constructor(reason: RefusedReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** A file that is missing is lost; whatever else LevelDB calls an I/O error is said by the system, of no byte. */
const OF_A_LOST_FILE = /No such file or directory/;

/** What is wrong with what is stored, in words for brackets; `undefined` when the error is of another kind. */
export function damageIn(error: unknown): string | undefined {
  if (error instanceof DamagedRow) return error.sentence;
  if (error instanceof DamagedRecord) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  const isRead = code === 'LEVEL_CORRUPTION' || (code === 'LEVEL_IO_ERROR' && !isOfTheSystem(message));
  return isRead ? message : undefined;
}

/** Whether LevelDB passes on what the system said (EIO, EACCES, ENOSPC): the bytes may all be right. */
export function isOfTheSystem(said: string): boolean {
  return said.startsWith('IO error') && !OF_A_LOST_FILE.test(said);
}

/** The refusal of a store at `place` that the error tells to be damaged; every other error as it is. */
export function refusedIfDamaged(error: unknown, place: string): unknown {
  const what = damageIn(error);
  if (what === undefined) return error;
  const advice =
    error instanceof DamagedRow
      ? 'if poste relay log verify finds its log whole, poste relay log rebuild makes the rows anew; otherwise restore a backup; senders will push again what was not confirmed'
      : 'restore a backup, or move the folder aside to begin empty; senders will push again what was not confirmed';
  return new StoreRefused('damaged', `the store at ${place} is damaged (${what}): ${advice}`);
}
