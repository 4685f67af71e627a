/**
 * Appends to a restored store what must be preserved of the store that it replaces: revocations, rotations, denials,
 * publications.
 *
 * No engine runs: events are decided one after another, each over the rows that the earlier ones made, and become
 * durable in batches. core/decide-restore.ts decides which events; their order is here.
 */
import { type Sha256Hex, hasHash } from '../../protocol/encodings.ts';
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { Admissions, Directory } from '../core/directory.ts';
import {
  type ReplacedStore,
  type RotatedRow,
  decidePreservedDenials,
  decidePreservedLapses,
  decidePreservedRevocations,
  decidePreservedRotation,
  decidePreservedStatements,
  decideDeniedHosts,
  decideSeqFloors,
  decideSpentInvites,
  rotationsInOrder,
} from '../core/decide-restore.ts';
import { MOVED_AT_ONCE, type Waiting, decideMove } from '../core/decide-rotation.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { type RelaySettings, accountOf, targetRow } from '../core/decision.ts';
import { reduce } from '../core/reduce.ts';
import type { QueueRow, RowChange, RowReader } from '../core/rows.ts';
import { OverlaidRows } from '../engine/open-batch.ts';
import type { Level } from '../store/level.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { readAhead, tableRows, waitingRows } from '../store/scan.ts';
import { itemLost } from '../core/decide-log.ts';

/** Changed rows of one batch, about. */
const BATCH_CHANGES = 1000;
const ROWS_AT_ONCE = 500;

const NOTHING_PRESERVED = {
  revoked: 0,
  rotated: 0,
  denied: 0,
  /** Invites that are open no longer. */
  invites: 0,
  lapsed: 0,
  senderLists: 0,
  encKeys: 0,
  seqFloors: 0,
  /** Items of the backup whose wire bytes are gone or altered. */
  lost: 0,
  /** The items of queues that were on their way to another key. */
  movedItems: 0,
};

/** The number of things that were preserved, by kind. */
export type PreservedFigures = typeof NOTHING_PRESERVED;

/** Rotations are not refused here; how long keys stay joined is all that is asked of the limits. */
const SETTINGS: RelaySettings = { limits: DEFAULT_LIMITS, admission: 'open', enrolmentsMax: 0, dedupRowsMax: 0 };

export class RestoreMerge {
  readonly figures: PreservedFigures = { ...NOTHING_PRESERVED };
  readonly #store: RelayStore;
  readonly #level: Level;
  readonly #nowMs: number;
  readonly #directory = new Directory();
  #entries: LogEntry[] = [];
  /** The stored rows, with those that are not flushed yet. */
  readonly #rows: OverlaidRows;

  private constructor(store: RelayStore, level: Level, nowMs: number) {
    this.#store = store;
    this.#rows = new OverlaidRows(store);
    this.#level = level;
    this.#nowMs = nowMs;
  }

  /** `level` is the one that `store` owns. */
  static async start(store: RelayStore, level: Level, nowMs: number): Promise<RestoreMerge> {
    const merge = new RestoreMerge(store, level, nowMs);
    for (const row of await store.enrolments()) merge.#directory.apply(row.hostPubkey, row);
    return merge;
  }

  get rows(): RowReader {
    return this.#rows;
  }

  /** Everything that follows the restore itself; durable when it resolves. */
  async merge(replaced: ReplacedStore | undefined): Promise<void> {
    const nowMs = this.#nowMs;
    const restored = { rows: this.#rows, directory: this.#directory };
    // Before any rotation: the items it moves are to come above everything that was given.
    if (replaced) await this.apply(decideSeqFloors(replaced, this.#rows, nowMs));
    for (const key of await this.#store.moves()) await this.#move(key);
    // Items that are on their way are charged to the queue that they go to: they are forgotten there.
    await this.#forgetLost();
    await this.apply(decideSpentInvites(replaced, await this.#openInvites(), nowMs));
    if (replaced) {
      for (const gone of rotationsInOrder(replaced)) await this.#rotate(replaced, gone);
      await this.apply(decidePreservedRevocations(replaced, this.#rows, nowMs));
      await this.apply(decidePreservedLapses(replaced, restored, nowMs));
      await this.apply(decidePreservedDenials(replaced, this.#rows, nowMs));
      await this.apply(decideDeniedHosts(replaced, restored, nowMs));
      await this.apply(decidePreservedStatements(replaced, this.#rows, nowMs));
    }
    await this.#flush(nowMs);
  }

  async apply(events: readonly RelayEvent[]): Promise<void> {
    for (const event of events) {
      this.#count(event);
      const entry = { lsn: this.#store.lastLsn + this.#entries.length + 1, event };
      for (const change of reduce(entry, this.#rows)) this.#change(change);
      this.#entries.push(entry);
      if (this.#rows.changes.size >= BATCH_CHANGES) await this.#flush();
    }
  }

  #change(change: RowChange): void {
    this.#rows.changes.set(change);
    if (change.table === 'enrolment') this.#directory.apply(change.key as PublicKey, change.row);
  }

  async #flush(heartbeatMs?: number): Promise<void> {
    if (this.#rows.changes.size + this.#entries.length === 0 && heartbeatMs === undefined) return;
    const changes = this.#rows.changes.changes();
    await this.#store.append({ entries: this.#entries, changes, payloads: [], node: { heartbeatMs } });
    this.#entries = [];
    this.#rows.clear();
  }

  /** An item that could not be served is not kept: its sender pushes it again. */
  async #forgetLost(): Promise<void> {
    await this.#flush();
    const withWires = async ({ rows }: { rows: QueueRow[] }) => ({ rows, wires: await this.#store.payloads(rows) });
    for await (const { rows, wires } of readAhead(waitingRows(this.#level), withWires))
      for (const [at, row] of rows.entries()) {
        const wire = wires[at];
        if (hasHash(wire, row.wireHash)) continue;
        const account = accountOf(this.#rows, row.targetPubkey);
        await this.apply([itemLost(row, account, wire ? 'corrupt' : 'missing', this.#nowMs)]);
      }
  }

  async #rotate(replaced: ReplacedStore, gone: RotatedRow): Promise<void> {
    const nowMs = this.#nowMs;
    const { hostPubkey: oldPubkey } = gone;
    const waiting = await this.#waiting(oldPubkey);
    const signed = replaced.rotations.get(oldPubkey) ?? null;
    const facts = { rows: this.#rows, directory: this.#directory, admissions: new Admissions(), settings: SETTINGS };
    await this.apply(decidePreservedRotation(gone, signed, facts, waiting, nowMs));
    await this.#move(oldPubkey);
  }

  /** Returns what is in a queue, counted row by row. */
  async #waiting(target: PublicKey): Promise<Waiting> {
    await this.#flush();
    const { headSeq, ackedThrough } = targetRow(this.#rows, target);
    const waiting: Waiting = { items: 0, bytes: 0, notices: 0 };
    for (let after = ackedThrough; ; ) {
      const rows = await this.#store.queueRows(target, after, headSeq, ROWS_AT_ONCE);
      for (const { kind, bytes } of rows) {
        if (kind === 'expired') waiting.notices++;
        else {
          waiting.items++;
          waiting.bytes += bytes;
        }
      }
      const last = rows.at(-1);
      if (!last) return waiting;
      after = last.seq;
    }
  }

  async #move(oldPubkey: PublicKey): Promise<void> {
    const nowMs = this.#nowMs;
    const { headSeq, ackedThrough } = targetRow(this.#rows, oldPubkey);
    for (let after = ackedThrough; ; ) {
      const move = this.#rows.get('move', oldPubkey);
      if (!move) return;
      await this.#flush();
      const fromSeqs = (await this.#store.queueRows(oldPubkey, after, headSeq, MOVED_AT_ONCE)).map(({ seq }) => seq);
      await this.apply(decideMove({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs }, move).events);
      after = fromSeqs.at(-1) ?? after;
    }
  }

  async #openInvites(): Promise<Sha256Hex[]> {
    const open: Sha256Hex[] = [];
    for await (const listed of tableRows(this.#level, 'invite')) if (listed) open.push(listed[0] as Sha256Hex);
    return open;
  }

  #count(event: RelayEvent): void {
    const [kind, count = 1] = preservedBy(event) ?? [];
    if (kind) this.figures[kind] += count;
  }
}

/** Returns what `event` preserves, and how many of it when that may be more than one. */
function preservedBy(event: RelayEvent): [kind: keyof PreservedFigures, count?: number] | undefined {
  switch (event.type) {
    case 'HostRevoked':
      return ['revoked'];
    case 'KeyRotated':
      return ['rotated'];
    case 'ItemsMoved':
      return ['movedItems', event.fromSeqs.length];
    case 'DenyEntryAdded':
      return ['denied'];
    case 'AdmissionsLapsed':
      return ['invites', event.invites.length];
    case 'EnrolmentLapsed':
      return ['lapsed'];
    case 'SendersPublished':
      return ['senderLists'];
    case 'EncKeyPublished':
      return ['encKeys'];
    case 'SeqFloorsRaised':
      return ['seqFloors', event.floors.length];
    case 'ItemLost':
      return ['lost'];
    default:
      return undefined;
  }
}
