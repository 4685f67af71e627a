/** Every item that waits in a store, for what looks at it as a whole. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QueueRow, TargetRow } from '../core/rows.ts';
import { PREFIX, firstKeyOf, prefixRange, queueRowKey, seqOf } from './keys.ts';
import type { Level } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { tableRows } from './table-rows.ts';

/** Items at a time: their wire bytes are to fit into memory. */
const ROWS_AT_ONCE = 64;
const READ_BYTES = 1 << 20;

export interface WaitingRows {
  rows: QueueRow[];
  /** Rows among them that cannot be read. */
  unreadable: number;
}

export async function* waitingRows(level: Level): AsyncGenerator<WaitingRows> {
  const ackedThrough = new Map<PublicKey, number>();
  for await (const listed of tableRows(level, 'target')) {
    if (listed) ackedThrough.set(listed[0] as PublicKey, listed[1].ackedThrough);
  }
  const iterator = level.iterator({ ...prefixRange(PREFIX.queue), fillCache: false, highWaterMarkBytes: READ_BYTES });
  try {
    for (;;) {
      const run = await iterator.nextv(ROWS_AT_ONCE);
      if (run.length === 0) return;
      const waiting = run.filter(([key]) => seqOf(key) > (ackedThrough.get(firstKeyOf(key)) ?? 0));
      const rows = waiting.flatMap(([key, value]) => readableQueueRow(key, value) ?? []);
      yield { rows, unreadable: waiting.length - rows.length };
    }
  } finally {
    await iterator.close();
  }
}

/** `undefined` for a row that cannot be read. */
export function readableQueueRow(key: Buffer, value: Buffer): QueueRow | undefined {
  try {
    return decodeRow('queue', queueRowKey(key), value);
  } catch {
    return undefined;
  }
}

/** As `readableQueueRow`. */
export function readableTargetRow(key: Buffer, value: Buffer): TargetRow | undefined {
  try {
    return decodeRow('target', firstKeyOf(key), value);
  } catch {
    return undefined;
  }
}
