/**
 * An archive of the log is an image (lib/image.ts) of a stretch of its records as they are stored, under their keys,
 * and what places them in the hash trees.
 *
 * The pairs ascend by key: the records; the tiles of level 0 that hold their hashes, as far as those are stored; the
 * first leaves of the trees up to the last record. So an archive that is unpacked into a database is a log that begins
 * later than 1, and a reader of logs can read it.
 */
import Type, { type Static } from 'typebox';
import { createReadStream } from 'node:fs';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, PublicKeyText, Time } from '../../protocol/shapes.ts';
import { type CheckedImage, ImageDamaged, type ImageKind, checkImage, writeImage } from '../../lib/image.ts';
import { eventTimeMs } from '../core/event.ts';
import { PREFIX, logKey, logLinkKey, lsnOf, tileKey } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { leafIndex, treeStarts } from '../store/log-tree.ts';
import { TILE_HASHES } from '../store/tile-nodes.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { missingRecord, recordAt, type StoredRecord, storedRecords } from '../store/record-run.ts';
import { runsOf } from '../store/scan.ts';
import { DamagedRecord, checkRecord, decodeRecord } from '../store/record.ts';

/** DO NOT CHANGE. */
const MAGIC = 'poste-log-archive 1\n';
const RUN_RECORDS = 1000;

const ArchiveHeader = Type.Object({
  relay_pubkey: PublicKeyText,
  first_lsn: Count,
  last_lsn: Count,
  /** When the first and the last record were written. */
  first_time: Time,
  last_time: Time,
  created_at: Time,
  /** The software that wrote it. */
  version: Type.String(),
});
type ArchiveHeader = Static<typeof ArchiveHeader>;

/** The check holds every record against its own checksum, and against its place. */
export const ARCHIVE_KIND: ImageKind<ArchiveHeader, { records: number }> = {
  magic: MAGIC,
  parseHeader: parserOf(ArchiveHeader),
  noun: 'archive',
  isNone: 'no archive of a log',
  check: () => {
    let records = 0;
    return {
      see: (run, { first_lsn }) => {
        for (const [key, value] of run) {
          if (key[0] !== PREFIX.log) continue;
          const expected = first_lsn + records++;
          if (lsnOf(key) !== expected) throw new ImageDamaged(`log record ${expected} is not in it`);
          checkArchived(expected, value);
        }
      },
      end: ({ first_lsn, last_lsn }) => {
        if (first_lsn + records !== last_lsn + 1) throw new ImageDamaged('it does not hold what its header says');
        return { records };
      },
    };
  },
};

/** An archive that is whole. */
export type WrittenArchive = CheckedImage<ArchiveHeader, { records: number }>;

/** The data of an archive about itself, besides what is in it. */
export type ArchiveStamp = Pick<ArchiveHeader, 'relay_pubkey' | 'created_at' | 'version'>;

/** Both ends are in it. */
export interface LogRange {
  firstLsn: number;
  lastLsn: number;
}

/** The archive of these records, piece by piece. Throws `DamagedRecord` where one is missing or altered. */
export async function* writeArchive(
  level: Level,
  { firstLsn, lastLsn }: LogRange,
  stamp: ArchiveStamp,
): AsyncGenerator<Buffer> {
  const header: ArchiveHeader = {
    ...stamp,
    first_lsn: firstLsn,
    last_lsn: lastLsn,
    first_time: await timeOf(level, firstLsn),
    last_time: await timeOf(level, lastLsn),
  };
  yield* writeImage(MAGIC, header, archivedPairs(level, { firstLsn, lastLsn }));
}

async function timeOf(level: Level, lsn: number): Promise<number> {
  const record = await recordAt(level, lsn);
  if (!record) throw missingRecord(lsn);
  return eventTimeMs(decodeRecord(lsn, record).event);
}

async function* archivedPairs(level: Level, { firstLsn, lastLsn }: LogRange): AsyncGenerator<Pair[]> {
  let run: Pair[] = [];
  for await (const [lsn, record] of storedRecords(level, firstLsn, lastLsn)) {
    checkRecord(lsn, record);
    run.push([logKey(lsn), record]);
    if (run.length < RUN_RECORDS) continue;
    yield run;
    run = [];
  }
  yield run;
  const starts = (await treeStarts(level)).filter((start) => start.firstLsn <= lastLsn);
  for (const [at, start] of starts.entries()) {
    const last = Math.min(lastLsn, (starts[at + 1]?.firstLsn ?? Number.POSITIVE_INFINITY) - 1);
    if (last < firstLsn) continue;
    const [from, to] = [Math.max(firstLsn, start.firstLsn), last].map((lsn) =>
      Math.floor(leafIndex(start, lsn) / TILE_HASHES),
    ) as [number, number];
    yield* runsOf(level, { gte: tileKey(start.firstLsn, 0, from), lte: tileKey(start.firstLsn, 0, to) });
  }
  yield* runsOf(level, { gte: logLinkKey(0), lte: logLinkKey(lastLsn) });
}

function checkArchived(lsn: number, record: Buffer): void {
  try {
    checkRecord(lsn, record);
  } catch (error) {
    throw error instanceof DamagedRecord ? new ImageDamaged(error.message) : error;
  }
}

/** Says whether the archive at `path` is whole and holds these very records of `level`. Throws `DamagedRecord`. */
export async function holdsRange(path: string, level: Level, { firstLsn, lastLsn }: LogRange): Promise<boolean> {
  const source = createReadStream(path, { highWaterMark: 1 << 20 });
  const records: AsyncIterator<StoredRecord, undefined> = storedRecords(level, firstLsn, lastLsn);
  let isSame = true;
  try {
    const take = async (run: readonly Pair[]): Promise<void> => {
      for (const [key, record] of run) {
        if (!isSame || key[0] !== PREFIX.log) continue;
        const { value } = await records.next();
        isSame = value?.[0] === lsnOf(key) && value[1].equals(record);
      }
    };
    const { header } = await checkImage(source, ARCHIVE_KIND, { take });
    return isSame && header.first_lsn === firstLsn && header.last_lsn === lastLsn;
  } catch (error) {
    if (error instanceof ImageDamaged) return false;
    throw error;
  } finally {
    source.destroy();
    await records.return?.();
  }
}
