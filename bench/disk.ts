/**
 * What a relay keeps on disk of an item that was pushed and acked: its record, its hashes and its dedup row. Measured when the
 * relay has been idle for long enough to give the rest back, while it is open, and once more after a restart.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { IdleCompaction } from '../src/relay/jobs/idle-compaction.ts';
import { systemTimers } from '../src/lib/clock.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { sealedEnvelope } from './work.ts';

const ITEMS = 200_000;
const ITEM_BYTES = 1024;
const ITEMS_AT_ONCE = 200;
const ITEMS_PER_ACK = 2000;

export interface DiskFigures {
  items: number;
  itemBytes: number;
  /** Of the whole folder when the run ended, by all its items: before the relay was idle, after that, and after a restart. */
  busyBytesPerItem: number;
  bytesPerItem: number;
  restartedBytesPerItem: number;
}

export async function disk(): Promise<DiskFigures> {
  const relay = await BenchEngine.start({ max_sender_items: ITEMS_PER_ACK });
  try {
    const [sender, target] = [anyKey('sender'), anyKey('target')];
    await relay.enrol(target);
    for (let from = 0; from < ITEMS; from += ITEMS_AT_ONCE) {
      const items = Array.from({ length: ITEMS_AT_ONCE }, (_none, at) => {
        const id = `item-${from + at}`;
        return { sender, target, id, wire: sealedEnvelope(id, ITEM_BYTES) };
      });
      await relay.push(items, Date.now());
      if ((from + ITEMS_AT_ONCE) % ITEMS_PER_ACK !== 0) continue;
      const { engine } = relay;
      const through = engine.head(target).headSeq;
      await engine.ack({ type: 'AckItems', targetPubkey: target, epoch: engine.epoch, through, nowMs: Date.now() });
    }
    const { engine, store } = relay;
    while (store.collector.isPending) await engine.heartbeat(Date.now());
    const busyBytes = folderBytes(relay.folder);
    await idleOf(store);
    const bytes = folderBytes(relay.folder);
    // Opening writes out what only LevelDB's own log held.
    await relay.reopen();
    const restartedBytes = folderBytes(relay.folder);
    return {
      items: ITEMS,
      itemBytes: ITEM_BYTES,
      busyBytesPerItem: busyBytes / ITEMS,
      bytesPerItem: bytes / ITEMS,
      restartedBytesPerItem: restartedBytes / ITEMS,
    };
  } finally {
    await relay.remove();
  }
}

/** As the relay does when nothing was committed from one look to the next. */
async function idleOf(store: BenchEngine['store']): Promise<void> {
  const compaction = new IdleCompaction({
    store,
    hasRoomFor: () => Promise.resolve(true),
    isRead: () => false,
    write: () => Promise.resolve(),
    clock: { monotonicMs: () => performance.now() },
    timers: systemTimers,
    onCompacted: () => undefined,
    onError: (error) => {
      throw error;
    },
  });
  await compaction.look();
  await compaction.look();
  await compaction.stop();
}

export function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce((bytes, name) => {
    // A file that is deleted meanwhile has no size.
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return bytes + (found?.isFile() ? found.size : 0);
  }, 0);
}
