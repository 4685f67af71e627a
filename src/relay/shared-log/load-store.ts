/**
 * Loads what a store holds into a shared log, beside the one that the row names: the wire bytes that wait, a snapshot, and a
 * first batch without a record. The snapshot stands for that batch and everything before it: the log in the database begins
 * where the store ended. The last record of the store vouches for the rows of the snapshot.
 */
import { hasHash } from '../../protocol/digest.ts';
import type { Clock } from '../../lib/clock.ts';
import { decideCheckpoint } from '../core/decide-log.ts';
import { reduce } from '../core/reduce.ts';
import type { QueueRow } from '../core/rows.ts';
import { BatchEffects } from '../store/batch-effects.ts';
import { payloadKey } from '../store/keys.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { RowsDigest } from '../store/row-checkpoints.ts';
import { waitingRows } from '../store/scan.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { encodeShared } from './batch-body.ts';
import type { EncodedBatch, SharedLog, StoredPayload, Tenure } from './shared-log.ts';
import { type StoreImage, imageNow, writeSnapshot } from './snapshot.ts';

/** Wire bytes of one statement, about. */
const LOADED_BYTES = 4 << 20;
/** The number of the batch with which a loaded log begins. */
export const FIRST_NO = 1;
const NOTHING = { forgotten: { expiryEntries: [], dedupEntries: [], dedupRows: [] }, collected: undefined };

export interface Loaded {
  /** Items that wait, and are in the log. */
  items: number;
  /** Those whose wire bytes the store lacks: the log has none either, and their senders push them again. */
  damaged: number;
  /** Of a view that holds exactly this. */
  mark: Pick<ViewMark, 'logId' | 'no' | 'lastLsn' | 'effects'>;
}

interface LoadOptions {
  log: SharedLog;
  /** What the row says since the load began. */
  hold: Tenure;
  /** What is loaded. */
  logId: string;
  clock: Clock;
  signal: AbortSignal;
}

/** Throws `Fenced` when the row is not that of `hold` any more, and why the signal aborted. */
export async function loadStore(store: RelayStore, options: LoadOptions): Promise<Loaded> {
  const { log, hold, logId, clock, signal } = options;
  const checkpointLsn = await vouchForRows(store, clock.nowMs());
  const image = imageNow(store);
  try {
    const figures = await loadPayloads(store, image, options);
    const first = firstBatch(image.snapshot.lsn);
    await writeSnapshot({
      parts: {
        put: (part, body) => log.loadPart(hold, logId, FIRST_NO, part, body),
        get: (part) => log.snapshots.part(logId, FIRST_NO, part),
      },
      image,
      mark: first,
      checkpointLsn,
      atMs: clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      signal,
    });
    signal.throwIfAborted();
    await log.loadBatch(hold, logId, first);
    const { no, lastLsn, effects } = first;
    return { ...figures, mark: { logId, no, lastLsn, effects } };
  } finally {
    await image.snapshot.close();
  }
}

/** Appends the record that says what the rows are. Returns the one before it. */
async function vouchForRows(store: RelayStore, nowMs: number): Promise<number> {
  const digest = new RowsDigest();
  const snapshot = store.snapshot();
  try {
    for await (const run of snapshot.rows()) digest.add(run);
  } finally {
    await snapshot.close();
  }
  const throughLsn = store.lastLsn;
  const [event] = decideCheckpoint({ type: 'TakeCheckpoint', throughLsn, ...digest.taken(), nowMs }).events;
  if (!event) throw new Error('invariant: a checkpoint is an event');
  const entry = { lsn: throughLsn + 1, event };
  const node = { heartbeatMs: nowMs, lacksParts: () => true };
  await store.append({ entries: [entry], changes: reduce(entry, store), payloads: [], node });
  return throughLsn;
}

async function loadPayloads(
  store: RelayStore,
  { snapshot }: StoreImage,
  { log, hold, logId, signal }: LoadOptions,
): Promise<Pick<Loaded, 'items' | 'damaged'>> {
  const figures = { items: 0, damaged: 0 };
  let [loading, bytes]: [StoredPayload[], number] = [[], 0];
  const load = async (): Promise<void> => {
    if (loading.length > 0) await log.loadPayloads(hold, logId, loading);
    [loading, bytes] = [[], 0];
  };
  for await (const { rows } of waitingRows(snapshot.level)) {
    signal.throwIfAborted();
    const wires = await store.payloads(rows);
    for (const [at, row] of rows.entries()) {
      const wire = wires[at];
      if (!wire || !hasHash(wire, row.wireHash)) {
        figures.damaged++;
        continue;
      }
      figures.items++;
      loading.push({ place: placeOf(row), wire });
      bytes += wire.length;
      if (bytes >= LOADED_BYTES) await load();
    }
  }
  await load();
  return figures;
}

function firstBatch(lastLsn: number): EncodedBatch {
  const { effects } = new BatchEffects().taken(Buffer.alloc(0));
  const nothing = { records: [], payloads: [], dropped: [], shared: encodeShared(NOTHING) };
  return { no: FIRST_NO, firstLsn: lastLsn + 1, lastLsn, effects, ...nothing };
}

function placeOf({ payloadTarget, payloadSeq }: QueueRow): Buffer {
  return payloadKey(payloadTarget, payloadSeq).subarray(1);
}
