/**
 * A backup file (pair-file.ts): the pairs of the store at one moment, in the order of their keys. The relay's private key
 * is not in it.
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, EpochText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import type { Level, LevelSnapshot } from './level.ts';
import type { Pair } from './pair-block.ts';
import {
  BLOCK_BYTES,
  type PairFileKind,
  type ReadPairFile,
  type SaidOfDamage,
  readPairFile,
  writePairFile,
} from './pair-file.ts';
import { runsOf } from './pairs.ts';
import { WireCheck, type WireDamage } from './wire-check.ts';

const PAIRS_AT_ONCE = 512;

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

const BACKUP: PairFileKind<BackupHeader> = {
  magic: Buffer.from('poste-backup 1\n'),
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
  const ended = async (): Promise<SaidOfDamage> => {
    const damage = await check.end();
    await checked(damage);
    return { damaged_items: damage.items, unreadable_rows: damage.unreadable };
  };
  try {
    yield* writePairFile(BACKUP, header, checkedRuns(level, snapshot, check), ended);
  } finally {
    await check.close();
  }
}

async function* checkedRuns(
  level: Level,
  snapshot: LevelSnapshot | undefined,
  check: WireCheck,
): AsyncGenerator<Pair[]> {
  const reading = { pairs: PAIRS_AT_ONCE, bytes: BLOCK_BYTES, ...(snapshot && { snapshot }) };
  for await (const run of runsOf(level, {}, reading)) {
    await check.pass(run);
    yield run;
  }
}

/** Reads the beginning of a backup. Throws `PairFileDamaged`. */
export function readBackup(source: AsyncIterable<Buffer>): Promise<ReadPairFile<BackupHeader>> {
  return readPairFile(BACKUP, source);
}
