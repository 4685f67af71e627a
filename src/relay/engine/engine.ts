/**
 * The engine: facts, decide, reduce, commit, answer; and the reads of durable state.
 *
 * A command is admitted in one synchronous run (facts → decide → reduce into the open batch), then waits until
 * everything it read is durable, and only then is answered. The ranges of rows that a command needs are in memory
 * before that run begins. A refusal waits too: it may rest on an item that is not durable yet.
 *
 * Here: composition, reads, and commands of one row. Pushes, acks, admissions and expiry have files of their own.
 */
import type { TextsAround } from '../../protocol/encodings.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { Admissions, Directory } from '../core/directory.ts';
import type { NoteHostSeen, PublishEncKey, PublishSenders, RotateEpoch } from '../core/command.ts';
import { decideHostSeen, decidePublishEncKey, decidePublishSenders } from '../core/decide-enrolment.ts';
import {
  type EncKeyOutcome,
  type EpochOutcome,
  type Refusal,
  type RelaySettings,
  type SendersOutcome,
  lineageOf,
  presentKey,
  relayRow,
  sendersRow,
} from '../core/decision.ts';
import { MailUse } from '../core/mail-use.ts';
import type { EncKeyRow, RotationRow, EnrolmentRow, QueueRow, TargetRow, UsageRow } from '../core/rows.ts';
import type { DedupCount } from '../store/dedup-counts.ts';
import type { QueueSlice, FoundRow } from '../store/scan.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { EncodedWires } from '../store/wire-thread.ts';
import { Committer, type StoreFailed, type CommittedBatch } from './committer.ts';
import { AccessControl } from './access-control.ts';
import { DurableHeads, OnceListeners, RecentItems } from './durable-queues.ts';
import { Expiry, Acks } from './releases.ts';
import { LogRetention } from './log-retention.ts';
import { LostItemCommands } from './lost-items.ts';
import { LogProofs } from './log-proofs.ts';
import { Queues } from './queues.ts';
import { type EngineObserver, NO_OBSERVER } from './parts.ts';
import { TimeSlice } from '../../lib/clock.ts';
import type { QueueFault } from './vanished-items.ts';
import { Pushes } from './pushes.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import { pageRows } from '../core/decide-queue.ts';
import { decideRotateEpoch } from '../core/decide-log.ts';

/** The part of the enrolments that others may read. */
type HostDirectory = Omit<Directory, 'apply'>;

export interface EngineOptions {
  store: RelayStore;
  settings: RelaySettings;
  /** The relay's own key: it signs expiry notices and checkpoints of the log. */
  signer: Signer;
  /** Milliseconds that never go back, for time slices only. */
  monotonicMs: () => number;
  /** Called once, when a batch failed: the process must end. */
  onStoreFailed: (error: StoreFailed) => void;
  /** Called once for each queue whose rows are at fault. */
  onBrokenQueue?: (fault: QueueFault) => void;
  /** Called for each queue of which items are gone from the store: a new epoch is to begin before it resolves. */
  onVanished?: (fault: QueueFault) => Promise<void>;
  observer?: EngineObserver;
  /** See `RelayStore.fillKnownItems`. */
  countApart?: (() => Promise<DedupCount | undefined>) | undefined;
}

/** One pull: the rows of a page, in order; their wire bytes are read with `payloads`. */
export interface Page {
  epoch: Epoch;
  headSeq: number;
  rows: QueueRow[];
  /** Says whether an item with a higher seq is queued. */
  more: boolean;
}

export class Engine {
  readonly settings: RelaySettings;
  /** The commands that decide which hosts are admitted. */
  readonly admissions: AccessControl;
  /** The enrolments, with everything admitted so far, durable or not. */
  readonly directory: HostDirectory;
  readonly pushes: Pushes;
  readonly acks: Acks;
  readonly expiry: Expiry;
  readonly lost: LostItemCommands;
  readonly log: LogProofs;
  readonly logRetention: LogRetention;
  readonly recent = new RecentItems();
  readonly mail = new MailUse();
  readonly #store: RelayStore;
  readonly #monotonicMs: () => number;
  readonly #committer: Committer;
  readonly #heads: DurableHeads;
  readonly #queues: Queues;
  readonly #enrolmentEnded = new OnceListeners();
  readonly #observer: EngineObserver;
  #epoch: Epoch;
  #findingOldest: Promise<QueueRow | undefined> | undefined;
  #isDraining = false;

  private constructor(options: EngineOptions, memory: { directory: Directory; admissions: Admissions }) {
    const { store, settings, signer, monotonicMs, onStoreFailed, observer = NO_OBSERVER } = options;
    const { onBrokenQueue: onFault = () => undefined, onVanished = () => Promise.resolve() } = options;
    const { directory, admissions } = memory;
    this.settings = settings;
    this.directory = directory;
    this.log = new LogProofs(store, signer);
    this.#store = store;
    this.#monotonicMs = monotonicMs;
    this.#observer = observer;
    this.#heads = new DurableHeads(store);
    this.#epoch = relayRow(store).epoch;
    const committer = new Committer({
      store,
      failed: onStoreFailed,
      monotonicMs,
      published: (batch) => this.#published(batch),
      broken: (error) => this.#queues.noteFault(error),
      admitted: (event) => {
        this.#queues.admitted(event);
        this.#heads.admitted(event);
      },
      changing: (change) => {
        this.#heads.changing(change);
        this.mail.apply(change, committer);
        admissions.apply(change);
        if (change.table === 'enrolment') directory.apply(change.key as PublicKey, change.row);
        if (change.table === 'dedup' && change.row) store.noteKnown(change.key, change.row);
      },
    });
    this.#committer = committer;
    const queues = new Queues({ store, committer, monotonicMs, onFault, onVanished });
    this.#queues = queues;
    const { mail } = this;
    const parts = { store, committer, monotonicMs, settings, signer, directory, admissions, mail, queues, observer };
    this.pushes = new Pushes(parts);
    this.acks = new Acks(parts);
    this.admissions = new AccessControl(parts);
    this.expiry = new Expiry(parts);
    this.lost = new LostItemCommands(parts);
    this.logRetention = new LogRetention(parts);
  }

  /** An engine over an opened store. Continues what a crash cut short. */
  static async start(options: EngineOptions, nowMs: number): Promise<Engine> {
    const { store } = options;
    void store.fillKnownItems(options);
    const memory = { directory: new Directory(), admissions: new Admissions() };
    const engine = new Engine(options, memory);
    await engine.#heads.countStored();
    for (const row of await store.enrolments()) {
      memory.directory.apply(row.hostPubkey, row);
      engine.mail.apply({ table: 'enrolment', key: row.hostPubkey, row });
    }
    for (const change of await store.admissionRows()) memory.admissions.apply(change);
    for await (const change of store.mailRows()) engine.mail.apply(change);
    for (const key of await store.moves()) void engine.#queues.move(key, nowMs);
    await engine.admissions.revokeDenied(nowMs);
    await engine.logRetention.dropOrphanParts();
    return engine;
  }

  get damagedRows(): FoundRow[] {
    return this.#store.damagedRows.all;
  }

  /** Checks the next rows of the store after `after` and records which are damaged. Returns where to continue. */
  checkRows(after: Buffer): Promise<Buffer | undefined> {
    return this.#store.checkRows(after);
  }

  /** The current epoch, durable. */
  get epoch(): Epoch {
    return this.#epoch;
  }

  /** Every enrolment, revoked ones included, at one moment and durable. */
  async enrolments(): Promise<EnrolmentRow[]> {
    const rows = [...this.directory.all()];
    await this.#committer.durable();
    return rows;
  }

  presentKey(key: PublicKey): PublicKey {
    return presentKey(this.#committer, key);
  }

  /** The keys that rotations joined with this one and under which items may be known. */
  lineage(key: PublicKey): readonly PublicKey[] {
    return lineageOf(this.#committer, key);
  }

  /** Head and acked-through of a queue, durable. */
  head(target: PublicKey): TargetRow {
    return this.#heads.get(target);
  }

  /** Items and bytes waiting in all queues, durable. Without expiry notices, as in the quotas. */
  get waiting(): UsageRow {
    return this.#heads.waiting;
  }

  get brokenQueues(): QueueFault[] {
    return this.#queues.faults;
  }

  get waits(): number {
    return this.#heads.waits;
  }

  /**
   * The waiting item that expires first: the oldest, while the retention stays the same. The first call after a start
   * may take long, in time slices; it ends early when `signal` aborts.
   */
  oldestWaiting(signal?: AbortSignal): Promise<QueueRow | undefined> {
    const isGone = (target: PublicKey, seq: number): boolean => seq <= this.#heads.get(target).ackedThrough;
    const slice = new TimeSlice(this.#monotonicMs);
    this.#findingOldest ??= this.#store.oldestItem.find(isGone, slice, signal).finally(() => {
      this.#findingOldest = undefined;
    });
    return this.#findingOldest;
  }

  /** Reports to the observer pushed items that were rejected before they became commands. */
  noteUnread(rejection: ItemRejection, count: number): void {
    if (count > 0) this.#observer.unread(rejection, count);
  }

  async publishSenders(command: PublishSenders): Promise<SendersOutcome | Refusal> {
    const published = sendersRow(this.#committer, command.hostPubkey);
    return this.#committer.answer(decidePublishSenders(command, published, this.#store.logFormat));
  }

  async publishEncKey(command: PublishEncKey): Promise<EncKeyOutcome | Refusal> {
    return this.#committer.answer(decidePublishEncKey(command, this.#committer.get('encKey', command.hostPubkey)));
  }

  /** The advertised encryption key of a live host, durable. */
  async encKey(hostPubkey: PublicKey): Promise<EncKeyRow | undefined> {
    const enrolment = this.directory.get(hostPubkey);
    const row = enrolment && enrolment.revokedAtMs === null ? this.#committer.get('encKey', hostPubkey) : undefined;
    await this.#committer.durable();
    return row;
  }

  /** The signed record by which this key was replaced, if it was kept; durable. */
  async rotation(oldPubkey: PublicKey): Promise<RotationRow | undefined> {
    const row = this.#committer.get('rotation', oldPubkey);
    await this.#committer.durable();
    return row;
  }

  /** Notes the hop of a live host. Resolves when the host's row is durable; `undefined`: it is. */
  noteHostSeen(command: NoteHostSeen): Promise<unknown> | undefined {
    const noted = decideHostSeen(command, this.directory.get(command.hostPubkey), this.#store.logFormat);
    if (noted.events.length > 0) return this.#committer.answer(noted);
    return this.#committer.durableRow('enrolment', command.hostPubkey);
  }

  /** The outcome names the epoch that is current then. */
  async rotateEpoch(command: RotateEpoch): Promise<EpochOutcome> {
    return this.#committer.answer(decideRotateEpoch(command, this.#committer));
  }

  async heartbeat(nowMs: number): Promise<void> {
    this.#store.collector.wake(this.#monotonicMs());
    this.#committer.add({ heartbeatMs: nowMs });
    await this.#committer.durable();
  }

  /** The durable items of `target` after `after`: at most `limit`, and about `max_pull_bytes`, but at least one. */
  async page(target: PublicKey, after: number, limit: number): Promise<Page> {
    await this.#queues.migrated(target);
    const { headSeq, ackedThrough } = this.#heads.get(target);
    const { max_pull_bytes: bytesMax } = this.settings.limits;
    const behind = Math.max(after, ackedThrough);
    const range = [target, behind, headSeq, limit + 1] as const;
    const rows = this.recent.rows(...range) ?? (await this.#store.queueRows(...range));
    if (this.#heads.isLosing(target)) {
      await this.#committer.durable();
      return this.page(target, after, limit);
    }
    const through = rows.length > limit ? (rows.at(-1)?.seq ?? headSeq) : headSeq;
    const told = this.#queues.compared(target, rows, behind, through);
    if (told) await told;
    const page = pageRows(rows, limit, bytesMax);
    this.#observer.pulled(target, page.rows.at(-1)?.seq);
    return { epoch: this.epoch, headSeq, ...page };
  }

  /**
   * A slice of all queues (store/scan.ts) without what is acked; `undefined` when the walk is at its end. A queue
   * whose target row is damaged is left out: the store notes the row.
   */
  waitingSlice(after: Buffer, through: Buffer, bytesMax: number): Promise<QueueSlice | undefined> {
    return this.#store.waitingSlice([after, through], bytesMax, (target) => this.#heads.get(target).ackedThrough);
  }

  /** The wire bytes of queue rows, unchecked; `undefined` where they are missing. */
  payloads(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    return this.#store.payloads(rows);
  }

  /** As `RelayStore.encodedPayloads`. */
  encodedPayloads(rows: readonly QueueRow[], texts: TextsAround): Promise<EncodedWires | undefined> {
    return this.#store.encodedPayloads(rows, texts);
  }

  /** Calls `waiter` once, when an item for `target` is durable or the waits end. Returns a function that stops it. */
  onArrival(target: PublicKey, waiter: () => void): () => void {
    return this.#heads.wait(target, waiter);
  }

  /**
   * Calls `listener` once, when it is durable that the enrolment of `key` ended: it was revoked, or a rotation put
   * another key in its place. Returns a function that stops it.
   */
  onEnrolmentEnded(key: PublicKey, listener: () => void): () => void {
    return this.#enrolmentEnded.add(key, listener);
  }

  /** Ends every wait, now and in future: the relay is draining. */
  endWaits(): void {
    this.#isDraining = true;
    this.#heads.wakeAll();
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Resolves when everything admitted so far is durable. Rejects with `StoreFailed`. */
  async durable(): Promise<void> {
    await this.#committer.durable();
  }

  /** A view of everything durable, between two batches; the caller closes it. Rejects with `StoreFailed`. */
  snapshot(): Promise<StoreSnapshot> {
    return this.#committer.betweenBatches(() => this.#store.snapshot());
  }

  /** Finishes what is being written; then the store may be closed. The next start collects what is left to collect. */
  async close(): Promise<void> {
    // A migration that began at the start belongs to no request and would write into a closed store.
    await this.#queues.moved();
    await this.#committer.close();
  }

  #published(batch: CommittedBatch): void {
    const { entries, changes } = batch;
    const { epoch } = this;
    for (const change of changes) if (change.table === 'relay' && change.row) this.#epoch = change.row.epoch;
    this.recent.durable(batch, (target) => this.#heads.get(target).headSeq);
    this.#heads.published(entries, changes);
    // Long polls of the epoch that ended would wait for items that come in another.
    if (this.epoch !== epoch) this.#heads.wakeAll();
    for (const change of changes) {
      if (change.table !== 'enrolment' || !change.row?.revokedAtMs) continue;
      // Ends the long polls and the open requests of a revoked host.
      this.#heads.wake(change.row.hostPubkey);
      this.#enrolmentEnded.call(change.row.hostPubkey);
    }
    this.#observer.committed(batch);
  }
}
