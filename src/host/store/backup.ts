/**
 * A backup of a host: every row of its store at one moment, its private keys among them, as an
 * image (lib/image.ts).
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, HostNameText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import { type CheckedImage, type ImageKind, checkImage, writeImage } from '../../lib/image.ts';
import { type ImageFileOptions, writeImageFile } from '../../lib/image-file.ts';
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

/** The image that a backup of a host is. */
export const HOST_BACKUP: ImageKind<HostBackupHeader> = {
  magic: MAGIC,
  parseHeader: parserOf(HostBackupHeader),
  isNone: 'no backup of a host',
};

/** What the backup holds. */
export interface WrittenHostBackup extends CheckedImage<HostBackupHeader> {
  messages: number;
}

/** The content of the store at one moment. */
export function writeHostBackup(
  store: HostStore,
  stamp: Omit<HostBackupHeader, 'schema_version'>,
): AsyncGenerator<Buffer> {
  return writeImage(MAGIC, { ...stamp, schema_version: HOST_SCHEMA_VERSION }, store.pairs());
}

/** Writes the backup from `source` to a file. Throws `ImageUnwritten`, or what `source` throws. */
export function writeHostBackupFile(
  source: AsyncIterable<Buffer>,
  options: ImageFileOptions,
): Promise<WrittenHostBackup> {
  return writeImageFile(source, options, checkedHostBackup);
}

/** Reads a whole backup and checks all of it. Throws `ImageDamaged`, or what `source` throws. */
export async function checkedHostBackup(source: AsyncIterable<Buffer>): Promise<WrittenHostBackup> {
  let messages = 0;
  const { checked } = await checkImage(source, HOST_BACKUP, (run) => {
    for (const [key] of run) if (key[0] === PREFIX.message) messages++;
  });
  return { ...checked, messages };
}
