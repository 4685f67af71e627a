/**
 * Counts what mail takes of the disk, in memory beside the rows: of each sender, of all, and of senders whom nobody
 * vouched for.
 *
 * A sender is charged for the wire bytes that wait, and for what the relay remembers of each item (`REMEMBERED_BYTES`).
 * Strangers share a part of what mail may take. Each may take as much of the part as it leaves to others: the heaviest
 * is refused first, and a light one finds room however many are heavy. A host that an operator invited, or an account
 * proves, is refused by the floor of the disk alone.
 *
 * Invariant: equals a `new MailUse()` to which every share, sender and enrolment row was applied.
 */
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import type { RelaySettings } from './decision.ts';
import type { EnrolmentRow, RowChange, RowReader } from './rows.ts';

/** Records, hashes and rows of one item, about. */
export const REMEMBERED_BYTES = 512;
/** Mail may take one part in so many of what is free above the floor, unless the operator says how much. */
const PARTS_OF_DISK = 2;
/** Strangers may have one part in so many of what mail may take. */
const PARTS_OF_BUDGET = 2;

/** The use of the disk by which a push is decided. */
export interface MailFacts {
  /** True when an operator or an account vouched for the sender. */
  isVouchedFor: boolean;
  /** Bytes that the sender takes, under all of its keys. */
  own: number;
  /** Bytes that strangers may take beyond those they have. */
  left: number;
}

export function isVouchedFor({ account, invited }: EnrolmentRow): boolean {
  return account !== null || invited;
}

export class MailUse {
  /** Bytes free above the floor of the disk, as they were found last. */
  freeBytes = Infinity;
  readonly #bySender = new Map<PublicKey, number>();
  readonly #vouchedFor = new Set<PublicKey>();
  #all = 0;
  #ofStrangers = 0;

  /** Takes over a change; `before` shows the rows without it, where there may be any. */
  apply(change: RowChange, before?: RowReader): void {
    const { table, key, row } = change;
    if (table === 'share') {
      const sender = key.slice(PUBLIC_KEY_CHARACTERS) as PublicKey;
      this.#charge(sender, (row?.bytes ?? 0) - (before?.get(table, key)?.bytes ?? 0));
    } else if (table === 'sender') {
      const rows = (row?.dedupRows ?? 0) - (before?.get(table, key)?.dedupRows ?? 0);
      this.#charge(key as PublicKey, rows * REMEMBERED_BYTES);
    } else if (table === 'enrolment') {
      const host = key as PublicKey;
      const isVouched = row !== null && isVouchedFor(row);
      if (isVouched === this.#vouchedFor.has(host)) return;
      this.#ofStrangers += isVouched ? -this.#of(host) : this.#of(host);
      if (isVouched) this.#vouchedFor.add(host);
      else this.#vouchedFor.delete(host);
    }
  }

  /** `keys` are all that the sender ever had. */
  factsOf(sender: PublicKey, keys: Iterable<PublicKey>, { admission, mailBudgetBytes }: RelaySettings): MailFacts {
    let own = 0;
    for (const key of keys) own += this.#of(key);
    const budget = mailBudgetBytes ?? (this.#all + Math.max(0, this.freeBytes)) / PARTS_OF_DISK;
    return {
      isVouchedFor: admission === 'invite' || this.#vouchedFor.has(sender),
      own,
      left: Math.min(budget / PARTS_OF_BUDGET - this.#ofStrangers, budget - this.#all),
    };
  }

  #of(sender: PublicKey): number {
    return this.#bySender.get(sender) ?? 0;
  }

  #charge(sender: PublicKey, bytes: number): void {
    const after = this.#of(sender) + bytes;
    if (after === 0) this.#bySender.delete(sender);
    else this.#bySender.set(sender, after);
    this.#all += bytes;
    if (!this.#vouchedFor.has(sender)) this.#ofStrangers += bytes;
  }
}
