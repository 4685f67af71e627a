/**
 * Measures what a relay keeps on disk of an item that was pushed and acked: its record, its hashes and its dedup row.
 * Measured when the relay has been idle for long enough to give the rest back, while it is open, and once more after a
 * restart.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { IdleCompaction } from '../src/relay/jobs/idle-compaction.ts';
import { systemTimers } from '../src/lib/clock.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { type Figure, grouped } from './report.ts';
import { sealedEnvelope } from './work.ts';

const ITEMS = 200_000;
const ITEM_BYTES = 1024;
const ITEMS_AT_ONCE = 200;
const ITEMS_PER_ACK = 2000;

export async function onDisk(): Promise<Figure[]> {
  const relay = await BenchEngine.start();
  try {
    const [sender, target] = [anyKey('sender'), anyKey('target')];
    await relay.enrol(target);
    for (let from = 0; from < ITEMS; from += ITEMS_AT_ONCE) {
      const items = Array.from({ length: ITEMS_AT_ONCE }, (_none, at) => {
        const id = `item-${from + at}`;
        return { sender, target, id, wire: sealedEnvelope(id, ITEM_BYTES) };
      });
      await relay.push(items, Date.now());
      if ((from + ITEMS_AT_ONCE) % ITEMS_PER_ACK === 0) await relay.ackAll(target);
    }
    await relay.collected();
    const busyBytes = folderBytes(relay.folder);
    await idleOf(relay.store);
    const bytes = folderBytes(relay.folder);
    // Opening writes out what only LevelDB's own log held.
    await relay.reopen();
    const restartedBytes = folderBytes(relay.folder);
    const note = `${grouped(ITEMS)} items of 1 KiB that were pushed and acked, and the relay idle since`;
    return [
      { name: 'an item', unit: 'bytes', better: 'less', values: [bytes / ITEMS], goal: 300, note },
      { name: 'an item, before the relay was idle', unit: 'bytes', better: 'less', values: [busyBytes / ITEMS] },
      { name: 'an item, after a restart', unit: 'bytes', better: 'less', values: [restartedBytes / ITEMS] },
    ];
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
  await compaction.run();
  await compaction.run();
  await compaction.stop();
}

export function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce((bytes, name) => {
    // A file that is deleted meanwhile has no size.
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return bytes + (found?.isFile() ? found.size : 0);
  }, 0);
}
