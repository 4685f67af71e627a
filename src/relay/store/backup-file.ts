/** A backup of a relay on its way into a file; how it gets there is in system/backup-file.ts. */
import {
  type BackupFileOptions,
  BackupUnwritten,
  type CheckedContainer,
  checkedContainer,
  writeBackupAside,
} from '../../system/backup-file.ts';
import type { Pair } from '../../system/pair-block.ts';
import { BACKUP_KIND, type BackupHeader } from './backup.ts';
import { PREFIX, firstKeyOf, seqOf } from './keys.ts';
import { readableTargetRow } from './waiting-rows.ts';

/** What was written. */
export interface WrittenBackup extends CheckedContainer<BackupHeader> {
  /** Items that wait for their targets, notices among them. */
  items: number;
  /** Those whose wire bytes were missing or altered in the store already: they are in it as they are. */
  damagedItems: number;
}

export interface RelayBackupFileOptions extends BackupFileOptions {
  /** Told how many bytes of the file there are. */
  progress?: (bytes: number) => void;
}

/** Writes the backup that `source` is. Throws `BackupUnwritten`, or what `source` throws. */
export function writeBackupFile(
  source: AsyncIterable<Buffer>,
  { progress, ...options }: RelayBackupFileOptions,
): Promise<WrittenBackup> {
  return writeBackupAside(source, options, (chunks) => checkedBackup(chunks, progress));
}

/**
 * Reads a backup to its end and checks all of it. Throws `BackupDamaged`, `BackupUnwritten` for one that a restore would
 * refuse, or what `source` throws.
 */
export async function checkedBackup(
  source: AsyncIterable<Buffer>,
  progress?: (bytes: number) => void,
): Promise<WrittenBackup> {
  const tally = new ItemTally();
  const { checked, damage } = await checkedContainer(source, BACKUP_KIND, (run) => tally.add(run), progress);
  const { damaged_items: damagedItems = 0, unreadable_rows: unreadable = 0 } = damage;
  if (unreadable > 0) throw unreadableRows(unreadable);
  return { ...checked, items: tally.items, damagedItems };
}

/** Counts the items that wait. Pairs ascend, so a target's row is seen before its queue. */
class ItemTally {
  items = 0;
  readonly #ackedThrough = new Map<string, number>();

  add(run: readonly Pair[]): void {
    for (const [key, value] of run) {
      if (key[0] === PREFIX.target) {
        const row = readableTargetRow(key, value);
        if (row) this.#ackedThrough.set(firstKeyOf(key), row.ackedThrough);
      } else if (key[0] === PREFIX.queue) {
        if (seqOf(key) > (this.#ackedThrough.get(firstKeyOf(key)) ?? 0)) this.items++;
      }
    }
  }
}

function unreadableRows(count: number): BackupUnwritten {
  return new BackupUnwritten(
    'unreadable',
    `${count} rows of its queues cannot be read, and a restore refuses a backup that holds one: stop the relay, run poste relay log verify and then poste relay log rebuild, and take it again`,
  );
}
