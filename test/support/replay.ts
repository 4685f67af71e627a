/** The log against the rows: a replay through the reducers must give the very bytes that are stored. */
import { expect } from 'vitest';
import type { LogEntry } from '../../src/relay/core/event.ts';
import type { RowChange } from '../../src/relay/core/rows.ts';
import { rowKeyBytes } from '../../src/relay/store/keys.ts';
import type { StoreReader } from '../../src/relay/store/store-reader.ts';
import { encodeRow } from '../../src/relay/store/row-codec.ts';
import { collected } from './collected.ts';
import { MapRows } from '../../src/library/map-rows.ts';

/** The log and the rows say the same. */
export async function expectReplayed(store: StoreReader, pruned: readonly LogEntry[] = []): Promise<void> {
  const [stored, replayed] = await storedAndReplayed(store, pruned);
  expect(stored).toEqual(replayed);
}

/**
 * Stored and replayed rows, key to value in hexadecimal. Queue rows that are acked are left out of both; dedup rows
 * that were purged are replayed, but nobody knows them any more. `pruned` is what the log has no more.
 */
export async function storedAndReplayed(
  store: StoreReader,
  pruned: readonly LogEntry[] = [],
): Promise<[Map<string, string>, Map<string, string>]> {
  const rows = new MapRows();
  for (const { event } of pruned) rows.apply(event);
  for await (const { event } of store.read(1)) rows.apply(event);
  const acked = new Set<string>();
  const replayed = new Map<string, string>();
  for (const change of rows.all()) {
    const stored = rowKeyBytes(change.table, change.key);
    const key = stored.toString('hex');
    if (isAcked(change, rows)) acked.add(key);
    else if (change.row && !isPurged(change, rows))
      replayed.set(key, encodeRow(change.table, stored, change.row).toString('hex'));
  }
  const stored = new Map<string, string>();
  for (const [key, value] of await collected(store.rawRows())) {
    if (!acked.has(key.toString('hex'))) stored.set(key.toString('hex'), value.toString('hex'));
  }
  return [stored, replayed];
}

function isPurged({ table, row }: RowChange, rows: MapRows): boolean {
  return table === 'dedup' && row !== null && row.dedupUntilMs <= (rows.get('relay', '')?.dedupPurgedMs ?? 0);
}

function isAcked({ table, row }: RowChange, rows: MapRows): boolean {
  if (table !== 'queue' || !row) return false;
  return row.seq <= (rows.get('target', row.targetPubkey)?.ackedThrough ?? 0);
}
