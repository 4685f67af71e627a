/** Queues as a rebuild brings them over: the rows that the log makes, with the wire bytes that the database holds. */
import { hasHash } from '../../protocol/encodings.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { type QueueRow, isMoved } from '../core/rows.ts';
import { type NewItem, encodeRowRun, encodeWireRun, packedRuns, wireEntry } from '../store/item-run.ts';
import { payloadKey, queueKey } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { wiresAt } from '../store/queue-runs.ts';
import { rowBytes, rowOf } from '../store/row-codec.ts';
import { readAhead } from '../store/scan.ts';

/** Wire bytes that are read together. */
const WIRES_BYTES = 4 << 20;

interface QueuedRow {
  key: Buffer;
  row: QueueRow;
}

/** An item that waits; without wire bytes where these are not what was accepted. */
type WaitingItem = QueuedRow & NewItem;

/** The items of these rows, in their order, some at a time. */
export function waitingItems(level: Level, runs: AsyncIterable<readonly Pair[]>): AsyncIterable<WaitingItem[]> {
  return readAhead(queuedRows(runs), (some) => withWires(level, some));
}

/**
 * Items that are packed anew, as they are to be stored. One that was moved is a run of its own, as its wire bytes are.
 */
export function* packedAnew(items: readonly NewItem[]): Generator<Pair> {
  let unmoved: NewItem[] = [];
  const put = function* put(): Generator<Pair> {
    for (const { pairs } of packedRuns(unmoved)) yield* pairs;
    unmoved = [];
  };
  for (const item of items) {
    const { row, wire } = item;
    if (isMoved(row)) {
      // Runs are disjoint: nothing behind it may be in one with what is before.
      yield* put();
      const [key, wireKey] = [queueKey(row.targetPubkey, row.seq), payloadKey(row.payloadTarget, row.payloadSeq)];
      yield [key, encodeRowRun(key, [{ seq: row.seq, bytes: rowBytes('queue', row) }], wireKey)];
      if (wire) yield [wireKey, encodeWireRun(wireKey, [wireEntry(wireKey, row.payloadSeq, wire)])];
      continue;
    }
    if (unmoved[0] && unmoved[0].row.targetPubkey !== row.targetPubkey) yield* put();
    unmoved.push(item);
  }
  yield* put();
}

/** Items whose wire bytes are read together. */
async function* queuedRows(runs: AsyncIterable<readonly Pair[]>): AsyncGenerator<QueuedRow[]> {
  for await (const run of runs)
    yield* bySize(
      run.map(([key, value]) => {
        return { key, row: rowOf('queue', key, value) };
      }),
    );
}

/** Adds the wire bytes of those that have what was accepted. */
async function withWires(level: Level, items: readonly QueuedRow[]): Promise<WaitingItem[]> {
  const keys = items.map(({ row }) => payloadKey(row.payloadTarget, row.payloadSeq));
  const wires = await wiresAt(level, keys);
  return items.map((item, at) => {
    const wire = wires[at];
    return { ...item, wire: hasHash(wire, item.row.wireHash) ? wire : undefined };
  });
}

function* bySize<T extends { row: QueueRow }>(rows: readonly T[]): Generator<T[]> {
  let some: T[] = [];
  let bytes = 0;
  for (const one of rows) {
    some.push(one);
    bytes += one.row.bytes;
    if (bytes < WIRES_BYTES) continue;
    yield some;
    [some, bytes] = [[], 0];
  }
  if (some.length > 0) yield some;
}
