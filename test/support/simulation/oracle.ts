/**
 * Knows what a simulated relay has promised, from the moment at which it said so, whether anybody heard it or not; and
 * what in its later answers breaks it.
 *
 * An item that was accepted is shown to its target until it was acked or has expired, unless a new epoch begins; it has
 * one seq; no seq is of two items; what was acked does not come again; epochs, heads and checkpoints do not go back;
 * and a new epoch has a reason.
 */
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { DAY_MS, HEARTBEAT_STALE_MS } from '../../../src/protocol/limits.ts';
import { verifyConsistency } from '../../../src/protocol/merkle.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import type { CommittedBatch } from '../../../src/relay/engine/committer.ts';
import { relay as relayHost } from '../hosts.ts';
import type { Answer, Request } from './requests.ts';
import type { RelayWatcher } from './simulated-relay.ts';
import type { Simulator } from './simulator.ts';

interface Accept {
  item: string;
  key: PublicKey;
  seq: number;
  epoch: string;
  saidMs: number;
  expiresAtMs: number;
}

/**
 * The heartbeat in the store may be one of these: the last that is durable for sure, and those that were begun since.
 */
export type Beats = readonly number[];

interface OracleOptions {
  simulator: Simulator;
  wallMs: () => number;
  retentionMs: number;
  /** Returns which host a key belongs to. */
  ownerOf: (key: PublicKey) => number | undefined;
}

export class Oracle implements RelayWatcher {
  readonly faults: string[] = [];
  /** The number of items that were accepted, answered or not. */
  accepted = 0;
  /** Says why an epoch may begin that nobody asked for: another disk, wire bytes that rotted. */
  mayLoseItems = false;
  /** Says whether the disk of the next start holds less than one before it did. */
  isDiskOlder = false;
  #beats: Beats = [0];
  /** Hosts whose keys were joined since an older disk came back that may have known them apart. */
  #joined: Set<number | undefined> | undefined;
  /** The last record that a process opened or wrote. */
  lastLsn = 0;
  /** The latest that the clock of the relay has said. */
  maxWallMs = 0;
  readonly #options: OracleOptions;
  readonly #accepts = new Map<string, Accept>();
  readonly #itemAt = new Map<string, string>();
  readonly #seqOf = new Map<string, { seq: number; acceptedAtMs: number }>();
  /** By the receipts that were given last. */
  readonly #acceptedAt = new Map<string, number>();
  /** Under which key a seq of an item was told first. */
  readonly #toldAt = new Map<string, PublicKey>();
  readonly #shown = new Set<string>();
  /** Each key asked for its items to be released so far; and so far that was answered. */
  readonly #ackAsked = new Map<PublicKey, number>();
  readonly #acked = new Map<string, { through: number; saidMs: number }>();
  readonly #heads = new Map<string, { headSeq: number; saidMs: number }>();
  /** Epochs in their order, and when each was first told. */
  readonly #epochs: { epoch: string; saidMs: number }[] = [];
  readonly #notes = new Map<string, { size: number; root: Buffer; saidMs: number }>();

  constructor(options: OracleOptions) {
    this.#options = options;
  }

  fault(sentence: string): void {
    const { simulator } = this.#options;
    this.faults.push(`${simulator.nowMs.toFixed(0)} ms: ${sentence}`);
    simulator.note(`FAULT ${sentence}`);
  }

  opening(wallMs: number): void {
    this.beat(wallMs, false);
  }

  opened({ initialised, epochBegun, epoch, lastLsn }: Parameters<RelayWatcher['opened']>[0], wallMs: number): void {
    this.#options.simulator.note(`store opened, new epoch: ${epochBegun ?? 'none'}`);
    const before = this.#beats.slice(0, -1);
    const isOld = wallMs - Math.min(...before) > HEARTBEAT_STALE_MS;
    const isBack = wallMs < Math.max(...before);
    this.lastLsn = lastLsn;
    this.#beats = initialised || epochBegun !== undefined ? [wallMs] : before;
    if (initialised) return;
    if (epochBegun !== undefined && !isOld && !isBack && !this.isDiskOlder)
      this.fault(`a new epoch began (${epochBegun}) after nothing but an end of the process`);
    // A start that was cut short may have begun it, and nobody was told of it.
    const isTold = this.#epochs.some((one) => one.epoch === epoch);
    if (epochBegun === undefined && this.isDiskOlder && isTold)
      this.fault('an older disk came back, and no new epoch began');
    this.isDiskOlder = false;
  }

  /**
   * A copy of the volume comes back. With a clock that went back too nothing keeps the relay from giving out the
   * numbers of the history that is gone: its new epoch tells everybody.
   *
   * @param beats what the heartbeat may have been when the copy was taken
   */
  copyComesBack(isOlder: boolean, beats: Beats): void {
    this.isDiskOlder ||= isOlder;
    if (isOlder) this.#joined = new Set();
    this.#beats = beats;
    this.mayLoseItems = true;
    if (this.#options.wallMs() < this.maxWallMs) this.#itemAt.clear();
  }

  get beats(): Beats {
    return this.#beats;
  }

  beat(atMs: number, isDurable: boolean): void {
    this.#beats = isDurable ? [atMs] : [...this.#beats, atMs];
  }

  /** The clock of the relay is about to be set. */
  clockIsSet(): void {
    this.maxWallMs = Math.max(this.maxWallMs, this.#options.wallMs());
  }

  committed({ entries }: CommittedBatch): void {
    this.lastLsn = entries.at(-1)?.lsn ?? this.lastLsn;
    for (const { event } of entries) {
      if (event.type === 'ItemAccepted') this.accepted++;
      if (event.type === 'ItemLost' && !this.mayLoseItems) this.fault(`${event.itemId} was lost, and nothing rotted`);
      if (event.type === 'EpochRotated' && event.reason === 'item-lost' && !this.mayLoseItems)
        this.fault('an epoch began for a lost item, and nothing rotted');
    }
  }

  answered(request: Request, answer: Answer, startedMs: number): void {
    this.maxWallMs = Math.max(this.maxWallMs, this.#options.wallMs());
    if (request.type === 'ack') {
      const before = this.#ackAsked.get(request.caller.key) ?? 0;
      this.#ackAsked.set(request.caller.key, Math.max(before, request.through));
    }
    switch (answer.type) {
      case 'pushed':
        this.#epochSaid(answer.epoch, startedMs);
        return this.#pushed(request, answer);
      case 'page':
        this.#epochSaid(answer.epoch, startedMs);
        return this.#paged(request, answer, startedMs);
      case 'acked':
        return this.#ackSaid(request, answer);
      case 'checkpoint':
        return this.#checkpoint(request, answer, startedMs);
      case 'refused':
        if (answer.epoch !== undefined) this.#epochSaid(answer.epoch, startedMs);
        if (answer.code === 'BAD_ACK') this.fault(`an ack of ${request.caller.name} lies beyond the head`);
        return;
      case 'done':
        if (request.type === 'rotate') this.#joined?.add(this.#options.ownerOf(request.caller.key));
        return;
      case 'challenge':
    }
  }

  #pushed(request: Request, { epoch, results }: Answer & { type: 'pushed' }): void {
    const { simulator, retentionMs, ownerOf } = this.#options;
    const sender = ownerOf(request.caller.key);
    for (const { status, accept, itemId } of results) {
      for (const { host_pubkey: key, seq } of accept?.targets ?? []) {
        const item = `${sender} ${itemId} to ${ownerOf(key)}`;
        if (accept) this.#acceptedAt.set(item, accept.at);
        const before = this.#firstSeq(`pushed ${epoch} ${key}`, item, seq);
        if (before !== seq) this.fault(`${item} was answered with the seqs ${before} and ${seq} in ${epoch}`);
        if (status !== 'accepted') continue;
        const other = this.#noted(this.#itemAt, `${key} ${seq}`, item);
        if (other !== item) this.fault(`${item} got the seq ${seq} of ${other}`);
        // Of an item that was known before the receipt has its first seq, and after a rotation it waits at another.
        const first = this.#noted(this.#toldAt, `${item} ${seq}`, key);
        if (!accept || seq < accept.at || first !== key) continue;
        const expiresAtMs = accept.at + retentionMs;
        this.#accepts.set(`${key} ${item}`, { item, key, seq, epoch, saidMs: simulator.nowMs, expiresAtMs });
      }
    }
  }

  #paged(request: Request, page: Answer & { type: 'page' }, startedMs: number): void {
    if (request.type !== 'pull') return;
    const { simulator, ownerOf } = this.#options;
    const { key } = request.caller;
    const { epoch, headSeq, items, lastSeq, more } = page;
    const target = ownerOf(key);
    let last = request.after;
    for (const { seq, itemId, senderPubkey, kind } of items) {
      if (seq <= last) this.fault(`a page for ${key} does not ascend at ${seq}`);
      last = seq;
      const sender = kind === 'expired' ? 'relay' : ownerOf(senderPubkey);
      const item = `${sender} ${itemId} to ${target}`;
      const other = this.#noted(this.#itemAt, `${key} ${seq}`, item);
      if (other !== item) this.fault(`${item} is at the seq ${seq} of ${other}`);
      const first = this.#firstSeq(`shown ${epoch} ${key}`, item, seq);
      // Both keys of a host may have been given an item while an older disk did not know that one came after the other.
      const mayBeTwice = kind === 'expired' || this.#joined?.has(target) === true;
      if (first !== seq && !mayBeTwice) this.fault(`${item} is doubled: at ${first} and at ${seq} in ${epoch}`);
      const acked = this.#acked.get(`${epoch} ${key}`);
      if (acked && acked.saidMs < startedMs && seq <= acked.through) this.fault(`${item} came again after its ack`);
      this.#shown.add(item);
    }
    const place = `${epoch} ${key}`;
    const head = this.#heads.get(place);
    if (head && head.saidMs < startedMs && headSeq < head.headSeq)
      this.fault(`the head of ${key} went back from ${head.headSeq} to ${headSeq} in ${epoch}`);
    if (!head || headSeq > head.headSeq) this.#heads.set(place, { headSeq, saidMs: simulator.nowMs });
    this.#findLost(request, more ? lastSeq : Infinity, epoch, startedMs);
  }

  #findLost({ caller, after }: Request & { type: 'pull' }, end: number, epoch: string, startedMs: number): void {
    const wallMs = Math.max(this.maxWallMs, this.#options.wallMs());
    for (const accept of this.#accepts.values()) {
      if (accept.key !== caller.key || accept.epoch !== epoch || accept.saidMs >= startedMs) continue;
      if (accept.seq <= after || accept.seq > end || this.#shown.has(accept.item)) continue;
      if (accept.seq <= (this.#ackAsked.get(caller.key) ?? 0) || accept.expiresAtMs <= wallMs) continue;
      this.fault(`${accept.item} was accepted at ${accept.seq} in ${epoch}, and a page beyond it lacks it`);
    }
  }

  #ackSaid(request: Request, { ackedThrough }: Answer & { type: 'acked' }): void {
    if (request.type !== 'ack') return;
    const place = `${request.epoch} ${request.caller.key}`;
    const before = this.#acked.get(place)?.through ?? 0;
    if (ackedThrough > before) this.#acked.set(place, { through: ackedThrough, saidMs: this.#options.simulator.nowMs });
  }

  #checkpoint(request: Request, { note, growth }: Answer & { type: 'checkpoint' }, startedMs: number): void {
    if (request.type !== 'checkpoint') return;
    const seen = openCheckpoint(note, relayHost.key);
    if (!seen) return this.fault('a checkpoint is not signed by the relay');
    const { epoch, size, rootHash } = seen;
    const before = this.#notes.get(epoch);
    if (before && before.saidMs < startedMs && size < before.size)
      this.fault(`the checkpoint of ${epoch} went back from ${before.size} to ${size}`);
    if (before?.size === size && !before.root.equals(rootHash)) this.fault(`two checkpoints of ${epoch} contradict`);
    const { known } = request;
    if (known && growth && before && known.epoch === epoch && known.size === before.size && size > before.size) {
      const proven = { from: known.size, to: size, proof: growth, fromRoot: before.root, toRoot: rootHash };
      if (!verifyConsistency(proven)) this.fault(`the log of ${epoch} was ${before.size} records long, and is another`);
    }
    if (!before || size > before.size)
      this.#notes.set(epoch, { size, root: rootHash, saidMs: this.#options.simulator.nowMs });
  }

  /** The newest checkpoint that was seen, to ask for what grew since. */
  newestCheckpoint(): { epoch: string; size: number } | undefined {
    const last = [...this.#notes].at(-1);
    return last && { epoch: last[0], size: last[1].size };
  }

  #epochSaid(epoch: string, startedMs: number): void {
    const at = this.#epochs.findIndex((one) => one.epoch === epoch);
    if (at < 0) this.#epochs.push({ epoch, saidMs: this.#options.simulator.nowMs });
    else if (this.#epochs.some((one, place) => place > at && one.saidMs < startedMs))
      this.fault(`the epoch went back to ${epoch}`);
  }

  /** The first seq of an item, as long as the relay has to know it: it may be another one afterwards. */
  #firstSeq(place: string, item: string, seq: number): number {
    const { wallMs, retentionMs } = this.#options;
    const nowMs = wallMs();
    const name = `${place} ${item}`;
    const before = this.#seqOf.get(name);
    if (before && nowMs - before.acceptedAtMs <= 2 * retentionMs + 7 * DAY_MS) return before.seq;
    this.#seqOf.set(name, { seq, acceptedAtMs: this.#acceptedAt.get(item) ?? nowMs });
    return seq;
  }

  /** Returns what is noted under the name; `value` when nothing was. */
  #noted<T>(notes: Map<string, T>, name: string, value: T): T {
    const before = notes.get(name);
    if (before === undefined) notes.set(name, value);
    return before ?? value;
  }
}
