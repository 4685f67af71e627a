/** Backups and restores inside the process of a test, over stores that no relay serves from. */
import { randomBytes } from 'node:crypto';
import { type Epoch, randomEpoch } from '../../src/protocol/names.ts';
import { type RestoreOptions, type RestoreReport, restoreRelay } from '../../src/relay/image/restore.ts';
import type { Engine } from '../../src/relay/engine/engine.ts';
import { writeImageFile } from '../../src/lib/image-file.ts';
import { BACKUP_KIND, type WrittenBackup, backupOf } from '../../src/relay/image/backup.ts';
import { relay as relayHost } from './hosts.ts';
import type { TestRelay } from './test-relay.ts';

/** Epochs that no two stores of a test share. */
export function anyEpoch(): Epoch {
  return randomEpoch(randomBytes);
}

/** Returns what an engine holds at this moment, as `file`. */
export function backUp({ engine, clock }: TestRelay, file: string): Promise<WrittenBackup> {
  return backUpEngine(engine, clock.nowMs, file);
}

export async function backUpEngine(engine: Engine, nowMs: number, file: string): Promise<WrittenBackup> {
  const snapshot = await engine.snapshot();
  try {
    const chunks = backupOf(snapshot, { created_at: nowMs, version: '0.0.0-test' });
    return await writeImageFile(chunks, { path: file, replaces: false }, BACKUP_KIND);
  } finally {
    await snapshot.close();
  }
}

/** Restores `file` into `folder` with the key of the test relay, unasked. */
export function restored(
  file: string,
  folder: string,
  nowMs: number,
  changes: Partial<RestoreOptions> = {},
): Promise<RestoreReport> {
  return restoreRelay({
    file,
    folder,
    signer: relayHost.signer,
    nowMs,
    newEpoch: anyEpoch,
    isRehearsal: false,
    acceptsUnreadable: false,
    confirm: () => Promise.resolve(),
    ...changes,
  });
}
