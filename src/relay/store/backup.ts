/**
 * A backup file (pair-file.ts): the pairs of the store at one moment, in the order of their keys. The relay's private key
 * is not in it.
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, EpochText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import type { Level } from './level.ts';
import { BLOCK_BYTES, type PairFileKind, type ReadPairFile, readPairFile, writePairFile } from './pair-file.ts';
import { runsOf } from './pairs.ts';

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

/** Everything that is in `level`, or in the snapshot of it. */
export function writeBackup(
  level: Level,
  header: BackupHeader,
  snapshot?: ReturnType<Level['snapshot']>,
): AsyncGenerator<Buffer> {
  const reading = { pairs: PAIRS_AT_ONCE, bytes: BLOCK_BYTES, ...(snapshot && { snapshot }) };
  return writePairFile(BACKUP, header, runsOf(level, {}, reading));
}

/** Reads the beginning of a backup. Throws `PairFileDamaged`. */
export function readBackup(source: AsyncIterable<Buffer>): Promise<ReadPairFile<BackupHeader>> {
  return readPairFile(BACKUP, source);
}
