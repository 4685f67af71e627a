/** The queues of a database in either form that rows and wire bytes have: alone, as schema 2 wrote them, or in runs. */
import type { Pair } from '../../src/lib/pair-block.ts';
import { isMoved } from '../../src/relay/core/rows.ts';
import { type NewItem, RUN_ROWS_MAX, decodeWireRun, packedRuns, queueRowsOf } from '../../src/relay/store/item-run.ts';
import { PREFIX, firstKeyOf, payloadKey, prefixRange, queueKey, seqOf } from '../../src/relay/store/keys.ts';
import type { Level } from '../../src/relay/store/level.ts';
import { SCHEMA_VERSION, schemaMark } from '../../src/relay/store/marks.ts';
import { encodeRow } from '../../src/relay/store/row-codec.ts';

export type QueueForm = 'alone' | 'in runs';

/**
 * Writes every queue anew in this form, with its wire bytes; or in runs of so many rows each as `form` says, as far as
 * they are neighbours, 0 for a row alone. Rows that were moved stay as they lie, and so do those whose run they left.
 */
export async function writeQueues(level: Level, form: QueueForm | (() => number)): Promise<void> {
  const lengthOf = typeof form === 'function' ? form : () => (form === 'alone' ? 0 : RUN_ROWS_MAX);
  const batch = level.batch().put(...schemaMark(SCHEMA_VERSION));
  let run: NewItem[] = [];
  let length = lengthOf();
  const pack = (): void => {
    for (const [key, value] of length === 0 ? alone(run) : [...packedRuns(run)].flatMap(({ pairs }) => pairs))
      batch.put(key, value);
    run = [];
    length = lengthOf();
  };
  for (const pair of await level.iterator(prefixRange(PREFIX.queue)).all()) {
    const items = await itemsOf(level, pair);
    if (!items) pack();
    else batch.del(pair[0]).del(wireKeyOf(pair[0]));
    for (const item of items ?? []) {
      const isOther = run[0] && run[0].row.targetPubkey !== item.row.targetPubkey;
      if (run.length >= Math.max(1, length) || isOther) pack();
      run.push(item);
    }
  }
  pack();
  await batch.write();
}

function wireKeyOf(rowKey: Buffer): Buffer {
  return payloadKey(firstKeyOf(rowKey), seqOf(rowKey));
}

/** `undefined` where others name these wire bytes, or these rows name others. */
async function itemsOf(level: Level, pair: Pair): Promise<NewItem[] | undefined> {
  const rows = queueRowsOf(pair);
  const wireKey = wireKeyOf(pair[0]);
  const stored = await level.get(wireKey);
  if (!stored || rows.some(isMoved)) return undefined;
  if (rows[0]?.payloadBound === undefined) return rows.map((row) => ({ row, wire: stored }));
  const entries = decodeWireRun(wireKey, stored) ?? [];
  const isOwn = entries.map(({ seq }) => seq).join() === rows.map(({ seq }) => seq).join();
  return isOwn ? rows.map((row, at) => ({ row, wire: entries[at]!.wire })) : undefined;
}

function alone(items: readonly NewItem[]): Pair[] {
  return items.flatMap(({ row, wire }): Pair[] => {
    const key = queueKey(row.targetPubkey, row.seq);
    return [
      [key, encodeRow('queue', key, row)],
      [wireKeyOf(key), wire!],
    ];
  });
}
