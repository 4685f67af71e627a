/**
 * The engine: facts, decide, reduce, commit, answer; and the reads of durable state.
 *
 * One way: a command is admitted in one synchronous stretch (facts → decide → reduce into the open batch), then waits
 * until everything it saw is durable, and only then is answered. What a command needs of a range is in memory before
 * that stretch begins. A refusal waits too: it may rest on an item that is not durable yet.
 */
import { type Sha256Hex } from '../../protocol/digest.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { ItemRejection } from '../../protocol/items.ts';
import { type HostName, foldHostName } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { Admissions } from '../core/admissions.ts';
import type {
  AckItems,
  DenyHosts,
  EnrolHost,
  IssueInvite,
  NoteHostSeen,
  PublishEncKey,
  PublishSenders,
  PushItem,
  ReportLostItem,
  RevokeHost,
  RotateEpoch,
  RotateKey,
} from '../core/command.ts';
import { decideAck } from '../core/decide-ack.ts';
import { decideEnrol, decideHostSeen } from '../core/decide-enrolment.ts';
import { decideLostItem, decideRotateEpoch } from '../core/decide-epoch.ts';
import { decidePublishEncKey, decidePublishSenders } from '../core/decide-publish.ts';
import { decidePush } from '../core/decide-push.ts';
import { decideRotate } from '../core/decide-rotation.ts';
import {
  type AckOutcome,
  type Done,
  type EncKeyOutcome,
  type EnrolOutcome,
  type EpochOutcome,
  type InviteOutcome,
  type PushOutcome,
  type Refusal,
  type RevokeOutcome,
  type RotateOutcome,
  type SendersOutcome,
  refusal,
} from '../core/decision.ts';
import { Directory } from '../core/directory.ts';
import type { RelayEvent } from '../core/event.ts';
import {
  type RelaySettings,
  ackFacts,
  enrolFacts,
  lineageOf,
  lostItemFacts,
  presentKey,
  pushFacts,
  relayRow,
  rotateFacts,
  targetRow,
} from '../core/facts.ts';
import {
  type EncKeyRow,
  type EnrolmentRow,
  type InviteRow,
  type QueueRow,
  type TargetRow,
  type UsageRow,
  rowKey,
} from '../core/rows.ts';
import { pageRows } from '../core/page.ts';
import type { Payload } from '../store/log.ts';
import type { QueueSlice } from '../store/queue-walk.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { StoreSnapshot } from '../store/snapshot.ts';
import { Committer, type StoreFailed } from './committer.ts';
import { Doors } from './doors.ts';
import { DurableHeads } from './durable-heads.ts';
import { Expiry } from './expiry.ts';
import { LogKeeping } from './log-keeping.ts';
import { LogProofs } from './log-proofs.ts';
import { Moves } from './moves.ts';
import { type CommittedBatch, type EngineObserver, NO_OBSERVER } from './observer.ts';
import { QueueIndexes } from './queue-indexes.ts';
import { Stretch } from './stretch.ts';

/** Senders whose shares one step of an ack releases: each is a row to read and to write. */
const ACK_SENDERS_MAX = 250;

export interface EngineOptions {
  store: RelayStore;
  settings: RelaySettings;
  /** The relay's own key: it signs expiry notices and checkpoints of the log. */
  signer: Signer;
  /** Milliseconds that never go back, for stretches only. */
  monotonicMs: () => number;
  /** Called once, when a batch failed: the process is to end. */
  failed: (error: StoreFailed) => void;
  /** Told of what is done; absent: nobody counts. */
  observer?: EngineObserver;
}

/** What a push came to, as its caller prepared it. */
export interface Pushed<T> {
  type: 'Pushed';
  answer: T;
}

/** One pull: the rows of a page, in order; their wire bytes are read with `payloads`. */
export interface Page {
  epoch: Epoch;
  headSeq: number;
  rows: QueueRow[];
  /** Whether another item with a higher seq is queued. */
  more: boolean;
}

export class Engine {
  readonly settings: RelaySettings;
  readonly log: LogProofs;
  readonly logKeeping: LogKeeping;
  readonly #store: RelayStore;
  readonly #monotonicMs: () => number;
  readonly #directory = new Directory();
  readonly #admissions = new Admissions();
  readonly #committer: Committer;
  readonly #heads: DurableHeads;
  readonly #indexes: QueueIndexes;
  readonly #moves: Moves;
  readonly #doors: Doors;
  readonly #expiry: Expiry;
  readonly #observer: EngineObserver;
  #epoch: Epoch;
  #findingOldest: Promise<QueueRow | undefined> | undefined;
  #isDraining = false;

  private constructor({ store, settings, signer, monotonicMs, failed, observer = NO_OBSERVER }: EngineOptions) {
    this.settings = settings;
    this.log = new LogProofs(store, signer);
    this.#store = store;
    this.#monotonicMs = monotonicMs;
    this.#observer = observer;
    this.#heads = new DurableHeads(store);
    this.#epoch = relayRow(store).epoch;
    this.#indexes = new QueueIndexes({
      store,
      durable: () => this.#committer.durable(),
      targetRow: (target) => targetRow(this.#committer, target),
    });
    this.#committer = new Committer({
      store,
      failed,
      monotonicMs,
      published: (batch) => this.#published(batch),
      observer: {
        admitted: (event) => this.#indexes.admitted(event),
        changing: (change) => {
          this.#heads.changing(change);
          this.#admissions.apply(change);
          if (change.table === 'enrolment') this.#directory.apply(change.key as PublicKey, change.row);
        },
      },
    });
    const committer = this.#committer;
    this.logKeeping = new LogKeeping({ store, committer, monotonicMs });
    this.#moves = new Moves({ store, committer, monotonicMs });
    const [directory, admissions] = [this.#directory, this.#admissions];
    this.#doors = new Doors({ committer, directory, admissions, monotonicMs });
    const waitFor = (targets: readonly PublicKey[]) => this.#waitFor(targets);
    this.#expiry = new Expiry({ store, committer, settings, signer, monotonicMs, waitFor });
  }

  /** An engine over an opened store. What a crash cut short goes on. */
  static async start(options: EngineOptions, nowMs: number): Promise<Engine> {
    const { store } = options;
    const engine = new Engine(options);
    await engine.#heads.countStored();
    for (const row of await store.enrolments()) engine.#directory.apply(row.hostPubkey, row);
    for (const change of await store.admissionRows()) engine.#admissions.apply(change);
    for (const key of await store.moves()) void engine.#moves.begin(key, nowMs);
    await engine.#doors.revokeDenied(nowMs);
    await engine.logKeeping.dropWorthless();
    return engine;
  }

  /** The current epoch, durable. */
  get epoch(): Epoch {
    return this.#epoch;
  }

  get liveEnrolments(): number {
    return this.#directory.liveCount;
  }

  enrolment(key: PublicKey): EnrolmentRow | undefined {
    return this.#directory.get(key);
  }

  /** The one live host that a name means to a caller with this proven account ("Enrolment record", rules 6 and 7). */
  findByName(name: HostName, account: string | null): EnrolmentRow | 'unknown' | 'ambiguous' {
    return this.#directory.findByName(name, account);
  }

  /** The live enrolments that carry a name; none when it is crowded. */
  namesakes(name: HostName): EnrolmentRow[] {
    return this.#directory.namesakes(name);
  }

  /** Every enrolment, revoked ones included, at one moment and durable. */
  async enrolments(): Promise<EnrolmentRow[]> {
    const rows = [...this.#directory.all()];
    await this.#committer.durable();
    return rows;
  }

  /** The live enrolments that carry a name, however many. */
  carriers(name: HostName): EnrolmentRow[] {
    return this.#directory.liveByName(foldHostName(name)).flatMap((key) => this.#directory.get(key) ?? []);
  }

  /** The key with this fingerprint, live or not. */
  keyOfFingerprint(fingerprint: Sha256Hex): PublicKey | undefined {
    return this.#directory.byFingerprint(fingerprint);
  }

  /** The key that the host of this key has now. */
  presentKey(key: PublicKey): PublicKey {
    return presentKey(this.#committer, key);
  }

  /** Every key that rotations joined with this one. */
  lineage(key: PublicKey): readonly PublicKey[] {
    return lineageOf(this.#committer, key);
  }

  /** Head and acked-through of a queue, durable. */
  head(target: PublicKey): TargetRow {
    return this.#heads.get(target);
  }

  /** What waits in all queues together, durable. Expiry notices are left out, as in the quotas. */
  get waiting(): UsageRow {
    return this.#heads.waiting;
  }

  /** Long polls that are under way. */
  get waits(): number {
    return this.#heads.waits;
  }

  /**
   * The waiting item that expires first: the oldest, while the retention stays the same. The first time after a start
   * it may take long, never at the cost of others; it ends early when `goesOn` says no.
   */
  oldestWaiting(goesOn: () => boolean = () => true): Promise<QueueRow | undefined> {
    const isGone = (target: PublicKey, seq: number): boolean => seq <= this.#heads.get(target).ackedThrough;
    const stretch = new Stretch(this.#monotonicMs);
    this.#findingOldest ??= this.#store.oldestItem.find(isGone, stretch, goesOn).finally(() => {
      this.#findingOldest = undefined;
    });
    return this.#findingOldest;
  }

  /** Tells whoever counts of pushed items that were refused before they were commands. */
  noteUnread(rejection: ItemRejection, count: number): void {
    if (count > 0) this.#observer.unread(rejection, count);
  }

  async enrol(command: EnrolHost): Promise<EnrolOutcome | Refusal> {
    const facts = enrolFacts(command, this.#committer, this.#directory, this.#admissions, this.settings);
    return this.#committer.answer(decideEnrol(command, facts));
  }

  /** The host goes on under its new key; answered when its whole queue is there. */
  async rotateKey(command: RotateKey): Promise<RotateOutcome | Refusal> {
    const { oldPubkey, newPubkey, nowMs } = command;
    const keys = [oldPubkey, newPubkey];
    for (;;) {
      const wait = this.#committer.isFull ? this.#committer.room() : this.#waitFor(keys);
      const index = this.#indexes.get(oldPubkey);
      if (wait) await wait;
      else if (!index) await this.#indexes.load(oldPubkey);
      else {
        const { settings } = this;
        const waiting = index.released(Infinity, Infinity);
        const facts = rotateFacts(command, this.#committer, this.#directory, this.#admissions, settings, waiting);
        const decision = decideRotate(command, facts);
        if (decision.type === 'Refusal') return this.#committer.answer(decision);
        this.#committer.admit(decision.events);
        await this.#moves.begin(oldPubkey, nowMs);
        return this.#committer.answer({ ...decision, events: [] });
      }
    }
  }

  async revokeHost(command: RevokeHost): Promise<RevokeOutcome | Refusal> {
    return this.#doors.revokeHost(command);
  }

  /** From now on these hosts are kept out; those that are in are revoked when this resolves. */
  async denyHosts(command: DenyHosts): Promise<Done | Refusal> {
    return this.#doors.denyHosts(command);
  }

  async issueInvite(command: IssueInvite): Promise<InviteOutcome | Refusal> {
    return this.#doors.issueInvite(command);
  }

  /** The invites that nobody has used and whose time has not passed, durable. */
  async openInvites(nowMs: number): Promise<InviteRow[]> {
    return this.#doors.openInvites(nowMs);
  }

  /** Forgets deny entries and invites whose time passed. */
  async lapseAdmissions(nowMs: number): Promise<void> {
    await this.#doors.lapse(nowMs);
  }

  async publishSenders(command: PublishSenders): Promise<SendersOutcome | Refusal> {
    return this.#committer.answer(decidePublishSenders(command, this.#committer.get('senders', command.hostPubkey)));
  }

  async publishEncKey(command: PublishEncKey): Promise<EncKeyOutcome | Refusal> {
    return this.#committer.answer(decidePublishEncKey(command, this.#committer.get('encKey', command.hostPubkey)));
  }

  /** The advertised encryption key of a live host, when it is durable. */
  async encKey(hostPubkey: PublicKey): Promise<EncKeyRow | undefined> {
    const enrolment = this.#directory.get(hostPubkey);
    const row = enrolment && enrolment.revokedAtMs === null ? this.#committer.get('encKey', hostPubkey) : undefined;
    await this.#committer.durable();
    return row;
  }

  async noteHostSeen(command: NoteHostSeen): Promise<void> {
    await this.#committer.answer(decideHostSeen(command, this.#directory.get(command.hostPubkey)));
  }

  /**
   * Each item alone and in order. `prepare` turns the outcomes into an answer while they are being synced; the answer
   * is given out when everything it rests on is durable. Nothing is tried after an outcome at which `stopsAt` says so.
   */
  async push<T>(
    commands: readonly PushItem[],
    prepare: (outcomes: PushOutcome[], epoch: Epoch) => T | Promise<T>,
    stopsAt: (outcome: PushOutcome) => boolean = () => false,
  ): Promise<Pushed<T> | Refusal> {
    const outcomes: PushOutcome[] = [];
    const stretch = new Stretch(this.#monotonicMs);
    for (const command of commands) {
      if (stretch.isOver) await stretch.pause();
      for (let wait = this.#obstacle(command); wait; wait = this.#obstacle(command)) await wait;
      // Revoked while its request was under way: what it had pushed by then stays, and it is told nothing of it.
      const sender = this.#directory.get(command.senderPubkey);
      if (sender && sender.revokedAtMs !== null) return this.#committer.answer(refusal('NOT_ENROLLED', 'not enrolled'));
      const decision = decidePush(command, pushFacts(command, this.#committer, this.settings));
      this.#committer.admit(decision.events, payloadsOf(command, decision.events));
      outcomes.push(decision.outcome);
      if (stopsAt(decision.outcome)) break;
    }
    const durable = this.#committer.durable();
    const [answer] = await Promise.all([prepare(outcomes, relayRow(this.#committer).epoch), durable]);
    this.#observer.pushed(outcomes);
    return { type: 'Pushed', answer };
  }

  /** In steps where many senders are concerned: an ack that a crash cuts short has released what it had recorded. */
  async ack(command: AckItems): Promise<AckOutcome | Refusal> {
    const { targetPubkey, through } = command;
    const stretch = new Stretch(this.#monotonicMs);
    for (let deleted = 0; ; ) {
      for (let move = this.#moves.under([targetPubkey]); move; move = this.#moves.under([targetPubkey])) await move;
      if (this.#committer.isFull) {
        await this.#committer.room();
        continue;
      }
      const index = this.#indexes.get(targetPubkey);
      if (!index) {
        await this.#indexes.load(targetPubkey);
        continue;
      }
      const released = index.released(through, ACK_SENDERS_MAX);
      const decision = decideAck(command, ackFacts(command, this.#committer, released));
      if (decision.type === 'Refusal') return this.#committer.answer(decision);
      this.#committer.admit(decision.events);
      const { outcome } = decision;
      deleted += outcome.deleted;
      if (outcome.ackedThrough >= through)
        return this.#committer.answer({ ...decision, events: [], outcome: { ...outcome, deleted } });
      if (stretch.isOver) await stretch.pause();
    }
  }

  /** Expires everything whose time came; the sweep ends when `goesOn` says no. See expiry.ts. */
  async expire(nowMs: () => number, goesOn: () => boolean): Promise<void> {
    await this.#expiry.expire(nowMs, goesOn);
  }

  /** Forgets the dedup rows whose horizon passed. As `expire`. */
  async purgeDedup(nowMs: () => number, goesOn: () => boolean): Promise<void> {
    await this.#expiry.purgeDedup(nowMs, goesOn);
  }

  /** What a command for these queues waits for: their items to be moved, or their indexes to be loaded. */
  #waitFor(targets: readonly PublicKey[]): Promise<void> | undefined {
    const move = this.#moves.under(targets);
    if (move) return move;
    for (const target of targets) {
      const loading = this.#indexes.loading(target);
      if (loading) return loading;
    }
    return undefined;
  }

  async rotateEpoch(command: RotateEpoch): Promise<EpochOutcome> {
    return this.#committer.answer(decideRotateEpoch(command));
  }

  /** Answers whether the item still waited: one that is gone by now was not lost. */
  async reportLostItem(command: ReportLostItem): Promise<boolean> {
    const { targetPubkey } = command;
    for (let wait = this.#waitFor([targetPubkey]); wait; wait = this.#waitFor([targetPubkey])) await wait;
    const facts = lostItemFacts(command, this.#committer);
    await this.#committer.answer(decideLostItem(command, facts));
    return facts.queued !== undefined;
  }

  async heartbeat(nowMs: number): Promise<void> {
    this.#committer.admitRow({ table: 'heartbeat', key: rowKey.heartbeat, row: { atMs: nowMs } });
    await this.#committer.durable();
  }

  /** The durable items of `target` above `after`: at most `limit`, and about `max_pull_bytes`, but at least one. */
  async page(target: PublicKey, after: number, limit: number): Promise<Page> {
    for (let move = this.#moves.under([target]); move; move = this.#moves.under([target])) await move;
    const { headSeq, ackedThrough } = this.#heads.get(target);
    const { max_pull_bytes: bytesMax } = this.settings.limits;
    const rows = await this.#store.queueRows(target, Math.max(after, ackedThrough), headSeq, limit + 1);
    const page = pageRows(rows, limit, bytesMax);
    this.#observer.pulled(target, page.rows.at(-1)?.seq);
    return { epoch: this.epoch, headSeq, ...page };
  }

  /** A slice of all queues (store/queue-walk.ts) without what is acked; `undefined` when the walk is at its end. */
  async waitingSlice(after: Buffer, through: Buffer, bytesMax: number): Promise<QueueSlice | undefined> {
    const slice = await this.#store.queueSlice(after, through, bytesMax);
    const waits = ({ targetPubkey, seq }: QueueRow): boolean => seq > this.#heads.get(targetPubkey).ackedThrough;
    return slice && { ...slice, rows: slice.rows.filter(waits) };
  }

  /** The wire bytes of queue rows; `undefined` where they are missing. Unchecked. */
  payloads(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    return this.#store.payloads(rows);
  }

  /** Calls `waiter` once, when an item for `target` became durable or the waits are ended. Answers how to stop. */
  onArrival(target: PublicKey, waiter: () => void): () => void {
    return this.#heads.wait(target, waiter);
  }

  /** Ends every wait, now and from now on: the relay is draining. */
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

  /** Everything that is durable, at one moment between two batches; to be closed. Rejects with `StoreFailed`. */
  snapshot(): Promise<StoreSnapshot> {
    return this.#committer.betweenBatches(() => this.#store.snapshot());
  }

  /** Finishes what is being written; the store may be closed then. What was not collected yet is left for the next start. */
  async close(): Promise<void> {
    // One that began at the start belongs to no request, and would write on into a closed store.
    await this.#moves.ended();
    await this.#committer.close();
  }

  #published(batch: CommittedBatch): void {
    const { changes } = batch;
    const { epoch } = this;
    for (const change of changes) if (change.table === 'relay' && change.row) this.#epoch = change.row.epoch;
    this.#heads.published(changes);
    // Whoever waits in the epoch that ended would wait for items that come in another.
    if (this.epoch !== epoch) this.#heads.wakeAll();
    for (const change of changes) {
      // A revoked host waits for nothing any more.
      if (change.table === 'enrolment' && change.row?.revokedAtMs) this.#heads.wake(change.row.hostPubkey);
    }
    this.#observer.committed(batch);
  }

  /**
   * What a push waits for; `undefined` when it is to be decided now. Asked and decided in one stretch: an await
   * between the two would let the load of an index begin that never sees the item.
   */
  #obstacle({ item }: PushItem): Promise<void> | undefined {
    if (this.#committer.isFull) return this.#committer.room();
    return this.#waitFor(item.targets.map(({ hostPubkey }) => hostPubkey));
  }
}

/** The wire bytes of the targets that were new. */
function payloadsOf({ item }: PushItem, events: readonly RelayEvent[]): Payload[] {
  const accepted = events.at(-1);
  if (accepted?.type !== 'ItemAccepted') return [];
  return accepted.targets.map(({ hostPubkey, seq }) => {
    const pushed = item.targets.find((target) => target.hostPubkey === hostPubkey);
    if (!pushed) throw new Error('invariant: an accepted target was pushed');
    return { targetPubkey: hostPubkey, seq, wire: pushed.wire };
  });
}
