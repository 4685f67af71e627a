/**
 * Recent activity in memory, for the console: counts since the last sample, refusals of the last hour by code, and the
 * last pull of each host. Metrics have counters of their own.
 */
import type { ItemRejection } from '../../protocol/items.ts';
import type { EpochBegun, RefusalCount } from '../../protocol/operator-documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { LogEntry } from '../core/event.ts';
import type { Clock } from '../../lib/clock.ts';
import { keepRecent } from '../../lib/recent.ts';
import type { CommittedBatch } from '../engine/committer.ts';
import type { EngineObserver } from '../engine/parts.ts';
import type { FinishedRequest } from '../../http/pipeline.ts';
import { type MetricsParts, RelayMetrics } from './metrics.ts';

const MINUTE_MS = 60_000;
const MINUTES_KEPT = 60;
/** Hosts whose last pull is kept; the one that pulled longest ago is dropped. */
const PULLS_MAX = 10_000;
/** Batches between two samples of which the time is kept. */
const COMMITS_MAX = 20_000;
/** Epochs kept since the start. */
const EPOCHS_MAX = 1000;

interface CountedSecond {
  accepted: number;
  acked: number;
  rejected: number;
  requests: number;
  /** Milliseconds, ascending. */
  commitMs: Float64Array;
}

export interface LastPull {
  atMs: number;
  /** The last item that was shown; `undefined` when nothing waited. */
  through: number | undefined;
}

export class Activity implements EngineObserver {
  readonly #clock: Clock;
  readonly #refusals = new Map<string, Refusals>();
  readonly #pulls = new Map<PublicKey, LastPull>();
  readonly #epochs: EpochBegun[] = [];
  readonly #commitMs = new Float64Array(COMMITS_MAX);
  #commits = 0;
  #accepted = 0;
  #acked = 0;
  #rejected = 0;
  #requests = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  pushed(outcomes: readonly PushOutcome[]): void {
    for (const outcome of outcomes) {
      if (outcome.type === 'ItemRejected') this.unread(outcome.rejection, 1);
      else if (outcome.status === 'accepted') this.#accepted++;
    }
  }

  unread(rejection: ItemRejection, count: number): void {
    this.#rejected += count;
    this.#refused('item', rejection, count);
  }

  pulled(target: PublicKey, through: number | undefined): void {
    const before = this.#pulls.get(target);
    const pull = { atMs: this.#clock.nowMs(), through: through ?? before?.through };
    keepRecent(this.#pulls, target, pull, PULLS_MAX);
  }

  committed({ entries, durationMs }: CommittedBatch): void {
    if (this.#commits < COMMITS_MAX) this.#commitMs[this.#commits++] = durationMs;
    for (const entry of entries) {
      const { event } = entry;
      if (event.type === 'ItemsAcked') this.#acked += event.items + event.notices;
      const epoch = epochBegunOf(entry);
      if (epoch && this.#epochs.length < EPOCHS_MAX) this.#epochs.push(epoch);
    }
  }

  finished({ code }: FinishedRequest): void {
    this.#requests++;
    if (code) this.#refused('request', code, 1);
  }

  /** The counts since the last call. */
  take(): CountedSecond {
    const commitMs = this.#commitMs.slice(0, this.#commits).toSorted();
    const counted = {
      accepted: this.#accepted,
      acked: this.#acked,
      rejected: this.#rejected,
      requests: this.#requests,
      commitMs,
    };
    this.#commits = 0;
    this.#accepted = 0;
    this.#acked = 0;
    this.#rejected = 0;
    this.#requests = 0;
    return counted;
  }

  lastPull(target: PublicKey): LastPull | undefined {
    return this.#pulls.get(target);
  }

  epochs(): EpochBegun[] {
    return this.#epochs.toReversed();
  }

  /** Returns what was refused in the last hour, the most first. */
  refusals(): RefusalCount[] {
    const minute = this.#minute();
    const counts = Array.from(this.#refusals.values(), (one) => one.counts(minute));
    return counts
      .filter(({ last_hour }) => last_hour > 0)
      .toSorted((a, b) => b.last_hour - a.last_hour || b.last_at - a.last_at);
  }

  /** Codes are from closed sets, so there are few. */
  #refused(what: 'item' | 'request', code: string, count: number): void {
    const mark = `${what} ${code}`;
    const refusals = this.#refusals.get(mark) ?? new Refusals(what, code);
    this.#refusals.set(mark, refusals);
    refusals.add(count, this.#minute(), this.#clock.nowMs());
  }

  #minute(): number {
    return Math.floor(this.#clock.monotonicMs() / MINUTE_MS);
  }
}

class Refusals {
  readonly #what: 'item' | 'request';
  readonly #code: string;
  readonly #counts = Array.from({ length: MINUTES_KEPT }, () => 0);
  #minute = 0;
  #lastAtMs = 0;

  constructor(what: 'item' | 'request', code: string) {
    this.#what = what;
    this.#code = code;
  }

  add(count: number, minute: number, nowMs: number): void {
    this.#advance(minute);
    this.#counts[minute % MINUTES_KEPT] = (this.#counts[minute % MINUTES_KEPT] ?? 0) + count;
    this.#lastAtMs = nowMs;
  }

  counts(minute: number): RefusalCount {
    this.#advance(minute);
    return {
      reason: this.#code,
      what: this.#what,
      last_at: this.#lastAtMs,
      last_minute: this.#counts[minute % MINUTES_KEPT] ?? 0,
      last_hour: this.#counts.reduce((sum, one) => sum + one, 0),
    };
  }

  /** Empties the minutes that passed without a count. */
  #advance(minute: number): void {
    const first = Math.max(this.#minute + 1, minute - MINUTES_KEPT + 1);
    for (let at = first; at <= minute; at++) this.#counts[at % MINUTES_KEPT] = 0;
    this.#minute = Math.max(this.#minute, minute);
  }
}

/** Metrics for machines and activity for the console, as one observer. Made before the engine. */
export class Watch {
  readonly metrics: RelayMetrics;
  readonly activity: Activity;
  readonly observer: EngineObserver;

  constructor(version: string, clock: Clock, parts: MetricsParts) {
    const metrics = new RelayMetrics(version, parts);
    const activity = new Activity(clock);
    this.metrics = metrics;
    this.activity = activity;
    this.observer = {
      pushed: (outcomes) => {
        metrics.pushed(outcomes);
        activity.pushed(outcomes);
      },
      unread: (rejection, count) => {
        metrics.unread(rejection, count);
        activity.unread(rejection, count);
      },
      pulled: (target, through) => activity.pulled(target, through),
      committed: (batch) => {
        metrics.committed(batch);
        activity.committed(batch);
      },
    };
  }

  finished(request: FinishedRequest): void {
    this.metrics.finished(request);
    this.activity.finished(request);
  }
}

/** Returns the epoch that begins with the record, if one does. */
export function epochBegunOf({ lsn, event }: LogEntry): EpochBegun | undefined {
  if (event.type === 'EpochRotated') return { lsn, at: event.atMs, epoch: event.epoch, reason: event.reason };
  if (event.type === 'RelayInitialised') return { lsn, at: event.atMs, epoch: event.epoch, reason: 'initialised' };
  return undefined;
}
