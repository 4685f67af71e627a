/** A backup on its way into a file, and what is told of one that is whole. */
import { createHash } from 'node:crypto';
import { type BackupHeader, readBackup } from './backup.ts';
import { PREFIX, firstKeyOf, seqOf } from './keys.ts';
import type { Pair } from './pair-block.ts';
import { readableTargetRow } from './waiting-rows.ts';
import { FileUnwritten, writeWholeFile } from './whole-file.ts';

/** What was written. */
export interface WrittenBackup {
  header: BackupHeader;
  /** Of the file. */
  bytes: number;
  /** Of all it holds, before it was compressed. */
  contentBytes: number;
  /** Items that wait for their targets, notices among them. */
  items: number;
  /** Those whose wire bytes were missing or altered in the store already: they are in it as they are. */
  damagedItems: number;
  /** Of the file. */
  sha256: string;
}

export interface BackupFileOptions {
  path: string;
  /** Whether a file of the name may be replaced. */
  replaces: boolean;
  /** Told how many bytes of the file there are. */
  progress?: (bytes: number) => void;
}

/** Writes the backup that `source` is. Throws `FileUnwritten`, or what `source` throws. */
export function writeBackupFile(
  source: AsyncIterable<Buffer>,
  { path, replaces, progress }: BackupFileOptions,
): Promise<WrittenBackup> {
  return writeWholeFile(source, (chunks) => checkedBackup(chunks, progress), { path, replaces, what: 'the backup' });
}

/**
 * Reads a backup to its end and checks all of it. Throws `PairFileDamaged`, `FileUnwritten` for one that a restore would
 * refuse, or what `source` throws.
 */
export async function checkedBackup(
  source: AsyncIterable<Buffer>,
  progress: (bytes: number) => void = () => undefined,
): Promise<WrittenBackup> {
  let bytes = 0;
  const hash = createHash('sha256');
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      bytes += chunk.length;
      hash.update(chunk);
      progress(bytes);
      yield chunk;
    }
  };
  const { header, pairs } = await readBackup(counted());
  const tally = new ItemTally();
  for (;;) {
    const next = await pairs.next();
    if (!next.done) {
      tally.add(next.value);
      continue;
    }
    const { bytes: contentBytes, damaged_items: damagedItems = 0, unreadable_rows: unreadable = 0 } = next.value;
    if (unreadable > 0) throw unreadableRows(unreadable);
    return { header, bytes, contentBytes, items: tally.items, damagedItems, sha256: hash.digest('hex') };
  }
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

function unreadableRows(count: number): FileUnwritten {
  return new FileUnwritten(
    'unreadable',
    `${count} rows of its queues cannot be read, and a restore refuses a backup that holds one: stop the relay, run poste relay log verify and then poste relay log rebuild, and take it again`,
  );
}
