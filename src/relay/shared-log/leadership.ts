/**
 * The lead of a shared log: how a node comes to it, keeps it, and knows that it may have lost it.
 *
 * No clock decides who leads: the fence row does. A candidate takes the lead of a node that shows no life for a whole
 * lease, by its own monotonic clock, and only if nothing has changed in the row since. The leader answers nobody when
 * its last confirmed renewal is older than the lease less a margin, counted from when it was sent; it may answer again
 * when a renewal gets through.
 */
import type { Cancel } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import {
  type EncodedBatch,
  Fenced,
  LogRefused,
  type LogServer,
  type LogState,
  type Renewal,
  type Tenure,
} from './shared-log.ts';
import type { HandOver, NodeOptions } from './node-options.ts';
import type { LogReach } from './reach.ts';
import { clockFault, clocked, isSameServer } from './takeover-rules.ts';

export const LEASE_MS = 6_000;
const RENEWALS_A_LEASE = 6;
/** The part of the lease by which a leader falls silent before another may lead. */
const MARGIN = 0.2;

/** So many signs of life under the name of this node come from another process, and are no late arrivals. */
const TWIN_BEATS = 3;

interface LeaseWatchOptions {
  leaseMs: number;
  monotonicMs: () => number;
  /** The name of this node. */
  holder: string;
  /** True when this node had that tenure: in this run, or as its view says it. */
  hasLed: (tenure: string) => boolean;
}

/** Watches the fence row for signs of life of the node that leads. */
export class LeaseWatch {
  readonly #options: LeaseWatchOptions;
  #seen: { term: number; beat: number; lastNo: number; sinceMs: number; serverMs: number } | undefined;
  #twinBeats = 0;

  constructor(options: LeaseWatchOptions) {
    this.#options = options;
  }

  /**
   * True when the lead may be taken from what this state shows at `serverMs`, by the server's clock. What this node led
   * itself it takes back at once, for the lock on its view shows that it does not run twice. What is kept for a node
   * that asked for it is free after a lease.
   *
   * Throws `LogRefused` when another process leads under the name of this node.
   */
  isFree({ isFree, holder, tenure, term, beat, lastNo, wantedBy }: LogState, serverMs: number): boolean {
    const { leaseMs, monotonicMs, holder: own, hasLed } = this.#options;
    const isOwn = holder === own && tenure !== undefined && hasLed(tenure);
    const mayTake = (isFree || isOwn) && (wantedBy === undefined || wantedBy === own);
    const seen = this.#seen;
    const nowMs = monotonicMs();
    if (seen && seen.term === term && seen.beat === beat && seen.lastNo === lastNo)
      return mayTake || nowMs - seen.sinceMs >= leaseMs;
    const isTwin = holder === own && !isOwn && !isFree && seen?.term === term && seen.beat !== beat;
    this.#twinBeats = isTwin ? this.#twinBeats + 1 : 0;
    if (this.#twinBeats >= TWIN_BEATS) throw new LogRefused(twinSentence(own));
    this.#seen = { term, beat, lastNo, sinceMs: nowMs, serverMs };
    return mayTake;
  }

  /** When the newest sign of life was first seen, by the server's clock. */
  get seenMs(): number {
    if (!this.#seen) throw new Error('invariant: a state was looked at');
    return this.#seen.serverMs;
  }
}

function twinSentence(name: string): string {
  return (
    `another process leads under the name of this node, ${name}: its store folder was copied. Delete the file ` +
    'node-name in this folder, and start the relay again'
  );
}

interface LeadershipOptions
  extends Pick<NodeOptions, 'log' | 'leaseMs' | 'clock' | 'timers' | 'onDoubt' | 'onHandOver' | 'onUnreached'> {
  tenure: Tenure;
  /** The name of this node. */
  name: string;
  /** The server on which the lead was taken. */
  ledOn: LogServer;
  /** The monotonic time at which the statement that took the lead was sent. */
  takenMs: number;
  /** The last batch that was acknowledged. */
  acked: () => Pick<EncodedBatch, 'no' | 'effects'>;
  /** Notes whether a renewal gets through, and why a batch has no second copy. */
  reach: LogReach;
  /** Called once, when another node leads. */
  onLost: (error: Fenced) => void;
}

export class Leadership {
  readonly tenure: Tenure;
  readonly #options: LeadershipOptions;
  readonly #renewals: PeriodicTask;
  #confirmedMs: number;
  #isLost = false;
  #isHandedOver = false;
  #cancelSilence: Cancel;

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.tenure = options.tenure;
    this.#confirmedMs = options.takenMs;
    this.#renewals = new PeriodicTask({
      timers: options.timers,
      everyMs: options.leaseMs / RENEWALS_A_LEASE,
      work: () => this.#renew(),
      onError: (error) => options.reach.note(error),
    });
    this.#cancelSilence = this.#silence();
  }

  /** True when no other node can lead yet, so that this one may answer. */
  get isCurrent(): boolean {
    const { clock, leaseMs } = this.#options;
    return !this.#isLost && clock.monotonicMs() - this.#confirmedMs < leaseMs * (1 - MARGIN);
  }

  /** Tells when this node falls silent, unless a renewal is confirmed before. */
  #silence(): Cancel {
    const { clock, timers, leaseMs, onUnreached } = this.#options;
    return timers.after(this.#confirmedMs + leaseMs * (1 - MARGIN) - clock.monotonicMs(), () => onUnreached?.());
  }

  /** True when another node took the lead. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Gives the lead back. To be called when nothing is appended any more. */
  async resign(): Promise<void> {
    await this.stop();
    if (!this.#isLost) await this.#options.log.resign(this.tenure, this.#options.acked().no);
  }

  /** Renews no more, and leaves the lead to end by itself. */
  async stop(): Promise<void> {
    await this.#renewals.stop();
    this.#cancelSilence();
  }

  async #renew(): Promise<void> {
    const { log, clock, acked, reach, onLost, onDoubt, onHandOver } = this.#options;
    const sentMs = clock.monotonicMs();
    try {
      const renewal = await clocked(clock, () => log.renew(this.tenure, acked()));
      this.#confirmedMs = sentMs;
      this.#cancelSilence();
      this.#cancelSilence = this.#silence();
      reach.note(undefined);
      reach.noteCopies(renewal.copyFault);
      if (renewal.doubt !== undefined) onDoubt?.(renewal.doubt);
      const why = this.#handOver(renewal);
      // A copy of before was put in its place: what this node appends next would be refused as well.
      if (!why && !renewal.holds) throw new Fenced();
      if (!why || this.#isHandedOver) return;
      this.#isHandedOver = true;
      onHandOver?.(why);
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
      if (this.#isLost) return;
      this.#isLost = true;
      onLost(error);
    }
  }

  #handOver({ server, wantedBy, offMs }: Renewal & { offMs: number }): HandOver | undefined {
    const { ledOn, name } = this.#options;
    if (!isSameServer(server, ledOn)) return { type: 'other-server' };
    const ofClock = clockFault(offMs);
    if (ofClock !== undefined) return { type: 'clock', why: ofClock };
    return wantedBy === undefined || wantedBy === name ? undefined : { type: 'other-node', by: wantedBy };
  }
}
