/** How the relay does, every two seconds: the last quarter of an hour is kept, and whoever listens is told. */
import type { ConsoleSample } from '../../../protocol/operator-documents.ts';
import type { Timers } from '../../engine/ambient.ts';
import type { Gauges } from '../metrics.ts';
import type { Activity } from './activity.ts';

export const SAMPLE_EVERY_MS = 2_000;
const SAMPLES_KEPT = 450;

export interface SamplerOptions {
  activity: Activity;
  gauges: () => Gauges;
  epoch: () => string;
  nowMs: () => number;
  timers: Timers;
}

export class Sampler {
  readonly #options: SamplerOptions;
  readonly #samples: ConsoleSample[] = [];
  readonly #listeners = new Set<(sample: ConsoleSample) => void>();
  readonly #cancel: () => void;

  constructor(options: SamplerOptions) {
    this.#options = options;
    this.#cancel = options.timers.every(SAMPLE_EVERY_MS, () => this.#take());
  }

  /** The oldest first. */
  get samples(): readonly ConsoleSample[] {
    return this.#samples;
  }

  /** Answers how to stop. */
  listen(listener: (sample: ConsoleSample) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    this.#cancel();
    this.#listeners.clear();
  }

  #take(): void {
    const sample = this.#sample();
    this.#samples.push(sample);
    if (this.#samples.length > SAMPLES_KEPT) this.#samples.shift();
    for (const listener of this.#listeners) listener(sample);
  }

  #sample(): ConsoleSample {
    const { activity, gauges, epoch, nowMs } = this.#options;
    const { accepted, acked, rejected, requests, commitMs } = activity.take();
    const now = gauges();
    const perS = (count: number): number => (count * 1000) / SAMPLE_EVERY_MS;
    return {
      at: nowMs(),
      accepted_per_s: perS(accepted),
      acked_per_s: perS(acked),
      rejected_per_s: perS(rejected),
      requests_per_s: perS(requests),
      commit_p50_ms: quantile(commitMs, 0.5),
      commit_p99_ms: quantile(commitMs, 0.99),
      queue_items: now.queueItems,
      queue_bytes: now.queueBytes,
      oldest_item_age_ms: now.oldestItemAgeS === undefined ? null : now.oldestItemAgeS * 1000,
      disk_free_bytes: now.diskFreeBytes,
      is_disk_low: now.isDiskLow,
      hosts: now.hosts,
      waiting_pulls: now.waitingPulls,
      log_position: now.logPosition,
      epoch: epoch(),
      rss_bytes: process.memoryUsage.rss(),
    };
  }
}

/** Of ascending values; `null` of none. */
function quantile(ascending: Float64Array, share: number): number | null {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? null;
}
