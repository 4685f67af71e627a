/**
 * A backup of a relay: everything that is in its database at one moment, in the container of
 * system/backup-container.ts. The relay's private key is not in it.
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, EpochText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import { type BackupKind, type ReadContainer, readContainer, writeContainer } from '../../system/backup-container.ts';
import type { Pair } from '../../system/pair-block.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { runsOf } from './pairs.ts';
import { WireCheck, type WireDamage } from './wire-check.ts';

/** DO NOT CHANGE. */
const MAGIC = 'poste-backup 1\n';
const PAIRS_AT_ONCE = 512;
const READ_BYTES = 1 << 20;

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

/** How a backup of a relay is told from others. */
export const BACKUP_KIND: BackupKind<BackupHeader> = {
  magic: MAGIC,
  parseHeader: parserOf(BackupHeader),
  isNone: 'no backup of a relay',
};

/**
 * Everything that is in `level`, or in the snapshot of it, as it is: wire bytes that are missing or altered too, which a
 * restore drops. The trailer counts those, and comes when `checked` was told of them and is done.
 */
export async function* writeBackup(
  level: Level,
  header: BackupHeader,
  snapshot?: LevelSnapshot,
  checked: (damage: WireDamage) => Promise<void> = () => Promise.resolve(),
): AsyncGenerator<Buffer> {
  const check = new WireCheck(level, snapshot);
  try {
    yield* writeContainer(MAGIC, header, checkedRuns(level, snapshot, check), async () => {
      const damage = await check.end();
      await checked(damage);
      return { damaged_items: damage.items, unreadable_rows: damage.unreadable };
    });
  } finally {
    await check.close();
  }
}

/** Reads the beginning of a backup. Throws `BackupDamaged`. */
export function readBackup(source: AsyncIterable<Buffer>): Promise<ReadContainer<BackupHeader>> {
  return readContainer(source, BACKUP_KIND);
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
  }
}
