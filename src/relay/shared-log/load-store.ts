/**
 * Loads what a store holds into a shared log, beside the one that the row names: the wire bytes that wait, and a first batch
 * without a record. That batch stands for everything before it: the log in the database begins where the store ended.
 */
import { hasHash } from '../../protocol/digest.ts';
import type { QueueRow } from '../core/rows.ts';
import { BatchEffects } from '../store/batch-effects.ts';
import { payloadKey } from '../store/keys.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { waitingRows } from '../store/scan.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { encodeShared } from './batch-body.ts';
import type { EncodedBatch, SharedLog, StoredPayload, Tenure } from './shared-log.ts';

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

/** Throws `Fenced` when the row is not that of `hold` any more. */
export async function loadStore(log: SharedLog, hold: Tenure, logId: string, store: RelayStore): Promise<Loaded> {
  const snapshot = store.snapshot();
  try {
    let [items, damaged] = [0, 0];
    let loading: StoredPayload[] = [];
    const load = async (): Promise<void> => {
      if (loading.length > 0) await log.loadPayloads(hold, logId, loading);
      loading = [];
    };
    for await (const { rows } of waitingRows(snapshot.level)) {
      for (const [at, wire] of (await store.payloads(rows)).entries()) {
        const row = rows[at];
        const isWhole = row && wire && hasHash(wire, row.wireHash);
        if (isWhole) loading.push({ place: placeOf(row), wire });
        else damaged++;
        items++;
        if (loading.reduce((sum, one) => sum + one.wire.length, 0) >= LOADED_BYTES) await load();
      }
    }
    await load();
    const first = firstBatch(snapshot.lsn);
    await log.loadBatch(hold, logId, first);
    const { no, lastLsn, effects } = first;
    return { items: items - damaged, damaged, mark: { logId, no, lastLsn, effects } };
  } finally {
    await snapshot.close();
  }
}

function firstBatch(lastLsn: number): EncodedBatch {
  const { effects } = new BatchEffects().taken(Buffer.alloc(0));
  const nothing = { records: [], payloads: [], dropped: [], shared: encodeShared(NOTHING) };
  return { no: FIRST_NO, firstLsn: lastLsn + 1, lastLsn, effects, ...nothing };
}

function placeOf({ payloadTarget, payloadSeq }: QueueRow): Buffer {
  return payloadKey(payloadTarget, payloadSeq).subarray(1);
}
