/**
 * Makes of a view a store with a log of its own: what a log leaves behind when it comes back from elsewhere, or when a move
 * is given up. First the position outside LevelDB, then one synced batch, so that a crash between the two leaves a view.
 */
import { hash } from 'node:crypto';
import { rowKey } from '../core/rows.ts';
import { VIEW_KEY, logKey, rowKeyBytes } from './keys.ts';
import type { Level } from './level.ts';
import { checkNewestRecords } from './open.ts';
import { PositionFile } from './position.ts';
import { encodeRow } from './row-codec.ts';
import { StoreReader } from './store-reader.ts';

/**
 * `level` is open, and stays so. The caller knows that it holds all of the log: so the heartbeat, which a view has not, is of
 * now. Throws `DamagedRecord`.
 */
export async function becomeOwnLog(level: Level, positionPath: string, nowMs: number): Promise<void> {
  const bounds = await checkNewestRecords(level);
  const last = await level.get(logKey(bounds.lastLsn));
  const relay = new StoreReader(level, bounds).get('relay', rowKey.relay);
  if (!last || !relay) throw new Error('invariant: a log that moves has a record, and its relay row');
  const { file } = await PositionFile.open(positionPath);
  try {
    await file.write({ lsn: bounds.lastLsn, recordHash: hash('sha256', last, 'buffer'), epoch: relay.epoch });
  } finally {
    await file.close();
  }
  const heartbeat = rowKeyBytes('heartbeat', rowKey.heartbeat);
  const writes = level.batch();
  writes.del(VIEW_KEY);
  writes.put(heartbeat, encodeRow('heartbeat', heartbeat, { atMs: nowMs }));
  await writes.write({ sync: true });
}
