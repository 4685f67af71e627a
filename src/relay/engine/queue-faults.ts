/**
 * The queues that are left unchanged, because their rows contradict what should happen to them.
 *
 * A fault stays within its queue: its acks, expiries and rotations are refused and change nothing, and the mail of
 * other queues goes on. Each request tries again, so nothing of this is stored: a store whose rows were repaired works
 * at its next start.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { type Refusal, refusal, BrokenQueue } from '../core/decision.ts';
import { DamagedRow } from '../store/checksum.ts';
import { StoreFailed } from './committer.ts';

export interface QueueFault {
  targetPubkey: PublicKey;
  reason: string;
}

export class QueueFaults {
  readonly #onFault: (fault: QueueFault) => void;
  readonly #faults = new Map<PublicKey, QueueFault>();

  /** `onFault` is called once for each queue. */
  constructor(onFault: (fault: QueueFault) => void) {
    this.#onFault = onFault;
  }

  get all(): QueueFault[] {
    return [...this.#faults.values()];
  }

  note({ targetPubkey, message }: BrokenQueue): void {
    if (this.#faults.has(targetPubkey)) return;
    const fault = { targetPubkey, reason: message.replace(/^invariant: /, '') };
    this.#faults.set(targetPubkey, fault);
    this.#onFault(fault);
  }

  /** What to throw for `error`, which occurred at the queue of `target`: a failed store concerns every queue. */
  faultAt(target: PublicKey, error: unknown): StoreFailed | BrokenQueue {
    if (error instanceof StoreFailed) return error;
    const broken =
      error instanceof BrokenQueue ? error : new BrokenQueue(target, (error as Error).message, { cause: error });
    this.note(broken);
    return broken.targetPubkey === target ? broken : new BrokenQueue(target, broken.message, { cause: broken });
  }

  /** Resolves with `work`, which is done at the queue of `target`. Rejects with `StoreFailed` or `BrokenQueue`. */
  async at<T>(target: PublicKey, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.faultAt(target, error);
    }
  }
}

/** Whether the rows of one queue are at fault, and nothing else. */
export function isBrokenQueue(error: unknown): error is BrokenQueue {
  return error instanceof BrokenQueue;
}

/** Whether a stored row that was needed is damaged: the store has recorded which. Nothing was changed. */
export function isDamagedRow(error: unknown): error is DamagedRow {
  return error instanceof DamagedRow;
}

/** Whether rows are at fault, which the operator sees in the log, and not the software. */
export function isRowFault(error: unknown): boolean {
  return isBrokenQueue(error) || isDamagedRow(error);
}

export function damagedRowRefusal(): Refusal {
  return refusal('UNAVAILABLE', 'a row that this needs is damaged in the store of the relay, whose operator is told');
}

export function brokenQueueRefusal(): Refusal {
  return refusal('UNAVAILABLE', 'the relay found a fault in its rows of this queue and changes nothing there');
}
