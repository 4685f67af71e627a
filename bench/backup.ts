/** Measures how fast a store of mail becomes a backup file, and how fast that becomes a store again. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomEpoch } from '../src/protocol/names.ts';
import { restoreRelay } from '../src/relay/image/restore.ts';
import { writeImageFile } from '../src/lib/image-file.ts';
import { BACKUP_KIND, backupOf } from '../src/relay/image/backup.ts';
import { readRelayKey } from '../src/relay/store/relay-key.ts';
import { runsOf } from '../src/relay/store/scan.ts';
import type { StoreSnapshot } from '../src/relay/store/store-reader.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { type Figure, less, more } from './report.ts';

const ITEMS = 8_000;
const ITEM_BYTES = 16_384;
const ITEMS_AT_ONCE = 100;

export async function backups(): Promise<Figure[]> {
  const relay = await BenchEngine.start();
  const folder = mkdtempSync(join(tmpdir(), 'poste-bench-'));
  try {
    const [sender, target] = [anyKey('sender'), anyKey('target')];
    await relay.enrol(target);
    for (let from = 0; from < ITEMS; from += ITEMS_AT_ONCE) {
      const items = Array.from({ length: ITEMS_AT_ONCE }, (_none, at) => ({
        sender,
        target,
        id: `item-${from + at}`,
        // Sealed mail as it is: base64 of what looks like noise.
        wire: Buffer.from(randomBytes((ITEM_BYTES * 3) / 4).toString('base64')),
      }));
      await relay.push(items, Date.now());
    }
    const file = join(folder, 'backup');
    const snapshot = await relay.engine.snapshot();
    const begun = performance.now();
    const stamp = { created_at: Date.now(), version: 'bench' };
    const written = await writeImageFile(backupOf(snapshot, stamp), { path: file, replaces: false }, BACKUP_KIND);
    const backupS = (performance.now() - begun) / 1000;
    const bareMbPerS = await bareCopy(snapshot, join(folder, 'bare'));
    await snapshot.close();
    const signer = await readRelayKey(relay.folder);
    if (!signer) throw new Error('invariant: the store of a benchmark has its key beside it');
    const restoring = performance.now();
    await restoreRelay({
      file,
      folder: join(folder, 'restored'),
      signer,
      nowMs: Date.now(),
      newEpoch: () => randomEpoch(randomBytes),
      isRehearsal: false,
      acceptsUnreadable: false,
      confirm: () => Promise.resolve(),
    });
    const restoreS = (performance.now() - restoring) / 1000;
    const contentMb = written.contentBytes / 1e6;
    const [backupMbPerS, restoreMbPerS] = [contentMb / backupS, contentMb / restoreS];
    const note = 'of content';
    return [
      less('content', 'MB', contentMb),
      less('file', 'MB', written.bytes / 1e6),
      { ...more('backup', 'MB/s', backupMbPerS, 150), note },
      { ...more('restore', 'MB/s', restoreMbPerS, 150), note },
      more('backup / bare copy', 'ratio', backupMbPerS / bareMbPerS),
      more('restore / bare copy', 'ratio', restoreMbPerS / bareMbPerS),
    ];
  } finally {
    await relay.remove();
    rmSync(folder, { recursive: true });
  }
}

async function bareCopy({ level, handle }: StoreSnapshot, path: string): Promise<number> {
  const begunMs = performance.now();
  const file = await open(path, 'wx');
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const run of runsOf(level, {}, { snapshot: handle })) {
    const block = Buffer.concat(run.flat());
    hash.update(block);
    await file.writeFile(block);
    bytes += block.length;
  }
  await file.sync();
  await file.close();
  return bytes / 1e3 / (performance.now() - begunMs);
}
