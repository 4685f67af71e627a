/**
 * What time does to a queue and to dedup: items expire, their senders get a notice, dedup rows are forgotten.
 *
 * Goes entry by entry through what is due, in batches that hold the event loop for a few milliseconds. A crash leaves
 * the entry, and the next sweep finds the rest of it. Where the rows of a queue are at fault, or an entry is damaged,
 * the items stay where they are, with the entry that names them, and the sweep goes on to the next.
 */
import type { StopSignal } from '../../lib/periodic-task.ts';
import type { ExpireItems } from '../core/command.ts';
import type { EngineParts } from './parts.ts';
import { isBrokenQueue } from './queue-faults.ts';
import { AdaptiveBatch, TimeSlice } from './time-slice.ts';
import type { DueEntryName } from '../store/durable-log.ts';
import {
  type DecidedExpiry,
  EXPIRED_AT_ONCE,
  decideExpire,
  decidePurge,
  dueItems,
  signNotice,
} from '../core/decide-queue.ts';

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
      if (isDone) committer.forget({ expiryEntries: [due], dedupEntries: [], dedupRows: [] });
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
      committer.forget(due.forgotten);
      await committer.durable();
    }
  }

  /** Whether all items of the command are gone. */
  async #expireQueue({ seqs, ...command }: ExpireItems, { timeSlice, batch }: Pace): Promise<boolean> {
    const left = [...seqs];
    let isDone = true;
    try {
      while (left.length > 0) {
        if (timeSlice.isOver) await timeSlice.pause();
        const slice = { ...command, seqs: left.splice(0, batch.size) };
        const isExpired = await this.#expireSlice(slice, batch);
        isDone &&= isExpired;
      }
      return isDone;
    } catch (error) {
      const fault = this.#parts.faults.faultAt(command.targetPubkey, error);
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
