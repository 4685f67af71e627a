/**
 * Follows a shared log: each batch goes whole through the same reducers into the view, with the boundaries that the
 * leader gave it. What the view makes of it is compared with what the leader made of it.
 */
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import { type Sha256Hex, hasHash } from '../../protocol/encodings.ts';
import { afterLooks } from '../core/rows.ts';
import { OverlaidRows } from '../engine/open-batch.ts';
import type { Payload } from '../store/durable-log.ts';
import { payloadKey } from '../store/keys.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { decodeShared } from './batch-body.ts';
import { type FollowedBatch, LogRefused, type SharedLog, type Tenure } from './shared-log.ts';
import type { ViewLog } from './view-log.ts';
import { isHeld } from './witness.ts';

interface FollowParts {
  log: SharedLog;
  store: RelayStore;
  view: ViewLog;
}

/** Thrown when the log does not hold what the view holds: it went back, or is another history. */
export class LogWentBack extends Error {
  constructor(no: number) {
    super(`the log does not hold batch ${no}, as this node has seen it`);
  }
}

/** Thrown when the log was pruned beyond the view while it followed. */
export class ViewTooOld extends Error {
  constructor(no: number) {
    super(`the log holds no batch ${no} any more: this view is too old to follow it`);
  }
}

/**
 * Applies what the log holds beyond the view: what was acknowledged, or everything for the tenure that leads. Returns
 * how many batches. Throws `ViewDiverged`, `LogWentBack`, `LogUnreachable`, and `ViewTooOld` when batches between the
 * two are pruned.
 */
export async function catchUp(parts: FollowParts, tenure?: Tenure, signal?: AbortSignal): Promise<number> {
  const { log, view } = parts;
  let applied = 0;
  let next = log.batches(view.logId, view.no, tenure);
  for (;;) {
    const batches = await next;
    // Asked after they were read: another server may have taken the place of the first between the two.
    const isSame = await isHeld(log, view.logId, view.mark);
    if (!isSame) throw new LogWentBack(view.no);
    const last = batches.at(-1);
    if (!last || signal?.aborted) return applied;
    // Read while these are applied. Its failure is met where it is waited for.
    next = log.batches(view.logId, last.no, tenure);
    next.catch(() => undefined);
    for (const batch of batches) {
      await applyBatch(parts, batch);
      applied++;
    }
  }
}

async function applyBatch({ log, store, view }: FollowParts, batch: FollowedBatch): Promise<void> {
  // A log that was published begins with a batch that stands for records which it never held.
  if (batch.no !== view.no + 1 || batch.firstLsn !== store.lastLsn + 1) throw new ViewTooOld(view.no + 1);
  const entries = batch.records.map((record, at) => decoded(batch.firstLsn + at, record));
  const { forgotten, collected: slice } = decodeShared(batch.shared);
  // All of the batch is reduced again after each look: the rows that it reads are looked for together.
  for (const { event } of entries)
    if (event.type === 'ItemsMoved') await store.findRows(event.oldPubkey, event.fromSeqs);
  const changes = await afterLooks(() => reducedAll(store, entries));
  const payloads = await storedPayloads(log, view.logId, entries);
  const collected = slice && (await store.collector.received(slice));
  await view.follows(batch, () =>
    store.append({ entries, changes, payloads, collected, forgotten, node: { lacksParts: () => true } }),
  );
}

/** Throws `LogRefused` for a record that this version cannot read: it stops rather than guesses. */
function decoded(lsn: number, record: Buffer): LogEntry {
  try {
    return decodeRecord(lsn, record);
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    throw new LogRefused(`this version cannot follow the log (${error.message}): start the newer software`, {
      cause: error,
    });
  }
}

function reducedAll(store: RelayStore, entries: readonly LogEntry[]): ReturnType<OverlaidRows['changes']['changes']> {
  const rows = new OverlaidRows(store);
  for (const entry of entries) for (const change of reduce(entry, rows)) rows.changes.set(change);
  return rows.changes.changes();
}

/** The wire bytes that the batch brought. A later batch may have dropped some of them. */
async function storedPayloads(log: SharedLog, logId: string, entries: readonly LogEntry[]): Promise<Payload[]> {
  const places = entries.flatMap(({ event }) => placesOf(event));
  const found = await log.payloads(
    logId,
    places.map(({ targetPubkey, seq }) => payloadKey(targetPubkey, seq).subarray(1)),
  );
  // What the view stores gets a checksum, so it must be what was accepted.
  return places.flatMap(({ wireHash, ...place }, at) => {
    const wire = found[at];
    return hasHash(wire, wireHash) ? [{ ...place, wire }] : [];
  });
}

type PlacedWire = Pick<Payload, 'targetPubkey' | 'seq'> & { wireHash: Sha256Hex };

function placesOf(event: RelayEvent): PlacedWire[] {
  if (event.type === 'ItemAccepted')
    return event.targets.map(({ hostPubkey, seq, wireHash }) => ({ targetPubkey: hostPubkey, seq, wireHash }));
  if (event.type === 'ItemsExpired')
    return event.notices.map(({ targetPubkey, seq, wireHash }) => ({ targetPubkey, seq, wireHash }));
  return [];
}
