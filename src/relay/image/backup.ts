/**
 * A backup of a relay: everything that is in its database at one moment, as an image (lib/image.ts).
 * Written as a stream of pieces or into a file, checked, and unpacked into a new database. The relay's private key is
 * not in it.
 */
import Type, { type Static } from 'typebox';
import {
  type CheckedImage,
  ImageDamaged,
  type ImageKind,
  type ImageReader,
  readImage,
  releaseRun,
  writeImage,
} from '../../lib/image.ts';
import { ImageUnwritten } from '../../lib/image-file.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, EpochText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import type { QueueRow } from '../core/rows.ts';
import { BulkDatabase, bulkCause } from '../store/bulk-database.ts';
import { CHECKSUM_SCHEMA, mayBeOfSchemaOne, isRowKey, withChecksum } from '../store/checksum.ts';
import { seqsIn } from '../store/item-run.ts';
import { firstKeyOf, PREFIX } from '../store/keys.ts';
import type { Level, LevelSnapshot } from '../store/level.ts';
import { SCHEMA_VERSION } from '../store/marks.ts';
import { readableRow, runsOf } from '../store/scan.ts';
import { WireCheck, type WireDamage } from '../store/wire-check.ts';
import { createReadStream } from 'node:fs';
import { type RefusedReason, StoreRefused } from '../store/refused.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { releaseMemory } from '../../lib/released-memory.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';

/** DO NOT CHANGE. */
const MAGIC = 'poste-backup 1\n';
const PAIRS_AT_ONCE = 512;
const READ_BYTES = 1 << 20;
/** Damaged items that are named; more are counted. */
const NAMED_MAX = 10_000;

const BackupHeader = Type.Object({
  relay_pubkey: PublicKeyText,
  epoch: EpochText,
  schema_version: Count,
  /** The last log record in it. */
  lsn: Count,
  created_at: Time,
  /** The software that wrote it. */
  version: Type.String(),
});
export type BackupHeader = Static<typeof BackupHeader>;

/** The contents of a backup. */
interface BackupContents {
  /** Items that wait for their targets, notices among them. */
  items: number;
  /** Those whose wire bytes were missing or altered in the store already: they are in it as they are. */
  damagedItems: number;
}

/** A restore refuses one with a row that cannot be read, and so does its check, with `ImageUnwritten`. */
export const BACKUP_KIND: ImageKind<BackupHeader, BackupContents> = {
  magic: MAGIC,
  parseHeader: parserOf(BackupHeader),
  noun: 'backup',
  isNone: 'no backup of a relay',
  check: () => {
    const waiting = new ItemTally();
    return {
      see: (run) => waiting.add(run),
      end: (_header, { damaged_items: damagedItems = 0, unreadable_rows: unreadable = 0 }) => {
        if (unreadable > 0) throw unreadableRows(unreadable);
        return { items: waiting.items, damagedItems };
      },
    };
  },
};

/** A backup that is whole. */
export type WrittenBackup = CheckedImage<BackupHeader, BackupContents>;

/**
 * Everything that is in `level`, or in the snapshot of it, as it is: wire bytes that are missing or altered too, which
 * a restore drops. The trailer counts those, and comes when `checked` was told of them and is done.
 */
export async function* writeBackup(
  level: Level,
  header: BackupHeader,
  snapshot?: LevelSnapshot,
  checked: (damage: WireDamage) => Promise<void> = () => Promise.resolve(),
): AsyncGenerator<Buffer> {
  const damage: WireDamage = { items: 0, places: [], unreadable: 0 };
  const lost = ({ targetPubkey, seq }: QueueRow): void => {
    if (++damage.items <= NAMED_MAX) damage.places.push({ targetPubkey, seq });
  };
  const check = new WireCheck(level, { lost }, snapshot);
  try {
    yield* writeImage(MAGIC, header, checkedRuns(level, snapshot, check), async () => {
      await check.end();
      damage.unreadable = check.unreadable;
      await checked(damage);
      return { damaged_items: damage.items, unreadable_rows: damage.unreadable };
    });
  } finally {
    await check.close();
  }
}

/** The data of a backup about itself, besides what is in the store. */
type BackupStamp = Pick<BackupHeader, 'created_at' | 'version'>;

/** The backup of a store at the moment of its snapshot, piece by piece. `checked`: see `writeBackup`. */
export function backupOf(
  { level, handle, relay, lsn }: StoreSnapshot,
  { created_at, version }: BackupStamp,
  checked?: (damage: WireDamage) => Promise<void>,
): AsyncGenerator<Buffer> {
  const { relayPubkey: relay_pubkey, epoch } = relay;
  // The relay row of a view may say an older schema than that of the values.
  const header = { relay_pubkey, epoch, schema_version: SCHEMA_VERSION, lsn, created_at, version };
  return writeBackup(level, header, handle, checked);
}

/** Reads the beginning of a backup. The rows of one of schema 1 get their checksums. Throws `ImageDamaged`. */
export async function readBackup(source: AsyncIterable<Buffer>): Promise<ImageReader<BackupHeader>> {
  const { pairs, ...read } = await readImage(source, BACKUP_KIND);
  return { ...read, pairs: read.header.schema_version < CHECKSUM_SCHEMA ? withChecksums(pairs) : pairs };
}

async function* withChecksums(pairs: ImageReader<BackupHeader>['pairs']): ImageReader<BackupHeader>['pairs'] {
  for (;;) {
    const next = await pairs.next();
    if (next.done) return next.value;
    yield next.value.map(
      ([key, value]): Pair => [key, isRowKey(key) && mayBeOfSchemaOne(key, value) ? withChecksum(key, value) : value],
    );
  }
}

async function* checkedRuns(
  level: Level,
  snapshot: LevelSnapshot | undefined,
  check: WireCheck,
): AsyncGenerator<Pair[]> {
  const reading = { pairs: PAIRS_AT_ONCE, bytes: READ_BYTES, ...(snapshot && { snapshot }) };
  for await (const run of runsOf(level, {}, reading)) {
    await check.pass(run);
    yield run;
    // It was copied, and there is more of it than of anything else.
    releaseMemory(run.map(([, value]) => value.buffer));
  }
}

/**
 * Writes the pairs of a backup into a new database, which is left open. Its rows have the form of this schema; what it
 * says of its schema is what the backup says. Throws `StoreRefused`, and why the signal aborted.
 */
export async function unpackBackup(
  file: string,
  levelFolder: string,
  signal?: AbortSignal,
): Promise<{ level: Level; header: BackupHeader }> {
  const source = createReadStream(file, { highWaterMark: 1 << 20 });
  let database: BulkDatabase | undefined;
  try {
    const { header, pairs } = await readBackup(source);
    if (header.schema_version > SCHEMA_VERSION) {
      throw new StoreRefused(
        'newer-schema',
        `${file} is of schema ${header.schema_version} and this software knows schemas up to ` +
          `${SCHEMA_VERSION}: use the newer software`,
      );
    }
    database = await BulkDatabase.create(levelFolder);
    for await (const run of pairs) {
      signal?.throwIfAborted();
      await database.take(run);
      // LevelDB copied it.
      releaseRun(run);
    }
    await database.flush();
    return { level: database.level, header };
  } catch (error) {
    await database?.close();
    throw unpackFailure(error, file, 'take another backup', levelFolder);
  } finally {
    // A file that was not read to its end would stay open.
    source.destroy();
  }
}

const UNREADABLE: Readonly<Record<string, RefusedReason>> = {
  ENOENT: 'missing',
  ENOTDIR: 'missing',
  EACCES: 'not-allowed',
  EPERM: 'not-allowed',
};

/** For a backup or an archive that the system does not let be read. */
export function unreadableCopy(error: unknown, file: string): StoreRefused {
  const reason = UNREADABLE[(error as NodeJS.ErrnoException).code ?? ''] ?? 'unusable';
  return new StoreRefused(reason, `${file} cannot be read (${fileFault(error)}): name a file that you can read`);
}

/** Returns what keeps a file from being unpacked into `folder`, in a sentence. */
export function unpackFailure(error: unknown, file: string, advice: string, folder: string): unknown {
  if (error instanceof ImageDamaged)
    return new StoreRefused('damaged', `${file} cannot be used (${error.message}): ${advice}`);
  const cause = bulkCause(error);
  const { code } = cause as NodeJS.ErrnoException;
  if (error instanceof StoreRefused || typeof code !== 'string') return error;
  if (code.startsWith('LEVEL_'))
    return new StoreRefused('unusable', `${file} cannot be unpacked into ${folder} (${code}): make room there`);
  return unreadableCopy(cause, file);
}

/** Counts the items that wait. Pairs ascend, so a target's row is seen before its queue. */
class ItemTally {
  items = 0;
  readonly #ackedThrough = new Map<string, number>();

  add(run: readonly Pair[]): void {
    for (const [key, value] of run) {
      if (key[0] === PREFIX.target) {
        const row = readableRow('target', key, value);
        if (row) this.#ackedThrough.set(firstKeyOf(key), row.ackedThrough);
      } else if (key[0] === PREFIX.queue) {
        const acked = this.#ackedThrough.get(firstKeyOf(key)) ?? 0;
        for (const seq of seqsIn([key, value])) if (seq > acked) this.items++;
      }
    }
  }
}

function unreadableRows(count: number): ImageUnwritten {
  return new ImageUnwritten(
    'unreadable',
    `${count} of its rows ${count === 1 ? 'is' : 'are'} damaged, and a restore refuses a backup that holds one: ` +
      'stop the relay, run poste relay log verify and then poste relay log rebuild, and take it again',
  );
}
