/** Measures the relay every two seconds, keeps the samples, and passes each to listeners. */
import type { ConsoleSample } from '../../protocol/operator-documents.ts';
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import type { Gauges } from './metrics.ts';
import type { Activity } from './activity.ts';
import type { Engine } from '../engine/engine.ts';

export const SAMPLE_EVERY_MS = 2_000;

interface SamplerOptions {
  activity: Activity;
  gauges: () => Gauges;
  epoch: () => string;
  nowMs: () => number;
  timers: Timers;
  onError: (error: unknown) => void;
  /** The memory of this process; absent: asked of the system. */
  rssBytes?: () => number;
}

export class Sampler {
  readonly #options: SamplerOptions;
  readonly history = new SampleHistory();
  readonly #listeners = new Set<(sample: ConsoleSample) => void>();
  readonly #task: PeriodicTask;
  #rssBytes = 0;

  constructor(options: SamplerOptions) {
    const { timers, onError } = options;
    this.#options = options;
    this.#task = new PeriodicTask({ timers, everyMs: SAMPLE_EVERY_MS, work: () => this.#take(), onError });
  }

  /** Returns a function that stops it. */
  listen(listener: (sample: ConsoleSample) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    void this.#task.stop();
    this.#listeners.clear();
  }

  #take(): void {
    const sample = this.#sample();
    this.history.add(sample);
    for (const listener of this.#listeners) listener(sample);
  }

  #sample(): ConsoleSample {
    const { activity, gauges, epoch, nowMs } = this.#options;
    const { accepted, acked, rejected, requests, commitMs } = activity.take();
    const now = gauges();
    const of = (name: keyof Gauges): number => now[name] ?? 0;
    const oldestMs = of('oldest_item_age_seconds') * 1000;
    return {
      at: nowMs(),
      accepted_per_s: perS(accepted),
      acked_per_s: perS(acked),
      rejected_per_s: perS(rejected),
      requests_per_s: perS(requests),
      commit_p50_ms: quantile(commitMs, 0.5),
      commit_p99_ms: quantile(commitMs, 0.99),
      queue_items: of('queue_items'),
      queue_bytes: of('queue_bytes'),
      oldest_item_age_ms: Number.isNaN(oldestMs) ? null : oldestMs,
      disk_free_bytes: of('disk_free_bytes'),
      is_disk_low: now.disk_low === 1,
      hosts: of('hosts'),
      waiting_pulls: of('waiting_pulls'),
      log_position: of('log_position'),
      epoch: epoch(),
      rss_bytes: this.#memory(),
    };
  }

  /** Asking opens a file; when none can be opened, the last answer is used. */
  #memory(): number {
    try {
      const { rssBytes = () => process.memoryUsage.rss() } = this.#options;
      this.#rssBytes = rssBytes();
    } catch {
      // The next sample tries again.
    }
    return this.#rssBytes;
  }
}

function perS(count: number): number {
  return (count * 1000) / SAMPLE_EVERY_MS;
}

/** Returns the quantile of ascending values; `null` of none. */
function quantile(ascending: Float64Array, share: number): number | null {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? null;
}

const ASK_EVERY_MS = 5_000;

interface OldestItemWatchOptions {
  engine: Engine;
  clock: Clock;
  timers: Timers;
  onError: (error: unknown) => void;
}

/**
 * The age of the oldest waiting item, looked up on a timer: readers get the last answer and never wait. The first
 * answer after a start may take long.
 */
export class OldestItemWatch extends PeriodicTask {
  readonly #options: OldestItemWatchOptions;
  /** `null` when nothing waits; `undefined` while nothing is known. */
  #acceptedAtMs: number | null | undefined;

  constructor(options: OldestItemWatchOptions) {
    const { timers, onError } = options;
    super({ timers, everyMs: ASK_EVERY_MS, work: (signal) => this.#ask(signal), onError });
    this.#options = options;
    void this.run();
  }

  /** 0 when nothing waits; `undefined` while nothing is known. */
  get ageMs(): number | undefined {
    if (this.#acceptedAtMs === undefined) return undefined;
    return this.#acceptedAtMs === null ? 0 : Math.max(0, this.#options.clock.nowMs() - this.#acceptedAtMs);
  }

  async #ask(signal: AbortSignal): Promise<void> {
    // A damaged row makes the age unknown; a store that fails ends the process by itself.
    const row = await this.#options.engine.oldestWaiting(signal).catch(() => 'unknown' as const);
    this.#acceptedAtMs = row === 'unknown' ? undefined : (row?.acceptedAtMs ?? null);
  }
}

/** 15 minutes, an hour, a day and a week. */
const TIERS: readonly (readonly [everyMs: number, kept: number])[] = [
  [1, 450],
  [15_000, 240],
  [300_000, 288],
  [1_800_000, 336],
];

export class SampleHistory {
  readonly #tiers = TIERS.map(([everyMs, kept]) => new Tier(everyMs, kept));

  add(sample: ConsoleSample): void {
    for (const tier of this.#tiers) tier.add(sample);
  }

  /** Each of the last quarter of an hour, the oldest first. */
  get recent(): readonly ConsoleSample[] {
    return this.#tiers[0]?.samples ?? [];
  }

  /** Returns the samples from `sinceMs` to `untilMs`, the oldest first, as fine as they are kept so far back. */
  between(sinceMs: number, untilMs: number): ConsoleSample[] {
    const tier = this.#tiers.find((one) => one.reaches(sinceMs)) ?? this.#tiers.at(-1);
    return (tier?.withOpen() ?? []).filter(({ at }) => at >= sinceMs && at <= untilMs);
  }

  /** The time of the oldest one. */
  get firstMs(): number | undefined {
    return this.#tiers.at(-1)?.withOpen()[0]?.at;
  }
}

class Tier {
  readonly samples: ConsoleSample[] = [];
  readonly #everyMs: number;
  readonly #kept: number;
  /** The samples of the span that is not over. */
  #open: ConsoleSample[] = [];
  #isWhole = true;

  constructor(everyMs: number, kept: number) {
    this.#everyMs = everyMs;
    this.#kept = kept;
  }

  add(sample: ConsoleSample): void {
    const [first] = this.#open;
    if (first && this.#spanOf(first) !== this.#spanOf(sample)) this.#close();
    this.#open.push(sample);
    // One of a span of its own needs no next one to be over.
    if (this.#everyMs === 1) this.#close();
  }

  /** Says whether nothing from this time on was dropped. */
  reaches(sinceMs: number): boolean {
    return this.#isWhole || (this.samples[0]?.at ?? Infinity) <= sinceMs;
  }

  withOpen(): ConsoleSample[] {
    return this.#open.length === 0 ? [...this.samples] : [...this.samples, mergeSamples(this.#open)];
  }

  #spanOf({ at }: ConsoleSample): number {
    return Math.floor(at / this.#everyMs);
  }

  #close(): void {
    this.samples.push(mergeSamples(this.#open));
    this.#open = [];
    if (this.samples.length <= this.#kept) return;
    this.samples.shift();
    this.#isWhole = false;
  }
}

/** One sample for those of a span, of which there is one at least. */
function mergeSamples(samples: readonly ConsoleSample[]): ConsoleSample {
  const last = samples.at(-1);
  if (!last) throw new Error('invariant: a span has a sample');
  if (samples.length === 1) return last;
  const of = (name: NumberMember): number[] => samples.flatMap((one) => one[name] ?? []);
  const mean = (name: NumberMember): number => of(name).reduce((sum, value) => sum + value, 0) / samples.length;
  const most = (name: NumberMember): number | null =>
    of(name).reduce<number | null>((a, b) => Math.max(a ?? b, b), null);
  return {
    ...last,
    accepted_per_s: mean('accepted_per_s'),
    acked_per_s: mean('acked_per_s'),
    rejected_per_s: mean('rejected_per_s'),
    requests_per_s: mean('requests_per_s'),
    commit_p50_ms: most('commit_p50_ms'),
    commit_p99_ms: most('commit_p99_ms'),
    queue_items: most('queue_items') ?? 0,
    queue_bytes: most('queue_bytes') ?? 0,
    oldest_item_age_ms: most('oldest_item_age_ms'),
    disk_free_bytes: Math.min(...of('disk_free_bytes')),
    is_disk_low: samples.some(({ is_disk_low }) => is_disk_low),
  };
}

type NumberMember = Exclude<keyof ConsoleSample, 'epoch' | 'is_disk_low'>;
