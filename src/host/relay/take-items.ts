/**
 * Takes items that a relay showed, in their order: chunks, each one transaction together with how far it brings us.
 * Signatures and seals of a chunk are checked before its transaction, so other writers wait for the writing alone.
 */
import type { IncomingItem } from '../inbound/verify.ts';
import type { HostContext } from '../context.ts';
import { inspectItems, receiveItem } from '../inbound/receive.ts';
import type { Transaction } from '../store/host-store.ts';

/** Items and wire bytes of one transaction. */
const CHUNK_ITEMS_MAX = 32;
const CHUNK_BYTES_MAX = 1 << 20;

export interface Taking {
  context: HostContext;
  /** How many of the first items are done, in the transaction that makes it so; more than before. */
  done: (tx: Transaction, count: number) => void;
  stopping: AbortSignal;
}

/** How many of the first items are done: all, unless this host stops. */
export async function takeItems(items: readonly IncomingItem[], taking: Taking): Promise<number> {
  const { stopping } = taking;
  let done = 0;
  while (done < items.length && !stopping.aborted) {
    const chunk = firstChunk(items.slice(done));
    await takeChunk(chunk, done, taking);
    done += chunk.length;
  }
  return done;
}

async function takeChunk(chunk: readonly IncomingItem[], before: number, { context, done }: Taking): Promise<void> {
  const inspections = await inspectItems(context, chunk);
  await context.store.transact(async (tx) => {
    // Whatever becomes of an item, it is done: what cannot be let in is in quarantine, if need be without its bytes.
    for (const inspection of inspections) await receiveItem(tx, context, inspection);
    done(tx, before + chunk.length);
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
