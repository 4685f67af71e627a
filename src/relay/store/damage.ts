/** Tells stored bytes that cannot be read from every other failure, for whoever says it to the operator. */
import { DamagedRecord } from './record.ts';
import { StoreRefused } from './refused.ts';
import { DamagedRow } from './row-codec.ts';

/** What LevelDB calls an I/O error and is one of the system: no byte is wrong. */
const OF_THE_SYSTEM = /No space left on device|Permission denied|Read-only file system|Too many open files/;

/** What is wrong with what is stored, in words for brackets; `undefined` when the error is of another kind. */
export function damageIn(error: unknown): string | undefined {
  if (error instanceof DamagedRecord || error instanceof DamagedRow) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  const isRead = code === 'LEVEL_CORRUPTION' || (code === 'LEVEL_IO_ERROR' && !isOfTheSystem(message));
  return isRead ? message : undefined;
}

export function isOfTheSystem(said: string): boolean {
  return OF_THE_SYSTEM.test(said);
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
