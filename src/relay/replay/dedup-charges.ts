/**
 * Counts what senders are charged for in the dedup table, and says how a rebuild ends the charge for rows that were
 * gone from the disk when their time had passed: no purge counted them, and the log goes on charging for them.
 */
import { type PublicKey, keyTextAt } from '../../protocol/public-key.ts';
import { decidePurge } from '../core/decide-queue.ts';
import { relayRow } from '../core/decision.ts';
import type { DedupPurged } from '../core/event.ts';
import { LOG_FORMAT } from '../core/log-format.ts';
import { reduce } from '../core/reduce.ts';
import type { DurableLog } from '../store/durable-log.ts';
import { PREFIX, firstKeyOf } from '../store/keys.ts';
import { LogTree } from '../store/log-tree.ts';
import { RelayStore } from '../store/relay-store.ts';
import { rowOf } from '../store/row-codec.ts';
import type { BulkDatabase } from '../store/bulk-database.ts';
import type { LogBounds } from '../store/store-reader.ts';
import { senderAt } from './replay.ts';

/** Counts what each sender key is charged for in the dedup table, and what is kept of it. */
export class DedupCharges {
  readonly #bySender = new Map<PublicKey, { charged: number; kept: number }>();

  /** Takes the rows of senders, and the dedup rows that are kept, as a scratch has them. */
  add(key: Buffer, value: Buffer): void {
    if (key[0] === PREFIX.sender) this.#of(firstKeyOf(key)).charged = rowOf('sender', key, value).dedupRows;
    else if (key[0] === PREFIX.dedup) this.#of(keyTextAt(value, senderAt(value))).kept++;
  }

  get differences(): { sender: PublicKey; charged: number; kept: number }[] {
    const all = Array.from(this.#bySender, ([sender, counts]) => ({ sender, ...counts }));
    return all.filter(({ charged, kept }) => charged !== kept);
  }

  /** The senders that are charged for more than is kept, and by how much. */
  get forgotten(): DedupPurged['senders'] {
    const { differences } = this;
    // A row of which nothing says whose it is would be counted for nobody.
    if (differences.some(({ charged, kept }) => kept > charged)) return [];
    return differences.map(({ sender, charged, kept }) => ({ senderPubkey: sender, rows: charged - kept }));
  }

  #of(sender: PublicKey): { charged: number; kept: number } {
    let counts = this.#bySender.get(sender);
    if (!counts) this.#bySender.set(sender, (counts = { charged: 0, kept: 0 }));
    return counts;
  }
}

/** Adds the event of a purge to a database that is made anew, behind its log: it ends these charges. */
export async function addPurge(
  database: BulkDatabase,
  { lastLsn, pruned }: LogBounds,
  senders: DedupPurged['senders'],
  nowMs: number,
): Promise<void> {
  await database.flush();
  const { level } = database;
  // The next start notes the position.
  const log: DurableLog = {
    isShared: false,
    format: LOG_FORMAT,
    append: async (_batch, view, written) => {
      await view.write({ sync: false });
      written();
    },
    close: () => Promise.resolve(),
  };
  const store = new RelayStore(level, log, { lastLsn, pruned }, await LogTree.open(level, lastLsn));
  const { dedupPurgedMs: beforeMs } = relayRow(store);
  const [event] = decidePurge({ type: 'PurgeDedup', beforeMs, senders, nowMs }).events;
  if (!event) throw new Error('invariant: a purge is an event');
  const entry = { lsn: lastLsn + 1, event };
  await store.append({ entries: [entry], changes: reduce(entry, store), payloads: [] });
}
