/**
 * Takes items that a relay showed, in their order: chunks, each one transaction together with how far it brings us.
 * Signatures and seals of a chunk are looked at before its transaction: whoever else writes waits for the writing alone.
 */
import type { IncomingItem } from '../../office/incoming.ts';
import type { Office } from '../../office/office.ts';
import { inspectItems, receiveItem } from '../../office/receive.ts';
import type { Transaction } from '../../store/host-store.ts';

/** Items and wire bytes of one transaction. */
const CHUNK_ITEMS_MAX = 32;
const CHUNK_BYTES_MAX = 1 << 20;

export interface Taking {
  office: Office;
  /** How many of the first items are done, in the transaction that makes it so; more than before. */
  done: (tx: Transaction, count: number) => void;
  stopping: AbortSignal;
}

/** How many of the first items are done: all, unless there is no room in the quarantine or this host stops. */
export async function takeItems(items: readonly IncomingItem[], taking: Taking): Promise<number> {
  const { office, stopping } = taking;
  let done = 0;
  while (done < items.length && !stopping.aborted) {
    const chunk = firstChunk(items.slice(done));
    const taken = await takeChunk(chunk, done, taking);
    done += taken;
    if (taken < chunk.length) {
      office.log('error', 'mail waits at the relay: the quarantine is full');
      break;
    }
  }
  return done;
}

async function takeChunk(chunk: readonly IncomingItem[], before: number, { office, done }: Taking): Promise<number> {
  const inspections = await inspectItems(office, chunk);
  return office.store.transact(async (tx) => {
    let taken = 0;
    for (const inspection of inspections) {
      const { status } = await receiveItem(tx, office, inspection);
      if (status === 'rejected') break;
      taken++;
    }
    if (taken > 0) done(tx, before + taken);
    return taken;
  });
}

function firstChunk(items: readonly IncomingItem[]): readonly IncomingItem[] {
  let bytes = 0;
  const end = items.findIndex(({ wire }, at) => {
    bytes += wire.length;
    return at > 0 && (at >= CHUNK_ITEMS_MAX || bytes > CHUNK_BYTES_MAX);
  });
  return end === -1 ? items : items.slice(0, end);
}
