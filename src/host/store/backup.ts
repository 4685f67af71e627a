/**
 * A backup of a host: every row of its store at one moment, its private keys among them, in the container of
 * lib/backup-container.ts.
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, HostNameText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import { type BackupKind, writeContainer } from '../../lib/backup-container.ts';
import {
  type BackupFileOptions,
  type CheckedContainer,
  checkedContainer,
  writeBackupAside,
} from '../../lib/backup-file.ts';
import type { HostStore } from './host-store.ts';
import { PREFIX } from './keys.ts';
import { HOST_SCHEMA_VERSION } from './open.ts';

/** DO NOT CHANGE. */
const MAGIC = 'poste-host-backup 1\n';

const HostBackupHeader = Type.Object({
  host: HostNameText,
  host_pubkey: PublicKeyText,
  schema_version: Count,
  created_at: Time,
  /** The version of the software that wrote it. */
  version: Type.String(),
});
export type HostBackupHeader = Static<typeof HostBackupHeader>;

/** The container format of host backups. */
export const HOST_BACKUP: BackupKind<HostBackupHeader> = {
  magic: MAGIC,
  parseHeader: parserOf(HostBackupHeader),
  isNone: 'no backup of a host',
};

/** What the backup holds. */
export interface WrittenHostBackup extends CheckedContainer<HostBackupHeader> {
  messages: number;
}

/** The content of the store at one moment. */
export function writeHostBackup(
  store: HostStore,
  stamp: Omit<HostBackupHeader, 'schema_version'>,
): AsyncGenerator<Buffer> {
  return writeContainer(MAGIC, { ...stamp, schema_version: HOST_SCHEMA_VERSION }, store.pairs());
}

/** Writes the backup from `source` to a file. Throws `BackupUnwritten`, or what `source` throws. */
export function writeHostBackupFile(
  source: AsyncIterable<Buffer>,
  options: BackupFileOptions,
): Promise<WrittenHostBackup> {
  return writeBackupAside(source, options, checkedHostBackup);
}

/** Reads a whole backup and checks all of it. Throws `BackupDamaged`, or what `source` throws. */
export async function checkedHostBackup(source: AsyncIterable<Buffer>): Promise<WrittenHostBackup> {
  let messages = 0;
  const { checked } = await checkedContainer(source, HOST_BACKUP, (run) => {
    for (const [key] of run) if (key[0] === PREFIX.message) messages++;
  });
  return { ...checked, messages };
}
