/**
 * The rows in a Map: what the store keeps, without the store.
 *
 * Told events one by one, it holds what a replay of the log gives; tests decide over it and compare stores with it.
 */
import type { PublicKey } from '../protocol/public-key.ts';
import { Admissions, Directory } from '../relay/core/directory.ts';
import type { RelayEvent } from '../relay/core/event.ts';
import { MailUse } from '../relay/core/mail-use.ts';
import type { FactSource } from '../relay/core/decision.ts';
import type { Released } from '../relay/core/queue-index.ts';
import { reduce } from '../relay/core/reduce.ts';
import { type QueueRow, type RowChange, type TableName, type Tables, rowKey } from '../relay/core/rows.ts';

export class MapRows implements FactSource {
  readonly directory = new Directory();
  readonly admissions = new Admissions();
  readonly mail = new MailUse();
  /** Payloads that are gone, by the textual queue key of where they were put (`payloadTarget`, `payloadSeq`). */
  readonly missingPayloads = new Set<string>();
  readonly #rows = new Map<string, RowChange>();
  #lastLsn = 0;

  constructor(...events: readonly RelayEvent[]) {
    for (const event of events) this.apply(event);
  }

  /** Reduces one event. Throws when a reducer changes one key twice. */
  apply(event: RelayEvent): void {
    const changes = reduce({ lsn: ++this.#lastLsn, event }, this);
    const marks = new Set(changes.map(({ table, key }) => markOf(table, key)));
    if (marks.size < changes.length) throw new Error(`${event.type} changes one row twice`);
    for (const change of changes) this.put(change);
  }

  /** Writes or deletes one row behind the events' back. */
  put(change: RowChange): void {
    this.mail.apply(change, this);
    const mark = markOf(change.table, change.key);
    if (change.row) this.#rows.set(mark, change);
    else this.#rows.delete(mark);
    this.admissions.apply(change);
    if (change.table === 'enrolment') this.directory.apply(change.key as PublicKey, change.row);
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    return this.#rows.get(markOf(table, key))?.row as Tables[T] | undefined;
  }

  hasPayload({ payloadTarget, payloadSeq }: QueueRow): boolean {
    return !this.missingPayloads.has(rowKey.queue(payloadTarget, payloadSeq));
  }

  copy(): MapRows {
    const rows = new MapRows();
    rows.#lastLsn = this.#lastLsn;
    for (const change of this.#rows.values()) rows.put(change);
    for (const key of this.missingPayloads) rows.missingPayloads.add(key);
    return rows;
  }

  /** Every row, in no order that means anything. */
  all(): RowChange[] {
    return [...this.#rows.values()];
  }

  /** The waiting rows of `target`, ascending. */
  queue(target: PublicKey): QueueRow[] {
    const ackedThrough = this.get('target', target)?.ackedThrough ?? 0;
    const rows: QueueRow[] = [];
    for (const { table, row } of this.#rows.values()) {
      if (table === 'queue' && row?.targetPubkey === target && row.seq > ackedThrough) rows.push(row);
    }
    return rows.toSorted((a, b) => a.seq - b.seq);
  }

  /** Returns what an ack of `through` would release, counted row by row. */
  released(target: PublicKey, through: number): Released {
    const released: Released = { through, items: 0, bytes: 0, notices: 0, shares: [] };
    for (const { seq, bytes, kind, senderPubkey } of this.queue(target)) {
      if (seq > through) break;
      if (kind === 'expired') {
        released.notices++;
        continue;
      }
      released.items++;
      released.bytes += bytes;
      const share = released.shares.find((one) => one.senderPubkey === senderPubkey);
      if (share) {
        share.items++;
        share.bytes += bytes;
      } else {
        released.shares.push({ senderPubkey, items: 1, bytes });
      }
    }
    return released;
  }
}

function markOf(table: TableName, key: string): string {
  return `${table} ${key}`;
}
