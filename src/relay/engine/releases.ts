/**
 * Releases items from their queue: by acks, and by time.
 *
 * An ack goes in steps where many senders are concerned. A crash between two steps leaves the released items released.
 * Items that are acked after their retention time are kept known (`DedupExtended`) in the same batch as the ack.
 *
 * With time items expire, their senders get a notice, and dedup rows are forgotten: some entries of what is due at a
 * time, queue by queue, in batches that hold the event loop for a few milliseconds. So a run of items that came
 * together, if milliseconds apart, is written anew a few times and not once an item. A crash leaves the entries, and
 * the next sweep finds the rest of them. Where the rows of a queue are at fault, or an entry is damaged, the items stay
 * where they are, with the entries that name them, and the sweep goes on to the next.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AckItems, ExpireItems } from '../core/command.ts';
import type { AckOutcome, Refusal } from '../core/decision.ts';
import type { RelayEvent } from '../core/event.ts';
import type { Released } from '../core/queue-index.ts';
import { afterLooks } from '../core/rows.ts';
import type { EngineParts } from './parts.ts';
import { brokenQueueRefusal, isBrokenQueue } from './queues.ts';
import { AdaptiveBatch, TimeSlice } from '../../lib/clock.ts';
import {
  EXTENDED_AT_ONCE,
  decideAck,
  decideExtend,
  type DecidedExpiry,
  EXPIRED_AT_ONCE,
  decideExpire,
  decidePurge,
  dueItems,
  signNotice,
} from '../core/decide-queue.ts';
import type { StopSignal } from '../../lib/periodic-task.ts';
import type { DueItems as DueEntry } from '../store/due.ts';
import type { DueEntryName } from '../store/durable-log.ts';

const NOTHING: Released = { through: 0, items: 0, bytes: 0, notices: 0, shares: [] };
/** Senders whose shares one step releases: each is a row to read and to write. */
const ACK_SENDERS_MAX = 250;

export class Acks {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  async ack(command: AckItems): Promise<AckOutcome | Refusal> {
    try {
      const done = { deleted: 0 };
      return await afterLooks(() => this.#ack(command, done));
    } catch (error) {
      if (!isBrokenQueue(error)) throw error;
      return this.#parts.committer.answer(brokenQueueRefusal());
    }
  }

  /** `done`: what earlier steps released. */
  async #ack(command: AckItems, done: { deleted: number }): Promise<AckOutcome | Refusal> {
    const { committer, queues, monotonicMs } = this.#parts;
    const { targetPubkey, through, nowMs } = command;
    const slice = new TimeSlice(monotonicMs);
    const batch = new AdaptiveBatch(EXTENDED_AT_ONCE, monotonicMs);
    for (;;) {
      await queues.migrated(targetPubkey);
      if (committer.isFull) {
        await committer.room();
        continue;
      }
      // Some acks need no look at the queue, for which the index of 10,000 items may have to be read.
      const early = decideAck(command, committer, NOTHING);
      if (early.type === 'Refusal' || early.outcome.ackedThrough >= through) return committer.answer(early);
      const index = queues.index(targetPubkey);
      if (!index) {
        await queues.loadIndex(targetPubkey);
        continue;
      }
      const lacks = queues.lacks(targetPubkey, index);
      if (lacks) {
        if (await lacks) return committer.answer(brokenQueueRefusal());
        continue;
      }
      let released = index.released(through, ACK_SENDERS_MAX);
      const late = index.late(released.through, nowMs, batch.size);
      const lastLate = late.at(-1);
      if (lastLate !== undefined && late.length === batch.size) released = index.released(lastLate, ACK_SENDERS_MAX);
      const decision = decideAck(command, committer, released);
      if (decision.type === 'Refusal') return committer.answer(decision);
      // In one admission: where the queue is at fault, a retried ack must not extend the same items again and again.
      batch.run(() => committer.admit([...this.#extended(targetPubkey, late, nowMs), ...decision.events]));
      const { outcome } = decision;
      done.deleted += outcome.deleted;
      if (decision.events.length === 0 || outcome.ackedThrough >= through) {
        return committer.answer({ ...decision, events: [], outcome: { ...outcome, ...done } });
      }
      if (slice.isOver) await slice.pause();
    }
  }

  /** Items acked after their time stay known for the whole horizon from now on. */
  #extended(targetPubkey: PublicKey, seqs: number[], nowMs: number): readonly RelayEvent[] {
    if (seqs.length === 0) return [];
    const { committer, settings } = this.#parts;
    const command = { type: 'ExtendDedup', targetPubkey, seqs, nowMs } as const;
    return decideExtend(command, committer, settings).events;
  }
}

interface Pace {
  timeSlice: TimeSlice;
  batch: AdaptiveBatch;
}

export class Expiry {
  readonly #parts: EngineParts;
  /** The time of the first entry that the last sweep left: its items still wait, so they stay known. */
  #leftFromMs = Infinity;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /**
   * Expires everything whose time has come, until `signal` aborts: of each thousand items by target. Reads `nowMs` once
   * for these: with a clock set back in their middle, some would be passed over and their entry forgotten all the same.
   */
  async expire(nowMs: () => number, signal: StopSignal): Promise<void> {
    const { store, committer, monotonicMs } = this.#parts;
    const pace = { timeSlice: new TimeSlice(monotonicMs), batch: new AdaptiveBatch(EXPIRED_AT_ONCE, monotonicMs) };
    this.#leftFromMs = Infinity;
    for (let after: DueEntryName | undefined; !signal.aborted; ) {
      const atMs = nowMs();
      const due = await store.due.items(atMs, after);
      if (due.length === 0) return;
      const stay = new Set<PublicKey>();
      for (const queue of await this.#found(byTarget(due))) {
        const isExpired = await this.#expireQueue({ type: 'ExpireItems', nowMs: atMs, ...queue }, pace);
        if (!isExpired) stay.add(queue.targetPubkey);
      }
      const isLeft = ({ targets }: DueEntry): boolean => !targets || [...targets.keys()].some((key) => stay.has(key));
      const left = due.filter(isLeft);
      const expiryEntries = due.filter((entry) => !isLeft(entry));
      if (expiryEntries.length > 0) committer.add({ forgotten: { expiryEntries, dedupEntries: [], dedupRows: [] } });
      after = left.at(-1) ?? after;
      this.#leftFromMs = Math.min(this.#leftFromMs, left[0]?.dueMs ?? Infinity);
      await committer.durable();
    }
  }

  /** Forgets the dedup rows whose horizon has passed; only after `expire`, so that no waiting item is forgotten. */
  async purgeDedup(nowMs: () => number, signal: StopSignal): Promise<void> {
    const { store, committer } = this.#parts;
    while (!signal.aborted) {
      const atMs = nowMs();
      const due = await store.due.dedup(Math.min(atMs, this.#leftFromMs));
      if (!due) return;
      const senders = Array.from(due.senders, ([senderPubkey, rows]) => ({ senderPubkey, rows }));
      const decision = decidePurge({ type: 'PurgeDedup', beforeMs: due.dueMs, senders, nowMs: atMs });
      committer.admit(decision.events);
      committer.add({ forgotten: due.forgotten });
      await committer.durable();
    }
  }

  /** Looks for the rows of all queues before anything is decided, so that what they lose comes in few batches. */
  async #found(queues: readonly DueQueue[]): Promise<DueQueue[]> {
    const found: DueQueue[] = [];
    // A row alone is looked for where it is not under its own key: that is seldom.
    for (const queue of queues) {
      const { targetPubkey, seqs } = queue;
      found.push(seqs.length < 2 ? queue : { ...queue, runs: await this.#parts.store.findRows(targetPubkey, seqs) });
    }
    return found;
  }

  /** Says whether all items of the command are gone. */
  async #expireQueue({ seqs, runs, ...command }: ExpireItems & DueQueue, { timeSlice, batch }: Pace): Promise<boolean> {
    const left = [...seqs];
    const marks = [...runs];
    let isDone = true;
    try {
      while (left.length > 0) {
        if (timeSlice.isOver) await timeSlice.pause();
        const size = batch.sizeOf(marks);
        marks.splice(0, size);
        const slice = { ...command, seqs: left.splice(0, size) };
        const isExpired = await afterLooks(() => this.#expireSlice(slice, batch));
        isDone &&= isExpired;
      }
      return isDone;
    } catch (error) {
      const fault = this.#parts.queues.faultAt(command.targetPubkey, error);
      if (!isBrokenQueue(fault)) throw fault;
      return false;
    }
  }

  /** As above. A sender whose own queue is at fault can get no notice, so its items stay. */
  async #expireSlice(slice: ExpireItems, batch: AdaptiveBatch): Promise<boolean> {
    const { committer, settings, queues } = this.#parts;
    let command = slice;
    for (;;) {
      const { due, tellAt } = dueItems(command, committer);
      const keys = [command.targetPubkey, ...tellAt.values()];
      const wait = committer.isFull ? committer.room() : queues.waitFor(keys);
      if (!wait) {
        batch.run(() => this.#admit(decideExpire(command, committer, settings, { due, tellAt })));
        return command.seqs.length === slice.seqs.length;
      }
      try {
        await wait;
      } catch (error) {
        if (!isBrokenQueue(error) || error.targetPubkey === command.targetPubkey) throw error;
        const tellable = due.filter(({ senderPubkey }) => tellAt.get(senderPubkey) !== error.targetPubkey);
        if (tellable.length === due.length) throw error;
        command = { ...slice, seqs: tellable.map(({ seq }) => seq) };
      }
    }
  }

  #admit(decision: DecidedExpiry | undefined): void {
    if (!decision) return;
    const notices = decision.notices.map((notice) => signNotice(notice, this.#parts.signer));
    const payloads = notices.map(({ targetPubkey, seq, wire }) => ({ targetPubkey, seq, wire: Buffer.from(wire) }));
    this.#parts.committer.admit([{ ...decision, notices }], payloads);
  }
}

/** What is due of one queue. */
interface DueQueue {
  targetPubkey: PublicKey;
  /** Ascending. */
  seqs: number[];
  /** For each, what marks the run that it lies in. */
  runs: (number | undefined)[];
}

/** The items of these entries by target, each once, in the order of the keys as texts; all as if they lay alone. */
function byTarget(entries: readonly DueEntry[]): DueQueue[] {
  const all = new Map<PublicKey, Set<number>>();
  for (const { targets } of entries)
    for (const [target, some] of targets ?? []) {
      const seqs = all.get(target) ?? new Set();
      all.set(target, seqs);
      for (const seq of some) seqs.add(seq);
    }
  const targets = [...all].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return targets.map(([targetPubkey, some]) => {
    const seqs = [...some].toSorted((a, b) => a - b);
    return { targetPubkey, seqs, runs: seqs };
  });
}
