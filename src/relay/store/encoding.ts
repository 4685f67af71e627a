/** A batch of the relay's store as keys and values, with those of its parts that are no rows (relay-store.ts). */
import type { Epoch } from '../../protocol/names.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import { type CollectedSlice, collectedMark } from './collect.ts';
import { DueEntries } from './due.ts';
import type { BatchEffects, BatchWrites, CheckpointWrite, Forgotten, Payload } from './durable-log.ts';
import { packedRuns } from './item-run.ts';
import {
  PREFIX,
  checkpointKey,
  checkpointPartKey,
  dedupKey,
  dueKey,
  payloadKey,
  queueKey,
  rowKeyBytes,
} from './keys.ts';
import type { Level } from './level.ts';
import type { Growth } from './log-tree.ts';
import { RunEdits } from './run-edits.ts';
import { checkpointPart } from './row-checkpoints.ts';
import { encodeRow } from './row-codec.ts';

/** LevelDB batches that are given as arrays cost ten times as much of the event loop. */
export type LevelBatch = ReturnType<Level['batch']>;

/** A batch as keys and values. */
export class Encoding {
  readonly writes: LevelBatch;
  readonly effects: BatchEffects | undefined;
  /** The writes that every copy of the log does alike; the rest is of this node alone, or follows from the records. */
  readonly shared: BatchWrites;
  readonly firstLsn: number;
  readonly growth: Growth;
  readonly records: Buffer[] = [];
  readonly due = new DueEntries();
  /** The keys of dedup rows that were not there before the batch. */
  readonly newDedupKeys: Buffer[] = [];
  /** What it does to runs that are stored: added when the database shows every batch before. */
  readonly edits = new RunEdits();
  readonly #rows = new Map<PublicKey, QueueRow[]>();
  /** The one that the batch sets. */
  epoch: Epoch | undefined;

  constructor(
    writes: LevelBatch,
    effects: BatchEffects | undefined,
    { firstLsn, growth }: { firstLsn: number; growth: Growth },
  ) {
    this.writes = writes;
    this.effects = effects;
    this.shared = effects ? bothOf(writes, effects) : writes;
    this.firstLsn = firstLsn;
    this.growth = growth;
  }

  get lastLsn(): number {
    return this.firstLsn + this.records.length - 1;
  }

  /** A row of an item that is new in its queue. */
  addItem(row: QueueRow): void {
    const rows = this.#rows.get(row.targetPubkey);
    if (rows) rows.push(row);
    else this.#rows.set(row.targetPubkey, [row]);
  }

  /**
   * The items that were added, in runs, with their wire bytes. Of other wire bytes only those stay whose item was moved
   * within the batch.
   */
  *itemPairs(payloads: readonly Payload[]): Generator<Pair> {
    const wires = new Map<PublicKey, Map<number, Buffer>>();
    for (const { targetPubkey, seq, wire } of payloads) {
      const ofTarget = wires.get(targetPubkey);
      if (ofTarget) ofTarget.set(seq, wire);
      else wires.set(targetPubkey, new Map([[seq, wire]]));
    }
    for (const [target, rows] of this.#rows) {
      const ofTarget = wires.get(target);
      const items = rows.map((row) => ({ row, wire: ofTarget?.get(row.seq) }));
      for (const { row } of items) ofTarget?.delete(row.seq);
      for (const { pairs, first, bound } of packedRuns(items.toSorted((a, b) => a.row.seq - b.row.seq))) {
        yield* pairs;
        this.edits.fresh.push({ target, first, bound });
      }
    }
    for (const [targetPubkey, ofTarget] of wires)
      for (const [seq, wire] of ofTarget)
        if (this.edits.moves({ targetPubkey, seq })) yield [payloadKey(targetPubkey, seq), wire];
  }
}

function bothOf(one: BatchWrites, other: BatchWrites): BatchWrites {
  return {
    put: (key, value) => {
      one.put(key, value);
      other.put(key, value);
    },
    del: (key) => {
      one.del(key);
      other.del(key);
    },
  };
}

export function* forgottenKeys({ expiryEntries, dedupEntries, dedupRows }: Forgotten): Generator<Buffer> {
  for (const { dueMs, lsn } of expiryEntries) yield dueKey(PREFIX.expiry, dueMs, lsn);
  for (const { dueMs, lsn } of dedupEntries) yield dueKey(PREFIX.dedupUntil, dueMs, lsn);
  for (const name of dedupRows) yield dedupKey(name);
}

export function addCheckpoint(writes: LevelBatch, write: CheckpointWrite): void {
  if (write.type === 'part') writes.put(...checkpointPart(write));
  else if (write.type === 'drop part') writes.del(checkpointPartKey(write.throughLsn, write.part));
  else writes.del(checkpointKey(write.throughLsn));
}

export function addHeartbeat(writes: LevelBatch, atMs: number): void {
  const key = rowKeyBytes('heartbeat', rowKey.heartbeat);
  writes.put(key, encodeRow('heartbeat', key, { atMs }));
}

export function addCollected({ shared, effects, edits }: Encoding, slice: CollectedSlice): void {
  const { targetPubkey, items, through } = slice;
  for (const { seq, payloadTarget, payloadSeq } of effects ? items : []) {
    effects?.del(queueKey(targetPubkey, seq));
    effects?.del(payloadKey(payloadTarget, payloadSeq));
  }
  edits.collect(slice);
  shared.put(...collectedMark(targetPubkey, through));
}
