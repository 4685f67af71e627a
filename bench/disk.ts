/** What a relay keeps on disk of an item that was pushed and acked long ago: its record, its hashes and its dedup row. */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BenchEngine, anyKey } from './engine.ts';
import { sealedEnvelope } from './work.ts';

const ITEMS = 200_000;
const ITEM_BYTES = 1024;
const ITEMS_AT_ONCE = 200;
const ITEMS_PER_ACK = 2000;
/** The first half fills what is kept for reuse; what the second half adds is what an item costs. */
const WARM_ITEMS = ITEMS / 2;

export interface DiskFigures {
  items: number;
  itemBytes: number;
  /** Of the whole folder when the run ended, by all its items. */
  bytesPerItem: number;
  /** What the second half of the run added, by its items. */
  addedBytesPerItem: number;
}

export async function disk(): Promise<DiskFigures> {
  const relay = await BenchEngine.start({ max_sender_items: ITEMS_PER_ACK });
  try {
    const [sender, target] = [anyKey('sender'), anyKey('target')];
    await relay.enrol(target);
    let warmBytes = 0;
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
      if (from + ITEMS_AT_ONCE === WARM_ITEMS) {
        await relay.reopen();
        warmBytes = folderBytes(relay.folder);
      }
    }
    // Opening writes out what only LevelDB's own log held.
    await relay.reopen();
    const bytes = folderBytes(relay.folder);
    return {
      items: ITEMS,
      itemBytes: ITEM_BYTES,
      bytesPerItem: bytes / ITEMS,
      addedBytesPerItem: (bytes - warmBytes) / (ITEMS - WARM_ITEMS),
    };
  } finally {
    await relay.remove();
  }
}

export function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce((bytes, name) => {
    // A file that is deleted meanwhile has no size.
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return bytes + (found?.isFile() ? found.size : 0);
  }, 0);
}
