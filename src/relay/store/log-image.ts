/**
 * What a database holds of the log at one moment, byte for byte: every row, what is due, how far queues are collected, the
 * hash trees, and the newest records, of which a tree needs those that no full tile holds.
 *
 * Left out are what is of one node alone (heartbeat, mark of the view, checkpoints, mark of pruning), the records before,
 * which the log has, and wire bytes.
 */
import type { Pair } from '../../lib/pair-block.ts';
import { PREFIX, REPLAYED_TABLES, logKey, prefixRange } from './keys.ts';
import type { RelayStore } from './relay-store.ts';
import { type KeyRange, runsOf } from './scan.ts';
import { type StoreSnapshot, TURN } from './store-reader.ts';

export interface StoreImage {
  snapshot: StoreSnapshot;
  /** The first record in it. */
  keptFromLsn: number;
}

const KINDS = ['schema', 'log', 'tile', 'logLink', ...REPLAYED_TABLES, 'expiry', 'collected', 'dedupUntil'] as const;
const PREFIXES = KINDS.map((kind) => PREFIX[kind]).toSorted((a, b) => a - b);

/** To be taken while no batch is in flight; the snapshot is to be closed. */
export function imageNow(store: RelayStore): StoreImage {
  // The last record shows how far the log has come.
  const goneLsn = Math.min(store.tree.prunableThrough, store.lastLsn - 1);
  return { snapshot: store.snapshot(), keptFromLsn: goneLsn + 1 };
}

/** Its pairs in the order of their keys, in runs of one turn of the event loop. */
export async function* imagePairs({ snapshot, keptFromLsn }: StoreImage): AsyncGenerator<Pair[]> {
  const { level, handle, lsn } = snapshot;
  for (const prefix of PREFIXES) {
    const range: KeyRange =
      prefix === PREFIX.log ? { gte: logKey(keptFromLsn), lte: logKey(lsn) } : prefixRange(prefix);
    yield* runsOf(level, range, { snapshot: handle, ...TURN });
  }
}
