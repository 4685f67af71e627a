/**
 * A backup of a host: every row of its store at one moment, its private keys among them, as an
 * image (lib/image.ts).
 */
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, HostNameText, PublicKeyText, Time } from '../../protocol/shapes.ts';
import { type CheckedImage, type ImageKind, writeImage } from '../../lib/image.ts';
import type { HostStore } from './host-store.ts';
import { TABLES } from './tables.ts';
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

export const HOST_BACKUP: ImageKind<HostBackupHeader, { messages: number }> = {
  magic: MAGIC,
  parseHeader: parserOf(HostBackupHeader),
  noun: 'backup',
  isNone: 'no backup of a host',
  check: () => {
    let messages = 0;
    return {
      see: (run) => void (messages += run.filter(([key]) => key[0] === TABLES.message.prefix).length),
      end: () => ({ messages }),
    };
  },
};

export type WrittenHostBackup = CheckedImage<HostBackupHeader, { messages: number }>;

/** The content of the store at one moment. */
export function writeHostBackup(
  store: HostStore,
  stamp: Omit<HostBackupHeader, 'schema_version'>,
): AsyncGenerator<Buffer> {
  return writeImage(MAGIC, { ...stamp, schema_version: HOST_SCHEMA_VERSION }, store.pairs());
}
