/**
 * Releases items from their queue: by acks, and by time.
 *
 * An ack goes in steps where many senders are concerned. A crash between two steps leaves the released items released.
 * Items that are acked after their retention time are kept known (`DedupExtended`) in the same batch as the ack.
 *
 * With time items expire, their senders get a notice, and dedup rows are forgotten: entry by entry of what is due, in
 * batches that hold the event loop for a few milliseconds. A crash leaves the entry, and the next sweep finds the rest
 * of it. Where the rows of a queue are at fault, or an entry is damaged, the items stay where they are, with the entry
 * that names them, and the sweep goes on to the next.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AckItems, ExpireItems } from '../core/command.ts';
import type { AckOutcome, Refusal } from '../core/decision.ts';
import type { RelayEvent } from '../core/event.ts';
import type { Released } from '../core/queue-index.ts';
import { afterLooks } from '../core/rows.ts';
import type { EngineParts } from './parts.ts';
import { brokenQueueRefusal, isBrokenQueue } from './queues.ts';
import { AdaptiveBatch, TimeSlice } from './time-slice.ts';
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
   * Expires everything whose time has come, until `signal` aborts. Reads `nowMs` once for each entry: with a clock set
   * back in the middle of one, items would be passed over and their entry forgotten all the same.
   */
  async expire(nowMs: () => number, signal: StopSignal): Promise<void> {
    const { store, committer, monotonicMs } = this.#parts;
    const pace = { timeSlice: new TimeSlice(monotonicMs), batch: new AdaptiveBatch(EXPIRED_AT_ONCE, monotonicMs) };
    this.#leftFromMs = Infinity;
    for (let after: DueEntryName | undefined; !signal.aborted; ) {
      const atMs = nowMs();
      const due = await store.due.items(atMs, after);
      if (!due) return;
      let isDone = due.targets !== undefined;
      for (const [targetPubkey, seqs] of due.targets ?? []) {
        const isExpired = await this.#expireQueue({ type: 'ExpireItems', targetPubkey, seqs, nowMs: atMs }, pace);
        isDone &&= isExpired;
      }
      if (isDone) committer.add({ forgotten: { expiryEntries: [due], dedupEntries: [], dedupRows: [] } });
      else {
        after = due;
        this.#leftFromMs = Math.min(this.#leftFromMs, due.dueMs);
      }
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

  /** Says whether all items of the command are gone. */
  async #expireQueue({ seqs, ...command }: ExpireItems, { timeSlice, batch }: Pace): Promise<boolean> {
    const left = [...seqs];
    let isDone = true;
    try {
      while (left.length > 0) {
        if (timeSlice.isOver) await timeSlice.pause();
        const slice = { ...command, seqs: left.splice(0, batch.size) };
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
