/**
 * Usage, against which quotas are held: of each sender at each target, and of each proven account.
 *
 * Invariants: a share is the sum over the queue rows of that sender at that target; an account is the sum of
 * `queueItems` and `queueBytes` over every key of its hosts. A row that would say zero is deleted; where one would say
 * less, the queue that the event is about is broken.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { BrokenQueue, queueOf } from './broken-queue.ts';
import type { RelayEvent } from './event.ts';
import { movedRow } from './reduce-queues.ts';
import { NO_USAGE, type RowChange, type RowReader, rowKey } from './rows.ts';

export function reduceUsage(event: RelayEvent, rows: RowReader): RowChange[] {
  const usage = new UsageChanges(rows, queueOf(event));
  switch (event.type) {
    case 'ItemAccepted':
      for (const { hostPubkey, bytes } of event.targets) {
        usage.add('share', rowKey.share(hostPubkey, event.senderPubkey), 1, bytes);
        usage.add('account', rows.get('enrolment', hostPubkey)?.account ?? null, 1, bytes);
      }
      break;
    case 'ItemsAcked':
      for (const { senderPubkey, items, bytes } of event.shares) {
        usage.add('share', rowKey.share(event.targetPubkey, senderPubkey), -items, -bytes);
      }
      usage.add('account', event.account, -event.items, -event.bytes);
      break;
    case 'ItemsExpired':
      for (const { kind, senderPubkey, bytes } of event.items) {
        if (kind === 'expired') continue;
        usage.add('share', rowKey.share(event.targetPubkey, senderPubkey), -1, -bytes);
        usage.add('account', event.account, -1, -bytes);
      }
      break;
    case 'ItemLost':
      if (event.kind === 'expired') break;
      usage.add('share', rowKey.share(event.targetPubkey, event.senderPubkey), -1, -event.bytes);
      usage.add('account', event.account, -1, -event.bytes);
      break;
    case 'KeyRotated':
      for (const { account, items, bytes } of event.charges) usage.add('account', account, items, bytes);
      break;
    case 'ItemsMoved':
      for (const fromSeq of event.fromSeqs) {
        const { kind, senderPubkey, bytes } = movedRow(rows, event.oldPubkey, fromSeq);
        if (kind === 'expired') continue;
        usage.add('share', rowKey.share(event.oldPubkey, senderPubkey), -1, -bytes);
        usage.add('share', rowKey.share(event.newPubkey, senderPubkey), 1, bytes);
      }
      break;
    case 'HostEnrolled':
      usage.add('account', event.formerAccount, -event.chargedItems, -event.chargedBytes);
      usage.add('account', event.account, event.chargedItems, event.chargedBytes);
      break;
    case 'EnrolmentLapsed':
      usage.add('account', event.account, -event.releasedItems, -event.releasedBytes);
      break;
    default:
  }
  return usage.changes();
}

/** Sums the changes of one event, which may touch one account through several targets. */
class UsageChanges {
  readonly #rows: RowReader;
  readonly #queue: PublicKey | undefined;
  readonly #changed = new Map<string, RowChange & { table: 'share' | 'account' }>();

  constructor(rows: RowReader, queue: PublicKey | undefined) {
    this.#rows = rows;
    this.#queue = queue;
  }

  add(table: 'share' | 'account', key: string | null, items: number, bytes: number): void {
    if (key === null || (items === 0 && bytes === 0)) return;
    const mark = table + key;
    const changed = this.#changed.get(mark);
    const before = (changed ? changed.row : this.#rows.get(table, key)) ?? NO_USAGE;
    const after = { items: before.items + items, bytes: before.bytes + bytes };
    if (after.items < 0 || after.bytes < 0) throw this.#belowZero();
    this.#changed.set(mark, { table, key, row: after.items === 0 && after.bytes === 0 ? null : after });
  }

  changes(): RowChange[] {
    return [...this.#changed.values()];
  }

  #belowZero(): Error {
    const what = 'invariant: usage never falls below zero';
    return this.#queue === undefined ? new Error(what) : new BrokenQueue(this.#queue, what);
  }
}
