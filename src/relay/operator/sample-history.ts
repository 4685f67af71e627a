/**
 * The measurements of the last week, in memory: the nearer they are, the finer. Each tier keeps samples that are merged
 * from those of so many seconds; averages of rates, and of everything else the worst.
 */
import type { ConsoleSample } from '../../protocol/operator-documents.ts';

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

  /** Those from `sinceMs` to `untilMs`, the oldest first, as fine as they are kept so far back. */
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
  /** Of the span that is not over. */
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

  /** Whether nothing from this time on was dropped. */
  reaches(sinceMs: number): boolean {
    return this.#isWhole || (this.samples[0]?.at ?? Infinity) <= sinceMs;
  }

  withOpen(): ConsoleSample[] {
    return this.#open.length === 0 ? [...this.samples] : [...this.samples, merged(this.#open)];
  }

  #spanOf({ at }: ConsoleSample): number {
    return Math.floor(at / this.#everyMs);
  }

  #close(): void {
    this.samples.push(merged(this.#open));
    this.#open = [];
    if (this.samples.length <= this.#kept) return;
    this.samples.shift();
    this.#isWhole = false;
  }
}

/** One sample for those of a span, of which there is one at least. */
function merged(samples: readonly ConsoleSample[]): ConsoleSample {
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
