/**
 * Appends to a restored store what it takes over from the one it replaces.
 *
 * No engine runs: events are decided one after another, each over what those before have made, and become durable in
 * batches as everywhere else. core/decide-restore.ts says what; the order is here.
 */
import { hasHash } from '../protocol/digest.ts';
import { DEFAULT_LIMITS } from '../protocol/limits.ts';
import type { Sha256Hex } from '../protocol/digest.ts';
import type { PublicKey } from '../protocol/public-key.ts';
import { Admissions } from './core/admissions.ts';
import { itemLost } from './core/decide-epoch.ts';
import {
  type ReplacedStore,
  decideCarriedDenials,
  decideCarriedLapses,
  decideCarriedRevocations,
  decideCarriedRotation,
  decideCarriedStatements,
  decideDeniedHosts,
  decideSeqFloors,
  decideSpentInvites,
  rotationsInOrder,
} from './core/decide-restore.ts';
import { MOVED_AT_ONCE, decideMove } from './core/decide-rotation.ts';
import { Directory } from './core/directory.ts';
import type { LogEntry, RelayEvent } from './core/event.ts';
import { type RelaySettings, type Waiting, rotateFacts, targetRow } from './core/facts.ts';
import { reduce } from './core/reduce.ts';
import { type RowChange, type RowReader, type TableName, type Tables, rowKey } from './core/rows.ts';
import { RowOverlay } from './engine/row-overlay.ts';
import type { Level } from './store/level.ts';
import type { RelayStore } from './store/relay-store.ts';
import { tableRows } from './store/table-rows.ts';
import { waitingRows } from './store/waiting-rows.ts';

/** Changed rows of one batch, about. */
const BATCH_CHANGES = 1000;
const ROWS_AT_ONCE = 500;

/** What was taken over, by kind. */
export interface CarriedFigures {
  revoked: number;
  rotated: number;
  denied: number;
  /** Invites that are open no longer. */
  invites: number;
  lapsed: number;
  senderLists: number;
  encKeys: number;
  seqFloors: number;
  /** Items of the backup whose wire bytes are gone or altered. */
  lost: number;
  /** Of queues that were on their way to another key. */
  movedItems: number;
}

/** Rotations are not refused here; how long keys stay joined is all that is asked of the limits. */
const SETTINGS: RelaySettings = { limits: DEFAULT_LIMITS, admission: 'open', enrolmentsMax: 0, dedupRowsMax: 0 };

export class Carrier implements RowReader {
  readonly figures: CarriedFigures = {
    revoked: 0,
    rotated: 0,
    denied: 0,
    invites: 0,
    lapsed: 0,
    senderLists: 0,
    encKeys: 0,
    seqFloors: 0,
    lost: 0,
    movedItems: 0,
  };
  readonly #store: RelayStore;
  readonly #level: Level;
  readonly #nowMs: number;
  readonly #directory = new Directory();
  #entries: LogEntry[] = [];
  #changes = new RowOverlay();

  private constructor(store: RelayStore, level: Level, nowMs: number) {
    this.#store = store;
    this.#level = level;
    this.#nowMs = nowMs;
  }

  /** `level` is the one that `store` owns. */
  static async start(store: RelayStore, level: Level, nowMs: number): Promise<Carrier> {
    const carrier = new Carrier(store, level, nowMs);
    for (const row of await store.enrolments()) carrier.#directory.apply(row.hostPubkey, row);
    return carrier;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const change = this.#changes.get(table, key);
    if (change) return (change.row ?? undefined) as Tables[T] | undefined;
    return this.#store.get(table, key);
  }

  /** Everything that follows the restore itself; durable when it resolves. */
  async carry(replaced: ReplacedStore | undefined): Promise<void> {
    const nowMs = this.#nowMs;
    const restored = { rows: this, directory: this.#directory };
    await this.#forgetLost();
    // Before any rotation: the items it moves are to come above everything that was given.
    if (replaced) await this.apply(decideSeqFloors(replaced, this, nowMs));
    for (const key of await this.#store.moves()) await this.#move(key);
    await this.apply(decideSpentInvites(replaced, await this.#openInvites(), nowMs));
    if (replaced) {
      for (const { hostPubkey } of rotationsInOrder(replaced)) await this.#rotate(replaced, hostPubkey);
      await this.apply(decideCarriedRevocations(replaced, this, nowMs));
      await this.apply(decideCarriedLapses(replaced, restored, nowMs));
      await this.apply(decideCarriedDenials(replaced, this, nowMs));
      await this.apply(decideDeniedHosts(replaced, restored, nowMs));
      await this.apply(decideCarriedStatements(replaced, this, nowMs));
    }
    this.#change({ table: 'heartbeat', key: rowKey.heartbeat, row: { atMs: nowMs } });
    await this.#flush();
  }

  async apply(events: readonly RelayEvent[]): Promise<void> {
    for (const event of events) {
      this.#count(event);
      const entry = { lsn: this.#store.lastLsn + this.#entries.length + 1, event };
      for (const change of reduce(entry, this)) this.#change(change);
      this.#entries.push(entry);
      if (this.#changes.size >= BATCH_CHANGES) await this.#flush();
    }
  }

  #change(change: RowChange): void {
    this.#changes.set(change);
    if (change.table === 'enrolment') this.#directory.apply(change.key as PublicKey, change.row);
  }

  async #flush(): Promise<void> {
    if (this.#changes.size === 0 && this.#entries.length === 0) return;
    await this.#store.append({
      entries: this.#entries,
      changes: this.#changes.changes(),
      payloads: [],
      collected: undefined,
      forgotten: [],
    });
    this.#entries = [];
    this.#changes = new RowOverlay();
  }

  /** An item that could not be served is not kept: its sender pushes it again. */
  async #forgetLost(): Promise<void> {
    await this.#flush();
    for await (const { rows } of waitingRows(this.#level)) {
      const wires = await this.#store.payloads(rows);
      for (const [at, row] of rows.entries()) {
        const wire = wires[at];
        if (hasHash(wire, row.wireHash)) continue;
        const account = this.get('enrolment', row.targetPubkey)?.account ?? null;
        await this.apply([itemLost(row, account, wire ? 'corrupt' : 'missing', this.#nowMs)]);
      }
    }
  }

  async #rotate(replaced: ReplacedStore, oldPubkey: PublicKey): Promise<void> {
    const nowMs = this.#nowMs;
    const gone = replaced.enrolments.get(oldPubkey);
    if (!gone?.rotatedTo) throw new Error('invariant: a rotation is taken over of a key that was rotated');
    const waiting = await this.#waiting(oldPubkey);
    const command = { type: 'RotateKey', oldPubkey, newPubkey: gone.rotatedTo, iatMs: nowMs, nowMs } as const;
    const facts = rotateFacts(command, this, this.#directory, new Admissions(), SETTINGS, waiting);
    await this.apply(decideCarriedRotation(gone, facts, nowMs));
    await this.#move(oldPubkey);
  }

  /** What is in a queue, counted row by row. */
  async #waiting(target: PublicKey): Promise<Waiting> {
    await this.#flush();
    const { headSeq, ackedThrough } = targetRow(this, target);
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

  /** Brings what is left of a rotated key's queue over. */
  async #move(oldPubkey: PublicKey): Promise<void> {
    const nowMs = this.#nowMs;
    const { headSeq, ackedThrough } = targetRow(this, oldPubkey);
    for (let after = ackedThrough; ; ) {
      const move = this.get('move', oldPubkey);
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
    const { figures } = this;
    switch (event.type) {
      case 'HostRevoked':
        figures.revoked++;
        return;
      case 'KeyRotated':
        figures.rotated++;
        return;
      case 'ItemsMoved':
        figures.movedItems += event.fromSeqs.length;
        return;
      case 'DenyEntryAdded':
        figures.denied++;
        return;
      case 'AdmissionsLapsed':
        figures.invites += event.invites.length;
        return;
      case 'EnrolmentLapsed':
        figures.lapsed++;
        return;
      case 'SendersPublished':
        figures.senderLists++;
        return;
      case 'EncKeyPublished':
        figures.encKeys++;
        return;
      case 'SeqFloorsRaised':
        figures.seqFloors += event.floors.length;
        return;
      case 'ItemLost':
        figures.lost++;
        return;
      default:
    }
  }
}
