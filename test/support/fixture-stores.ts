/** Stores of schemas that were released, as they lay on the disk of the software that wrote them. */
import { hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Epoch } from '../../src/protocol/names.ts';
import { BACKUP_KIND, type BackupHeader } from '../../src/relay/image/backup.ts';
import { recordAt } from '../../src/relay/store/record-run.ts';
import { levelAt, LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { POSITION_FILE, PositionFile } from '../../src/relay/store/position.ts';
import { readImage } from '../../src/lib/image.ts';
import { temporaryFolder } from './temporary-folder.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures');

/** The backup of the store of that schema. */
export function fixtureBackup(schema: number): string {
  return join(FIXTURES, `store-schema-${schema}`, 'store.backup');
}

/** A store folder of that schema, byte for byte, closed. Removed when the test ends. */
export async function fixtureStore(schema: number): Promise<{ folder: string; header: BackupHeader }> {
  const folder = await temporaryFolder();
  const { header, pairs } = await readImage(createReadStream(fixtureBackup(schema)), BACKUP_KIND);
  const level = levelAt(join(folder, LEVEL_FOLDER));
  await level.open({ createIfMissing: true });
  for await (const run of pairs) {
    const batch = level.batch();
    for (const [key, value] of run) batch.put(key, value);
    await batch.write();
  }
  const record = (await recordAt(level, header.lsn)) ?? Buffer.of();
  await level.close();
  const { file } = await PositionFile.open(join(folder, POSITION_FILE));
  const recordHash = hash('sha256', record, 'buffer');
  await file.write({ lsn: header.lsn, recordHash, epoch: header.epoch as Epoch });
  await file.close();
  return { folder, header };
}
